//! Links, renames, special files, odd names and flags.

use crate::{FLAGS, NOT_GRANTED, Row, check, component, snapshot, world};
use act_tests::{Guest, case};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn links_and_renames_gain_no_right() {
    let Some(world) = world() else { return };
    let two = |from: &str, to: &str| json!({ "from": format!("{{D}}/{from}"), "to": format!("{{D}}/{to}") });
    let rows: Vec<Row> = vec![
        ("hard link from ro to rw", "hardlink", two("ro/r.txt", "ok/hard"), 4, "ermi", "write {D}/ro/r.txt   NOT"),
        ("hard link from rw to ro", "hardlink", two("ok/a.txt", "ro/hard"), 4, "ermi", "write {D}/ro/hard   NOT"),
        ("hard link from outside", "hardlink", two("out/s.txt", "ok/hard"), 4, "ermi", "write {D}/out/s.txt   NOT"),
        (
            "hard link of a denied file",
            "hardlink",
            two("ok/secret/k.txt", "ok/hard"),
            4,
            "ermi",
            "write {D}/ok/secret/k.txt   SECRET",
        ),
        ("rename from ro to rw", "rename", two("ro/r.txt", "ok/moved"), 4, "ermi", "write {D}/ro/r.txt   NOT"),
        ("rename to ro", "rename", two("ok/a.txt", "ro/moved"), 4, "ermi", "write {D}/ro/moved   NOT"),
        ("rename over ro", "rename", two("ok/a.txt", "ro/r.txt"), 4, "ermi", "write {D}/ro/r.txt   NOT"),
        (
            "rename out of a deny",
            "rename",
            two("ok/secret/k.txt", "ok/moved"),
            4,
            "ermi",
            "write {D}/ok/secret/k.txt   SECRET",
        ),
        ("rename inside", "rename", two("ok/a.txt", "ok/moved"), 0, "ok", ""),
        ("hard link inside", "hardlink", two("ok/moved", "ok/hard"), 0, "ok", ""),
    ];
    for guest in [Guest::Files, Guest::Files3] {
        let component = component(&world, guest);
        check(&world, &component, &rows);
        fs::remove_file(world.path("ok/hard")).unwrap();
        fs::rename(world.path("ok/moved"), world.path("ok/a.txt")).unwrap();
        case("a rename of a folder that holds a deny");
        let run = world.call(&component, "rename", &two("ok/secret", "ok/open"), FLAGS);
        run.is_clean().exits(4);
        assert!(world.path("ok/secret/k.txt").is_file());
    }
}

#[test]
fn names_that_are_no_names() {
    let Some(world) = world() else { return };
    for guest in [Guest::Files, Guest::Files3, Guest::Py] {
        let component = component(&world, guest);
        for path in
            ["", "{D}/ok/a\0.txt", "{D}/ok/\u{1b}[2J\u{202e}", "{D}/ok//.//", "{D}/ok/a.txt/", "..", "{D}/ok/…/x"]
        {
            for (tool, arguments) in [
                ("read_file", json!({ "path": path })),
                ("list_dir", json!({ "path": format!("{path}/.") })),
                ("mkdir", json!({ "path": format!("{path}/") })),
                ("unlink", json!({ "path": path.trim_end_matches("a.txt/") })),
            ] {
                case(&format!("{guest:?} {tool} {path:?}"));
                let run = world.call(&component, tool, &arguments, FLAGS);
                run.is_clean().never_says("SECRET").never_says("\u{1b}").never_says("\u{202e}").never_says("\0");
                assert!(matches!(run.code, Some(0 | 1 | 4)), "{}", run.err);
            }
        }
        assert_eq!(world.read("ok/a.txt"), "text of a");
    }
}

/// A path that is refused by its text is recorded as that path, not as the folder where walking would have begun.
#[test]
fn a_denial_names_what_was_asked_for() {
    let Some(world) = world() else { return };
    let component = component(&world, Guest::Files);
    for tool in ["read_file", "mkdir", "unlink"] {
        case(tool);
        let run = world.call(&component, tool, &json!({ "path": "{D}/ok/a\0.txt" }), FLAGS);
        run.is_clean().never_says(" /   outside ceiling");
        assert!(matches!(run.code, Some(1 | 4)), "{}", run.err);
    }
}

#[test]
fn special_files_never_hang() {
    let Some(world) = world() else { return };
    let fifo = world.path("ok/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("ok/socket")).unwrap();
    symlink("/dev/zero", world.path("ok/to-device")).unwrap();
    let mut names = vec!["ok/fifo", "ok/socket", "ok/to-device"];
    let device = rustix::fs::makedev(1, 5);
    if rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("ok/device"),
        rustix::fs::FileType::CharacterDevice,
        0o600.into(),
        device,
    )
    .is_ok()
    {
        names.push("ok/device");
    }
    for guest in [Guest::Files, Guest::Files3] {
        let component = component(&world, guest);
        for name in &names {
            for (tool, arguments) in [
                ("read_file", json!({ "path": format!("{{D}}/{name}") })),
                ("write_file", json!({ "path": format!("{{D}}/{name}"), "text": "x" })),
            ] {
                case(&format!("{guest:?} {tool} {name}"));
                let run = world.call(&component, tool, &arguments, FLAGS);
                run.is_clean();
                assert!(run.code == Some(1) || run.code == Some(4), "{}", run.err);
                assert!(run.took.as_secs() < 20 && run.out.is_empty(), "{:?} {}", run.took, run.text());
            }
        }
    }
}

#[test]
fn no_combination_of_open_flags_changes_a_read_only_grant() {
    let Some(world) = world() else { return };
    let component = component(&world, Guest::Files);
    for (name, opens) in [("ro/r.txt", "read: ok"), ("ro/new.txt", "read: no-entry"), ("ro", "directory,read: ok")] {
        case(name);
        let before = snapshot(&world);
        let run = world.call(&component, "open_all", &json!({ "path": format!("{{D}}/{name}") }), FLAGS);
        run.is_clean().exits(0);
        assert_eq!(run.text().lines().count(), 128);
        assert!(run.text().lines().any(|l| l == opens), "{}", run.text());
        for line in run.text().lines().filter(|l| l.ends_with(": ok")) {
            let writes = ["write", "create", "truncate"].iter().any(|w| line.contains(w));
            assert!(!writes, "{line}");
        }
        assert_eq!(snapshot(&world), before);
        assert!(
            run.audit().iter().any(|l| l.contains(&world.fill(&format!("write {{D}}/{name}   {NOT_GRANTED}")))),
            "{}",
            run.err
        );
    }
    case("control: the same under a rw grant writes");
    let run = world.call(&component, "open_all", &json!({ "path": "{D}/ok/new.txt" }), FLAGS);
    run.exits(0).prints("create,write: ok");
    assert!(world.path("ok/new.txt").is_file());
}
