//! Sessions, semantic classes and credentials of a real component, and the store of secrets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod consent;
mod credentials;
mod mcp;
mod sessions;
mod store;
mod terminal;

use act_tests::{Guest, Run, Running, World};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A value that must never be seen but by the component.
const SECRET: &str = "t0k3n-5f3a";
/// The session that most calls belong to.
const SESSION: [&str; 2] = ["--session-args", r#"{"name":"x"}"#];

/// A world, and the fixture as it was built.
fn vault() -> Option<(World, PathBuf)> {
    let world = World::new()?;
    let component = world.guest(Guest::Vault);
    Some((world, component))
}

/// `act` with these arguments and this on its standard input.
fn with_input(world: &World, arguments: &[&str], input: &str) -> Run {
    let mut act = world.act();
    act.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = act.spawn().unwrap();
    // A program that refuses its arguments reads nothing.
    let written = child.stdin.take().unwrap().write_all(input.as_bytes());
    assert!(written.is_ok() || written.is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe));
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Run { code: output.status.code(), out: output.stdout, err, took: std::time::Duration::ZERO }
}

/// Keep [`SECRET`] as the token of `acme`.
#[track_caller]
fn keep(world: &World, component: &Path) {
    let arguments =
        ["secret", "set", component.to_str().unwrap(), "--key", "acme", "--field", "token", "--fields-stdin"];
    let input = format!(r#"{{"token": "{SECRET}"}}"#);
    with_input(world, &arguments, &input).exits(0).never_says(SECRET).says("1 field kept for vault");
}

/// Remove what is kept, and the key in the kernel's keyring with it.
fn forget(world: &World) {
    world.run(&["secret", "rm", "vault"]);
}

/// A call in a session.
fn call(world: &World, component: &Path, tool: &str, arguments: &Value, flags: &[&str]) -> Run {
    world.call(component, tool, arguments, &[&SESSION[..], flags].concat())
}

/// The file of the store.
fn store_file(world: &World) -> PathBuf {
    world.home.join(".local/share/act/secrets.db")
}

/// `act` to its end, with variables set.
fn with_variables(world: &World, arguments: &[&str], variables: &[(&str, &Path)]) -> Run {
    let mut act = world.act();
    act.args(arguments).envs(variables.iter().copied());
    Running::start(&mut act).finish()
}
