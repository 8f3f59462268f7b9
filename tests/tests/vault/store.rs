//! `act secret`, and a store that is not as it should be.

use super::{SECRET, call, forget, keep, store_file, vault, with_input, with_variables};
use act_tests::{case, process};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

#[test]
fn secrets_are_set_listed_and_removed() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    let list = || serde_json::from_str::<Value>(&world.run(&["secret", "list"]).exits(0).text()).unwrap();
    case("an empty store is not made");
    assert_eq!(list(), json!({}));
    world.run(&["secret", "rm", "vault"]).one_error(1, "nothing is kept for vault");
    assert!(!world.home.join(".local").exists());
    case("set");
    keep(&world, &component);
    assert_eq!(fs::metadata(store_file(&world)).unwrap().permissions().mode() & 0o777, 0o600);
    let command = ["sh", "-c", "echo \"$0\"; echo told >&2", "from-a-command"];
    let set = [&["secret", "set", file, "--key", "acme", "--field", "user", "--from-command"][..], &command].concat();
    world.run(&set).exits(0).says("told");
    assert_eq!(list(), json!({ "vault": { "acme": ["token", "user"] } }));
    let run = call(&world, &component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]);
    assert_eq!(run.exits(0).text(), format!("std:fields token=\"{SECRET}\" user=\"from-a-command\""));
    case("a later value replaces");
    with_input(&world, &["secret", "set", file, "--key", "acme", "--fields-stdin"], r#"{"user": "u2"}"#).exits(0);
    call(&world, &component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]).exits(0).prints("user=\"u2\"");
    case("remove");
    world.run(&["secret", "rm", file, "--key", "acme", "--field", "user"]).exits(0);
    world.run(&["secret", "rm", file, "--key", "acme", "--field", "user"]).one_error(1, "vault acme user");
    assert_eq!(list(), json!({ "vault": { "acme": ["token"] } }));
    world.run(&["secret", "rm", "vault"]).exits(0);
    assert_eq!(list(), json!({}));
    assert!(!store_file(&world).exists());
}

#[test]
fn input_that_is_wrong_changes_nothing_and_is_not_repeated() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    let set = |flags: &[&str], input: &str| {
        let run = with_input(&world, &[&["secret", "set", file][..], flags].concat(), input);
        assert!(!store_file(&world).exists(), "{}", run.err);
        run.never_says(SECRET);
        run
    };
    let object = format!(r#"{{"token": "{SECRET}"}}"#);
    let stdin = &["--key", "acme", "--fields-stdin"][..];
    for (name, input, message) in [
        ("not JSON", format!("{SECRET}\n"), "not JSON at line 1"),
        ("a bare string", format!("\"{SECRET}\""), "expected a JSON object"),
        ("nothing", String::new(), "not JSON"),
        ("no fields", "{}".into(), "no fields"),
        ("a list", format!(r#"{{"token": ["{SECRET}"]}}"#), "acme token: expected a string"),
        ("empty", r#"{"token": ""}"#.into(), "the value is empty"),
        ("an unknown field", format!(r#"{{"tokn": "{SECRET}"}}"#), "no such field (declared: token, user)"),
        ("cut short", format!(r#"{{"token": "{SECRET}"#), "not JSON"),
    ] {
        case(name);
        set(stdin, &input).one_error(2, message);
    }
    for (name, flags, code, message) in [
        ("an unknown key", &["--key", "acne", "--fields-stdin"][..], 2, "(declared: acme, spare)"),
        ("an unknown field", &["--key", "acme", "--field", "f", "--fields-stdin"], 2, "(declared: token, user)"),
        ("another field", &["--key", "acme", "--field", "user", "--fields-stdin"], 2, "no field `user` in the object"),
        ("nowhere to type", &["--key", "acme"], 2, "--fields-stdin or --from-command"),
        ("which field", &["--key", "acme", "--from-command", "true"], 2, "--field"),
        ("no such command", &["--key", "spare", "--from-command", "/none"], 1, "--from-command /none: "),
        ("a command that fails", &["--key", "spare", "--from-command", "false"], 1, "nothing was changed"),
        ("a command that says nothing", &["--key", "spare", "--from-command", "true"], 1, "printed nothing"),
    ] {
        case(name);
        set(flags, &object).one_error(code, message);
    }
    world.run(&["secret", "set", file, "--key", "acme", "--fields-stdin", "--from-command", "true"]).exits(2);
    world.run(&["login", file]).one_error(2, "no terminal");
    case("control");
    keep(&world, &component);
    forget(&world);
}

#[test]
fn a_damaged_store_is_told_and_left_as_it_is() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    keep(&world, &component);
    let path = store_file(&world);
    let good = fs::read(&path).unwrap();
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    for (name, bytes, mode) in [
        ("a changed byte", &changed[..], 0o600),
        ("cut short", &good[..good.len() - 9], 0o600),
        ("empty", b"", 0o600),
        ("of another program", b"SQLite format 3\0", 0o600),
        ("readable by others", &good, 0o644),
    ] {
        case(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        world.run(&["secret", "list"]).one_error(1, "secrets.db");
        world.run(&["secret", "rm", "vault"]).one_error(1, "secrets.db");
        let set = ["secret", "set", file, "--key", "acme", "--fields-stdin"];
        with_input(&world, &set, r#"{"token": "new"}"#).one_error(1, "move it away");
        let run = call(&world, &component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]);
        run.is_clean().exits(1).says("⚠ credentials cannot be read: ").says("Unavailable").never_says(SECRET);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        case("a call that reads no secret goes on");
        call(&world, &component, "session", &json!({}), &["--allow", "creds"]).exits(0).prints("v_0 x");
    }
    case("control: as it was");
    fs::write(&path, &good).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    call(&world, &component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]).exits(0).prints(SECRET);
    forget(&world);
}

#[test]
fn a_passphrase_file_opens_the_store() {
    let Some((world, component)) = vault() else { return };
    let (file, phrase, wrong) =
        (component.to_str().unwrap(), world.file("phrase", "open sesame\n"), world.file("wrong", "x"));
    let variable = |path: &Path| [("ACT_PASSPHRASE_FILE", path.to_owned())];
    let run = |arguments: &[&str], path: &Path| {
        let variables = variable(path);
        let variables: Vec<(&str, &Path)> = variables.iter().map(|(name, path)| (*name, path.as_path())).collect();
        with_variables(&world, arguments, &variables)
    };
    let printf = format!("printf {SECRET}");
    let set = ["secret", "set", file, "--key", "acme", "--field", "token", "--from-command", "sh", "-c", &printf];
    run(&set, &phrase).exits(0).never_says("until a restart");
    let get =
        ["call", file, "get", "--args", r#"{"key":"acme"}"#, "--session-args", r#"{"name":"x"}"#, "--allow", "creds"];
    case("with it");
    run(&get, &phrase).exits(0).prints(SECRET).never_says("sesame");
    case("without it");
    world
        .run(&get)
        .exits(1)
        .says("is locked: name a file that holds its passphrase in ACT_PASSPHRASE_FILE")
        .says("Unavailable");
    world.run(&["secret", "list"]).one_error(1, "is locked");
    case("with another");
    run(&get, &wrong).exits(1).says("the passphrase in ACT_PASSPHRASE_FILE does not open it");
    run(&["secret", "list"], &world.file("empty", "")).one_error(2, "it is empty");
    run(&["secret", "list"], Path::new("/nonexistent")).one_error(2, "ACT_PASSPHRASE_FILE: /nonexistent: ");
    case("a store without a passphrase gets one");
    run(&["secret", "rm", "vault"], &phrase).exits(0);
    keep(&world, &component);
    with_variables(&world, &set, &[("ACT_PASSPHRASE_FILE", &phrase)]).exits(0);
    run(&get, &phrase).exits(0).prints(SECRET);
    forget(&world);
}

#[test]
fn a_secret_is_not_in_the_surroundings_of_a_process() {
    let Some((world, component)) = vault() else { return };
    keep(&world, &component);
    let mut client =
        act_tests::Client::start(&world, &component, &["--allow", "creds", "--session-args", r#"{"name":"x"}"#]);
    let answer = client.call("get", json!({ "key": "acme" }), None);
    assert!(answer.to_string().contains(SECRET), "{answer}");
    let guests = process::children(client.pid(), "act-guest");
    assert_eq!(guests.len(), 1);
    for pid in [client.pid(), guests[0]] {
        for name in ["environ", "cmdline"] {
            let text = fs::read(format!("/proc/{pid}/{name}")).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(SECRET), "{pid} {name}");
        }
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let open: Vec<_> = files.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect();
        assert!(!open.iter().any(|path| path.ends_with("secrets.db")), "{pid}: {open:?}");
    }
    let run = client.finish();
    run.exits(0).never_says(SECRET).says("✓ allow  act:credentials  credential acme");
    forget(&world);
}
