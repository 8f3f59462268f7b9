//! The table that every fixture goes through.

use crate::Row;
use serde_json::json;

/// Rows that every fixture has the tools for.
pub(crate) fn common() -> Vec<Row> {
    let path = |p: &str| json!({ "path": format!("{{D}}/{p}") });
    let text = |p: &str| json!({ "path": format!("{{D}}/{p}"), "text": "new" });
    vec![
        ("read", "read_file", path("ok/a.txt"), 0, "text of a", ""),
        ("read below", "read_file", path("ok/sub/b.txt"), 0, "text of b", ""),
        ("read through a link inside", "read_file", path("ok/inside"), 0, "text of a", ""),
        ("read from one grant into another", "read_file", path("ok/to-ro"), 0, "text of r", ""),
        ("read with dots", "read_file", path("ok/sub/../a.txt"), 0, "text of a", ""),
        ("read what is not there", "read_file", path("ok/none"), 1, "o", ""),
        (
            "read outside the ceiling",
            "read_file",
            path("elsewhere/e.txt"),
            4,
            "ermi",
            "read {D}/elsewhere/e.txt   OUTSIDE",
        ),
        ("read what was not granted", "read_file", path("out/s.txt"), 4, "ermi", "read {D}/out/s.txt   NOT"),
        (
            "read what a deny rule names",
            "read_file",
            path("ok/secret/k.txt"),
            4,
            "ermi",
            "read {D}/ok/secret/k.txt   SECRET",
        ),
        ("read through a relative link", "read_file", path("ok/relative"), 4, "ermi", "read {D}/out/s.txt   NOT"),
        ("read through an absolute link", "read_file", path("ok/absolute"), 4, "ermi", "read {D}/out/s.txt   NOT"),
        ("read through a linked folder", "read_file", path("ok/dir/d.txt"), 4, "ermi", "read {D}/out/deep/d.txt   NOT"),
        ("read beside a linked folder", "read_file", path("ok/dir/../s.txt"), 4, "ermi", "read {D}/out/s.txt   NOT"),
        (
            "dots above the root",
            "read_file",
            path("ok/../../../../../../../../etc/passwd"),
            4,
            "ermi",
            "read /etc/passwd   OUTSIDE",
        ),
        ("write under ro", "write_file", text("ro/r.txt"), 4, "ermi", "write {D}/ro/r.txt   NOT"),
        ("make under ro", "write_file", text("ro/new.txt"), 4, "ermi", "write {D}/ro/new.txt   NOT"),
        ("write under ro through a link", "write_file", text("ok/to-ro"), 4, "ermi", "write {D}/ro/r.txt   NOT"),
        ("write through a link", "write_file", text("ok/relative"), 4, "ermi", "write {D}/out/s.txt   NOT"),
        ("make through a dangling link", "write_file", text("ok/dangling"), 4, "ermi", "write {D}/out/new.txt   NOT"),
        ("make a folder under ro", "mkdir", path("ro/folder"), 4, "ermi", "write {D}/ro/folder   NOT"),
        ("remove under ro", "unlink", path("ro/r.txt"), 4, "ermi", "write {D}/ro/r.txt   NOT"),
        ("remove a denied file", "unlink", path("ok/secret/k.txt"), 4, "ermi", "write {D}/ok/secret/k.txt   SECRET"),
        ("list above a grant", "list_dir", json!({ "path": "{D}" }), 4, "ermi", "list {D}   OUTSIDE"),
        ("list the root", "list_dir", json!({ "path": "/" }), 4, "ermi", "list /   OUTSIDE"),
        ("list a denied folder", "list_dir", path("ok/secret"), 4, "ermi", "stat {D}/ok/secret   SECRET"),
        ("a long name", "read_file", json!({ "path": "{D}/ok/".to_owned() + &"n".repeat(300) }), 1, "", ""),
        ("a file as a folder", "read_file", path("ok/a.txt/x"), 1, "", ""),
        // Their order matters: these change the world.
        ("write", "write_file", text("ok/a.txt"), 0, "wrote 3", ""),
        ("read what was written", "read_file", path("ok/a.txt"), 0, "new", ""),
        ("make", "write_file", text("ok/new.txt"), 0, "wrote 3", ""),
        ("make a folder", "mkdir", path("ok/folder"), 0, "ok", ""),
        ("remove", "unlink", path("ok/new.txt"), 0, "ok", ""),
    ]
}
