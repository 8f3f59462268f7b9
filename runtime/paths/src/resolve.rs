//! What a resolution is asked and what it answers.

use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Whether a symbolic link in the last component is followed. A trailing slash always follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The result names what the link leads to.
    Yes,
    /// The result names the link.
    No,
}

/// A place in the file system: a pinned parent directory and one component in it, which need not exist.
///
/// INVARIANT: `path` is the absolute host path of (`parent`, `name`) as the kernel told it when `parent` was pinned;
/// `name` holds no slash, is not `..`, and is `.` only where the place is `parent` itself.
#[derive(Debug)]
pub struct Resolved {
    pub(crate) parent: OwnedFd,
    pub(crate) name: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) directory: bool,
    pub(crate) left: Vec<Vec<u8>>,
}

impl Resolved {
    /// The pinned parent directory, an `O_PATH` descriptor.
    pub fn parent(&self) -> BorrowedFd<'_> {
        self.parent.as_fd()
    }

    /// The component to act on, with a `*at` call that follows no link.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The absolute host path.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether the text asked for a directory, by a trailing slash or dot.
    pub fn wants_directory(&self) -> bool {
        self.directory
    }

    /// Directories that the path entered and left again by `..`. That they exist is told by success, so the caller
    /// lets it out only if the guest may know of them.
    pub fn left(&self) -> &[Vec<u8>] {
        &self.left
    }
}

/// Why there is no [`Resolved`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resolving `{}`", String::from_utf8_lossy(.reached))]
pub struct ResolveError {
    /// What the kernel said, or would have said: `EPERM` for a `..` out of the directory, `EINVAL` for a NUL.
    #[source]
    pub errno: Errno,
    /// The absolute host path up to the place that failed, followed by the components that were left, up to their
    /// first `..`. A denial of this path hides the error.
    pub reached: Vec<u8>,
}
