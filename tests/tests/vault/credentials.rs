//! Secrets reach the component that declares them where the policy says so, and nobody else.

use super::{SECRET, SESSION, call, forget, keep, store_file, vault, with_input};
use act_tests::{Guest, World, case, require, root};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn get(world: &World, component: &Path, key: &str, flags: &[&str]) -> act_tests::Run {
    let run = call(world, component, "get", &json!({ "key": key, "hint": "for the demo" }), flags);
    run.is_clean().never_says(SECRET);
    run
}

#[test]
fn the_policy_decides_who_reads() {
    let Some((world, component)) = vault() else { return };
    case("nothing is stored");
    let run = get(&world, &component, "acme", &["--allow", "creds"]);
    run.exits(1).says("NotFound").audits("⚠ credential acme: nothing is stored (act login, or act secret set)");
    keep(&world, &component);
    let stored = fs::read(store_file(&world)).unwrap();
    for word in [SECRET, "acme", "token", "vault"] {
        assert!(!stored.windows(word.len()).any(|w| w == word.as_bytes()), "{word} is in the file");
    }
    let rule = "denied by";
    let denied = r#"{"act:credentials": {"mode": "deny"}}"#;
    for (name, flags, code, line) in [
        ("granted", &["--allow", "creds"][..], 0, "✓ allow  act:credentials  credential acme"),
        ("nobody to ask", &[], 4, "? ask-deny  act:credentials  credential acme   no prompt channel  mode:ask"),
        ("denied", &["--deny", "creds"], 4, "✗ deny  act:credentials  credential acme   not granted  mode:deny"),
        ("denied by a grant", &["--grant", denied], 4, "not granted  mode:deny"),
        ("granted again", &["--allow", "creds"], 0, "credentials: 1 credential"),
    ] {
        case(name);
        let run = get(&world, &component, "acme", flags);
        run.exits(code).says(line).never_says(rule);
        assert_eq!(run.text().contains(SECRET), code == 0, "{}", run.text());
    }
    case("the words of the component");
    get(&world, &component, "acme", &[]).says("the component says: “for the demo”");
    case("a key that it does not declare");
    let run = get(&world, &component, "nope\u{1b}[2J", &["--allow", "creds"]);
    run.exits(1).says("NotFound").never_says("\u{1b}").says("the component does not declare it");
    case("another session");
    let run = call(&world, &component, "get", &json!({ "key": "acme", "session": "v_7" }), &["--allow", "creds"]);
    run.exits(1).says("InvalidSession").never_says("credential acme");
    case("no session at all");
    let run = world.call(&component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]);
    run.exits(1).says("InvalidSession");
    case("listing");
    for (flags, listed) in
        [(&["--allow", "creds"][..], r#"acme:Some("Acme API")"#), (&[], "acme"), (&["--deny", "creds"], "")]
    {
        let run = call(&world, &component, "list", &json!({}), flags);
        run.exits(0).prints(listed);
        assert!(!run.text().contains("spare") && (!listed.is_empty() || run.text().is_empty()), "{}", run.text());
    }
    call(&world, &component, "list", &json!({ "session": "v_7" }), &["--allow", "creds"])
        .exits(1)
        .says("InvalidSession");
    forget(&world);
}

#[test]
fn a_secret_belongs_to_a_name_and_to_what_is_declared() {
    let Some((world, component)) = vault() else { return };
    keep(&world, &component);
    let manifest = |name: &str, credentials: Value| json!({ "std": { "name": name, "version": "2", "capabilities": { "act:credentials": {} }, "credentials": credentials } });
    let acme = json!([{ "key": "acme", "fields": [{ "key": "token" }] }]);
    let other_field = json!([{ "key": "acme", "fields": [{ "key": "user" }] }]);
    for (name, manifest, code) in [
        ("an upgrade", manifest("vault", acme.clone()), 0),
        ("an upgrade without declared fields", manifest("vault", json!([{ "key": "acme" }])), 0),
        ("another field is declared", manifest("vault", other_field), 1),
        ("nothing is declared", manifest("vault", json!([])), 1),
        ("another name", manifest("vault2", acme), 1),
    ] {
        case(name);
        let packed = world.pack_manifest(Guest::Vault, &manifest);
        let run = get(&world, &packed, "acme", &["--allow", "creds"]);
        run.exits(code);
        assert_eq!(run.text().contains(SECRET), code == 0, "{}", run.text());
    }
    case("the class is not declared");
    let packed = world.pack_manifest(Guest::Vault, &json!({ "std": { "name": "vault", "version": "2" } }));
    get(&world, &packed, "acme", &["--allow", "creds"]).exits(4).says("credential acme   outside ceiling");
    forget(&world);
}

#[test]
fn a_guest_whose_own_check_is_off_is_refused_by_the_supervisor() {
    let Some(world) = World::unchecked() else { return };
    let component = world.guest(Guest::Vault);
    keep(&world, &component);
    for flags in [&["--deny", "creds"][..], &[]] {
        let run = get(&world, &component, "acme", flags);
        run.exits(4).says("⚠ host check bypassed  act:credentials  credential acme").says("Denied");
        assert!(!run.text().contains(SECRET));
    }
    case("control");
    get(&world, &component, "acme", &["--allow", "creds"]).exits(0).prints(SECRET);
    forget(&world);
}

#[test]
fn native_code_gets_no_more_than_its_component() {
    let Some(()) = require(root()) else { return };
    let Some(mut world) = World::new() else { return };
    let component = world.guest(Guest::Vault);
    keep(&world, &component);
    let other = world.pack_manifest(
        Guest::Vault,
        &json!({ "std": { "name": "vault2", "version": "1", "capabilities": { "act:credentials": {} },
            "credentials": [{ "key": "other" }] } }),
    );
    let set = ["secret", "set", other.to_str().unwrap(), "--key", "other", "--fields-stdin"];
    with_input(&world, &set, r#"{"f": "of-another"}"#).exits(0);
    world.replace_guest(Path::new(env!("CARGO_BIN_EXE_act-probe")));
    fs::write(world.programs().join("probe-mode"), "asks-for-secrets").unwrap();
    let asked = |flags: &[&str]| {
        let run = world.call(&component, "attempt", &json!({}), &[&SESSION[..], flags].concat());
        run.is_clean().exits(0).never_says(SECRET).never_says("of-another");
        run.text()
    };
    let allowed = asked(&["--allow", "creds"]);
    assert!(allowed.starts_with("own acme: [(\"token\""), "{allowed}");
    assert!(
        allowed.ends_with("own other: NotFound\nforeign acme: InvalidSession\n acme: InvalidSession\nlisted: acme"),
        "{allowed}"
    );
    for flags in [&["--deny", "creds"][..], &[]] {
        let refused = asked(flags);
        assert!(refused.starts_with("own acme: Denied\nown other: Denied\nforeign acme: InvalidSession"), "{refused}");
    }
    forget(&world);
    world.run(&["secret", "rm", "vault2"]).exits(0);
}
