//! What native code in the guest's place would try, each attempt by its name.
//!
//! An attempt does no harm where it works: that is where it runs to prove that it does.

#![allow(
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    clippy::ptr_as_ptr,
    reason = "every argument of a raw system call is a register: numbers and pointers become `c_long`"
)]

use rustix::io::Errno;
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// What attempts work on.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A file of the test's own.
    pub file: String,
    /// A file of `cgroup.procs` outside.
    pub procs: String,
    /// A port on 127.0.0.1 and 127.0.0.2 that is served, and granted on the first only.
    pub port: u16,
    /// A port on 127.0.0.1 that is served and not granted.
    pub other: u16,
}

/// Why an attempt failed.
pub type Outcome = Result<(), Errno>;

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

fn done(value: i64) -> Outcome {
    if value < 0 { Err(errno()) } else { Ok(()) }
}

/// A raw call with numbers, null pointers or pointers to live memory.
macro_rules! raw {
    ($call:expr $(, $argument:expr)* $(,)?) => {
        // SAFETY: pointers are null or to memory that outlives the call and has the size that the call uses; what the
        // call changes is this process alone, which tests and ends.
        done(unsafe { libc::syscall($call $(, $argument as libc::c_long)*) })
    };
}

/// After the macro, which it uses.
mod net;

fn open(path: &str, flags: i32) -> Result<i32, Errno> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    // SAFETY: a string with its end.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 { Err(errno()) } else { Ok(fd) }
}

/// Opens a path; what an attempt needs beside its own call falls back to descriptor 0, so that the call is still made.
fn or_zero(opened: Result<i32, Errno>) -> i32 {
    opened.unwrap_or(0)
}

fn socket(family: i32, kind: i32, protocol: i32) -> Outcome {
    raw!(libc::SYS_socket, family, kind, protocol)
}

static PARENT: std::sync::OnceLock<i32> = std::sync::OnceLock::new();

/// The parent's process id, asked for at the first use; under the sandbox it has to be before it is confined.
pub fn parent() -> i32 {
    // SAFETY: no arguments; cannot fail.
    *PARENT.get_or_init(|| unsafe { libc::getppid() })
}

fn forked(pid: i64) -> Outcome {
    if pid == 0 {
        // SAFETY: ends the new process at once.
        unsafe { libc::_exit(0) }
    }
    done(pid)
}

fn mmap(protection: i32, flags: i32) -> Result<*mut libc::c_void, Errno> {
    // SAFETY: a new mapping at a place of the kernel's choice.
    let at = unsafe { libc::mmap(null_mut(), 4096, protection, flags | libc::MAP_ANONYMOUS, -1, 0) };
    if at == libc::MAP_FAILED { Err(errno()) } else { Ok(at) }
}

fn memfd() -> Result<i32, Errno> {
    // SAFETY: a string with its end, and a flag.
    let fd = unsafe { libc::memfd_create(c"probe".as_ptr(), 0) };
    if fd < 0 { Err(errno()) } else { Ok(fd) }
}

fn execveat() -> Outcome {
    let fd = or_zero(memfd());
    if fd != 0 {
        let program = std::fs::read("/bin/true").map_err(|_| Errno::NOENT)?;
        // SAFETY: the buffer is as long as told.
        done(unsafe { libc::write(fd, program.as_ptr().cast(), program.len()) } as i64)?;
    }
    let argv = [c"true".as_ptr(), null()];
    raw!(libc::SYS_execveat, fd, c"".as_ptr(), argv.as_ptr(), argv[1..].as_ptr(), libc::AT_EMPTY_PATH)
}

#[cfg(target_arch = "x86_64")]
fn vfork() -> Outcome {
    let result: i64;
    // SAFETY: the child, which shares the stack, ends without using it: it only calls `exit(0)`.
    unsafe {
        std::arch::asm!(
            "syscall", "test rax, rax", "jnz 2f", "mov eax, 60", "xor edi, edi", "syscall", "2:",
            inlateout("rax") libc::SYS_vfork => result,
            out("rcx") _, out("r11") _, out("rdi") _,
        );
    }
    if result < 0 { Err(Errno::from_raw_os_error(-result as i32)) } else { Ok(()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn vfork() -> Outcome {
    Err(Errno::NOSYS)
}

static TARGET: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

fn process_vm_writev() -> Outcome {
    let word = 1_u64;
    let local = libc::iovec { iov_base: (&raw const word).cast_mut().cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: TARGET.as_ptr().cast(), iov_len: 8 };
    raw!(libc::SYS_process_vm_writev, parent(), &raw const local, 1, &raw const remote, 1, 0)
}

fn pidfd_getfd() -> Outcome {
    // SAFETY: takes numbers.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, parent(), 0) };
    raw!(libc::SYS_pidfd_getfd, pidfd.max(0), 0, 0)
}

fn shared_memory() -> Outcome {
    // SAFETY: takes numbers.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, 0o600) };
    done(id.into())?;
    // SAFETY: removes what was made; the pointer is not used for this.
    done(unsafe { libc::shmctl(id, libc::IPC_RMID, null_mut()) }.into())
}

fn set_namespace() -> Outcome {
    raw!(libc::SYS_setns, or_zero(open("/proc/self/ns/uts", libc::O_RDONLY)), libc::CLONE_NEWUTS)
}

fn mount() -> Outcome {
    // In a namespace of its own where that can be had, so that nothing is changed outside.
    // SAFETY: takes a number.
    let _ = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    let nothing: *const libc::c_char = null();
    raw!(libc::SYS_mount, nothing, c"/".as_ptr(), nothing, libc::MS_REC | libc::MS_PRIVATE, nothing)
}

/// Try one attempt.
pub fn run(name: &str, places: &Places) -> Outcome {
    let file = CString::new(places.file.as_str()).map_err(|_| Errno::INVAL)?;
    // Structures of the kernel as 64-bit words, with room for what it writes back.
    let mut room = [0_u64; 32];
    match name {
        // `struct clone_args` with the exit signal.
        "clone3" => room[4] = libc::SIGCHLD as u64,
        // An array: type, size of key and value, entries.
        "bpf" => (room[0], room[1]) = (2 | 4 << 32, 4 | 1 << 32),
        // PERF_TYPE_SOFTWARE, 64 bytes, PERF_COUNT_SW_CPU_CLOCK.
        "perf_event_open" => room[0] = 1 | 64 << 32,
        // SECCOMP_RET_ERRNO
        "seccomp" => room[0] = 0x0005_0000,
        _ => {}
    }
    let buffer = room.as_mut_ptr();
    // Nothing is changed, and yet the right to change is needed.
    let now = [libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT }; 2];
    match name {
        "execve" => {
            let argv = [c"true".as_ptr(), null()];
            raw!(libc::SYS_execve, c"/bin/true".as_ptr(), argv.as_ptr(), argv[1..].as_ptr())
        }
        "execveat of a memfd" => execveat(),
        // SAFETY: the new process ends at once.
        "fork" => forked(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) }),
        "clone3" => {
            // SAFETY: 64 bytes of `struct clone_args`; the new process ends at once.
            forked(unsafe { libc::syscall(libc::SYS_clone3, buffer, 64) })
        }
        "vfork" => vfork(),
        "thread" => match std::thread::Builder::new().spawn(|| ()) {
            Ok(thread) => thread.join().map_err(|_| Errno::INVAL),
            Err(e) => Err(Errno::from_io_error(&e).unwrap_or(Errno::INVAL)),
        },
        "ptrace" => raw!(libc::SYS_ptrace, libc::PTRACE_SEIZE, parent(), 0, 0),
        "process_vm_writev" => process_vm_writev(),
        "pidfd_getfd" => pidfd_getfd(),
        "kill" => raw!(libc::SYS_kill, parent(), 0),
        "tgkill" => raw!(libc::SYS_tgkill, parent(), parent(), 0),
        "AF_UNIX" => socket(libc::AF_UNIX, libc::SOCK_STREAM, 0),
        "AF_NETLINK" => socket(libc::AF_NETLINK, libc::SOCK_RAW, 0),
        "AF_PACKET" => socket(libc::AF_PACKET, libc::SOCK_RAW, 0),
        "AF_VSOCK" => socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        "AF_ALG" => socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        "raw socket" => socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        "SCTP" => socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        "MPTCP" => socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
        "UDP-Lite" => socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
        "mmap PROT_EXEC" => mmap(libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE).map(drop),
        "mprotect W to X" => {
            let at = mmap(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)?;
            raw!(libc::SYS_mprotect, at, 4096, libc::PROT_READ | libc::PROT_EXEC)
        }
        "mmap MAP_SHARED" => mmap(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED).map(drop),
        "memfd_create" => memfd().map(drop),
        // BPF_MAP_CREATE
        "bpf" => raw!(libc::SYS_bpf, 0, buffer, 72),
        "perf_event_open" => raw!(libc::SYS_perf_event_open, buffer, 0, -1, -1, 0),
        "userfaultfd" => raw!(libc::SYS_userfaultfd, 1),
        // KEYCTL_GET_KEYRING_ID of the session keyring.
        "keyctl" => raw!(libc::SYS_keyctl, 0, -3, 1),
        "mount" => mount(),
        "unshare" => raw!(libc::SYS_unshare, libc::CLONE_NEWUTS),
        "unshare user" => raw!(libc::SYS_unshare, libc::CLONE_NEWUSER),
        "setns" => set_namespace(),
        "chroot" => raw!(libc::SYS_chroot, c"/".as_ptr()),
        "setuid" => raw!(libc::SYS_setuid, 0),
        "io_uring_setup" => raw!(libc::SYS_io_uring_setup, 1, buffer),
        "personality" => raw!(libc::SYS_personality, 0xffff_ffff_u32),
        "prctl" => raw!(libc::SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0),
        // SECCOMP_GET_ACTION_AVAIL
        "seccomp" => raw!(libc::SYS_seccomp, 2, 0, buffer),
        "ioctl TIOCSTI" => raw!(
            libc::SYS_ioctl,
            or_zero(open("/dev/ptmx", libc::O_RDWR | libc::O_NOCTTY)),
            libc::TIOCSTI,
            c"x".as_ptr()
        ),
        "fcntl F_SETOWN" => raw!(libc::SYS_fcntl, 0, libc::F_SETOWN, parent()),
        "open /etc/passwd" => open("/etc/passwd", libc::O_RDONLY).map(drop),
        "open /proc/1/environ" => open("/proc/1/environ", libc::O_RDONLY).map(drop),
        "open /proc/PPID/environ" => open(&format!("/proc/{}/environ", parent()), libc::O_RDONLY).map(drop),
        "open /proc/PPID/mem" => open(&format!("/proc/{}/mem", parent()), libc::O_RDWR).map(drop),
        "open /proc/self/mem" => open("/proc/self/mem", libc::O_RDWR).map(drop),
        "open /dev/null" => open("/dev/null", libc::O_RDWR).map(drop),
        "open /dev/zero" => open("/dev/zero", libc::O_RDONLY).map(drop),
        "list /proc/self/fd" => open("/proc/self/fd", libc::O_RDONLY | libc::O_DIRECTORY).map(drop),
        "open cgroup.procs" => open(&places.procs, libc::O_WRONLY).map(drop),
        "open the file" => open(&places.file, libc::O_RDWR).map(drop),
        "chmod" => raw!(libc::SYS_fchmodat, libc::AT_FDCWD, file.as_ptr(), 0o644),
        "utimensat" => raw!(libc::SYS_utimensat, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), now.as_ptr(), 0),
        "chown" => raw!(libc::SYS_fchownat, libc::AT_FDCWD, file.as_ptr(), 0, 0, 0),
        "setxattr" => raw!(libc::SYS_setxattr, file.as_ptr(), c"user.act".as_ptr(), c"x".as_ptr(), 1, 0),
        "inotify" => raw!(libc::SYS_inotify_init1, 0),
        "shmget" => shared_memory(),
        // `getpid` with the mark of the x32 ABI.
        "x32 call" => raw!(0x4000_0000 | 0x27),
        _ => net::run(name, places),
    }
}
