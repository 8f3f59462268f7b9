//! The system calls of this crate, each behind a typed function. All of them open with `O_PATH` only.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// A directory below `dir` with no link and no `..` out of `dir` on the way (Linux 5.6).
#[doc(alias = "openat2")]
pub(crate) fn directory_beneath(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(dir, path, OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY, Mode::empty(), how)
}

/// Pin one component, a link included. `name` holds no slash.
#[doc(alias = "O_PATH")]
pub(crate) fn pin(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(dir, name, PATH, Mode::empty())
}

/// The text of a pinned symbolic link.
pub(crate) fn link_text(link: impl AsFd) -> Result<Vec<u8>, Errno> {
    readlinkat(link, "", Vec::new()).map(std::ffi::CString::into_bytes)
}

/// The type of what a descriptor names.
pub(crate) fn file_type(fd: impl AsFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// Metadata of a descriptor.
pub(crate) fn metadata(fd: impl AsFd) -> Result<Stat, Errno> {
    fstat(fd)
}

/// Metadata of one component, a link itself.
pub(crate) fn metadata_at(dir: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The text of a link `name` in `dir`.
pub(crate) fn link_text_at(dir: impl AsFd, name: &str) -> Result<Vec<u8>, Errno> {
    readlinkat(dir, name, Vec::new()).map(std::ffi::CString::into_bytes)
}
