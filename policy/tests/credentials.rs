//! The credentials that a manifest declares.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::{Credential, Field, Manifest};
use common::{built, cbor};

fn json(credentials: &str) -> String {
    format!(
        r#"{{"std": {{"name": "t", "version": "1", "capabilities": {{"act:credentials": {{}}}}, "credentials": {credentials}}}}}"#
    )
}

fn decode(credentials: &str) -> Result<Vec<Credential>, String> {
    Manifest::decode(&cbor(&json(credentials)), None).map(|m| m.credentials).map_err(|e| e.to_string())
}

#[test]
fn declared() {
    let found = decode(
        r#"[{"key": "acme", "description": "Acme", "fields": [
            {"key": "acme:token", "label": "Token"},
            {"key": "user", "secret": false, "required": false, "type": "std:oauth2", "resource": "r", "scopes": ["s"]}
        ]}, {"key": "bare"}]"#,
    );
    let field = |key: &str, label: &str| Field {
        key: key.into(),
        label: label.into(),
        kind: "std:string".into(),
        secret: true,
        required: true,
    };
    let user = Field { secret: false, required: false, kind: "std:oauth2".into(), ..field("user", "") };
    let acme = Credential {
        key: "acme".into(),
        description: Some("Acme".into()),
        fields: vec![field("acme:token", "Token"), user],
    };
    assert_eq!(acme.field("acme:token").map(|f| f.label.as_str()), Some("Token"));
    assert_eq!(acme.field("other"), None);
    assert_eq!(found, Ok(vec![acme, Credential { key: "bare".into(), description: None, fields: Vec::new() }]));
    assert_eq!(decode("[]"), Ok(Vec::new()));
}

#[test]
fn malformed_declarations_are_refused() {
    for (credentials, words) in [
        ("{}", "std.credentials: expected a list"),
        ("null", "std.credentials: expected a list"),
        ("[1]", "a credential: expected a table"),
        ("[{}]", "a credential without `key`"),
        (r#"[{"key": ""}]"#, "a credential without `key`"),
        (r#"[{"key": 1}]"#, "key: expected a string"),
        (r#"[{"key": "a b"}]"#, "without white space"),
        (r#"[{"key": "a", "fieldz": []}]"#, "unknown member `fieldz` (known: key, description, fields)"),
        (r#"[{"key": "a"}, {"key": "a"}]"#, "two credentials `a`"),
        (r#"[{"key": "a", "fields": [{"label": "x"}]}]"#, "credential `a`: a field without `key`"),
        (r#"[{"key": "a", "fields": [{"key": "f"}, {"key": "f"}]}]"#, "credential `a`: two fields `f`"),
        (r#"[{"key": "a", "fields": [{"key": "f", "secret": "yes"}]}]"#, "secret: expected a boolean"),
        (r#"[{"key": "a", "fields": [{"key": "f", "scopes": [1]}]}]"#, "a scope: expected a string"),
        (r#"[{"key": "a", "fields": [{"key": "f", "lable": ""}]}]"#, "unknown member `lable`"),
    ] {
        let error = decode(credentials).unwrap_err();
        assert!(error.starts_with("act:component: ") && error.contains(words), "{credentials}: {error}");
        built::validates(&json(credentials), Some(words));
    }
    let without = r#"{"std": {"name": "t", "version": "1", "credentials": [{"key": "a"}]}}"#;
    let error = Manifest::decode(&cbor(without), None).unwrap_err().to_string();
    assert!(error.contains("`credentials` without the capability act:credentials"), "{error}");
}
