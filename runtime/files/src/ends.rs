//! Operations with two ends: rename and hard link. Both ends need the right to write, so neither gains rights.

use crate::fault::Fault;
use crate::files::Files;
use crate::judge::{Judge, file};
use crate::remote::Operation;
use act_paths::{Follow, Resolved};
use act_policy::{Access, Reason};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;

impl<J: Judge> Files<J> {
    /// Rename. A directory is renamed only where everything below it has the same rights as itself at both ends.
    pub async fn rename(&self, from: (&File, &[u8]), to: (&File, &[u8])) -> Result<(), Fault> {
        let old = self.place(from.0, from.1, Follow::No, Access::Write).await?;
        let new = self.place(to.0, to.1, Follow::No, Access::Write).await?;
        let stat =
            self.kernel(Access::Write, old.path(), statat(old.parent(), old.name(), AtFlags::SYMLINK_NOFOLLOW))?;
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if directory {
            for path in [old.path(), new.path()] {
                if !self.judge.whole_subtree_writable(path) {
                    self.judge.refused(file(Access::Write, path), Reason::NotGranted);
                    return Err(Fault::Denied);
                }
            }
        } else if new.wants_directory() {
            return Err(Errno::NOTDIR.into());
        } else {
            // Nothing is carried to where it may be read.
            self.also(Access::Read, old.path()).await?;
        }
        let (from, to) = (old.path(), new.path());
        let operation = || Operation::Rename { from: from.to_vec(), to: to.to_vec() };
        if let Some(answer) = self.elsewhere(&[from, to], true, operation) {
            return answer.map(drop);
        }
        let answer = if self.wary && !directory {
            rename_a_file(&old, &new)
        } else {
            renameat(old.parent(), old.name(), new.parent(), new.name())
        };
        self.kernel(Access::Write, new.path(), answer)
    }

    /// Hard link, never to a special file.
    pub async fn link(&self, from: (&File, &[u8]), follow: Follow, to: (&File, &[u8])) -> Result<(), Fault> {
        let old = self.place(from.0, from.1, follow, Access::Write).await?;
        let new = self.place(to.0, to.1, Follow::No, Access::Write).await?;
        let stat =
            self.kernel(Access::Write, old.path(), statat(old.parent(), old.name(), AtFlags::SYMLINK_NOFOLLOW))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Symlink => self.also(Access::Read, old.path()).await?,
            FileType::Directory => return Err(Errno::PERM.into()),
            _ => {
                self.judge.refuse(file(Access::Write, old.path()), Reason::SpecialFile);
                return Err(Fault::Denied);
            }
        }
        let (from, to) = (old.path(), new.path());
        let operation = || Operation::Link { from: from.to_vec(), to: to.to_vec() };
        if let Some(answer) = self.elsewhere(&[from, to], true, operation) {
            return answer.map(drop);
        }
        let answer = linkat(old.parent(), old.name(), new.parent(), new.name(), AtFlags::empty());
        self.kernel(Access::Write, new.path(), answer)
    }
}

/// Rename what was no directory when it was looked at. Who asks may have put a directory in its place since, whose content
/// was not judged: the kernel never renames a directory onto a file, so there is one at the new place before.
fn rename_a_file(old: &Resolved, new: &Resolved) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = match openat(new.parent(), new.name(), flags, Mode::from_raw_mode(0o600)) {
        Ok(_) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let answer = renameat(old.parent(), old.name(), new.parent(), new.name());
    if made && answer.is_err() {
        // Best effort: an empty file would be left.
        _ = unlinkat(new.parent(), new.name(), AtFlags::empty());
    }
    answer
}
