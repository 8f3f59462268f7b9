//! Opening: pin, look at the type, judge, then open what was pinned.

use super::act::Files;
use super::fault::Fault;
use act_paths::{Follow, Resolved};
use act_policy::Access;
use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, openat};
use rustix::io::Errno;
use std::fs::File as StdFile;
use std::os::fd::{AsFd as _, OwnedFd};
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, FsPerms, OpenMode};

/// What `open-at` asks for, in either version.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the interface")]
pub(crate) struct Opening {
    pub(crate) directory: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) mutate: bool,
    /// A synchronous write mode, which this host does not have.
    pub(crate) sync: bool,
}

impl Opening {
    fn access(self) -> Access {
        if self.create || self.truncate || self.write { Access::Write } else { Access::Read }
    }

    /// For a place that is not there.
    fn missing_access(self) -> Access {
        if self.directory && self.access() == Access::Read { Access::Stat } else { self.access() }
    }
}

/// Tries against somebody who creates and removes the file between two looks.
const TRIES: u32 = 4;

const FILE: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Files {
    pub(crate) async fn open(
        &self,
        dir: &StdFile,
        path: &str,
        follow: Follow,
        opening: Opening,
    ) -> Result<Descriptor, Fault> {
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

    async fn open_pinned(&self, place: &Resolved, pinned: OwnedFd, opening: Opening) -> Result<Descriptor, Fault> {
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
        if opening.exclusive && opening.create {
            return Err(Errno::EXIST.into());
        }
        if opening.sync {
            return Err(Errno::NOTSUP.into());
        }
        match kind {
            FileType::Directory if access == Access::Write => Err(Errno::ISDIR.into()),
            FileType::Directory => Ok(Descriptor::Dir(directory(pinned.into(), opening.mutate))),
            _ if opening.directory => Err(Errno::NOTDIR.into()),
            FileType::Symlink => Err(Errno::LOOP.into()),
            _ => {
                let mut flags = FILE | mode(opening);
                if opening.truncate {
                    flags |= OFlags::TRUNC;
                }
                let opened = self.resolver.reopen(pinned.as_fd(), flags);
                Ok(open_file(self.kernel(access, place.path(), opened)?, opening))
            }
        }
    }

    async fn create(&self, place: &Resolved, opening: Opening) -> Result<Descriptor, Fault> {
        self.admit(place, Access::Write).await?;
        if opening.directory {
            return Err(Errno::INVAL.into());
        }
        if place.wants_directory() {
            return Err(Errno::ISDIR.into());
        }
        if opening.sync {
            return Err(Errno::NOTSUP.into());
        }
        let flags = FILE | mode(opening) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let opened = openat(place.parent(), place.name(), flags, Mode::from_raw_mode(0o666));
        Ok(open_file(self.kernel(Access::Write, place.path(), opened)?, opening))
    }
}

fn mode(opening: Opening) -> OFlags {
    match (opening.read, opening.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    }
}

/// wasmtime-wasi refuses every change through a descriptor whose permissions are read-only.
fn open_file(fd: OwnedFd, opening: Opening) -> Descriptor {
    let mut open = OpenMode::empty();
    open.set(OpenMode::READ, opening.read || !opening.write);
    open.set(OpenMode::WRITE, opening.write);
    let permissions = if opening.write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
    Descriptor::File(File::new(fd.into(), permissions, open, true))
}

/// A directory descriptor. The permission is wasmtime-wasi's, whose operations on directories are all shadowed.
pub(super) fn directory(fd: StdFile, mutate: bool) -> Dir {
    let mut open = OpenMode::READ;
    open.set(OpenMode::WRITE, mutate);
    Dir::new(fd, FsPerms::ReadOnly, open, true)
}
