//! What the broker answers to an [`Operation`]. These messages have a socket of their own, on which the child asks one
//! question at a time and waits.
//!
//! [`Operation`]: act_files::Operation

use act_files::{Entry, Fault};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What came of an operation.
#[derive(Debug, Serialize, Deserialize)]
pub enum FileAnswer {
    /// It is done.
    Done,
    /// It is done; the open file comes with this message.
    Opened,
    /// The entries that may be seen.
    Entries(Vec<Entry>),
    /// The policy or the broker refused.
    Denied,
    /// The kernel refused, with this errno.
    Failed(i32),
}

impl From<Fault> for FileAnswer {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Denied => Self::Denied,
            Fault::Errno(errno) => Self::Failed(errno.raw_os_error()),
        }
    }
}

impl FileAnswer {
    /// The fault that an answer stands for, if it does.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Denied => Some(Fault::Denied),
            Self::Failed(errno) => Some(Fault::Errno(Errno::from_raw_os_error(*errno))),
            Self::Done | Self::Opened | Self::Entries(_) => None,
        }
    }
}
