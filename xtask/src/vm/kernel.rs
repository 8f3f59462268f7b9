//! Kernels: Debian's for cloud machines, found by their line.
//!
//! apt works with sources, lists and a package state of its own, below the cache folder: nothing of the system changes and
//! no root is needed. Exact versions disappear from the archive, so the newest of a line is taken, and its name recorded.

use super::debian;
use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The suites with kernels of long support. All other lines come and go in the backports.
const SUITES: &[(&str, &str)] = &[("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie")];
const BACKPORTS: &str = "trixie-backports";
/// The flavour: small, and all that the machine needs is built in.
const FLAVOUR: &str = "-cloud-amd64";

/// A kernel to boot.
pub(super) struct Kernel {
    /// What the summary calls it.
    pub(super) name: String,
    /// Where it comes from.
    pub(super) origin: String,
    /// The image.
    pub(super) image: PathBuf,
}

impl Kernel {
    /// A file that the user has.
    pub(super) fn from_file(file: &Path) -> Result<Self> {
        let image = file.canonicalize().with_context(|| format!("--kernel {}", file.display()))?;
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, origin: "given".into(), image })
    }
}

/// Checks that a line is two numbers with a dot between.
pub(super) fn parse_line(text: &str) -> Result<String, String> {
    let number = |part: &str| !part.is_empty() && part.len() < 4 && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        Some((major, minor)) if number(major) && number(minor) => Ok(text.to_owned()),
        _ => Err("expected a line of kernels, such as 6.12".into()),
    }
}

/// The newest kernel of a line, from the cache if it was fetched before.
pub(super) fn fetch(line: &str) -> Result<Kernel> {
    let folder = project::cache()?.join("vm").join(format!("kernel-{line}"));
    let (image, record) = (folder.join("vmlinuz"), folder.join("package"));
    if !record.is_file() {
        download(line, &folder).with_context(|| {
            format!("no kernel {line}; `cargo xtask vm-test --kernel FILE` takes a bzImage from elsewhere")
        })?;
    }
    let origin = fs::read_to_string(&record).with_context(|| format!("read {}", record.display()))?;
    Ok(Kernel { name: line.to_owned(), origin: origin.trim_end().to_owned(), image })
}

fn download(line: &str, folder: &Path) -> Result<()> {
    let suite = SUITES.iter().find(|(of, _)| *of == line).map_or(BACKPORTS, |(_, suite)| suite);
    let apt = Apt::open(suite)?;
    let names = apt.names(line)?;
    let package = newest(&names).with_context(|| format!("{suite} has no package linux-image-{line}*{FLAVOUR}"))?;
    eprintln!("vm-test: fetching {package} from {suite}");
    let work = tempfile::tempdir_in(apt.state.path())?;
    process::output(apt.command("apt-get").args(["-q", "download", package]).current_dir(work.path()))?;
    let deb = only_file(work.path())?;
    let root = work.path().join("root");
    process::output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&root))?;
    let image = image(&root)?.with_context(|| format!("{package} has no vmlinuz"))?;

    // Renamed in the end, so that an interrupted run leaves no half kernel under the real name.
    let ready = work.path().join("ready");
    fs::create_dir(&ready)?;
    fs::rename(&image, ready.join("vmlinuz"))?;
    fs::write(ready.join("package"), format!("{}\n", deb.file_stem().unwrap_or_default().to_string_lossy()))?;
    if fs::rename(&ready, folder).is_err() {
        // Another run was faster.
        ensure!(folder.join("package").is_file(), "cannot move the kernel to {}: remove that folder", folder.display());
    }
    Ok(())
}

/// apt with one suite, and nothing of the system but its keys. What it fetched goes with it.
struct Apt {
    state: TempDir,
}

impl Apt {
    fn open(suite: &str) -> Result<Self> {
        let mirror = debian::mirror()?;
        let base = project::cache()?.join("vm");
        fs::create_dir_all(&base).with_context(|| format!("make {}", base.display()))?;
        let state = tempfile::Builder::new().prefix("apt-").tempdir_in(&base)?;
        for folder in ["lists/partial", "archives/partial", "sources"] {
            fs::create_dir_all(state.path().join(folder))?;
        }
        fs::write(state.path().join("status"), "")?;
        fs::write(state.path().join("sources/suite.sources"), debian::source(&mirror, suite))?;
        let apt = Self { state };
        process::output(apt.command("apt-get").args(["-q", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        let folder = self.state.path().display();
        let of_ours = [
            ("Dir::State", ""),
            ("Dir::State::lists", "/lists"),
            ("Dir::State::status", "/status"),
            ("Dir::Cache", ""),
            ("Dir::Cache::archives", "/archives"),
            ("Dir::Etc::sourceparts", "/sources"),
        ];
        for (key, below) in of_ours {
            apt.arg(format!("-o{key}={folder}{below}"));
        }
        for option in [
            "Dir::Etc::sourcelist=/dev/null",
            "Dir::Etc::preferences=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            // Images for containers switch these off, and then every call reads all lists again.
            "Dir::Cache::pkgcache=packages.bin",
            "Dir::Cache::srcpkgcache=sources.bin",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "APT::Architecture=amd64",
            "APT::Architectures=amd64",
            "APT::Sandbox::User=root",
        ] {
            apt.arg(format!("-o{option}"));
        }
        apt.env("LC_ALL", "C");
        apt
    }

    /// The packages that may hold an image of this line.
    fn names(&self, line: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        // From 6.19 on `linux-image-*` is empty, and `linux-binary-*` has the image.
        for kind in ["linux-binary", "linux-image"] {
            // The dot keeps 6.1 from meaning 6.12.
            let prefix = format!("{kind}-{line}.");
            let text = process::output(self.command("apt-cache").args(["pkgnames", &prefix]))?;
            names.extend(text.lines().filter(|name| name.ends_with(FLAVOUR)).map(str::to_owned));
            if !names.is_empty() {
                break;
            }
        }
        Ok(names)
    }
}

/// The name with the highest numbers.
fn newest(names: &[String]) -> Option<&String> {
    let numbers = |name: &String| -> Vec<u64> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    names.iter().max_by_key(|name| numbers(name))
}

/// The one file that a download left.
fn only_file(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => bail!("apt left {} files in {}, one was expected", files.len(), folder.display()),
    }
}

/// The image in an unpacked package: `/boot/vmlinuz-VERSION`, or `/usr/lib/modules/VERSION/vmlinuz` in newer ones.
fn image(root: &Path) -> Result<Option<PathBuf>> {
    let mut waiting = vec![root.join("boot")];
    let modules = root.join("usr/lib/modules");
    if modules.is_dir() {
        for entry in fs::read_dir(&modules)? {
            waiting.push(entry?.path());
        }
    }
    for folder in waiting.into_iter().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("vmlinuz") && entry.file_type()?.is_file() {
                return Ok(Some(entry.path()));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{newest, parse_line};

    #[test]
    fn lines_are_two_numbers() {
        for good in ["5.10", "6.1", "7.3"] {
            assert_eq!(parse_line(good).as_deref(), Ok(good));
        }
        for bad in ["", "6", "6.", ".1", "6.1.2", "6.x", "../6.1", "6.1234"] {
            assert!(parse_line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_newest_is_found_by_number() {
        let names = ["linux-image-6.12.9+deb13-x", "linux-image-6.12.118+deb13-x", "linux-image-6.12.48+deb13-x"];
        let names = names.map(str::to_owned);
        assert_eq!(newest(&names), Some(&names[1]));
        assert_eq!(newest(&[]), None);
    }
}
