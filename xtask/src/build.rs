//! `cargo xtask build`: the three programs in one folder.

use crate::{process, project};
use anyhow::{Context as _, Result};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Also build the test-only programs whose host checks are switched off, in a folder of their own
    #[arg(long)]
    unchecked: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("{}", programs()?.display());
    if arguments.unchecked {
        println!("{}", unchecked()?.display());
    }
    Ok(())
}

/// Builds `act`, `act-guest` and `act-compile` and returns their folder.
///
/// One cargo call each: in one call cargo would merge the features of the guest and of the compile worker, and the
/// guest would contain the compiler.
pub(crate) fn programs() -> Result<PathBuf> {
    let target = project::target()?;
    project::remove_old("target-", &target)?;
    for package in ["act-guest", "act-compile", "act-supervisor"] {
        process::run(process::cargo()?.args(["build", "--release", "--locked", "-p", package]))?;
    }
    Ok(target.join("release"))
}

/// A copy of the programs in which the guest makes no check of its own, so that a test can see the layers below it
/// refuse. Call it after [`programs`].
pub(crate) fn unchecked() -> Result<PathBuf> {
    const GUEST: &str = "act-guest-unchecked";
    let target = project::target()?;
    let build = ["build", "--release", "--locked", "-p", "act-guest", "--features", "unchecked", "--bin", GUEST];
    process::run(process::cargo()?.args(build))?;
    let folder = target.join("unchecked");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for (from, to) in [("act", "act"), ("act-compile", "act-compile"), (GUEST, "act-guest")] {
        // By a rename: a program that is running cannot be written over.
        let new = folder.join(format!("{to}.new"));
        process::copy(&target.join("release").join(from), &new)?;
        std::fs::rename(&new, folder.join(to))?;
    }
    Ok(folder)
}
