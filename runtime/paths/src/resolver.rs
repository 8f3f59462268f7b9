//! The entry point: what is held for the time of a process, and the fast path.

use crate::components::{Origin, Pending, join, wants_directory};
use crate::resolve::{Follow, ResolveError, Resolved};
use crate::walk::Walk;
use crate::{PATH_MAX, sys};
use rustix::fs::{CWD, FileType, Mode, OFlags, open, openat};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Why no resolver could be made.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// The root directory could not be opened.
    #[error("open `/`")]
    Root(#[source] Errno),
    /// `/proc/self/fd` could not be opened: without it no path can be read back from a descriptor.
    #[error("open `/proc/self/fd` (is proc mounted?)")]
    Proc(#[source] Errno),
}

/// Resolves guest paths; holds `/` and `/proc/self/fd`, so make it before a process locks itself down.
///
/// Neither reading a link of `/proc/self/fd` nor `O_PATH` is subject to Landlock (Linux 5.13 to 6.18), and a process
/// may always read its own; so the resolver works as before inside a Landlock domain without file rights.
#[derive(Debug)]
pub struct Resolver {
    root: OwnedFd,
    descriptors: OwnedFd,
}

impl Resolver {
    /// Open `/` and `/proc/self/fd`.
    pub fn new() -> Result<Self, PathsError> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open("/", directory, Mode::empty()).map_err(PathsError::Root)?;
        let descriptors = openat(CWD, "/proc/self/fd", directory, Mode::empty()).map_err(PathsError::Proc)?;
        Ok(Self { root, descriptors })
    }

    /// The absolute host path of an open directory, as the kernel tells it now. `ENOENT` if it was removed.
    pub fn path_of(&self, fd: BorrowedFd<'_>) -> Result<Vec<u8>, Errno> {
        let path = sys::link_text_at(&self.descriptors, &fd.as_raw_fd().to_string())?;
        // A removed directory reads as `/path (deleted)`, which can also be a name.
        if !path.starts_with(b"/") || sys::metadata(fd)?.st_nlink == 0 {
            return Err(Errno::NOENT);
        }
        Ok(path)
    }

    /// The root directory, held without the right to list.
    pub fn root(&self) -> Result<OwnedFd, Errno> {
        self.root.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
    }

    /// Open for real what an `O_PATH` descriptor has pinned. Nothing can be swapped in between.
    pub fn reopen(&self, pinned: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags.difference(OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL) | OFlags::CLOEXEC;
        openat(&self.descriptors, pinned.as_raw_fd().to_string(), flags, Mode::empty())
    }

    /// Resolve `path` below `dir`, which the guest holds. Slashes at its start are ignored where `dir` is `/` and
    /// refused (`EPERM`) elsewhere.
    pub fn resolve(&self, dir: BorrowedFd<'_>, path: &[u8], follow: Follow) -> Result<Resolved, ResolveError> {
        let base = self.path_of(dir).map_err(|errno| unknown(errno, path))?;
        // The place that the guest spoke of, as far as it is looked at: what is refused by its text is judged by it, too.
        let text = without_leading_slashes(path.get(..PATH_MAX).unwrap_or(path));
        let refuse = |errno| ResolveError { errno, reached: join(&base, text) };
        if path.is_empty() {
            return Err(refuse(Errno::NOENT));
        }
        if path.len() > PATH_MAX {
            return Err(refuse(Errno::NAMETOOLONG));
        }
        if path.contains(&0) {
            return Err(refuse(Errno::INVAL));
        }
        if path.starts_with(b"/") && base != b"/" {
            return Err(refuse(Errno::PERM));
        }
        match self.direct(dir, &base, path, follow) {
            Some(resolved) => Ok(resolved),
            None => Walk::new(self, self.root.as_fd(), dir, base)?.run(path, follow),
        }
    }

    /// The fast path: one `openat2` for the parent, one look at the last component. `None`: walk.
    fn direct(&self, dir: BorrowedFd<'_>, base: &[u8], path: &[u8], follow: Follow) -> Option<Resolved> {
        if wants_directory(path) || path.split(|&b| b == b'/').any(|name| name == b"..") {
            return None;
        }
        let relative = without_leading_slashes(path);
        let (head, name) = match relative.iter().rposition(|&b| b == b'/') {
            Some(slash) => (relative.get(..slash)?, relative.get(slash + 1..)?),
            None => (&b"."[..], relative),
        };
        if name.is_empty() {
            return None;
        }
        let parent = sys::directory_beneath(dir, head).ok()?;
        if follow == Follow::Yes {
            match sys::metadata_at(&parent, name) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => return None,
                Ok(_) | Err(Errno::NOENT) => {}
                Err(_) => return None,
            }
        }
        // The kernel's own word for the parent, unless it is the directory that was asked a moment ago.
        let at = if head == b"." { base.to_vec() } else { self.path_of(parent.as_fd()).ok()? };
        let path = join(&at, name);
        Some(Resolved { parent, name: name.to_vec(), path, directory: false, left: Vec::new() })
    }
}

/// The place of an error where not even the directory is known, as when seccomp allows no file calls: the guest's own
/// text, as if below `/`.
fn unknown(errno: Errno, path: &[u8]) -> ResolveError {
    let mut pending = Pending::default();
    pending.prepend(path, Origin::Guest);
    ResolveError { errno, reached: pending.reach(b"/", b".") }
}

fn without_leading_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&b| b != b'/').unwrap_or(path.len());
    path.get(start..).unwrap_or_default()
}
