//! Operations that somebody else does: the messages between the guest child and the broker.

use crate::fault::Fault;
use crate::files::Files;
use crate::judge::Judge;
use crate::list::Entry;
use crate::open::{Opened, Opening};
use act_paths::Follow;
use act_policy::Access;
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, openat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::OwnedFd;

/// One operation, by absolute host paths whose links are resolved. A last component that is a link is not followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Open a regular file, or make one.
    Open {
        /// Which.
        path: Vec<u8>,
        /// How.
        opening: Opening,
    },
    /// List a directory.
    List {
        /// Which.
        path: Vec<u8>,
    },
    /// Make a directory.
    MakeDirectory {
        /// Which.
        path: Vec<u8>,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        /// Which.
        path: Vec<u8>,
    },
    /// Remove what is no directory.
    RemoveFile {
        /// Which.
        path: Vec<u8>,
    },
    /// Make a symbolic link.
    MakeLink {
        /// Its text.
        target: String,
        /// Where.
        path: Vec<u8>,
    },
    /// Rename.
    Rename {
        /// Old path.
        from: Vec<u8>,
        /// New path.
        to: Vec<u8>,
    },
    /// Set times; each in seconds and nanoseconds as `utimensat(2)` has them.
    SetTimes {
        /// Of what.
        path: Vec<u8>,
        /// Last access.
        access: (i64, i64),
        /// Last modification.
        modification: (i64, i64),
    },
    /// Make a hard link.
    Link {
        /// Old path.
        from: Vec<u8>,
        /// New path.
        to: Vec<u8>,
    },
}

/// What came of an operation.
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// The open file.
    Opened(OwnedFd),
    /// The entries that may be seen.
    Entries(Vec<Entry>),
}

/// Does operations on behalf of a process that cannot do them itself.
pub trait Remote: Send + Sync {
    /// Do it, or tell why not.
    fn perform(&self, operation: Operation) -> Result<Answer, Fault>;
}

/// A subtree in which a process does its operations itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Absolute host path of a directory.
    pub path: Vec<u8>,
    /// Whether writing is included.
    pub write: bool,
}

impl Direct {
    pub(crate) fn holds(&self, path: &[u8], write: bool) -> bool {
        let directory = self.path.strip_suffix(b"/").unwrap_or(&self.path);
        let below = path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        below && (self.write || !write)
    }
}

impl<J: Judge> Files<J> {
    /// Do an operation that somebody else asks for.
    pub async fn perform(&self, operation: &Operation) -> Result<Answer, Fault> {
        let root = self.root()?;
        match operation {
            Operation::Open { path, opening } => match self.open(&root, path, Follow::No, *opening).await? {
                Opened::File(file) => Ok(Answer::Opened(file)),
                // A child pins directories itself.
                Opened::Directory(_) => Err(rustix::io::Errno::ISDIR.into()),
            },
            Operation::List { path } => {
                let directory = self.pin_directory(&root, path).await?;
                self.list(&directory).await.map(Answer::Entries)
            }
            Operation::MakeDirectory { path } => self.make_directory(&root, path).await.map(|()| Answer::Done),
            Operation::RemoveDirectory { path } => self.remove_directory(&root, path).await.map(|()| Answer::Done),
            Operation::RemoveFile { path } => self.remove_file(&root, path).await.map(|()| Answer::Done),
            Operation::MakeLink { target, path } => self.make_link(target, &root, path).await.map(|()| Answer::Done),
            Operation::Rename { from, to } => self.rename((&root, from), (&root, to)).await.map(|()| Answer::Done),
            Operation::SetTimes { path, access, modification } => {
                let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
                let times = Timestamps { last_access: time(*access), last_modification: time(*modification) };
                self.set_times_at(&root, path, Follow::No, &times).await.map(|()| Answer::Done)
            }
            Operation::Link { from, to } => {
                self.link((&root, from), Follow::No, (&root, to)).await.map(|()| Answer::Done)
            }
        }
    }

    /// A directory that may be listed, held without the right to.
    async fn pin_directory(&self, root: &File, path: &[u8]) -> Result<File, Fault> {
        let place = self.place(root, path, Follow::No, Access::List).await?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(place.parent(), place.name(), flags, Mode::empty())?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Direct;

    #[test]
    fn what_is_direct() {
        let direct = |path: &str, write| Direct { path: path.into(), write };
        for (direct, path, write, expected) in [
            (direct("/a", true), "/a", true, true),
            (direct("/a", true), "/a/b", true, true),
            (direct("/a", true), "/ab", true, false),
            (direct("/a", false), "/a/b", true, false),
            (direct("/a", false), "/a/b", false, true),
            (direct("/", false), "/a", false, true),
            (direct("/", true), "/", true, true),
        ] {
            assert_eq!(direct.holds(path.as_bytes(), write), expected, "{direct:?} {path} {write}");
        }
    }
}
