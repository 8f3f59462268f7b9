//! `--session-args` and `act session`.

use super::{SESSION, vault};
use act_tests::{Guest, case};
use serde_json::{Value, json};

#[test]
fn a_call_belongs_to_the_session_that_was_opened_for_it() {
    let Some((world, component)) = vault() else { return };
    case("control: without a session");
    world.call(&component, "session", &json!({}), &[]).exits(0).prints("none");
    case("with one");
    let run = world.call(&component, "session", &json!({}), &SESSION);
    run.exits(0).prints("v_0 x").says("audit: ● open_session  ok ");
    case("its tools");
    let file = component.to_str().unwrap();
    world.run(&[&["info", file, "-t"], &SESSION[..]].concat()).exits(0).prints("Ask for leave");
}

#[test]
fn what_cannot_be_opened_is_told() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    let call = |flags: &[&str]| world.call(&component, "session", &json!({}), flags);
    case("arguments that miss the schema are not repeated");
    let run = call(&["--session-args", r#"{"name": 271828}"#]);
    run.one_error(2, "Error: std:invalid-args: the session's arguments: /name: ").says("is not of type \"string\"");
    run.never_says("271828");
    call(&["--session-args", "{}"]).one_error(2, "\"name\" is a required property");
    case("a component that refuses");
    call(&["--session-args", r#"{"name": "fail"}"#]).one_error(1, "Error: std:internal: no such place");
    case("not an object");
    for text in ["", "5", "[]", "{", r#"{"a":1} x"#] {
        call(&["--session-args", text]).one_error(2, "--session-args: ").never_says("audit:");
    }
    case("two sessions at once");
    let two = ["--session-args", r#"{"name":"x"}"#, "-m", "std:session-id=v_9"];
    call(&two).one_error(2, "std:session-id").never_says("audit:");
    case("nothing runs");
    world.run(&["info", file, "--session-args", "{}"]).one_error(2, "add -t");
    case("a component without sessions");
    let files = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    let run = world.call(&files, "env", &json!({}), &["--session-args", "{}"]);
    run.one_error(2, "files.wasm (t) has no sessions").never_says("audit:");
    world.run(&["session", "open-args-schema", files.to_str().unwrap()]).one_error(2, "has no sessions");
    world.run(&["info", files.to_str().unwrap(), "-t", "--session-args", "{}"]).one_error(2, "has no sessions");
    case("control: the same call without the flag");
    world.call(&files, "env", &json!({}), &[]).exits(0);
}

#[test]
fn the_schema_and_the_manifest_are_json() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    let parse = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let schema = parse(world.run(&["session", "open-args-schema", file]).exits(0).text());
    assert_eq!(schema["properties"]["name"]["type"], json!("string"));
    let manifest = parse(world.run(&["inspect", "component-manifest", file]).exits(0).text());
    assert_eq!(manifest["std"]["name"], json!("vault"));
    assert_eq!(manifest["std"]["capabilities"]["db:drop"]["constraints"], json!([{ "key": "test_*" }]));
    assert_eq!(manifest["std"]["credentials"][0]["fields"][0]["label"], json!("Token"));
    world.run(&["inspect", "component-manifest", "{D}/none"]).one_error(1, "none");
    world.run(&["info", file]).exits(0).prints("Credentials:").prints("    field user?  User name");
}
