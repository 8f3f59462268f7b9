//! Input that is not as it should be: one line that names it and the fix, no crash, nothing half-done.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Running, World, case};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use xtask::pack::{self, Existing, SECTION};

/// Everything below a folder: names, sizes and modes.
fn listing(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt as _;
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        out.push(format!("{} {:o} {}", path.display(), meta.mode(), if meta.is_file() { meta.len() } else { 0 }));
        if meta.is_dir() {
            out.extend(listing(&path));
        }
    }
    out.sort();
    out
}

fn manifest(world: &World) -> Value {
    world.manifest(&[("{D}/**", "rw")], &json!([]))
}

fn section(content: &[u8]) -> Vec<u8> {
    let mut body = vec![SECTION.len() as u8];
    body.extend_from_slice(SECTION.as_bytes());
    body.extend_from_slice(content);
    body
}

/// A section with its id and its length in LEB128.
fn wrap(id: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![id];
    let mut left = body.len();
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend_from_slice(body);
    out
}

const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

#[test]
fn components() {
    let Some(world) = World::new() else { return };
    let good = pack::encode(&manifest(&world)).unwrap();
    let packed = |bytes: &[u8]| [EMPTY, &wrap(0, &section(bytes))].concat();
    let mut nested = EMPTY.to_vec();
    nested.extend(wrap(1, &[MODULE, &wrap(0, &section(&good))].concat()));
    let huge =
        pack::encode(&json!({ "std": { "name": "t", "version": "1", "description": "x".repeat(1 << 20) } })).unwrap();
    let mut deep = vec![0xa1, 0x63, b's', b't', b'd'];
    deep.extend(std::iter::repeat_n(0x81, 100_000));
    let bare = |std: Value| packed(&pack::encode(&json!({ "std": std })).unwrap());
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", vec![], "not a valid component"),
        ("text", b"hello, this is text\n".to_vec(), "not a valid component"),
        ("only the magic", b"\0asm".to_vec(), "not a valid component"),
        ("another version", b"\0asm\x63\0\x01\0".to_vec(), "not a valid component"),
        ("a core module", MODULE.to_vec(), "module"),
        ("a core module with a manifest", [MODULE, &wrap(0, &section(&good))].concat(), "module"),
        ("no manifest", EMPTY.to_vec(), SECTION),
        ("two manifests", pack::pack(&packed(&good), &good, Existing::Keep).unwrap(), SECTION),
        ("a manifest only in a nested module", nested, SECTION),
        ("an empty manifest", packed(b""), "CBOR"),
        ("bytes that are not CBOR", packed(&[0xff; 64]), "CBOR"),
        ("a manifest and bytes after it", packed(&[good.clone(), vec![0]].concat()), ""),
        ("more than 1 MiB", packed(&huge), ""),
        ("nested 100,000 deep", packed(&deep), ""),
        ("a list, not a map", packed(&[0x80]), ""),
        ("no name", bare(json!({ "version": "1" })), "name"),
        ("no version", bare(json!({ "name": "t" })), "version"),
        (
            "a constraint without a path",
            bare(
                json!({ "name": "t", "version": "1", "capabilities": { "wasi:filesystem": { "constraints": [{ "mode": "ro" }] } } }),
            ),
            "path",
        ),
        (
            "a constraint without a mode",
            bare(
                json!({ "name": "t", "version": "1", "capabilities": { "wasi:filesystem": { "constraints": [{ "path": "/x/**" }] } } }),
            ),
            "mode",
        ),
        (
            "a relative path",
            bare(
                json!({ "name": "t", "version": "1", "capabilities": { "wasi:filesystem": { "constraints": [{ "path": "x/**", "mode": "ro" }] } } }),
            ),
            "x/**",
        ),
        ("a wildcard class", bare(json!({ "name": "t", "version": "1", "capabilities": { "db:*": {} } })), "db:*"),
        ("an empty class", bare(json!({ "name": "t", "version": "1", "capabilities": { "": {} } })), "class"),
    ];
    let before = listing(&world.home);
    for (name, bytes, message) in rows {
        case(name);
        let file = world.write_component("odd.wasm", &bytes);
        for command in ["validate", "info"] {
            let run = world.run(&[command, file.to_str().unwrap()]);
            run.one_error(1, "odd.wasm: ").says(message);
            assert!(run.out.is_empty());
        }
        let run = world.call(&file, "read_file", &json!({}), &[]);
        run.one_error(1, "odd.wasm: ").says(message);
    }
    assert_eq!(listing(&world.home), before, "something was written");
    case("control: a good one, and one with maps and texts of indefinite length");
    let indefinite = b"\xbf\x63std\xbf\x64name\x7f\x61t\xff\x67version\x611\xff\xff";
    for bytes in [&good[..], indefinite] {
        let file = world.write_component("good.wasm", &packed(bytes));
        world.run(&["validate", file.to_str().unwrap()]).exits(0).prints("ok, t 1");
    }
}

#[test]
fn truncated_components() {
    let Some(world) = World::new() else { return };
    let whole = fs::read(world.pack_manifest(Guest::Files, &manifest(&world))).unwrap();
    let before = listing(&world.home);
    for length in (0..whole.len()).step_by(997) {
        case(&format!("{length} of {} bytes", whole.len()));
        let file = world.write_component("cut.wasm", &whole[..length]);
        world.run(&["validate", file.to_str().unwrap()]).one_error(1, "cut.wasm: ");
    }
    assert_eq!(listing(&world.home), before, "something was written");
}

/// Flags, and what the message has to name.
#[test]
fn flags() {
    let Some(world) = World::new() else { return };
    let component = world.pack_manifest(Guest::Files, &manifest(&world));
    let rows: &[(&[&str], &str)] = &[
        (&["--grant", "{"], "--grant"),
        (&["--grant", "[]"], "--grant"),
        (&["--grant", r#"{"fs":"opne"}"#], "opne"),
        (&["--grant", r#"{"fs":{"allow":[]}}"#], "mode"),
        (&["--grant", r#"{"fs":{"mode":"open","alow":[]}}"#], "alow"),
        (&["--grant", r#"{"http":{"mode":"allowlist","allow":[{"hosst":"x"}]}}"#], "hosst"),
        (&["--grant", r#"{"fs":{"mode":"open","allow":null}}"#], "null"),
        (&["--grant", r#"{"fs":"open","fs":"deny"}"#], "fs"),
        (&["--grant", r#"{"fs":"open","wasi:filesystem":"deny"}"#], "wasi:filesystem"),
        (&["--grant", r#"{"fs":"open"} x"#], "--grant"),
        (&["--allow", "fs="], "--allow 'fs=': empty path"),
        (&["--allow", "fs=/x:rx"], "expected ro or rw"),
        (&["--allow", "fss"], "--allow 'fss'"),
        (&["--allow", "http=ftp://x"], "ftp"),
        (&["--allow", "http=example.com/path"], "path"),
        (&["--allow", "http=10.0.0.0/8"], "--allow 'http=10.0.0.0/8'"),
        (&["--allow", "http=*"], "--allow 'http=*'"),
        (&["--allow", "http=a.*.com"], "--allow 'http=a.*.com'"),
        (&["--allow", "sockets=x:0"], "port"),
        (&["--allow", "sockets=x:ten"], "port"),
        (&["--allow", "sockets=::1:80"], "[::1]"),
        (&["--allow", "sockets=[::1"], "bracket"),
        (&["--deny", "sockets=10.0.0.0/33"], "10.0.0.0/33"),
        (&["--deny", "sockets=10.0.0.0/8:80"], "port"),
        (&["--allow", "creds=x"], "creds"),
        (&["--allow", "db:*=x"], "db:*"),
        (&["--allow", "fs=/x/["], "glob"),
        (&["--allow", " fs"], "space"),
        (&["--allow", "fs=/x\u{1b}[2J"], "control"),
        (&["--allow", "fs", "--allow", "fs=/x"], "fs"),
        (&["--profile", "none"], "--profile none"),
        (&["--config", "{D}/none.toml"], "none.toml"),
        (&["--timeout", "5"], "--timeout"),
        (&["--timeout=-1s"], "--timeout"),
        (&["--max-memory", "12xyz"], "--max-memory"),
        (&["--isolation", "some"], "--isolation"),
    ];
    let before = listing(&world.home);
    for (flags, message) in rows {
        case(&format!("{flags:?}"));
        let run = world.call(&component, "read_file", &json!({ "path": "{D}/x" }), flags);
        run.is_clean().exits(2).says(message).never_says("\u{1b}").never_says("audit:");
        if !["--timeout", "--timeout=-1s", "--max-memory", "--isolation"].contains(&flags[0]) {
            assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        }
    }
    assert_eq!(listing(&world.home), before, "something was written");
}

#[test]
fn configuration() {
    let Some(world) = World::new() else { return };
    let component = world.pack_manifest(Guest::Files, &manifest(&world));
    let rows = [
        ("an unknown key", "[policy]\nfs = 'open'\n[polcy]\n", "config.toml:3: ", "polcy"),
        ("an unknown class entry", "\n\n[policy.fs]\nmode = 'open'\nalow = []\n", "config.toml:", "alow"),
        ("a wrong mode", "[policy]\nfs = 'opne'\n", "config.toml:2: ", "opne"),
        ("a wrong type", "[policy]\nfs = 3\n", "config.toml:2: ", ""),
        ("not TOML", "[policy\n", "config.toml:1: ", ""),
        ("a wrong path rule", "[policy.fs]\nmode = 'allowlist'\nallow = [{ path = '' }]\n", "config.toml:3: ", "path"),
        (
            "an alias and its id",
            "[policy]\nfs = 'open'\n'wasi:filesystem' = 'deny'\n",
            "config.toml:",
            "wasi:filesystem",
        ),
    ];
    let file = world.home.join(".config/act/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (name, text, place, message) in rows {
        case(name);
        fs::write(&file, text).unwrap();
        let before = listing(&world.home);
        let run = world.call(&component, "read_file", &json!({ "path": "{D}/x" }), &["--allow", "fs"]);
        run.one_error(2, place).says(message).never_says("audit:");
        assert_eq!(listing(&world.home), before, "something was written");
    }
    case("bytes that are not text");
    fs::write(&file, b"\xff\xfe").unwrap();
    world.call(&component, "read_file", &json!({ "path": "{D}/x" }), &[]).one_error(2, "config.toml");
    case("a folder in its place");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    world.call(&component, "read_file", &json!({ "path": "{D}/x" }), &[]).one_error(2, "config.toml");
    case("control: a good one");
    fs::remove_dir(&file).unwrap();
    fs::write(&file, "[policy]\nfs = 'open'\n").unwrap();
    world.file("x", "text of x");
    world.call(&component, "read_file", &json!({ "path": "{D}/x" }), &[]).exits(0).prints("text of x");
}

#[test]
fn arguments_and_metadata() {
    let Some(world) = World::new() else { return };
    let component = world.pack_manifest(Guest::Files, &manifest(&world));
    world.file("x", "text of x");
    let call = |arguments: &str, flags: &[&str]| {
        let mut act = world.act();
        act.arg("call")
            .arg(&component)
            .args(["read_file", "--args", &world.fill(arguments), "--allow", "fs"])
            .args(flags);
        Running::start(&mut act).finish()
    };
    let deep = format!("{{\"path\":{}1{}}}", "[".repeat(100), "]".repeat(100));
    for text in ["", "{", "path", "{\"path\":}", "[1]", "\"x\"", "null", deep.as_str()] {
        case(text);
        call(text, &[]).one_error(2, "--args").never_says("audit:");
    }
    let path = r#"{"path":"{D}/x"}"#;
    for (flags, message) in [
        (&["--metadata", "novalue"][..], "--metadata"),
        (&["--metadata", "=x"], "--metadata"),
        (&["--metadata-json", "[1]"], "--metadata-json"),
        (&["--metadata-file", "/nonexistent"], "--metadata-file"),
    ] {
        case(message);
        call(path, flags).one_error(2, message);
    }
    for text in ["{}", r#"{"path":5}"#, r#"{"path":null}"#, r#"{"paht":"x"}"#] {
        case(text);
        call(text, &[]).one_error(1, "Error: std:invalid-args: ").says("path");
    }
    case("a tool that is not there");
    world.call(&component, "no_such", &json!({}), &[]).one_error(1, "Error: std:not-found: no tool `no_such`");
    case("control");
    call(path, &["--metadata", "k=v", "--metadata-json", r#"{"a":1}"#]).exits(0).prints("text of x");
}
