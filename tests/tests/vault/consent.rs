//! Semantic classes: the component hears yes or no, the trail has the reason.

use super::vault;
use act_tests::case;
use serde_json::{Value, json};

/// Class, key, arguments; flags; the answer; a line of the audit trail, if one is expected.
type Row<'a> = (&'a str, &'a str, Value, &'a [&'a str], &'a str, &'a str);

#[test]
fn actions_are_judged_by_class_key_and_arguments() {
    let Some((world, component)) = vault() else { return };
    let (none, events) = (Value::Null, json!({ "table": "events", "rows": 5, "force": true }));
    let denies = |rule: &str| format!(r#"{{"db:drop":{{"mode":"open","deny":[{rule}]}}}}"#);
    let (table, rows, force) = (denies(r#"{"table":"ev*"}"#), denies(r#"{"rows":"5"}"#), denies(r#"{"force":"true"}"#));
    let other = denies(r#"{"table":"orders"}"#);
    let open = &["--allow", "db:drop"][..];
    let rows: &[Row<'_>] = &[
        ("db:drop", "test_a", none.clone(), open, "allow", ""),
        ("db:drop", "production", none.clone(), open, "deny", "consent production   outside ceiling  mode:open"),
        ("db:drop", "test_a", none.clone(), &[], "deny", "? ask-deny  db:drop  consent test_a   no prompt channel"),
        ("db:drop", "test_a", none.clone(), &["--deny", "db:drop"], "deny", "not granted  mode:deny"),
        ("db:drop", "test_a", none.clone(), &["--allow", "db:drop=test_b*"], "deny", "not granted  mode:allowlist"),
        ("db:drop", "test_a", none.clone(), &["--allow", "db:drop=test_*"], "allow", ""),
        (
            "db:other",
            "x",
            none.clone(),
            &["--allow", "db:drop"],
            "deny",
            "✗ deny  db:other  consent x   outside ceiling",
        ),
        ("wasi:http", "x", none.clone(), &["--allow", "http"], "deny", "not a semantic class"),
        ("db:drop", "test_a", events.clone(), &["--grant", &table], "deny", "denied by "),
        ("db:drop", "test_a", events.clone(), &["--grant", &rows], "deny", "denied by "),
        ("db:drop", "test_a", events.clone(), &["--grant", &force], "deny", "denied by "),
        ("db:drop", "test_a", events, &["--grant", &other], "allow", ""),
        ("db:drop", "test_a", none, &["--grant", &other], "deny", "denied by "),
        ("db:drop", "test_\u{1b}[2J", json!({}), open, "allow", ""),
    ];
    for (class, key, args, flags, answer, line) in rows {
        case(&format!("{class} {key} {args} {flags:?}"));
        let run = world.call(&component, "consent", &json!({ "class": class, "key": key, "args": args }), flags);
        run.exits(0).is_clean().never_says("\u{1b}");
        assert_eq!(run.text(), *answer, "{}", run.err);
        if !line.is_empty() {
            run.says(line);
        }
    }
}

#[test]
fn what_the_component_says_is_shown_as_its_words() {
    let Some((world, component)) = vault() else { return };
    let call = |summary: &str| {
        world.call(&component, "consent", &json!({ "class": "db:ddl", "key": "k", "summary": summary }), &[])
    };
    call("do it")
        .exits(0)
        .audits("? ask-deny  db:ddl  consent k   no prompt channel  mode:ask  the component says: “do it”");
    call("").exits(0).audits("? ask-deny  db:ddl  consent k   no prompt channel  mode:ask");
    let run = call("x\naudit: ✓ allow\r\u{1b}[2J\u{202e}gpj.exe");
    run.exits(0).is_clean().never_says("\u{1b}").never_says("\u{202e}").says("\\u{202e}gpj.exe");
    assert!(!run.audit().iter().any(|line| line.starts_with("✓ allow")), "{}", run.err);
    let run = call(&"long ".repeat(20_000));
    run.exits(0).says("…”");
    assert!(run.err.lines().all(|line| line.len() < 600), "{}", run.err.len());
}

#[test]
fn arguments_that_are_not_clear_are_refused() {
    let Some((world, component)) = vault() else { return };
    let call = |key: &str, raw: &[u8]| {
        let arguments = json!({ "class": "db:ddl", "key": key, "raw": raw });
        world.call(&component, "consent", &arguments, &["--allow", "db:ddl"])
    };
    let deep = [vec![0xa1, 0x61, b'a'], vec![0x81; 100], vec![0x01]].concat();
    for (name, raw) in [
        ("not CBOR", &b"\xff"[..]),
        ("no map", b"\x01"),
        ("cut short", b"\xa1\x61a"),
        ("something after it", b"\xa0\x01"),
        ("a key that is no text", b"\xa1\x01\x01"),
        ("a key twice", b"\xa2\x61a\x61x\x61a\x61y"),
        ("too deep", &deep),
    ] {
        case(name);
        let run = call("k", raw);
        run.exits(0).prints("deny").audits("✗ deny  db:ddl  consent k   malformed  mode:open");
    }
    case("a key that is too long");
    let run = call(&"k".repeat(5000), b"");
    run.exits(0).prints("deny").says("malformed");
    for (name, raw) in [
        ("control: none", &b""[..]),
        ("null", b"\xf6"),
        ("a map", b"\xa1\x61a\x61x"),
        ("a list in it", b"\xa1\x61a\x80"),
    ] {
        case(name);
        call("k", raw).exits(0).prints("allow");
    }
}
