//! `cargo xtask lint`: what a reader should not have to check.

use crate::{process, project, setup};
use anyhow::Result;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run clippy on the WebAssembly runtime too; its dependencies take some minutes the first time
    #[arg(long)]
    all: bool,
}

/// Packages that plain cargo leaves out, see the root Cargo.toml.
const RUNTIME: &[&str] = &["act-engine", "act-host", "act-guest", "act-compile"];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let root = project::root()?;
    for workspace in [".", "ebpf", "tests/guests", "policy/fuzz", "policy/bench"] {
        let manifest = root.join(workspace).join("Cargo.toml");
        process::run(process::cargo()?.args(["fmt", "--all", "--check", "--manifest-path"]).arg(manifest))?;
    }
    // The release profile, because its build scripts and macros are needed for the tests anyway.
    let clippy = ["clippy", "--release", "--locked", "--all-targets"];
    let strict = ["--", "-D", "warnings"];
    process::run(process::cargo()?.args(clippy).args(["--features", "vm-tests/vm"]).args(strict))?;
    // Its own workspace, without dependencies that the tests do not need.
    let fuzz = ["--manifest-path", "policy/fuzz/Cargo.toml"];
    process::run(process::cargo()?.args(clippy).args(fuzz).args(strict))?;
    if arguments.all {
        // With cedar-policy.
        let bench = ["--manifest-path", "policy/bench/Cargo.toml"];
        process::run(process::cargo()?.args(clippy).args(bench).args(strict))?;
        // One by one, as they are built: together, cargo would merge their features.
        for package in RUNTIME {
            process::run(process::cargo()?.args(clippy).args(["-p", package]).args(strict))?;
        }
    }
    setup::python::install()?;
    process::run(process::cargo()?.args(["fetch", "--locked"]))?;
    // Not `advisories`: its database is no package and cannot be had everywhere.
    process::run(process::cargo()?.args(["deny", "--offline", "--locked", "check", "licenses", "bans", "sources"]))?;
    eprintln!("lint: ok");
    Ok(())
}
