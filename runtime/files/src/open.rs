//! Opening: pin, look at the type, judge, then open what was pinned.

use crate::fault::Fault;
use crate::files::Files;
use crate::judge::Judge;
use crate::remote::{Answer, Operation};
use act_paths::{Follow, Resolved};
use act_policy::Access;
use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

/// What `open-at` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the interface")]
pub struct Opening {
    /// Only a directory.
    pub directory: bool,
    /// Make the file if it is missing.
    pub create: bool,
    /// Fail if it is there.
    pub exclusive: bool,
    /// Empty it.
    pub truncate: bool,
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// A synchronous write mode, which this host does not have.
    pub sync: bool,
}

/// What was opened.
#[derive(Debug)]
pub enum Opened {
    /// A regular file.
    File(OwnedFd),
    /// A directory, pinned without the right to list.
    Directory(File),
}

impl Opening {
    fn access(self) -> Access {
        if self.create || self.truncate || self.write { Access::Write } else { Access::Read }
    }

    /// For a place that is not there.
    fn missing_access(self) -> Access {
        if self.directory && self.access() == Access::Read { Access::Stat } else { self.access() }
    }

    /// Whether what is opened can be read: it can unless it is for writing only.
    pub fn reads(self) -> bool {
        self.read || !self.write
    }

    fn flags(self) -> OFlags {
        let mode = match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | mode
    }
}

/// Tries against somebody who creates and removes the file between two looks.
const TRIES: u32 = 4;

impl<J: Judge> Files<J> {
    /// Open a file, or pin a directory.
    pub async fn open(&self, dir: &File, path: &[u8], follow: Follow, opening: Opening) -> Result<Opened, Fault> {
        let place = self.find(dir, path, follow, opening.missing_access()).await?;
        for _ in 0..TRIES {
            match openat(place.parent(), place.name(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            {
                Ok(pinned) => return self.open_pinned(&place, pinned, opening).await,
                Err(Errno::NOENT) if opening.create => match self.create(&place, opening).await {
                    Err(Fault::Errno(Errno::EXIST)) if !opening.exclusive => {}
                    answer => return answer,
                },
                Err(errno) => {
                    self.admit(&place, opening.missing_access()).await?;
                    return self.kernel(opening.missing_access(), place.path(), Err(errno));
                }
            }
        }
        Err(Errno::BUSY.into())
    }

    async fn open_pinned(&self, place: &Resolved, pinned: OwnedFd, opening: Opening) -> Result<Opened, Fault> {
        let kind = FileType::from_raw_mode(fstat(&pinned)?.st_mode);
        let access = match kind {
            FileType::Directory if opening.access() == Access::Read => Access::Stat,
            FileType::RegularFile | FileType::Symlink if opening.directory => opening.missing_access(),
            FileType::Directory | FileType::RegularFile | FileType::Symlink => opening.access(),
            _ => return Err(self.special(opening.access(), place.path())),
        };
        if kind == FileType::RegularFile && fstatfs(&pinned)?.f_type == PROC_SUPER_MAGIC {
            return Err(self.special(access, place.path()));
        }
        self.admit(place, access).await?;
        if kind == FileType::RegularFile {
            self.admit_reading(place, opening).await?;
        }
        if opening.exclusive && opening.create {
            return Err(Errno::EXIST.into());
        }
        if opening.sync {
            return Err(Errno::NOTSUP.into());
        }
        match kind {
            FileType::Directory if access == Access::Write => Err(Errno::ISDIR.into()),
            FileType::Directory => Ok(Opened::Directory(pinned.into())),
            _ if opening.directory => Err(Errno::NOTDIR.into()),
            FileType::Symlink => Err(Errno::LOOP.into()),
            _ => {
                // What is there must not be made: the place could be another one by then.
                let existing = Opening { create: false, exclusive: false, ..opening };
                if let Some(answer) = self.open_elsewhere(place, access, existing) {
                    return answer;
                }
                let mut flags = opening.flags();
                if opening.truncate {
                    flags |= OFlags::TRUNC;
                }
                let opened = self.resolver.reopen(pinned.as_fd(), flags);
                self.kernel(access, place.path(), opened).map(Opened::File)
            }
        }
    }

    async fn create(&self, place: &Resolved, opening: Opening) -> Result<Opened, Fault> {
        self.admit(place, Access::Write).await?;
        self.admit_reading(place, opening).await?;
        if opening.directory {
            return Err(Errno::INVAL.into());
        }
        if place.wants_directory() {
            return Err(Errno::ISDIR.into());
        }
        if opening.sync {
            return Err(Errno::NOTSUP.into());
        }
        let new = Opening { exclusive: true, ..opening };
        if let Some(answer) = self.open_elsewhere(place, Access::Write, new) {
            return answer;
        }
        let flags = opening.flags() | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let opened = openat(place.parent(), place.name(), flags, Mode::from_raw_mode(0o666));
        self.kernel(Access::Write, place.path(), opened).map(Opened::File)
    }

    /// Rules can allow writing and refuse reading, and a descriptor may do both.
    async fn admit_reading(&self, place: &Resolved, opening: Opening) -> Result<(), Fault> {
        if opening.access() == Access::Write && opening.reads() {
            self.also(Access::Read, place.path()).await?;
        }
        Ok(())
    }

    fn open_elsewhere(&self, place: &Resolved, access: Access, opening: Opening) -> Option<Result<Opened, Fault>> {
        let path = place.path();
        let operation = || Operation::Open { path: path.to_vec(), opening };
        let answer = self.elsewhere(&[path], access == Access::Write, operation)?;
        Some(answer.and_then(|answer| match answer {
            Answer::Opened(file) => Ok(Opened::File(file)),
            Answer::Done | Answer::Entries(_) => Err(Errno::PROTO.into()),
        }))
    }
}
