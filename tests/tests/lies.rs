//! A guest that was taken over before it started: it lies about its confinement, or breaks the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Probe, case};
use std::time::Duration;

/// The mode of the probe, the exit code, and what the error says.
const LIES: &[(&str, i32, &str)] = &[
    ("", 0, ""),
    ("no-seccomp", 1, "the guest is not confined as it should be: Seccomp is 0, not 2 (filter)"),
    ("keeps-a-file", 1, "is /etc/passwd"),
    ("garbage", 1, "not a message of this version"),
    ("oversized", 1, "a message of more than"),
    ("dies", 1, "it ended with exit code 1"),
    ("speaks-first", 1, "a message that nobody asked for"),
    ("garbage-in-a-call", 1, "the guest broke the protocol"),
    ("oversized-in-a-call", 1, "a message of more than"),
    ("another-call", 1, "a message that nobody asked for"),
    ("endless-output", 1, "bytes of output"),
    ("long-name", 1, "a look-up out of bounds"),
    ("odd-scheme", 1, "a look-up out of bounds"),
    ("roots-twice", 1, "the certificates were asked for twice"),
    ("sends-a-descriptor", 0, ""),
    ("closes-and-sleeps", 1, "the guest did not start: process: it closed the channel and did not end"),
    ("closes-and-sleeps-in-a-call", 1, "the guest broke the protocol: it closed the channel and did not end"),
    ("empty-packets-in-a-call", 1, "not a message of this version"),
    ("endless-metadata", 1, "bytes of output"),
    ("metadata-without-bound", 1, "not a message of this version"),
    ("long-path", 1, "a request out of bounds"),
    ("long-key", 1, "a request out of bounds"),
    ("garbage-to-the-broker", 1, "the guest broke the protocol: not a message of this version"),
    ("oversized-to-the-broker", 1, "the guest broke the protocol: a message of more than"),
    ("descriptor-to-the-broker", 1, "the guest broke the protocol: a descriptor with a question about files"),
];

#[test]
fn a_child_that_lies_or_breaks_the_protocol_is_refused() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    for (mode, code, message) in LIES {
        case(mode);
        probe.mode(mode);
        let run = probe.call(&["prctl"], &["--allow", "fs={D}/data"]);
        if *code == 0 {
            run.is_clean().exits(0);
        } else {
            run.one_error(*code, message);
        }
        assert!(run.took < Duration::from_secs(30), "{:?}", run.took);
    }
}

#[test]
fn a_child_that_says_nothing_is_given_up() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    probe.mode("silent");
    let run = probe.call(&["prctl"], &[]);
    run.one_error(1, "the channel to the guest: no message in time");
    assert!(run.took < Duration::from_secs(45), "{:?}", run.took);
}

/// What the guest says of rules counts for nothing: the policy explains itself.
#[test]
fn a_refusal_that_no_rule_made_names_none() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    probe.mode("false-rule");
    let run = probe.call(&["prctl"], &["--allow", "fs={D}/data", "--deny", "fs={D}/other"]);
    run.is_clean().exits(0).says("✗ deny  wasi:filesystem  read /").never_says("denied by");
}
