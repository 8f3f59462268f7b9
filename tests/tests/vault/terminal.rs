//! What is typed is not shown, and a terminal is left as it was.

use super::{SECRET, call, forget, store_file, vault, with_variables};
use act_tests::{case, typed};
use serde_json::json;

#[test]
fn secrets_and_passphrases_are_typed_unseen() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    let token = format!("{SECRET}\n");
    case("login asks for each field, then for a passphrase twice");
    let answers = [
        ("Token: ", token.as_str()),
        ("User name (optional): ", "somebody\n"),
        ("restart): ", "open sesame\n"),
        ("again: ", "open samese\n"),
        ("restart): ", "open sesame\n"),
        ("again: ", "open sesame\n"),
    ];
    let Some(run) = typed(&world, &["login", file, "--key", "acme"], &answers) else { return };
    assert_eq!(run.code, Some(0), "{}", run.shown);
    assert!(run.echo && run.shown.contains("acme: Acme API") && run.shown.contains("They differ."), "{}", run.shown);
    assert!(run.shown.contains("somebody"), "what is no secret is shown: {}", run.shown);
    for hidden in [SECRET, "sesame", "samese"] {
        assert!(!run.shown.contains(hidden), "{hidden}: {}", run.shown);
    }
    let get = call(&world, &component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]);
    assert_eq!(get.exits(0).text(), format!("std:fields token=\"{SECRET}\" user=\"somebody\""));

    case("the passphrase opens it for others who have it");
    let phrase = world.file("phrase", "open sesame");
    with_variables(&world, &["secret", "list"], &[("ACT_PASSPHRASE_FILE", &phrase)]).exits(0).prints("acme");

    case("set asks for the field");
    let set = ["secret", "set", file, "--key", "spare", "--field", "token"];
    let run = typed(&world, &set, &[("token: ", "another\n")]).unwrap();
    assert!(run.code == Some(0) && run.echo && !run.shown.contains("another"), "{}", run.shown);

    case("nothing typed, a closed terminal, an interruption: nothing changes");
    let before = std::fs::read(store_file(&world)).unwrap();
    for (text, code) in [("\n", 2), ("\u{4}", 2), ("half\u{3}", 5)] {
        let run = typed(&world, &set, &[("token: ", text)]).unwrap();
        assert_eq!(run.code, Some(code), "{text:?}: {}", run.shown);
        assert!(run.echo && !run.shown.contains("half"), "{}", run.shown);
    }
    assert_eq!(std::fs::read(store_file(&world)).unwrap(), before);
    forget(&world);
}
