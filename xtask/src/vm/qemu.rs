//! QEMU, installed if it is missing.

use super::debian;
use crate::process;
use crate::setup::packages;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

const PROGRAM: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// Never at the cost of a package that is here: somebody may need it.
const INSTALL: &[&str] = &["install", "-y", "--no-install-recommends", "--no-remove", PACKAGE];

/// The program's path.
pub(super) fn install() -> Result<PathBuf> {
    if let Some(program) = process::find(&[PROGRAM]) {
        return Ok(program);
    }
    if process::find(&["apt-get"]).is_none() {
        bail!("`{PROGRAM}` is missing: install QEMU with your system's package manager");
    }
    if packages::root_prefix().is_none() {
        bail!("`{PROGRAM}` is missing; run `sudo apt-get install --no-install-recommends {PACKAGE}` and start again");
    }
    eprintln!("vm-test: installing {PACKAGE}");
    packages::apt(&["update"])?;
    if let Err(first) = packages::apt(INSTALL) {
        // Parts of a newer QEMU may be here already, from Debian's backports; they refuse the older one.
        eprintln!("vm-test: trying the one of Debian's backports");
        backports().with_context(|| format!("{first}; backports do not help"))?;
    }
    process::find(&[PROGRAM]).with_context(|| format!("apt installed {PACKAGE}, but there is no `{PROGRAM}` in PATH"))
}

/// Installs it from the backports of this release. The system's package sources stay as they are: apt is told of a
/// folder that has them and one more.
fn backports() -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let name =
        release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).map(|name| name.trim_matches('"'));
    let suite = format!("{}-backports", name.context("/etc/os-release has no VERSION_CODENAME")?);
    let folder = tempfile::tempdir()?;
    for entry in std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten() {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default();
        if file.extension().is_some_and(|kind| kind == "list" || kind == "sources") {
            process::copy(&file, &folder.path().join(name))?;
        }
    }
    let source = debian::source(&debian::mirror()?, &suite);
    std::fs::write(folder.path().join(format!("{suite}.sources")), source)?;
    readable(folder.path())?;
    let sources = format!("Dir::Etc::sourceparts={}", folder.path().display());
    packages::apt(&["-o", &sources, "update"])?;
    packages::apt(&[&["-o", &sources, "-t", &suite], INSTALL].concat())
}

/// Lets apt's own user read a temporary folder.
fn readable(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}
