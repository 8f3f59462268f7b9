//! Folders of ours that nobody else may write to.

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Open (or make) a folder that belongs to this user alone. A link, or a folder that others may write, is refused.
pub(crate) fn make(path: &Path) -> Result<OwnedFd, String> {
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|e| format!("{}: {e}", shown(path)))?;
    open(path)?.ok_or_else(|| format!("{}: it vanished", shown(path)))
}

/// The same for a folder that may be missing; then it is not made.
pub(crate) fn open(path: &Path) -> Result<Option<OwnedFd>, String> {
    let shown = shown(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => return Err(format!("{shown} is a link or no folder")),
        Err(e) => return Err(format!("{shown}: {e}")),
    };
    let stat = fstat(&folder).map_err(|e| format!("{shown}: {e}"))?;
    let mine = stat.st_uid == rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory || !mine || stat.st_mode & 0o022 != 0 {
        return Err(format!("{shown} does not belong to this user alone (chmod go-w, or move it away)"));
    }
    Ok(Some(folder))
}

fn shown(path: &Path) -> String {
    act_policy::escape(&path.display().to_string())
}
