//! Starting other programs.

use anyhow::{Context as _, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a command to its end with its output shown; an exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", show(command));
    let status = command.status().with_context(|| format!("cannot start `{}`", show(command)))?;
    ensure!(status.success(), "`{}` failed: {status}", show(command));
    Ok(())
}

/// Runs a command and returns what it printed; on failure its error output is part of the message.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", show(command)))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {}\n{stderr}", show(command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// True if the command can be started and exits with 0. Nothing is shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The first of these programs that `PATH` has.
pub(crate) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()))
}

/// Cargo, with every build product in the project's cache folder and the tools of `setup` in its path.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new("cargo");
    command.current_dir(crate::project::root()?).env("CARGO_TARGET_DIR", crate::project::target()?);
    forget_package(&mut command);
    if let Some(path) = std::env::var_os("PATH") {
        let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // Last: what setup installed only fills gaps.
        folders.push(crate::setup::python::folder()?.join("venv/bin"));
        command.env("PATH", std::env::join_paths(folders)?);
    }
    Ok(command)
}

/// Takes out what the cargo that runs xtask set: the inner cargo would read our own package's settings, and build scripts
/// that look at it would run again whenever cargo is called by hand in between (ring, and minutes of what depends on it).
pub(crate) fn forget_package(command: &mut Command) {
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// The command as one would type it; a word that a shell would split is quoted.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quote).collect::<Vec<_>>().join(" ")
}

fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Copies a file and its permission bits; the error names both ends.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
