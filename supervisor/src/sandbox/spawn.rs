//! Birth of a child: inside its cgroup, without descriptors, capabilities, environment or terminal.
//!
//! Everything that the child needs is made before `clone3(2)` (Linux 5.3; `CLONE_INTO_CGROUP` 5.7, `CLOSE_RANGE_CLOEXEC`
//! 5.11); between it and
//! `execveat(2)` the child makes raw system calls only and allocates nothing. A step that fails is written as two
//! bytes, step and errno, to a pipe that `execveat` closes.

use super::SandboxError;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::path::Path;

/// Resource limits of the child, in bytes where the kernel counts bytes.
#[derive(Clone, Copy, Debug)]
pub struct Rlimits {
    /// `RLIMIT_DATA`: heap, private writable mappings and so the linear memory of the component (Linux 4.7).
    pub data: u64,
    /// `RLIMIT_NOFILE`: open descriptors.
    pub files: u64,
    /// `RLIMIT_FSIZE`: the largest file that can be written.
    pub file_size: u64,
    /// `RLIMIT_CPU`: seconds of CPU time. Only the soft limit, so that it can be renewed for each call; the child can
    /// neither raise it nor ignore its signal once seccomp holds.
    pub cpu: u64,
}

/// What to start and how.
#[derive(Debug)]
pub struct Birth<'a> {
    /// The program, opened by the supervisor.
    pub program: BorrowedFd<'a>,
    /// Its name in `argv[0]`.
    pub name: &'a CStr,
    /// Descriptor 0 of the child.
    pub channel: BorrowedFd<'a>,
    /// Descriptors 1 and 2 of the child; `None`: the null device.
    pub output: Option<BorrowedFd<'a>>,
    /// The cgroup to be born in; `None`: the supervisor's own.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// User to become; `None`: stay.
    pub uid: Option<u32>,
    /// Resource limits.
    pub limits: Rlimits,
}

/// A child that was started.
#[derive(Debug)]
pub struct Child {
    /// Process id.
    pub pid: i32,
    /// Process descriptor: never means another process.
    pub pidfd: OwnedFd,
}

impl Child {
    /// Let the child use this many seconds of CPU time from now on (`RLIMIT_CPU`). Where that cannot be set, what is left
    /// of the last budget holds: a child of another user needs `CAP_SYS_RESOURCE`, which even root may lack.
    pub fn renew_cpu(&self, seconds: u64) {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let (Some(pid), Some(used)) = (Pid::from_raw(self.pid), self.cpu_used()) else { return };
        let maximum = rustix::process::getrlimit(Resource::Cpu).maximum;
        let current = used.saturating_add(seconds);
        let current = maximum.map_or(current, |maximum| maximum.min(current));
        let _ = prlimit(Some(pid), Resource::Cpu, Rlimit { current: Some(current), maximum });
    }

    /// CPU time of all threads so far, in seconds, rounded up.
    fn cpu_used(&self) -> Option<u64> {
        let mut clock = 0;
        // SAFETY: `clock` is valid for writing; the call keeps no pointer.
        let found = unsafe { libc::clock_getcpuclockid(self.pid, &raw mut clock) };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing; the call keeps no pointer, and an unknown clock is an error.
        let read = found == 0 && unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
        read.then(|| u64::try_from(time.tv_sec).unwrap_or(0) + 1)
    }

    /// Kill the child and wait for its end.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        let _ = self.wait();
    }

    /// Wait for the end of a child that has closed its channel; one that goes on is killed.
    pub fn end(&self) -> Result<Ended, Errno> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let grace = Timespec { tv_sec: 2, tv_nsec: 0 };
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&grace)) {
                Ok(0) => {
                    self.kill();
                    return Ok(Ended::Hung);
                }
                Ok(_) => return self.wait(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Wait for the end: exit code, or the signal that killed it.
    pub fn wait(&self) -> Result<Ended, Errno> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => {
                    return Ok(match (status.exit_status(), status.terminating_signal()) {
                        (Some(code), _) => Ended::Exit(code),
                        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
                    });
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exit(i32),
    /// This signal killed it.
    Signal(i32),
    /// It did not end, and was killed.
    Hung,
}

/// `struct clone_args` of Linux 5.7 (88 bytes, `CLONE_ARGS_SIZE_VER2`).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}
const _: () = assert!(size_of::<CloneArgs>() == 88);

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// `SECBIT_NOROOT`, `SECBIT_NO_SETUID_FIXUP` and `SECBIT_NO_CAP_AMBIENT_RAISE`, each with its lock, and the lock of
/// `SECBIT_KEEP_CAPS` (`linux/securebits.h`).
const SECUREBITS: libc::c_ulong = 0xef;
const KEYCTL_JOIN_SESSION_KEYRING: libc::c_ulong = 1;
/// `_LINUX_CAPABILITY_VERSION_3` (`linux/capability.h`).
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The steps of the child, as their numbers travel through the pipe.
const STEPS: [&str; 16] = [
    "sigprocmask",
    "setsid",
    "setrlimit",
    "keyctl",
    "prctl(PR_CAP_AMBIENT)",
    "prctl(PR_CAPBSET_DROP)",
    "prctl(PR_SET_SECUREBITS)",
    "setgroups",
    "setresgid",
    "setresuid",
    "capset",
    "prctl(PR_SET_NO_NEW_PRIVS)",
    "prctl(PR_SET_PDEATHSIG)",
    "dup3",
    "close_range (act needs Linux 5.14)",
    "execveat",
];

/// Everything that the child reads; no allocation happens after this is made.
struct Plan {
    program: i32,
    argv: [*const libc::c_char; 2],
    envp: [*const libc::c_char; 1],
    channel: i32,
    output: i32,
    report: i32,
    parent: i32,
    parent_pidfd: i32,
    /// Highest capability to drop from the bounding set; -1 where the right to do so is missing.
    last_capability: i32,
    uid: Option<u32>,
    rlimits: [(libc::c_uint, libc::rlimit); 7],
}

impl Birth<'_> {
    /// Start the child. The calling thread must live as long as the child: its end would kill it
    /// (`PR_SET_PDEATHSIG` follows the thread).
    pub fn spawn(&self) -> Result<Child, SandboxError> {
        self.begin()?.confirm()
    }

    /// Start the child without waiting until it has become the program.
    pub fn begin(&self) -> Result<Newborn, SandboxError> {
        let system = |call: &'static str| move |e: Errno| SandboxError::System { call, source: e.into() };
        let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(system("open /dev/null"))?;
        let (report_read, report_write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(system("pipe2"))?;
        let me = rustix::process::getpid();
        let my_pidfd =
            rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).map_err(system("pidfd_open"))?;
        let fixed = |resource: libc::__rlimit_resource_t, value: u64| {
            (resource as libc::c_uint, libc::rlimit { rlim_cur: value, rlim_max: value })
        };
        let cpu_hard =
            rustix::process::getrlimit(rustix::process::Resource::Cpu).maximum.unwrap_or(libc::RLIM_INFINITY);
        let plan = Plan {
            program: self.program.as_raw_fd(),
            argv: [self.name.as_ptr(), std::ptr::null()],
            envp: [std::ptr::null()],
            channel: self.channel.as_raw_fd(),
            output: self.output.map_or(null.as_raw_fd(), |fd| fd.as_raw_fd()),
            report: report_write.as_raw_fd(),
            parent: me.as_raw_nonzero().get(),
            parent_pidfd: my_pidfd.as_raw_fd(),
            last_capability: droppable_capabilities(),
            uid: self.uid,
            rlimits: [
                fixed(libc::RLIMIT_CORE, 0),
                fixed(libc::RLIMIT_MEMLOCK, 0),
                fixed(libc::RLIMIT_MSGQUEUE, 0),
                fixed(libc::RLIMIT_NOFILE, self.limits.files),
                fixed(libc::RLIMIT_DATA, self.limits.data),
                fixed(libc::RLIMIT_FSIZE, self.limits.file_size),
                (
                    libc::RLIMIT_CPU as libc::c_uint,
                    libc::rlimit { rlim_cur: self.limits.cpu.min(cpu_hard), rlim_max: cpu_hard },
                ),
            ],
        };
        let mut pidfd: i32 = -1;
        let args = CloneArgs {
            flags: CLONE_PIDFD | CLONE_CLEAR_SIGHAND | if self.cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 },
            pidfd: (&raw mut pidfd) as u64,
            exit_signal: libc::SIGCHLD as u64,
            cgroup: self.cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
            ..CloneArgs::default()
        };
        // SAFETY: `args` is a `struct clone_args` of the size passed, its pointers outlive the call. Without CLONE_VM
        // the child has its own copy of the address space and only this thread in it; it calls `be_born`, which
        // makes raw system calls on values of `plan` alone and never returns, so no lock or allocation of another
        // thread of the supervisor is touched.
        let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
        match pid {
            0 => {
                // SAFETY: this is the child of the clone above; see there.
                unsafe { be_born(&plan) }
            }
            -1 => Err(SandboxError::System { call: "clone3", source: std::io::Error::last_os_error() }),
            pid => {
                drop(report_write);
                // SAFETY: clone3 returned success with CLONE_PIDFD, so `pidfd` is a new descriptor that only we own.
                let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
                Ok(Newborn { child: Some(Child { pid: pid as i32, pidfd }), report: report_read })
            }
        }
    }
}

/// A child that was started and may not be the program yet. Dropped, it is killed.
#[derive(Debug)]
pub struct Newborn {
    child: Option<Child>,
    report: OwnedFd,
}

impl Newborn {
    /// Wait until the child has become the program; the error names the step that failed.
    pub fn confirm(mut self) -> Result<Child, SandboxError> {
        let mut report = [0u8; 2];
        let (call, source) = match rustix::io::read(&self.report, &mut report) {
            Ok(0) => {
                let gone = || SandboxError::System { call: "birth", source: Errno::CHILD.into() };
                return self.child.take().ok_or_else(gone);
            }
            Ok(_) => {
                let [step, errno] = report;
                let call = STEPS.get(usize::from(step)).copied().unwrap_or("birth");
                (call, std::io::Error::from_raw_os_error(i32::from(errno)))
            }
            Err(e) => ("read from the child", e.into()),
        };
        Err(SandboxError::System { call, source })
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if let Some(child) = &self.child {
            child.kill();
        }
    }
}

/// The highest capability number if this process may drop from its bounding set, else -1.
fn droppable_capabilities() -> i32 {
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SETPCAP));
    if !may {
        return -1;
    }
    let read = std::fs::read_to_string("/proc/sys/kernel/cap_last_cap");
    // 63 is the largest number that the 64-bit sets of the kernel can hold.
    read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(63)
}

/// Write step and errno, and end.
///
/// # Safety
/// Only in the child: it ends the process.
unsafe fn fail(plan: &Plan, step: u8) -> ! {
    // SAFETY: __errno_location points to this thread's errno; the buffer is two bytes long; _exit never returns.
    unsafe {
        let report = [step, *libc::__errno_location() as u8];
        libc::write(plan.report, report.as_ptr().cast(), report.len());
        libc::_exit(127)
    }
}

/// What the child does before it becomes the guest program.
///
/// # Safety
/// Only in a child of `clone3` without CLONE_VM: it changes the process and never returns. The pointers in `plan` are
/// to memory of this address space that nobody frees.
unsafe fn be_born(plan: &Plan) -> ! {
    macro_rules! step {
        ($number:expr, $call:expr) => {
            if $call < 0 {
                fail(plan, $number)
            }
        };
    }
    // SAFETY: raw system calls with constants, integers of `plan`, and pointers to live locals or to `plan`; each
    // pointer's memory has the size that its call reads.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        step!(0, libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()));
        // CLONE_CLEAR_SIGHAND leaves ignored signals ignored; the Rust runtime ignores SIGPIPE.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        step!(1, libc::setsid());
        for (resource, limit) in &plan.rlimits {
            step!(2, libc::setrlimit(*resource, limit));
        }
        // Kernels without keyrings answer ENOSYS: then there is none to leave.
        if libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0) < 0
            && *libc::__errno_location() != libc::ENOSYS
        {
            fail(plan, 3)
        }
        step!(4, libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
        if plan.last_capability >= 0 {
            for capability in 0..=plan.last_capability {
                step!(5, libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0));
            }
            step!(6, libc::prctl(libc::PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0));
        }
        if let Some(uid) = plan.uid {
            step!(7, libc::syscall(libc::SYS_setgroups, 0, 0));
            step!(8, libc::syscall(libc::SYS_setresgid, uid, uid, uid));
            step!(9, libc::syscall(libc::SYS_setresuid, uid, uid, uid));
        }
        let header = [CAPABILITY_VERSION, 0];
        let data = [0u32; 6];
        step!(10, libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()));
        step!(11, libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        // After the change of user, which clears it. A parent that died before this line is seen by the two checks.
        step!(12, libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0));
        let mut parent = libc::pollfd { fd: plan.parent_pidfd, events: libc::POLLIN, revents: 0 };
        if libc::getppid() != plan.parent || libc::poll(&raw mut parent, 1, 0) != 0 {
            libc::_exit(126)
        }
        // Sources have numbers of 3 and more: the runtime of the supervisor keeps 0 to 2 open.
        step!(13, libc::dup3(plan.channel, 0, 0));
        step!(13, libc::dup3(plan.output, 1, 0));
        step!(13, libc::dup3(plan.output, 2, 0));
        // The report pipe and the program close themselves at execveat; nothing else survives.
        step!(14, libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC));
        libc::syscall(
            libc::SYS_execveat,
            plan.program,
            c"".as_ptr(),
            plan.argv.as_ptr(),
            plan.envp.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
        fail(plan, 15)
    }
}

/// Mark instead of closing (Linux 5.11): the report pipe must live until `execveat` has succeeded.
const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;

/// Open one of the programs that lie beside this one.
pub fn open_sibling(name: &str) -> Result<OwnedFd, SandboxError> {
    let own =
        std::env::current_exe().map_err(|source| SandboxError::System { call: "readlink /proc/self/exe", source })?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let missing = || SandboxError::Program { name: name.to_owned(), folder: folder.display().to_string() };
    let directory = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|_| missing())?;
    let name = CString::new(name).map_err(|_| missing())?;
    openat(directory, name.as_c_str(), OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
        .map_err(|_| missing())
}
