//! `cargo xtask miri`: the policy crate's tests in Miri, which finds undefined behaviour in whatever the crate depends on;
//! its own code has no unsafe. Tests over random inputs are left out: Miri is some hundred times slower than the machine.

use crate::{process, project};
use anyhow::{Result, bail, ensure};
use std::process::Command;

/// Miri is a component of nightly compilers only.
const TOOLCHAIN: &str = "nightly";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Further arguments for `cargo miri test`
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    install()?;
    let mut cargo = Command::new("rustup");
    cargo.args(["run", TOOLCHAIN, "cargo", "miri", "test", "--locked", "-p", "act-policy"]).args(&arguments.rest);
    cargo.current_dir(project::root()?).env("CARGO_TARGET_DIR", project::cache()?.join("miri"));
    // What the running cargo set would lead the other one to this one's compiler.
    process::forget_package(&mut cargo);
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "ACT_BIN_DIR"] {
        cargo.env_remove(name);
    }
    // The tests read the current folder and the environment.
    process::run(cargo.env("MIRIFLAGS", "-Zmiri-disable-isolation"))
}

/// Installs the component, where rustup is there to do it.
fn install() -> Result<()> {
    let has = || process::succeeds(Command::new("rustup").args(["run", TOOLCHAIN, "cargo", "miri", "--version"]));
    if has() {
        return Ok(());
    }
    if process::find(&["rustup"]).is_none() {
        bail!("Miri cannot be had here: it is a component of nightly compilers, and there is no rustup to install one");
    }
    let components = ["--component", "miri", "--component", "rust-src"];
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", TOOLCHAIN, "--profile", "minimal", "--no-self-update"]).args(components);
    process::run(&mut rustup)?;
    ensure!(has(), "rustup installed Miri, but `cargo miri` does not start");
    Ok(())
}
