//! Why an operation did not happen.

use rustix::io::Errno;

/// Why an operation did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The policy, or this host, refused; recorded already.
    Denied,
    /// The kernel's answer, or what it would have answered.
    Errno(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
