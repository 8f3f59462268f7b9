//! Where things are: the source tree, the cache folder, and the names of what is kept there.

use crate::process;
use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// What another key left in the cache is removed when it was not used for this long.
const KEPT: Duration = Duration::from_hours(14 * 24);

/// The root of the source tree.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.canonicalize()?.parent().map(Path::to_path_buf).context("xtask has no parent folder")
}

/// The folder for everything that is built or fetched. It is made if it is missing.
pub(crate) fn cache() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = match absolute("XDG_CACHE_HOME") {
        Some(base) => base,
        None => absolute("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?.join(".cache"),
    };
    let cache = base.join("act-build");
    std::fs::create_dir_all(&cache).with_context(|| format!("make {}", cache.display()))?;
    Ok(cache)
}

/// The target folder: one for each compiler and set of dependencies, so that a switch of branch rebuilds nothing.
pub(crate) fn target() -> Result<PathBuf> {
    let version = process::output(Command::new("rustc").arg("--version"))?;
    let version = version.split_whitespace().nth(1).context("`rustc --version` printed no version")?;
    let lock = root()?.join("Cargo.lock");
    let lock = std::fs::read(&lock).with_context(|| format!("read {}", lock.display()))?;
    let folder = cache()?.join(format!("target-{version}-{}", key(&[&lock])));
    forget_other_tree(&folder, &["release"])?;
    Ok(folder)
}

/// The folder below [`target`] for the fuzzers, which are built with flags of their own.
pub(crate) fn fuzz_target(host: &str) -> Result<PathBuf> {
    let folder = target()?.join("fuzz");
    forget_other_tree(&folder, &["release", &format!("{host}/release")])?;
    Ok(folder)
}

/// Cargo takes what another copy of the sources left in the same target folder for up to date if these sources are
/// older. So the packages of this project are built anew when the folder was last used from another place; what they
/// depend on stays.
fn forget_other_tree(target: &Path, profiles: &[&str]) -> Result<()> {
    let (mark, root) = (target.join(".tree"), root()?);
    if std::fs::read(&mark).is_ok_and(|last| last == root.as_os_str().as_encoded_bytes()) {
        return Ok(());
    }
    let fingerprints = profiles.iter().map(|profile| target.join(profile).join(".fingerprint"));
    for entry in fingerprints.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ["act-", "xtask-", "vm-tests-"].iter().any(|ours| name.starts_with(ours)) {
            std::fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    std::fs::create_dir_all(target)?;
    std::fs::write(&mark, root.as_os_str().as_encoded_bytes()).with_context(|| format!("write {}", mark.display()))
}

/// The first 12 hex digits of the SHA-256 of the parts, each with its length before it.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    // One part is hashed as a plain file, so that `sha256sum` gives the same name.
    for part in parts {
        if parts.len() > 1 {
            hash.update((part.len() as u64).to_le_bytes());
        }
        hash.update(part);
    }
    hash.finalize().iter().take(6).fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// Removes folders beside `current` that start with `prefix` and were not changed for two weeks, and says so.
/// Marks `current` as used.
pub(crate) fn remove_old(prefix: &str, current: &Path) -> Result<()> {
    std::fs::create_dir_all(current)?;
    std::fs::write(current.join(".used"), b"")?;
    for entry in std::fs::read_dir(cache()?)? {
        let path = entry?.path();
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        if ours && path != current && is_old(&path) {
            eprintln!("removing {}: not used for 14 days", path.display());
            std::fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn is_old(folder: &Path) -> bool {
    let used = std::fs::metadata(folder.join(".used")).or_else(|_| std::fs::metadata(folder));
    let age = used.and_then(|found| found.modified()).ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > KEPT)
}

/// All files below a folder, sorted, as (path from the folder, content). Folders called `target` are left out, and
/// links are read as what they point at only if that is a file.
pub(crate) fn files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(&next).with_context(|| format!("read {}", next.display()))? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" && entry.file_name() != "__pycache__" {
                    waiting.push(path);
                }
            } else if path.is_file() {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                found.push((name, std::fs::read(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}
