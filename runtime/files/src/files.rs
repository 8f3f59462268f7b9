//! The operations on one path.

use crate::fault::Fault;
use crate::judge::{Judge, file};
use crate::remote::{Answer, Direct, Operation, Remote};
use act_paths::{Follow, PathsError, Resolved, Resolver};
use act_policy::{Access, Decision, Reason};
use rustix::fs::{
    AtFlags, Mode, Stat, Timespec, Timestamps, fstat, mkdirat, readlinkat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd as _;

/// Judged operations on files.
pub struct Files<J> {
    pub(crate) resolver: Resolver,
    pub(crate) judge: J,
    /// Who does what this process cannot do itself, and where it can; `None`: it does everything itself.
    remote: Option<(Box<dyn Remote>, Vec<Direct>)>,
    /// Whether who asks may change directories behind the back of an operation.
    pub(crate) wary: bool,
}

impl<J: Judge> Files<J> {
    /// Operations that this process does itself.
    pub fn new(judge: J) -> Result<Self, PathsError> {
        Ok(Self { resolver: Resolver::new()?, judge, remote: None, wary: false })
    }

    /// Operations that this process does for another, which may do some by itself meanwhile.
    pub fn for_another(judge: J) -> Result<Self, PathsError> {
        Ok(Self { wary: true, ..Self::new(judge)? })
    }

    /// Leave all that is not in these subtrees to `remote`.
    #[must_use]
    pub fn with_remote(self, remote: Box<dyn Remote>, direct: Vec<Direct>) -> Self {
        Self { remote: Some((remote, direct)), ..self }
    }

    /// Let the remote do an operation on these paths, if it is not this process that can. `None`: it can.
    pub(crate) fn elsewhere(
        &self,
        paths: &[&[u8]],
        write: bool,
        operation: impl FnOnce() -> Operation,
    ) -> Option<Result<Answer, Fault>> {
        let (remote, direct) = self.remote.as_ref()?;
        let here = paths.iter().all(|path| direct.iter().any(|direct| direct.holds(path, write)));
        (!here).then(|| remote.perform(operation()))
    }

    pub(crate) async fn permit(&self, access: Access, path: &[u8]) -> Result<(), Fault> {
        if self.judge.permit(file(access, path)).await { Ok(()) } else { Err(Fault::Denied) }
    }

    /// A second right that an operation needs. It is on record only where it is not simply there.
    pub(crate) async fn also(&self, access: Access, path: &[u8]) -> Result<(), Fault> {
        match self.judge.peek(&file(access, path)).decision {
            Decision::Allow => Ok(()),
            Decision::Ask | Decision::Deny => self.permit(access, path).await,
        }
    }

    /// The root directory, held without the right to list.
    pub(crate) fn root(&self) -> Result<File, Fault> {
        Ok(self.resolver.root()?.into())
    }

    /// Resolve only. An error of the resolution comes out only where the policy lets the guest know that place.
    pub(crate) async fn find(
        &self,
        dir: &File,
        path: &[u8],
        follow: Follow,
        access: Access,
    ) -> Result<Resolved, Fault> {
        if path.is_empty() {
            // As in POSIX; nothing was asked for that could be judged.
            return Err(Errno::NOENT.into());
        }
        match self.resolver.resolve(dir.as_fd(), path, follow) {
            Ok(place) => Ok(place),
            Err(error) => {
                self.permit(access, &error.reached).await?;
                if error.errno == Errno::ACCESS {
                    self.judge.kernel_refused(file(access, &error.reached), error.errno.raw_os_error());
                }
                Err(error.errno.into())
            }
        }
    }

    /// Judge a place that was found, and then the directories that its path went through and left.
    pub(crate) async fn admit(&self, place: &Resolved, access: Access) -> Result<(), Fault> {
        self.permit(access, place.path()).await?;
        for left in place.left() {
            let request = file(Access::Stat, left);
            if self.judge.peek(&request).decision == Decision::Deny {
                self.judge.judge(request);
                return Err(Fault::Denied);
            }
        }
        Ok(())
    }

    /// Resolve and judge.
    pub(crate) async fn place(
        &self,
        dir: &File,
        path: &[u8],
        follow: Follow,
        access: Access,
    ) -> Result<Resolved, Fault> {
        let place = self.find(dir, path, follow, access).await?;
        self.admit(&place, access).await?;
        Ok(place)
    }

    /// The kernel's answer to an operation that layer 1 let pass; a refusal goes on record as the kernel's.
    pub(crate) fn kernel<T>(&self, access: Access, path: &[u8], answer: Result<T, Errno>) -> Result<T, Fault> {
        if let Err(errno @ (Errno::ACCESS | Errno::PERM)) = answer {
            self.judge.kernel_refused(file(access, path), errno.raw_os_error());
        }
        answer.map_err(Fault::from)
    }

    pub(crate) fn special(&self, access: Access, path: &[u8]) -> Fault {
        self.judge.refuse(file(access, path), Reason::SpecialFile);
        Fault::Denied
    }

    /// The absolute host path of an open directory, as the kernel tells it now.
    pub fn path_of(&self, dir: &File) -> Result<Vec<u8>, Fault> {
        Ok(self.resolver.path_of(dir.as_fd())?)
    }

    /// Metadata of what is open.
    pub fn stat(fd: &File) -> Result<Stat, Fault> {
        Ok(fstat(fd)?)
    }

    /// Metadata.
    pub async fn stat_at(&self, dir: &File, path: &[u8], follow: Follow) -> Result<Stat, Fault> {
        let place = self.place(dir, path, follow, Access::Stat).await?;
        let answer = statat(place.parent(), place.name(), AtFlags::SYMLINK_NOFOLLOW);
        self.kernel(Access::Stat, place.path(), answer)
    }

    /// Make a directory.
    pub async fn make_directory(&self, dir: &File, path: &[u8]) -> Result<(), Fault> {
        let place = self.place(dir, path, Follow::No, Access::Write).await?;
        let path = place.path();
        let operation = || Operation::MakeDirectory { path: path.to_vec() };
        if let Some(answer) = self.elsewhere(&[path], true, operation) {
            return answer.map(drop);
        }
        let answer = mkdirat(place.parent(), place.name(), Mode::from_raw_mode(0o777));
        self.kernel(Access::Write, place.path(), answer)
    }

    /// Remove an empty directory.
    pub async fn remove_directory(&self, dir: &File, path: &[u8]) -> Result<(), Fault> {
        self.unlink(dir, path, AtFlags::REMOVEDIR).await
    }

    /// Remove what is no directory.
    pub async fn remove_file(&self, dir: &File, path: &[u8]) -> Result<(), Fault> {
        self.unlink(dir, path, AtFlags::empty()).await
    }

    async fn unlink(&self, dir: &File, path: &[u8], flags: AtFlags) -> Result<(), Fault> {
        let place = self.place(dir, path, Follow::No, Access::Write).await?;
        if place.wants_directory() && !flags.contains(AtFlags::REMOVEDIR) {
            return Err(Errno::ISDIR.into());
        }
        let path = place.path();
        let operation = || {
            let path = path.to_vec();
            if flags.contains(AtFlags::REMOVEDIR) {
                Operation::RemoveDirectory { path }
            } else {
                Operation::RemoveFile { path }
            }
        };
        if let Some(answer) = self.elsewhere(&[path], true, operation) {
            return answer.map(drop);
        }
        let answer = unlinkat(place.parent(), place.name(), flags);
        self.kernel(Access::Write, place.path(), answer)
    }

    /// The text of a symbolic link.
    pub async fn read_link(&self, dir: &File, path: &[u8]) -> Result<String, Fault> {
        let place = self.place(dir, path, Follow::No, Access::Read).await?;
        let answer = readlinkat(place.parent(), place.name(), Vec::new());
        let text = self.kernel(Access::Read, place.path(), answer)?;
        text.into_string().map_err(|_| Errno::ILSEQ.into())
    }

    /// Make a link with the text `target`. Where it leads is judged when it is used; an absolute text is refused, as
    /// the interface demands.
    pub async fn make_link(&self, target: &str, dir: &File, path: &[u8]) -> Result<(), Fault> {
        let place = self.place(dir, path, Follow::No, Access::Write).await?;
        if target.starts_with('/') {
            return Err(Errno::PERM.into());
        }
        let path = place.path();
        let operation = || Operation::MakeLink { target: target.to_owned(), path: path.to_vec() };
        if let Some(answer) = self.elsewhere(&[path], true, operation) {
            return answer.map(drop);
        }
        let answer = symlinkat(target, place.parent(), place.name());
        self.kernel(Access::Write, place.path(), answer)
    }

    /// Set the times of what a path names.
    pub async fn set_times_at(&self, dir: &File, path: &[u8], follow: Follow, times: &Timestamps) -> Result<(), Fault> {
        let place = self.place(dir, path, follow, Access::Write).await?;
        if let Some(answer) = self.times_elsewhere(place.path(), times) {
            return answer;
        }
        let answer = utimensat(place.parent(), place.name(), times, AtFlags::SYMLINK_NOFOLLOW);
        self.kernel(Access::Write, place.path(), answer)
    }

    /// Landlock does not see who sets times (Linux 5.13 to 7.0), so a child is not let do that by any path.
    fn times_elsewhere(&self, path: &[u8], times: &Timestamps) -> Option<Result<(), Fault>> {
        let (remote, _) = self.remote.as_ref()?;
        let of = |time: Timespec| (time.tv_sec, time.tv_nsec);
        let (access, modification) = (of(times.last_access), of(times.last_modification));
        Some(remote.perform(Operation::SetTimes { path: path.to_vec(), access, modification }).map(drop))
    }

    /// Times of a directory that is open, by its own `.`: `futimens` does not work on `O_PATH`.
    pub async fn set_directory_times(&self, dir: &File, times: &Timestamps) -> Result<(), Fault> {
        let path = self.path_of(dir)?;
        self.permit(Access::Write, &path).await?;
        if let Some(answer) = self.times_elsewhere(&path, times) {
            return answer;
        }
        let answer = utimensat(dir, ".", times, AtFlags::SYMLINK_NOFOLLOW);
        self.kernel(Access::Write, &path, answer)
    }

    /// Times of a file that was opened for writing, which the caller has to know; others were never allowed to change it.
    /// By its path where there is a remote: whoever owns a file could set its times by any descriptor, so that a child has
    /// no system call for it.
    pub fn set_file_times(&self, file: &File, times: &Timestamps) -> Result<(), Fault> {
        if self.remote.is_some() {
            let path = self.path_of(file)?;
            if let Some(answer) = self.times_elsewhere(&path, times) {
                return answer;
            }
        }
        Ok(rustix::fs::futimens(file, times)?)
    }
}

/// 128 bits that tell two files apart: a hash of device and inode.
pub fn identity(stat: &Stat) -> (u64, u64) {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    let hash = |salt: u8| BuildHasherDefault::<DefaultHasher>::default().hash_one((salt, stat.st_dev, stat.st_ino));
    (hash(0), hash(1))
}
