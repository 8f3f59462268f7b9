//! Where the tests run: a network namespace, cgroups, and processes inside them.

use act_bpf::{Attached, BpfError, Guard};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::UnshareFlags;
use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port with listeners, for TCP and UDP, on every address.
pub(crate) const PORT: u16 = 7001;
/// Another one.
pub(crate) const OTHER: u16 = 7002;

/// Says why something is not tested, in one line.
pub(crate) fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// A network namespace for this thread and the processes it starts, with listeners.
pub(crate) struct Lab {
    cgroups: PathBuf,
    _listeners: Vec<TcpListener>,
    _receivers: Vec<UdpSocket>,
}

impl Lab {
    /// `None`, and a line that says why, where it cannot be made.
    pub(crate) fn open() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("needs root");
            return None;
        }
        let Some(cgroups) = cgroup2() else {
            skip("no cgroup v2 is mounted");
            return None;
        };
        // SAFETY: descriptors stay shared; only the network namespace of this thread changes.
        if let Err(error) = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) } {
            skip(&format!("no network namespace: {error}"));
            return None;
        }
        for command in
            ["link set lo up", "route add local 0.0.0.0/0 dev lo src 127.0.0.1", "-6 route add local ::/0 dev lo"]
        {
            let ip = Command::new("ip").args(command.split(' ')).status();
            if !ip.as_ref().is_ok_and(std::process::ExitStatus::success) {
                skip(&format!("`ip {command}`: {ip:?}"));
                return None;
            }
        }
        // Ping sockets for everybody, so that they can be refused.
        fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0").unwrap();
        Some(Self {
            cgroups,
            _listeners: [PORT, OTHER].map(|port| TcpListener::bind(("::", port)).unwrap()).into(),
            _receivers: [PORT, OTHER].map(|port| UdpSocket::bind(("::", port)).unwrap()).into(),
        })
    }

    /// A new cgroup, removed with its processes when it is dropped.
    pub(crate) fn cgroup(&self) -> Cgroup {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("act-bpf-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Cgroup::create(self.cgroups.join(name))
    }
}

/// Where cgroup v2 is mounted, by the mount table.
fn cgroup2() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        (filesystem.split(' ').next() == Some("cgroup2")).then(|| PathBuf::from(mount.split(' ').nth(4).unwrap()))
    })
}

/// A cgroup.
pub(crate) struct Cgroup {
    path: PathBuf,
    directory: File,
}

impl Cgroup {
    fn create(path: PathBuf) -> Self {
        fs::create_dir(&path).unwrap();
        let directory = File::open(&path).unwrap();
        Self { path, directory }
    }

    /// A cgroup inside; dropped before this one.
    pub(crate) fn child(&self) -> Self {
        Self::create(self.path.join("child"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn attach(&self, guard: &Guard) -> Attached {
        guard.attach(self.fd()).unwrap()
    }

    pub(crate) fn try_attach(&self, guard: &Guard) -> Result<Attached, BpfError> {
        guard.attach(self.fd())
    }

    /// Moves the calling process in.
    pub(crate) fn join(&self) {
        fs::write(self.path.join("cgroup.procs"), "0").unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let procs = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in procs.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        for _ in 0..200 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                _ => return,
            }
        }
        eprintln!("left behind: {}", self.path.display());
    }
}

/// A forked process that does one step after the other when it is asked to, and answers each with a number.
///
/// It runs on after a fork without exec. That is sound here: it is single threaded, glibc makes its allocator usable
/// after a fork, and it takes no lock that a thread of the test could have held.
pub(crate) struct Puppet {
    pid: Pid,
    ask: OwnedFd,
    answer: OwnedFd,
}

impl Puppet {
    /// Starts it inside a cgroup, or where the test is.
    pub(crate) fn start(cgroup: Option<&Cgroup>, mut act: impl FnMut(u32) -> i32) -> Self {
        let (ask_read, ask) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let (answer, answer_write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // SAFETY: see the type.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            drop((ask, answer));
            let done = catch_unwind(AssertUnwindSafe(|| {
                if let Some(cgroup) = cgroup {
                    cgroup.join();
                }
                let mut step = [0; 4];
                while read(&ask_read, &mut step) == Ok(4) {
                    write(&answer_write, &act(u32::from_ne_bytes(step)).to_ne_bytes()).unwrap();
                }
            }));
            // SAFETY: ends this process without running the test's exit handlers.
            unsafe { libc::_exit(i32::from(done.is_err())) };
        }
        Self { pid: Pid::from_raw(pid).unwrap(), ask, answer }
    }

    /// Has it do a step.
    pub(crate) fn step(&self, step: u32) -> i32 {
        write(&self.ask, &step.to_ne_bytes()).unwrap();
        let mut answer = [0; 4];
        assert_eq!(read(&self.answer, &mut answer), Ok(4), "the process ended in step {step}");
        i32::from_ne_bytes(answer)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}
