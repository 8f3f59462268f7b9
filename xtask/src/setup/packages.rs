//! System packages. Only what is missing is installed, and only by apt.

use super::{python, wasm};
use crate::process;
use anyhow::{Context as _, Result, bail};
use std::process::Command;

pub(crate) fn install() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let command = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    if process::find(&["apt-get"]).is_none() {
        bail!("this needs what Debian calls {}: install it with your system's package manager", missing.join(" "));
    }
    if root_prefix().is_none() {
        bail!("missing system packages; run `sudo {command}` and start again");
    }
    eprintln!("setup: installing {}", missing.join(" "));
    apt(&["update"])?;
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    apt(&arguments)?;
    match self::missing().as_slice() {
        [] => Ok(()),
        rest => bail!("apt installed {}, but it does not work here; see the output above", rest.join(" ")),
    }
}

/// Runs apt-get as root.
pub(crate) fn apt(arguments: &[&str]) -> Result<()> {
    let prefix = root_prefix().context("apt-get needs root, and sudo asks for a password")?;
    let mut words = prefix.iter().copied().chain(["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q"]);
    let mut apt = Command::new(words.next().unwrap_or("apt-get"));
    process::run(apt.args(words).args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The Debian names of what does not work yet.
fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if wasm::find().is_none() {
        if !wasm::rustc().is_some_and(|rustc| wasm::has_sources(&rustc)) {
            missing.extend(["rustc-web", "rust-web-src"]);
        }
        if wasm::linker().is_none() {
            missing.push("lld-19");
        }
    }
    if !python::works() {
        missing.extend(["python3", "python3-venv"]);
    }
    missing
}

/// The words before `apt-get` that make it run as root, if that is possible without a question.
pub(crate) fn root_prefix() -> Option<&'static [&'static str]> {
    if process::output(Command::new("id").arg("-u")).is_ok_and(|id| id == "0") {
        return Some(&[]);
    }
    process::succeeds(Command::new("sudo").args(["-n", "true"])).then_some(&["sudo", "-n"])
}
