//! `act info`: text and JSON, with and without the tools.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, World, case};
use serde_json::{Value, json};

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn manifests() {
    let Some(world) = World::new() else { return };
    let mut manifest = world.manifest(
        &[("{D}/data/**", "rw"), ("~/notes/**", "ro")],
        &json!([{ "host": "db.example.com", "ports": [5432] }]),
    );
    manifest["std"]["name"] = json!("na\u{1b}[2Jme\u{202e}");
    manifest["std"]["description"] = json!("what it does\nand more\u{7}");
    let component = world.pack_manifest(Guest::Files, &manifest);
    let shown = component.to_str().unwrap();
    let text = world.run(&["info", shown, "--allow", "fs={D}/data/**:ro", "--deny", "fs={D}/data/secret/**"]);
    text.is_clean().exits(0);
    for part in [
        "v1.0.0",
        "wasi:filesystem",
        "wasi:sockets",
        "declares {D}/data/** rw",
        "declares ~/notes/** ro (= {H}/notes",
        "granted: mode allowlist (cli, <command line> --allow fs={D}/data/**:ro)",
        "allow {D}/data/**:ro ro",
        "deny {D}/data/secret/**",
        "broker {D}/data ro",
    ] {
        text.prints(&world.fill(part));
    }
    assert!(!text.text().contains(['\u{1b}', '\u{202e}', '\u{7}']), "{:?}", text.text());
    assert!(text.err.is_empty(), "{}", text.err);
    case("JSON keeps the text as it is");
    let json = world.run(&["info", shown, "-f", "json"]);
    let value = parse(&json.exits(0).text());
    assert_eq!(value["name"], manifest["std"]["name"]);
    assert_eq!(value["version"], "1.0.0");
    assert_eq!(value["description"], manifest["std"]["description"]);
    assert_eq!(value["capabilities"]["wasi:sockets"]["constraints"][0]["host"], "db.example.com");
    assert!(value.get("tools").is_none(), "{value}");
    case("nothing is compiled for it");
    assert!(!world.home.join(".cache").exists());
}

#[test]
fn tools() {
    let Some(world) = World::new() else { return };
    for (guest, tool) in [(Guest::Files, "open_all"), (Guest::Files3, "hardlink"), (Guest::Py, "write_file")] {
        case(&format!("{guest:?}"));
        let component = world.pack(guest, &[("{D}/**", "rw")], &json!([]));
        let shown = component.to_str().unwrap();
        let text = world.run(&["info", "-t", shown]);
        text.is_clean().exits(0).prints("\nTools:\n").prints(&format!("\n{tool}")).prints("path: string");
        text.says("audit: isolation │ ");
        let json = world.run(&["info", shown, "--tools", "--format", "json", "--no-audit"]);
        let value = parse(&json.is_clean().exits(0).text());
        let tools = value["tools"].as_array().unwrap();
        let found = tools.iter().find(|t| t["name"] == tool).unwrap();
        assert!(found["parameters_schema"]["properties"]["path"]["type"] == "string" || tool == "hardlink", "{found}");
        let read = tools.iter().find(|t| t["name"] == "read_file").unwrap();
        // The fixture for 0.3 declares no hints.
        assert_eq!(read.get("read_only"), (guest != Guest::Files3).then_some(&json!(true)), "{read}");
        assert!(json.err.lines().all(|l| l.starts_with("act: compiling")), "{}", json.err);
    }
}

#[test]
fn errors() {
    let Some(world) = World::new() else { return };
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    let shown = component.to_str().unwrap();
    world.run(&["info", shown, "--allow", "fs=/x:rx"]).one_error(2, "--allow 'fs=/x:rx'");
    world.run(&["info", shown, "-f", "yaml"]).is_clean().exits(2).says("yaml");
    world.run(&["info"]).is_clean().exits(2);
    world.run(&["info", "/nonexistent.wasm"]).one_error(1, "/nonexistent.wasm");
    world.run(&["info", "{D}"]).one_error(1, "not a regular file");
    world.run(&["info", "/dev/zero"]).one_error(1, "not a regular file");
    case("help ends with the table of classes");
    for command in ["call", "info"] {
        world
            .run(&[command, "--help"])
            .exits(0)
            .prints("Capability classes")
            .prints("wasi:filesystem")
            .prints("act:credentials");
    }
}
