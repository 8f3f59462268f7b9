//! A grant that reaches what act itself relies on is refused at start.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Running, World, case};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn grants_over_own_state() {
    let Some(world) = World::new() else { return };
    let component = world.pack(Guest::Files, &[("/**", "rw")], &json!([]));
    world.file("a.txt", "text of a");
    for folder in [".config/act", ".cache/act", ".local/state/act", ".local/share/act"] {
        fs::create_dir_all(world.home.join(folder)).unwrap();
        fs::write(world.home.join(folder).join("f"), "SECRET").unwrap();
    }
    symlink(&world.home, world.path("link")).unwrap();
    let rows = [
        ("fs={H}/.config/act/**", "/.config/act"),
        ("fs={H}/.config/act/**:ro", "/.config/act"),
        ("fs={H}/.config/act/config.toml:ro", "/.config/act"),
        ("fs={H}/.cache/act/**", "/.cache/act"),
        ("fs={H}/.local/state/act/**", "/.local/state/act"),
        ("fs={H}/.local/share/act/**:ro", "/.local/share/act"),
        ("fs={H}/**", "act itself relies on"),
        ("fs={H}", "act itself relies on"),
        ("fs=~/**", "act itself relies on"),
        ("fs={D}/link/.cache/act/**", "/.cache/act"),
        ("fs=/**", "act itself relies on"),
        ("fs=/proc/**", "/proc"),
        ("fs=/proc/self/**:ro", "/proc"),
        ("fs=/sys/fs/cgroup/**", "/sys/fs/cgroup"),
        ("fs=/sys/fs/cgroup/**:ro", "/sys/fs/cgroup"),
        ("fs=/sys/**", "/sys/fs/cgroup"),
    ];
    for (grant, message) in rows {
        case(grant);
        let run = world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", grant]);
        run.one_error(2, message).says("act itself relies on: grant a narrower path").never_says("audit:");
        assert!(run.out.is_empty());
    }
    case("a deny rule does not help: Landlock cannot subtract");
    let run = world.call(
        &component,
        "read_file",
        &json!({ "path": "{D}/a.txt" }),
        &["--allow", "fs={H}/**", "--deny", "fs={H}/.*/**"],
    );
    run.one_error(2, "act itself relies on");
    case("places from XDG_*");
    let mut act =
        world.call_command(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs={D}/**"]);
    Running::start(act.env("XDG_CACHE_HOME", world.path("cache"))).finish().one_error(2, "/cache/act");
    case("the whole ceiling, where that is everything");
    world
        .call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs"])
        .one_error(2, "act itself relies on");
    case("controls: beside them, and above them for reading");
    for grant in ["fs={D}/a.txt", "fs={D}/**", "fs={H}/work/**"] {
        let run = world.call(&component, "stat", &json!({ "path": "{D}" }), &["--allow", grant]);
        assert_ne!(run.code, Some(2), "{grant}: {}", run.err);
    }
}

/// A read grant above its own folders runs; those folders stay denied.
#[test]
fn reading_above_own_state() {
    let Some(world) = World::new() else { return };
    let component = world.pack(Guest::Files, &[("/**", "rw")], &json!([]));
    for folder in [".config/act", ".cache/act", ".local/state/act"] {
        fs::create_dir_all(world.home.join(folder)).unwrap();
        fs::write(world.home.join(folder).join("f"), "SECRET").unwrap();
    }
    fs::write(world.home.join("notes"), "text of notes").unwrap();
    let read = |path: &str| {
        world.call(&component, "read_file", &json!({ "path": format!("{{H}}/{path}") }), &["--allow", "fs={H}/**:ro"])
    };
    read("notes").exits(0).prints("text of notes");
    for path in [".config/act/f", ".cache/act/f", ".cache/act/key", ".local/state/act/f"] {
        case(path);
        let run = read(path);
        run.exits(4).says("✗ deny  wasi:filesystem  read ").never_says("SECRET");
        assert!(run.out.is_empty());
    }
}

/// What decides about the next run, and the programs themselves, may be read and not be written.
#[test]
fn what_is_trusted_is_not_written() {
    let Some(world) = World::new() else { return };
    let component = world.pack(Guest::Files, &[("/**", "rw")], &json!([]));
    let config = world.file("conf/own.toml", "[policy]\n");
    world.file("conf/other.toml", "x");
    let programs = world.programs().to_str().unwrap().to_owned();
    let config = config.to_str().unwrap();
    let named = ["--config", config];
    for grant in ["fs={D}/**", "fs={D}/conf/**", "fs={D}/conf/*.toml", &format!("fs={config}")] {
        case(grant);
        let flags = [&["--allow", grant][..], &named].concat();
        let run = world.call(&component, "read_file", &json!({ "path": "{D}/conf/other.toml" }), &flags);
        run.one_error(2, "own.toml, which act itself relies on");
        // The same without it being the configuration.
        let run = world.call(&component, "stat", &json!({ "path": "{D}/conf/own.toml" }), &["--allow", grant]);
        assert_ne!(run.code, Some(2), "{}", run.err);
    }
    for grant in [format!("fs={programs}/**"), format!("fs={programs}/act-guest"), "fs=/etc/**".to_owned()] {
        case(&grant);
        let run = world.call(&component, "stat", &json!({ "path": "/etc" }), &["--allow", &grant]);
        run.one_error(2, "which act itself relies on");
        let reading = format!("{grant}:ro");
        let run = world.call(&component, "stat", &json!({ "path": "/etc" }), &["--allow", &reading]);
        assert_ne!(run.code, Some(2), "{}", run.err);
    }
    case("reading the configuration is no harm");
    let flags = [&["--allow", "fs={D}/conf/**:ro"][..], &named].concat();
    let run = world.call(&component, "read_file", &json!({ "path": "{D}/conf/own.toml" }), &flags);
    run.exits(0).prints("[policy]");
}
