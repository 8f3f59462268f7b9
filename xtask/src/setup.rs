//! `cargo xtask setup`: installs what building and testing needs and the machine lacks.

pub(crate) mod nextest;
pub(crate) mod packages;
pub(crate) mod python;
pub(crate) mod wasm;

use anyhow::Result;

pub(crate) fn run() -> Result<()> {
    packages::install()?;
    let python = python::install()?;
    nextest::install()?;
    eprintln!("setup: ok (wasm compiler, Python tools in {}, cargo-nextest)", python.display());
    Ok(())
}
