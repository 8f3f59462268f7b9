//! Sessions of a served component.

use super::{SECRET, forget, keep, vault};
use act_tests::{Client, case};
use serde_json::{Value, json};

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_client_opens_and_closes_sessions() {
    let Some((world, component)) = vault() else { return };
    keep(&world, &component);
    let mut client = Client::start(&world, &component, &["--allow", "creds"]);
    let tools = client.tools();
    assert!(["open_session", "close_session"].iter().all(|name| tools.iter().any(|t| t == name)), "{tools:?}");

    case("two sessions");
    let first = client.call("open_session", json!({ "name": "one" }), None);
    assert_eq!(first["structuredContent"], json!({ "id": "v_0" }));
    client.call("open_session", json!({ "name": "two" }), None);
    assert_eq!(text(&client.call("session", json!({}), Some("v_0"))), "v_0 one");
    assert_eq!(text(&client.call("session", json!({}), Some("v_1"))), "v_1 two");
    assert_eq!(text(&client.call("session", json!({ "_meta": { "std:session-id": "v_1" } }), None)), "v_1 two");
    assert_eq!(text(&client.call("session", json!({}), None)), " none");

    case("a secret is read in an open session only");
    assert!(client.call("get", json!({ "key": "acme", "session": "v_0" }), None).to_string().contains(SECRET));
    let closed = client.call("close_session", json!({ "session_id": "v_0" }), None);
    assert_ne!(closed["isError"], json!(true), "{closed}");
    assert_eq!(text(&client.call("closed", json!({}), None)), "v_0");
    let refused = client.call("get", json!({ "key": "acme", "session": "v_0" }), None);
    assert!(refused["isError"] == json!(true) && text(&refused).contains("InvalidSession"), "{refused}");
    assert!(client.call("get", json!({ "key": "acme", "session": "v_1" }), None).to_string().contains(SECRET));

    case("a trap ends all of them");
    assert_eq!(client.call("trap", json!({}), None)["isError"], json!(true));
    let refused = client.call("get", json!({ "key": "acme", "session": "v_1" }), None);
    assert!(text(&refused).contains("InvalidSession"), "{refused}");

    case("what is wrong is told");
    for (tool, arguments, kind) in [
        ("open_session", json!({ "name": 5 }), "std:invalid-args"),
        ("open_session", json!({ "name": "fail" }), "std:internal"),
        ("close_session", json!({}), "std:invalid-args"),
        ("close_session", json!({ "session_id": "v_9" }), "std:session-not-found"),
    ] {
        let result = client.call(tool, arguments, None);
        assert_eq!(result["_meta"]["dev.actcore/error-kind"], json!(kind), "{result}");
    }
    client.finish().exits(0).never_says(SECRET);
    forget(&world);
}

#[test]
fn one_session_for_all_calls_survives_a_trap() {
    let Some((world, component)) = vault() else { return };
    let mut client = Client::start(&world, &component, &["--session-args", r#"{"name":"z"}"#]);
    assert!(!client.tools().iter().any(|name| name.ends_with("_session")));
    assert_eq!(text(&client.call("session", json!({}), None)), "v_0 z");
    assert_eq!(text(&client.call("session", json!({}), Some("v_9"))), "v_0 z");
    assert_eq!(client.call("trap", json!({}), None)["isError"], json!(true));
    assert_eq!(text(&client.call("session", json!({}), None)), "v_0 z");
    let run = client.finish();
    run.exits(0);
    assert_eq!(run.audit().iter().filter(|line| line.starts_with("● open_session  ok ")).count(), 2, "{}", run.err);
}

/// A session runs the component with the client's arguments: opening one is a tool like any other.
#[test]
fn sessions_are_judged_as_tools() {
    let Some((world, component)) = vault() else { return };
    for rules in [&["--permission", "deny=tool(*)"][..], &["--permission", "allow=tool(vault.other)"]] {
        case(&format!("{rules:?}"));
        let mut client = Client::start(&world, &component, rules);
        let tools = client.tools();
        assert!(!tools.iter().any(|tool| tool.ends_with("_session")), "{tools:?}");
        for tool in ["open_session", "close_session"] {
            let refused = client.call(tool, json!({ "session_id": "x" }), None);
            assert_eq!(refused["_meta"]["dev.actcore/error-kind"], "std:capability-denied", "{refused}");
        }
        client.finish().exits(4).says("✗ deny  tool  call ").says(".open_session");
    }
}
