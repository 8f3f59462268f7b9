//! Each exit code, reached by the built program.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Running, World, case, process, setpriv};
use rustix::process::Signal;
use serde_json::json;
use std::time::Duration;

#[test]
fn every_code_is_reached() {
    let Some(world) = World::new() else { return };
    world.file("a.txt", "text of a");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    let path = |name: &str| json!({ "path": format!("{{D}}/{name}") });
    let allow = ["--allow", "fs={D}/**:ro"];

    case("0: a call that went well");
    world.call(&component, "read_file", &path("a.txt"), &allow).exits(0).prints("text of a");
    case("0: help and version");
    world.run(&["--help"]).exits(0).prints("act");
    world.run(&["--version"]).exits(0).prints("act ");
    case("1: a tool that failed by itself");
    world.call(&component, "read_file", &path("none"), &allow).exits(1).says("no-entry");
    case("1: a component that is not there");
    world.run(&["info", "{D}/none.wasm"]).one_error(1, "none.wasm");
    case("2: usage and configuration");
    world.run(&["call"]).exits(2);
    world.run(&["no-such-command"]).exits(2);
    world.call(&component, "read_file", &path("a.txt"), &["--allow", "fs="]).one_error(2, "--allow 'fs='");
    case("4: a denied operation, and one that nobody could be asked about");
    world.call(&component, "write_file", &json!({ "path": "{D}/a.txt", "text": "x" }), &allow).exits(4);
    world.call(&component, "read_file", &path("a.txt"), &[]).exits(4).says("? ask-deny");
    case("6: a call that ran out of time");
    world.call(&component, "spin", &json!({}), &["--timeout", "300ms"]).exits(6);
    case("5: a signal");
    let act = Running::start(&mut world.call_command(&component, "spin", &json!({}), &[]));
    process::spinning_guest(act.pid());
    process::signal(act.pid(), Signal::INT);
    act.finish_within(Duration::from_secs(2)).exits(5);
}

#[test]
fn a_missing_layer() {
    let Some(setpriv) = setpriv() else { return };
    let Some(world) = World::new() else { return };
    world.file("a.txt", "text of a");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    let call = |flags: &[&str]| {
        let mut command = world.command(&setpriv);
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(world.programs().join("act")).arg("call");
        command.arg(&component).args(["read_file", "--args", &world.fill(r#"{"path":"{D}/a.txt"}"#), "--allow", "fs"]);
        Running::start(command.args(flags)).finish()
    };
    for flags in [&["--hardened"][..], &["--isolation", "required"]] {
        case(&format!("3: {flags:?}"));
        let run = call(flags);
        // The cgroup, where the folder for them is not there yet; else the kernel programs.
        run.one_error(3, "isolation is required and a layer is missing: ").says("ermi").says("(see: act doctor)");
        assert!(run.out.is_empty());
    }
    case("0: the same run goes on, and says what is missing");
    let run = call(&[]);
    run.is_clean().exits(0).prints("text of a").says("audit: ⚠ degraded: no ebpf: ");
    run.says("ebpf=off");
    case("0: with all layers");
    let run = world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs", "--hardened"]);
    run.exits(0).never_says("degraded");
}
