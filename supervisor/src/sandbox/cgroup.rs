//! One cgroup (v2) for each child: the kernel hooks and the limits hang on it.
//!
//! The supervisor keeps a lock (`flock(2)`) on the directory of its cgroup. A lock that can be taken means that the
//! owner is gone: the next start kills what is left in that cgroup and removes it, so nothing has to be recorded.

use super::SandboxError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, open, openat, statat, unlinkat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Names of our cgroups begin so.
const PREFIX: &str = "act-";
/// Folder for them below the root of the hierarchy, when we are root.
const FOLDER: &str = "act";
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How long a killed cgroup may take to empty; the kernel needs about 12 ms for 200 processes.
const EMPTY_DEADLINE: Duration = Duration::from_secs(5);
/// Most left-over cgroups that one start removes.
const MAX_SWEEP: usize = 1000;

/// A cgroup of ours, removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    directory: OwnedFd,
    parent: OwnedFd,
    base: PathBuf,
    name: String,
    id: u64,
    /// Controllers that limit this cgroup.
    controllers: Controllers,
}

/// Which v2 controllers are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    /// `memory.max`
    pub memory: bool,
    /// `pids.max`
    pub pids: bool,
    /// `cpu.max`
    pub cpu: bool,
}

/// Limits by controller.
#[derive(Clone, Copy, Debug)]
pub struct CgroupLimits {
    /// Bytes of memory.
    pub memory: u64,
    /// Tasks (processes and threads).
    pub pids: u32,
    /// Hundredths of one CPU; `None`: no limit.
    pub cpu_percent: Option<u32>,
}

/// The folder where cgroups can be made: the mount point of cgroup2 with, for root, our own group below it; for others
/// the parent of their own group, if it is delegated to them.
pub fn base() -> Result<PathBuf, SandboxError> {
    let unavailable = |reason: &str| SandboxError::Cgroup { reason: reason.to_owned() };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|_| unavailable("no /proc/self/mountinfo"))?;
    let (root, mount) = mounts.lines().find_map(cgroup2_mount).ok_or_else(|| unavailable("cgroup2 is not mounted"))?;
    if rustix::process::geteuid().is_root() {
        return Ok(mount.join(FOLDER));
    }
    let own = std::fs::read_to_string("/proc/self/cgroup").map_err(|_| unavailable("no /proc/self/cgroup"))?;
    let own = own.lines().find_map(|l| l.strip_prefix("0::")).ok_or_else(|| unavailable("not in a v2 cgroup"))?;
    let own = own.strip_prefix(root.as_str()).unwrap_or(own).trim_start_matches('/');
    let path = mount.join(own);
    Ok(path.parent().filter(|p| p.starts_with(&mount)).unwrap_or(&path).to_owned())
}

/// Root and mount point of a cgroup2 line of mountinfo (proc_pid_mountinfo(5)).
fn cgroup2_mount(line: &str) -> Option<(String, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    if !right.starts_with("cgroup2 ") {
        return None;
    }
    let mut fields = left.split(' ');
    let root = fields.nth(3)?.trim_end_matches('/').to_owned();
    Some((root, PathBuf::from(fields.next()?.replace("\\040", " "))))
}

impl Cgroup {
    /// Make a cgroup, after removing those whose owner is gone.
    pub fn create() -> Result<Self, SandboxError> {
        let base = base()?;
        let unavailable = |what: &str, e: Errno| SandboxError::Cgroup {
            reason: format!("{what} {}: {}", base.display(), std::io::Error::from(e)),
        };
        for attempt in 0..16u32 {
            if let Err(e) = rustix::fs::mkdir(&base, Mode::from_raw_mode(0o755))
                && e != Errno::EXIST
            {
                return Err(unavailable("cannot make", e));
            }
            let parent = match open(&base, DIRECTORY, Mode::empty()) {
                Ok(parent) => parent,
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(unavailable("cannot open", e)),
            };
            if attempt == 0 {
                sweep(&parent);
            }
            let controllers = enable_controllers(&parent, &base);
            let name = format!("{PREFIX}{}-{attempt}", rustix::process::getpid().as_raw_nonzero());
            match mkdirat(&parent, &name, Mode::from_raw_mode(0o755)) {
                Ok(()) => {}
                // Another run in this process made it, or removed the empty folder that we just opened.
                Err(Errno::EXIST | Errno::NOENT) => continue,
                Err(e) => return Err(unavailable("cannot make a cgroup in", e)),
            }
            let directory = openat(&parent, &name, DIRECTORY, Mode::empty())
                .map_err(|e| unavailable("cannot open a cgroup in", e))?;
            flock(&directory, FlockOperation::NonBlockingLockExclusive)
                .map_err(|e| unavailable("cannot lock a cgroup in", e))?;
            // Between mkdir and flock another start may have taken it for a left-over and removed it.
            let here = statat(&parent, &name, AtFlags::empty()).map(|s| s.st_ino);
            let id = fstat(&directory).map_err(|e| unavailable("cannot stat a cgroup in", e))?.st_ino;
            if here == Ok(id) {
                return Ok(Self { directory, parent, base, name, id, controllers });
            }
        }
        Err(SandboxError::Cgroup { reason: format!("no free name in {}", base.display()) })
    }

    /// The cgroup id: the inode of its directory, never used twice in a boot.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The controllers that limit it.
    pub fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// Name of the directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Set the limits for which there is a controller.
    pub fn limit(&self, limits: &CgroupLimits) -> Result<(), SandboxError> {
        let set = |file: &str, value: &str| {
            write_file(&self.directory, file, value)
                .map_err(|e| SandboxError::Cgroup { reason: format!("{file} = {value}: {}", std::io::Error::from(e)) })
        };
        if self.controllers.memory {
            set("memory.max", &limits.memory.to_string())?;
            // Swapping would let the component hold more than that. Kernels without swap have no such file.
            let _ = set("memory.swap.max", "0");
        }
        if self.controllers.pids {
            set("pids.max", &limits.pids.to_string())?;
        }
        if let (true, Some(percent)) = (self.controllers.cpu, limits.cpu_percent) {
            set("cpu.max", &format!("{} 100000", u64::from(percent) * 1000))?;
        }
        Ok(())
    }

    /// Whether the kernel killed a process here for lack of memory.
    pub fn out_of_memory(&self) -> bool {
        let events = read_file(&self.directory, "memory.events").unwrap_or_default();
        events.lines().any(|l| l.strip_prefix("oom_kill ").is_some_and(|n| n != "0"))
    }

    /// Kill everything inside and wait until it is empty.
    pub fn kill(&self) {
        kill_all(&self.directory);
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.kill();
        let _ = unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR);
        // Our own folder goes with its last cgroup; a folder that is somebody else's is in use and stays.
        if self.base.ends_with(FOLDER) {
            let _ = rustix::fs::rmdir(&self.base);
        }
    }
}

fn write_file(directory: &OwnedFd, name: &str, text: &str) -> Result<(), Errno> {
    let file = openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(|_| ())
}

fn read_file(directory: &OwnedFd, name: &str) -> Result<String, Errno> {
    let file = openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    let mut buffer = vec![0u8; 4096];
    let n = rustix::io::read(&file, &mut buffer)?;
    buffer.truncate(n);
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

/// Let children of `parent` be limited by memory, pids and cpu as far as the kernel and the rights allow.
fn enable_controllers(parent: &OwnedFd, path: &Path) -> Controllers {
    const WANTED: [&str; 3] = ["memory", "pids", "cpu"];
    let has = |text: &str, name: &str| text.split_whitespace().any(|c| c == name);
    let missing = |there: &str, among: &str| -> Vec<&'static str> {
        WANTED.into_iter().filter(|name| has(among, name) && !has(there, name)).collect()
    };
    let mut available = read_file(parent, "cgroup.controllers").unwrap_or_default();
    // Our own group below the root: the root has to hand its controllers down first.
    if path.ends_with(FOLDER)
        && let Ok(root) = openat(parent, "..", DIRECTORY, Mode::empty())
    {
        let offered = read_file(&root, "cgroup.controllers").unwrap_or_default();
        for name in missing(&available, &offered) {
            let _ = write_file(&root, "cgroup.subtree_control", &format!("+{name}"));
        }
        if !missing(&available, &offered).is_empty() {
            available = read_file(parent, "cgroup.controllers").unwrap_or_default();
        }
    }
    let mut enabled = read_file(parent, "cgroup.subtree_control").unwrap_or_default();
    let wanted = missing(&enabled, &available);
    if !wanted.is_empty() {
        for name in wanted {
            let _ = write_file(parent, "cgroup.subtree_control", &format!("+{name}"));
        }
        enabled = read_file(parent, "cgroup.subtree_control").unwrap_or_default();
    }
    Controllers { memory: has(&enabled, "memory"), pids: has(&enabled, "pids"), cpu: has(&enabled, "cpu") }
}

/// Remove the cgroups of ours whose owner is gone.
fn sweep(parent: &OwnedFd) {
    let Ok(entries) = rustix::fs::Dir::read_from(parent) else { return };
    for entry in entries.filter_map(Result::ok).take(MAX_SWEEP) {
        let name = entry.file_name();
        if !name.to_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(directory) = openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            kill_all(&directory);
            let _ = unlinkat(parent, name, AtFlags::REMOVEDIR);
        }
    }
}

/// `cgroup.kill` (Linux 5.14), then wait for `populated 0`.
fn kill_all(directory: &OwnedFd) {
    let empty = |events: &str| events.lines().any(|l| l == "populated 0");
    if read_file(directory, "cgroup.events").is_ok_and(|e| empty(&e)) {
        return;
    }
    let _ = write_file(directory, "cgroup.kill", "1");
    let Ok(events) = openat(directory, "cgroup.events", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let deadline = Instant::now() + EMPTY_DEADLINE;
    while Instant::now() < deadline {
        let mut buffer = [0u8; 256];
        let Ok(n) = rustix::io::pread(&events, &mut buffer, 0) else { return };
        if empty(&String::from_utf8_lossy(buffer.get(..n).unwrap_or_default())) {
            return;
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&tick));
    }
}
