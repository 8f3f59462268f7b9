//! The package sources of this machine, and one more beside them.

use crate::process;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// The address of the Debian mirror that this machine uses.
pub(super) fn mirror() -> Result<String> {
    if process::find(&["apt-get"]).is_none() {
        bail!("there is no apt here");
    }
    let targets = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let text = process::output(Command::new("apt-get").args(targets))?;
    let found = text.lines().map(|line| line.trim_end_matches('/')).find(|line| line.ends_with("/debian"));
    match found {
        Some(uri) => Ok(uri.to_owned()),
        None => bail!("no Debian mirror is among this machine's package sources"),
    }
}

/// A file for `sources.list.d` (sources.list(5), deb822 style) with one suite of a mirror.
pub(super) fn source(mirror: &str, suite: &str) -> String {
    let keys = ["/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"];
    // Without it apt takes the keys that it trusts for every source.
    let signed = keys.iter().find(|file| Path::new(file).is_file());
    let signed = signed.map(|file| format!("Signed-By: {file}\n")).unwrap_or_default();
    format!("Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\n{signed}")
}
