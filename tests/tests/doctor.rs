//! `act doctor`: what it says has to be what a run shows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Running, World, case, setpriv};
use serde_json::json;

const LAYERS: [&str; 6] = ["programs", "landlock", "seccomp", "ebpf", "cgroup", "limits"];

#[test]
fn every_layer_is_named_once_and_agrees_with_a_run() {
    let Some(world) = World::new() else { return };
    let doctor = world.run(&["doctor"]);
    doctor.is_clean();
    let text = doctor.text();
    let complete = text.contains("--hardened works here.");
    doctor.exits(if complete { 0 } else { 3 });
    for layer in LAYERS {
        let lines = text.lines().filter(|l| l.split_whitespace().nth(1) == Some(layer)).count();
        assert_eq!(lines, 1, "{layer}\n{text}");
    }
    for (at, line) in text.lines().enumerate().filter(|(_, l)| l.starts_with('✗') || l.starts_with('–')) {
        assert!(
            text.lines().nth(at + 1).is_some_and(|next| next.trim_start().starts_with("fix: ")),
            "no fix for: {line}"
        );
    }
    assert!(doctor.err.is_empty(), "{}", doctor.err);
    case("a run with --hardened agrees");
    world.file("a.txt", "text of a");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    let flags = ["--allow", "fs", "--hardened"];
    let run = world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &flags);
    run.exits(if complete { 0 } else { 3 });
    assert_eq!(std::fs::read_dir(&world.dir).unwrap().count(), 1, "doctor wrote something");
}

#[test]
fn a_missing_layer_has_a_fix() {
    let Some(setpriv) = setpriv() else { return };
    let Some(world) = World::new() else { return };
    let mut command = world.command(&setpriv);
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(world.programs().join("act")).arg("doctor");
    let run = Running::start(&mut command).finish();
    run.is_clean().exits(3).prints("✗ ebpf").prints("fix: ").prints("--hardened does not work here (exit code 3)");
}

#[test]
fn programs_that_are_missing() {
    let Some(world) = World::new() else { return };
    let alone = world.path("act");
    std::fs::copy(world.programs().join("act"), &alone).unwrap();
    let run = Running::start(world.command(&alone).arg("doctor")).finish();
    run.is_clean().exits(3).prints("✗ programs").prints("act-guest");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    let run = Running::start(world.command(&alone).arg("call").arg(&component).args(["preopens"])).finish();
    run.one_error(1, "install the programs of act together");
}
