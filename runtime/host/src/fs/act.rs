//! The operations on one path, for both versions of WASI.

use super::fault::Fault;
use crate::gate::{Gate, file, permit, refuse};
use act_paths::{Follow, Resolved, Resolver};
use act_policy::{Access, Decision, Reason};
use rustix::fs::{AtFlags, Mode, Stat, Timestamps, fstat, mkdirat, readlinkat, statat, symlinkat, unlinkat, utimensat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

/// Judged operations on files. Shared by all stores of the process.
pub(crate) struct Files {
    pub(super) resolver: Resolver,
    pub(super) gate: Arc<dyn Gate>,
}

impl Files {
    pub(crate) fn new(gate: Arc<dyn Gate>) -> Result<Self, super::PreopenError> {
        Ok(Self { resolver: Resolver::new().map_err(super::PreopenError::Paths)?, gate })
    }

    pub(super) async fn permit(&self, access: Access, path: &[u8]) -> Result<(), Fault> {
        if permit(&*self.gate, file(access, path)).await { Ok(()) } else { Err(Fault::Denied) }
    }

    /// Resolve only. An error of the resolution comes out only where the policy lets the guest know that place.
    pub(super) async fn find(&self, dir: &File, path: &str, follow: Follow, access: Access) -> Result<Resolved, Fault> {
        if path.is_empty() {
            // As in POSIX; nothing was asked for that could be judged.
            return Err(Errno::NOENT.into());
        }
        match self.resolver.resolve(dir.as_fd(), path.as_bytes(), follow) {
            Ok(place) => Ok(place),
            Err(error) => {
                self.permit(access, &error.reached).await?;
                if error.errno == Errno::ACCESS {
                    self.gate.kernel_refused(file(access, &error.reached), error.errno.raw_os_error());
                }
                Err(error.errno.into())
            }
        }
    }

    /// Judge a place that was found, and then the directories that its path went through and left.
    pub(super) async fn admit(&self, place: &Resolved, access: Access) -> Result<(), Fault> {
        self.permit(access, place.path()).await?;
        for left in place.left() {
            let request = file(Access::Stat, left);
            if self.gate.peek(&request).decision == Decision::Deny {
                self.gate.judge(request);
                return Err(Fault::Denied);
            }
        }
        Ok(())
    }

    /// Resolve and judge.
    pub(super) async fn place(
        &self,
        dir: &File,
        path: &str,
        follow: Follow,
        access: Access,
    ) -> Result<Resolved, Fault> {
        let place = self.find(dir, path, follow, access).await?;
        self.admit(&place, access).await?;
        Ok(place)
    }

    /// The kernel's answer to an operation that layer 1 let pass; a refusal goes on record as the kernel's.
    pub(super) fn kernel<T>(&self, access: Access, path: &[u8], answer: Result<T, Errno>) -> Result<T, Fault> {
        if let Err(errno @ (Errno::ACCESS | Errno::PERM)) = answer {
            self.gate.kernel_refused(file(access, path), errno.raw_os_error());
        }
        answer.map_err(Fault::from)
    }

    pub(super) fn special(&self, access: Access, path: &[u8]) -> Fault {
        refuse(&*self.gate, file(access, path), Reason::SpecialFile);
        Fault::Denied
    }

    pub(crate) fn path_of(&self, dir: &File) -> Result<Vec<u8>, Fault> {
        Ok(self.resolver.path_of(dir.as_fd())?)
    }

    pub(crate) fn stat(fd: &File) -> Result<Stat, Fault> {
        Ok(fstat(fd)?)
    }

    pub(crate) async fn stat_at(&self, dir: &File, path: &str, follow: Follow) -> Result<Stat, Fault> {
        let place = self.place(dir, path, follow, Access::Stat).await?;
        let answer = statat(place.parent(), place.name(), AtFlags::SYMLINK_NOFOLLOW);
        self.kernel(Access::Stat, place.path(), answer)
    }

    pub(crate) async fn make_directory(&self, dir: &File, path: &str) -> Result<(), Fault> {
        let place = self.place(dir, path, Follow::No, Access::Write).await?;
        let answer = mkdirat(place.parent(), place.name(), Mode::from_raw_mode(0o777));
        self.kernel(Access::Write, place.path(), answer)
    }

    pub(crate) async fn remove_directory(&self, dir: &File, path: &str) -> Result<(), Fault> {
        self.unlink(dir, path, AtFlags::REMOVEDIR).await
    }

    pub(crate) async fn remove_file(&self, dir: &File, path: &str) -> Result<(), Fault> {
        self.unlink(dir, path, AtFlags::empty()).await
    }

    async fn unlink(&self, dir: &File, path: &str, flags: AtFlags) -> Result<(), Fault> {
        let place = self.place(dir, path, Follow::No, Access::Write).await?;
        if place.wants_directory() && !flags.contains(AtFlags::REMOVEDIR) {
            return Err(Errno::ISDIR.into());
        }
        let answer = unlinkat(place.parent(), place.name(), flags);
        self.kernel(Access::Write, place.path(), answer)
    }

    pub(crate) async fn read_link(&self, dir: &File, path: &str) -> Result<String, Fault> {
        let place = self.place(dir, path, Follow::No, Access::Read).await?;
        let answer = readlinkat(place.parent(), place.name(), Vec::new());
        let text = self.kernel(Access::Read, place.path(), answer)?;
        text.into_string().map_err(|_| Errno::ILSEQ.into())
    }

    /// Make a link with the text `target`. Where it leads is judged when it is used; an absolute text is refused, as
    /// the interface demands.
    pub(crate) async fn make_link(&self, target: &str, dir: &File, path: &str) -> Result<(), Fault> {
        let place = self.place(dir, path, Follow::No, Access::Write).await?;
        if target.starts_with('/') {
            return Err(Errno::PERM.into());
        }
        let answer = symlinkat(target, place.parent(), place.name());
        self.kernel(Access::Write, place.path(), answer)
    }

    pub(crate) async fn set_times_at(
        &self,
        dir: &File,
        path: &str,
        follow: Follow,
        times: &Timestamps,
    ) -> Result<(), Fault> {
        let place = self.place(dir, path, follow, Access::Write).await?;
        let answer = utimensat(place.parent(), place.name(), times, AtFlags::SYMLINK_NOFOLLOW);
        self.kernel(Access::Write, place.path(), answer)
    }

    /// Times of a directory that is open, by its own `.`: `futimens` does not work on `O_PATH`.
    pub(crate) async fn set_directory_times(&self, dir: &File, times: &Timestamps) -> Result<(), Fault> {
        let path = self.path_of(dir)?;
        self.permit(Access::Write, &path).await?;
        let answer = utimensat(dir, ".", times, AtFlags::SYMLINK_NOFOLLOW);
        self.kernel(Access::Write, &path, answer)
    }

    /// Times of a file that was opened for writing; others were never allowed to change it.
    pub(crate) fn set_file_times(fd: BorrowedFd<'_>, times: &Timestamps) -> Result<(), Fault> {
        Ok(rustix::fs::futimens(fd, times)?)
    }
}

/// 128 bits that tell two files apart: a hash of device and inode.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    let hash = |salt: u8| BuildHasherDefault::<DefaultHasher>::default().hash_one((salt, stat.st_dev, stat.st_ino));
    (hash(0), hash(1))
}
