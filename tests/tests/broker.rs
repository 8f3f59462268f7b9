//! What Landlock cannot say exactly: denies inside an allowed tree, globs, single files. The broker opens what the policy
//! allows, and nothing else, whoever asks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Client, Guest, Probe, World, case, require, root};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt as _, symlink};

const GUESTS: [Guest; 3] = [Guest::Files, Guest::Files3, Guest::Py];

fn fill(world: &World) {
    world.file("ok/a.txt", "text of a");
    world.file("ok/secret/k.txt", "SECRET");
    std::fs::create_dir_all(world.path("ok/secret/empty")).unwrap();
}

/// What a component's tools would do to a file that a rule inside an allowed tree denies.
fn attempts() -> Vec<(&'static str, Value, &'static str)> {
    let at = |path: &str| json!({ "path": format!("{{D}}/ok/{path}") });
    let text = |path: &str| json!({ "path": format!("{{D}}/ok/{path}"), "text": "new" });
    let two = |from: &str, to: &str| json!({ "from": format!("{{D}}/ok/{from}"), "to": format!("{{D}}/ok/{to}") });
    vec![
        ("read_file", at("secret/k.txt"), "read {D}/ok/secret/k.txt"),
        ("write_file", text("secret/k.txt"), "write {D}/ok/secret/k.txt"),
        ("write_file", text("secret/new.txt"), "write {D}/ok/secret/new.txt"),
        ("append", text("secret/k.txt"), "write {D}/ok/secret/k.txt"),
        ("list_dir", at("secret"), "list {D}/ok/secret"),
        ("mkdir", at("secret/d"), "write {D}/ok/secret/d"),
        ("rmdir", at("secret/empty"), "write {D}/ok/secret/empty"),
        ("unlink", at("secret/k.txt"), "write {D}/ok/secret/k.txt"),
        ("rename", two("secret/k.txt", "stolen"), "write {D}/ok/secret/k.txt"),
        ("rename", two("a.txt", "secret/a.txt"), "write {D}/ok/secret/a.txt"),
        ("rename", two("secret", "public"), "write {D}/ok/secret"),
        ("hardlink", two("secret/k.txt", "stolen"), "write {D}/ok/secret/k.txt"),
    ]
}

/// The host check lets everything pass, and the broker refuses.
#[test]
fn a_deny_inside_an_allowed_tree() {
    let Some(()) = require(root()) else { return };
    let Some(world) = World::unchecked() else { return };
    fill(&world);
    let flags = ["--allow", "fs={D}/ok/**", "--deny", "fs={D}/ok/secret/**"];
    for guest in GUESTS {
        let component = world.pack(guest, &[("/**", "rw")], &json!([]));
        for (tool, arguments, what) in attempts() {
            // The other fixtures have fewer tools.
            let has = match guest {
                Guest::Py => matches!(tool, "read_file" | "write_file" | "list_dir"),
                _ => guest == Guest::Files || tool != "rmdir",
            };
            if !has {
                continue;
            }
            case(&format!("{guest:?}: {tool} {arguments}"));
            let run = world.call(&component, tool, &arguments, &flags);
            run.is_clean().exits(4);
            run.says(&world.fill(&format!("✗ deny  wasi:filesystem  {what}   broker: denied by {{D}}/ok/secret/**")));
            run.says(&world.fill(&format!("⚠ host check bypassed  wasi:filesystem  {what}")));
            assert!(run.out.is_empty() && !run.err.contains("SECRET"));
            assert_eq!(
                (world.read("ok/a.txt").as_str(), world.read("ok/secret/k.txt").as_str()),
                ("text of a", "SECRET")
            );
            assert!(world.path("ok/secret/empty").is_dir() && !world.path("ok/stolen").exists());
        }
        case(&format!("{guest:?}: what is beside it is opened all the same"));
        let beside = world.call(&component, "read_file", &json!({ "path": "{D}/ok/a.txt" }), &flags);
        beside.is_clean().exits(0).prints("text of a").never_says("✗ deny");
        let listed = world.call(&component, "list_dir", &json!({ "path": "{D}/ok" }), &flags);
        listed.is_clean().exits(0).prints("a.txt");
        assert!(!listed.text().contains("secret"), "{}", listed.text());
    }
    case("control: without the deny each of them works");
    let component = world.pack(Guest::Files, &[("/**", "rw")], &json!([]));
    for (tool, arguments, _) in attempts() {
        std::fs::remove_dir_all(world.path("ok")).unwrap();
        fill(&world);
        world.call(&component, tool, &arguments, &flags[..2]).is_clean().exits(0).never_says("✗ deny");
    }
}

/// Native code has the broker's socket, and no more for it.
#[test]
fn native_questions_are_judged() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    let world = &probe.world;
    fill(world);
    world.file("outside/o.txt", "outside");
    symlink("secret/k.txt", world.path("ok/to-file")).unwrap();
    symlink("secret", world.path("ok/to-folder")).unwrap();
    symlink("../outside", world.path("ok/to-outside")).unwrap();
    let flags = ["--allow", "fs={D}/ok/**", "--deny", "fs={D}/ok/secret/**", "--allow", "fs={D}/one.txt:ro"];
    world.file("one.txt", "one");
    let rows = [
        ("read ok/a.txt", "ok, 1 open"),
        ("read ok/secret/k.txt", "denied"),
        ("write ok/secret/k.txt", "denied"),
        ("create ok/secret/new", "denied"),
        ("list ok", "ok, a.txt to-file to-folder to-outside"),
        ("list ok/secret", "denied"),
        ("mkdir ok/secret/d", "denied"),
        ("rmdir ok/secret/empty", "denied"),
        ("unlink ok/secret/k.txt", "denied"),
        ("symlink k.txt ok/secret/l", "denied"),
        ("rename ok/secret/k.txt ok/k.txt", "denied"),
        ("rename ok/a.txt ok/secret/a.txt", "denied"),
        ("rename ok/secret ok/public", "denied"),
        ("link ok/secret/k.txt ok/k.txt", "denied"),
        ("times ok/secret/k.txt", "denied"),
        // A link is never followed at the end, and judged where it leads before that.
        ("read ok/to-file", "errno 40"),
        ("read ok/to-folder/k.txt", "denied"),
        ("read ok/to-outside/o.txt", "denied"),
        ("list ok/to-folder", "errno 20"),
        ("read ok/../outside/o.txt", "denied"),
        ("read outside/o.txt", "denied"),
        ("read one.txt", "ok, 1 open"),
        ("write one.txt", "denied"),
        ("unlink one.txt", "denied"),
        ("read /proc/self/mem", "denied"),
        ("read /proc/self/environ", "denied"),
        ("read /etc/passwd", "denied"),
        ("list /", "denied"),
        ("read relative", "denied"),
        // What is allowed works.
        ("create ok/new", "ok, 1 open"),
        ("rename ok/new ok/newer", "ok"),
        ("link ok/newer ok/newest", "ok"),
        ("times ok/newer", "ok"),
        ("unlink ok/newest", "ok"),
        ("mkdir ok/d", "ok"),
        ("rmdir ok/d", "ok"),
        ("symlink a.txt ok/l", "ok"),
    ];
    let absolute = |question: &str| {
        let mut words = question.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let paths = if words[0] == "symlink" { 2.. } else { 1.. };
        for word in &mut words[paths] {
            if !word.starts_with('/') && word != "relative" {
                *word = world.path(word).to_str().unwrap().to_owned();
            }
        }
        format!("broker {}", words.join(" "))
    };
    let names: Vec<String> = rows.iter().map(|(question, _)| absolute(question)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = probe.call(&names, &flags);
    run.is_clean().exits(0);
    let outcomes = Probe::outcomes(&run);
    let wrong: Vec<String> = rows
        .iter()
        .zip(&names)
        .filter(|((_, expected), name)| outcomes.get(**name).map(String::as_str) != Some(*expected))
        .map(|((question, expected), name)| format!("{question}: {:?}, expected {expected}", outcomes.get(*name)))
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), run.err);
    run.says(&world.fill("✗ deny  wasi:filesystem  read {D}/ok/secret/k.txt   broker: denied by {D}/ok/secret/**"));
    run.audits("✗ deny  wasi:filesystem  read /etc/passwd   broker: not granted");
    assert_eq!(world.read("ok/secret/k.txt"), "SECRET");
    case("and without the broker native code opens none of it");
    for flags in [&flags[..4], &["--allow", "fs={D}/data/*"]] {
        let held = Probe::outcomes(probe.call(&["open the file", "open /etc/passwd"], flags).is_clean()).clone();
        assert!(held.values().all(|outcome| outcome == "errno 13"), "{held:?}");
    }
}

#[test]
fn globs_single_files_and_what_is_not_there_yet() {
    for world in [World::new(), World::unchecked()] {
        let Some(world) = world else { return };
        for guest in [Guest::Files, Guest::Files3] {
            case(&format!("{guest:?}"));
            let component = world.pack(guest, &[("/**", "rw")], &json!([]));
            world.file("g/a.txt", "text of a");
            world.file("g/b.db", "data of b");
            world.file("one/file", "the one");
            world.file("one/other", "the other");
            let flags = ["--allow", "fs={D}/g/*.txt", "--allow", "fs={D}/one/file", "--allow", "fs={D}/one/later"];
            let call = |tool: &str, path: &str| {
                let mut arguments = json!({ "path": format!("{{D}}/{path}") });
                if tool == "write_file" {
                    arguments["text"] = json!("new");
                }
                world.call(&component, tool, &arguments, &flags)
            };
            call("read_file", "g/a.txt").is_clean().exits(0).prints("text of a");
            call("read_file", "g/b.db").is_clean().exits(4);
            call("write_file", "g/c.txt").is_clean().exits(0);
            call("write_file", "g/c.db").is_clean().exits(4);
            call("read_file", "one/file").is_clean().exits(0).prints("the one");
            call("read_file", "one/other").is_clean().exits(4);
            call("write_file", "one/later").is_clean().exits(0);
            call("write_file", "one/never").is_clean().exits(4);
            assert_eq!((world.read("g/c.txt").as_str(), world.read("one/later").as_str()), ("new", "new"));
            assert!(!world.path("g/c.db").exists() && !world.path("one/never").exists());
            call("unlink", "one/file").is_clean().exits(0);
            call("unlink", "one/other").is_clean().exits(4);
            assert!(!world.path("one/file").exists() && world.path("one/other").exists());
            std::fs::remove_dir_all(world.path("g")).unwrap();
            std::fs::remove_dir_all(world.path("one")).unwrap();
        }
    }
}

/// Root's supervisor has rights that its child gave up: the broker must not lend them.
#[test]
fn permissions_of_files_bind_the_broker() {
    let Some(()) = require(root()) else { return };
    let Some(world) = World::new() else { return };
    fill(&world);
    let component = world.pack(Guest::Files, &[("/**", "rw")], &json!([]));
    let read = |flags: &[&str]| world.call(&component, "read_file", &json!({ "path": "{D}/ok/a.txt" }), flags);
    let direct = ["--allow", "fs={D}/ok/**"];
    let brokered = [direct[0], direct[1], "--deny", "fs={D}/ok/secret/**"];
    for flags in [&direct[..], &brokered] {
        read(flags).is_clean().exits(0).prints("text of a");
    }
    std::fs::set_permissions(world.path("ok/a.txt"), std::fs::Permissions::from_mode(0o000)).unwrap();
    for flags in [&direct[..], &brokered] {
        read(flags).is_clean().exits(1).says("access");
    }
}

/// Landlock holds the folder that was granted, not the one that takes its place while the component runs.
#[test]
fn a_granted_folder_that_another_one_replaces_is_stale() {
    let Some(()) = require(root()) else { return };
    let Some(world) = World::new() else { return };
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    world.file("ok/a.txt", "text of the first");
    world.file("ok/sub/b.txt", "text of b");
    world.file("other/a.txt", "text of the other");
    let flags = ["--allow", "fs={D}/ok/**"];
    let at = |path: &str| json!({ "path": world.fill(path) });
    let mut client = Client::start(&world, &component, &flags);
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(text(&client.call("read_file", at("{D}/ok/a.txt"), None)), "text of the first");
    // A folder inside the granted one may be replaced: what is there is granted.
    std::fs::rename(world.path("ok/sub"), world.path("ok/gone")).unwrap();
    world.file("ok/sub/b.txt", "text of the new b");
    assert_eq!(text(&client.call("read_file", at("{D}/ok/sub/b.txt"), None)), "text of the new b");
    std::fs::rename(world.path("ok"), world.path("gone")).unwrap();
    std::fs::rename(world.path("other"), world.path("ok")).unwrap();
    for path in ["{D}/ok/a.txt", "{D}/gone/a.txt"] {
        let result = client.call("read_file", at(path), None);
        assert_eq!(result["isError"], json!(true), "{result}");
    }
    let run = client.finish();
    run.says(
        &world.fill("✗ deny  wasi:filesystem  read {D}/ok/a.txt   kernel: landlock, the grant of {D}/ok is stale"),
    );
    run.says(&world.fill("✗ deny  wasi:filesystem  read {D}/gone/a.txt   not granted"));
    case("the next run has the new folder");
    world
        .call(&component, "read_file", &json!({ "path": "{D}/ok/a.txt" }), &flags)
        .exits(0)
        .prints("text of the other");
    case("a file that its own permissions close is no stale grant");
    let closed = world.file("ok/closed.txt", "x");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    world.call(&component, "read_file", &json!({ "path": "{D}/ok/closed.txt" }), &flags).never_says("stale");
}
