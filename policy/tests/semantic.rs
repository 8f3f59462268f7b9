//! Semantic classes and credentials.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::{Engine, Request};
use common::{Operator, decide, engine, manifest, resolve, word};

fn asked(engine: &Engine, class: &str, key: &str, arguments: &[(&str, &str)]) -> &'static str {
    let arguments = arguments.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    word(decide(engine, &Request::Consent { class: class.into(), key: key.into(), arguments }))
}

const DROP: &str = r#"{"db:drop": {"constraints": [{"key": "test_*"}]}, "db:ddl": {}, "db:none": {"constraints": []}, "act:credentials": {}, "wasi:http": {"constraints": [{"host": "*"}]}}"#;

#[test]
fn the_ceiling_of_a_semantic_class() {
    let declared = manifest(DROP);
    let open = engine(&declared, &["+db:drop", "+db:ddl", "+http"]);
    for (class, key, expected) in [
        ("db:drop", "test_events", "allow"),
        ("db:drop", "production", "ceiling"),
        ("db:ddl", "anything", "allow"),
        ("db:none", "x", "ceiling"),
        ("db:other", "x", "ceiling"),
        ("wasi:http", "127.0.0.1", "deny"),
        ("act:credentials", "x", "deny"),
        ("", "x", "ceiling"),
        ("db:*", "x", "ceiling"),
    ] {
        assert_eq!(asked(&open, class, key, &[]), expected, "{class} {key}");
    }
    assert_eq!(asked(&engine(&declared, &[]), "db:drop", "test_a", &[]), "ask");
    assert_eq!(asked(&engine(&declared, &["+db:drop=test_a"]), "db:drop", "test_b", &[]), "grant");
    assert_eq!(asked(&engine(&declared, &["+db:drop", "-db:drop=test_a"]), "db:drop", "test_a", &[]), "rule");
    assert_eq!(asked(&engine(&declared, &["-db:drop"]), "db:drop", "test_a", &[]), "grant");
}

#[test]
fn dimensions_that_were_not_sent_deny_and_never_allow() {
    let declared = manifest(DROP);
    let with = |entry: &str| {
        let grant = format!(r#"{{"db:drop": {entry}}}"#);
        resolve(&declared, &Operator { grants: &[&grant], ..Operator::default() }).0
    };
    let deny = with(r#"{"mode": "open", "deny": [{"table": "events"}]}"#);
    assert_eq!(asked(&deny, "db:drop", "test_a", &[("table", "events")]), "rule");
    assert_eq!(asked(&deny, "db:drop", "test_a", &[("table", "orders")]), "allow");
    assert_eq!(asked(&deny, "db:drop", "test_a", &[]), "rule");
    let allow = with(r#"{"mode": "allowlist", "allow": [{"key": "test_*", "table": "events"}]}"#);
    assert_eq!(asked(&allow, "db:drop", "test_a", &[("table", "events")]), "allow");
    assert_eq!(asked(&allow, "db:drop", "test_a", &[("table", "orders")]), "grant");
    assert_eq!(asked(&allow, "db:drop", "test_a", &[]), "grant");
    // An argument that is called `key` does not stand in for the key.
    assert_eq!(asked(&allow, "db:drop", "prod", &[("key", "test_a"), ("table", "events")]), "ceiling");
}

#[test]
fn credentials_are_the_whole_class() {
    let declared = manifest(DROP);
    let read = |engine: &Engine| word(decide(engine, &Request::Credential { key: "acme".into() }));
    assert_eq!(read(&engine(&declared, &["+creds"])), "allow");
    assert_eq!(read(&engine(&declared, &[])), "ask");
    assert_eq!(read(&engine(&declared, &["-creds"])), "grant");
    assert_eq!(read(&engine(&manifest("{}"), &["+creds"])), "ceiling");
}
