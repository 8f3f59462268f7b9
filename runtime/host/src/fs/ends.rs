//! Operations with two ends: rename and hard link. Both ends need the right to write, so neither gains rights.

use super::act::Files;
use super::fault::Fault;
use crate::gate::{file, refuse};
use act_paths::Follow;
use act_policy::{Access, Reason};
use rustix::fs::{AtFlags, FileType, linkat, renameat, statat};
use rustix::io::Errno;
use std::fs::File;

impl Files {
    /// Rename. A directory is renamed only where everything below it has the same rights as itself at both ends.
    pub(crate) async fn rename(&self, from: (&File, &str), to: (&File, &str)) -> Result<(), Fault> {
        let old = self.place(from.0, from.1, Follow::No, Access::Write).await?;
        let new = self.place(to.0, to.1, Follow::No, Access::Write).await?;
        let stat =
            self.kernel(Access::Write, old.path(), statat(old.parent(), old.name(), AtFlags::SYMLINK_NOFOLLOW))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            for path in [old.path(), new.path()] {
                if !self.gate.whole_subtree_writable(path) {
                    self.gate.refused(file(Access::Write, path), Reason::NotGranted);
                    return Err(Fault::Denied);
                }
            }
        } else if new.wants_directory() {
            return Err(Errno::NOTDIR.into());
        }
        let answer = renameat(old.parent(), old.name(), new.parent(), new.name());
        self.kernel(Access::Write, new.path(), answer)
    }

    /// Hard link, never to a special file.
    pub(crate) async fn link(&self, from: (&File, &str), follow: Follow, to: (&File, &str)) -> Result<(), Fault> {
        let old = self.place(from.0, from.1, follow, Access::Write).await?;
        let new = self.place(to.0, to.1, Follow::No, Access::Write).await?;
        let stat =
            self.kernel(Access::Write, old.path(), statat(old.parent(), old.name(), AtFlags::SYMLINK_NOFOLLOW))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Symlink => {}
            FileType::Directory => return Err(Errno::PERM.into()),
            _ => {
                refuse(&*self.gate, file(Access::Write, old.path()), Reason::SpecialFile);
                return Err(Fault::Denied);
            }
        }
        let answer = linkat(old.parent(), old.name(), new.parent(), new.name(), AtFlags::empty());
        self.kernel(Access::Write, new.path(), answer)
    }
}
