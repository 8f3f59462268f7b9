//! Files: what each of the three fixtures may do, what the audit says about it, and the exit code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod rows;
mod special;

use act_tests::{Guest, World, case};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// `tool arguments` → exit code, what the output or the error has, and the line of the audit, if it is a denial.
type Row = (&'static str, &'static str, Value, i32, &'static str, &'static str);

const OUTSIDE: &str = "outside ceiling  mode:allowlist";
const NOT_GRANTED: &str = "not granted  mode:allowlist";
const SECRET: &str = "denied by {D}/ok/secret/** (cli, <command line> --deny fs={D}/ok/secret/**)  mode:allowlist";
const FLAGS: &[&str] = &["--allow", "fs={D}/ok/**", "--allow", "fs={D}/ro/**:ro", "--deny", "fs={D}/ok/secret/**"];

fn world() -> Option<World> {
    let world = World::new()?;
    for (name, text) in [
        ("ok/a.txt", "text of a"),
        ("ok/sub/b.txt", "text of b"),
        ("ok/secret/k.txt", "SECRET"),
        ("ok/list/plain", ""),
        ("ok/list/x.txt", ""),
        ("ro/r.txt", "text of r"),
        ("out/s.txt", "SECRET"),
        ("out/deep/d.txt", "SECRET"),
        ("elsewhere/e.txt", "SECRET"),
    ] {
        world.file(name, text);
    }
    fs::write(world.path("ok/list").join(std::ffi::OsStr::from_bytes(b"bad-\xff")), "").unwrap();
    fs::create_dir(world.path("ok/list/inner")).unwrap();
    for (target, link) in [
        ("../out/s.txt", "ok/relative"),
        ("{D}/out/s.txt", "ok/absolute"),
        ("../out/deep", "ok/dir"),
        ("../out/new.txt", "ok/dangling"),
        ("a.txt", "ok/inside"),
        ("../ro/r.txt", "ok/to-ro"),
    ] {
        symlink(world.fill(target), world.path(link)).unwrap();
    }
    Some(world)
}

fn component(world: &World, guest: Guest) -> PathBuf {
    world.pack(guest, &[("{D}/ok/**", "rw"), ("{D}/ro/**", "rw"), ("{D}/out/**", "rw")], &json!([]))
}

/// Every file of the world with its content: what a denied operation must not change.
fn snapshot(world: &World) -> Vec<String> {
    fn walk(folder: &std::path::Path, out: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
            out.push(format!("{} {:?} {content}", path.display(), meta.file_type()));
            if meta.is_dir() {
                walk(&path, out);
            }
        }
    }
    let mut out = Vec::new();
    walk(&world.dir, &mut out);
    out.sort();
    out
}

fn check(world: &World, component: &std::path::Path, rows: &[Row]) {
    for (name, tool, arguments, code, text, audit) in rows {
        case(name);
        let before = snapshot(world);
        let run = world.call(component, tool, arguments, FLAGS);
        run.is_clean().exits(*code);
        assert!(!run.text().contains("SECRET") && !run.err.contains("SECRET"), "{}", run.err);
        if *code == 0 {
            run.prints(text);
        } else {
            run.says("Error: std:internal: ").says(text);
            assert_eq!(run.out, b"", "{name}");
            assert_eq!(snapshot(world), before, "{name} changed the world");
        }
        let denied: Vec<&str> = run.audit().into_iter().filter(|l| l.starts_with("✗ deny")).collect();
        let reason = |t: &str| t.replace("OUTSIDE", OUTSIDE).replace("NOT", NOT_GRANTED).replace("SECRET", SECRET);
        if audit.is_empty() {
            assert_eq!(denied, Vec::<&str>::new());
        } else {
            assert_eq!(denied, [world.fill(&format!("✗ deny  wasi:filesystem  {}", reason(audit)))]);
        }
        let end = if *code == 0 { "ok" } else { "tool-error" };
        assert!(run.audit().iter().any(|l| l.starts_with(&format!("● {tool}  {end} "))), "{}", run.err);
    }
}

fn listing(world: &World, component: &std::path::Path) {
    case("a listing leaves out what is denied and what is not UTF-8");
    let flags = &["--allow", "fs={D}/ok/**", "--deny", "fs={D}/ok/list/x.txt"];
    let run = world.call(component, "list_dir", &json!({ "path": "{D}/ok/list" }), flags);
    run.is_clean().exits(0).prints("plain").prints("inner");
    assert!(!run.text().contains("x.txt") && !run.text().contains("bad-"), "{}", run.text());
}

#[test]
fn rust_component_of_wasi_02() {
    let Some(world) = world() else { return };
    let component = component(&world, Guest::Files);
    check(&world, &component, &rows::common());
    listing(&world, &component);
}

#[test]
fn rust_component_of_wasi_03() {
    let Some(world) = world() else { return };
    let component = component(&world, Guest::Files3);
    check(&world, &component, &rows::common());
    listing(&world, &component);
}

#[test]
fn python_component() {
    let Some(world) = world() else { return };
    let component = component(&world, Guest::Py);
    check(&world, &component, &rows::common());
    listing(&world, &component);
}
