//! Every forbidden call, tried in a forked child under the program and, to prove that the attempt works, without it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use act_lockdown::profile::{CALLS, Profile, compile_worker};
use common::child;
use libc::{c_long, syscall};
use std::ptr::null;

const NOTHING: Profile = Profile { files: false, files_write: false, tcp: false, udp: false, listen: false };
const ALL: Profile = Profile { files: true, files_write: true, tcp: true, udp: true, listen: true };

fn profiles() -> impl Iterator<Item = Profile> {
    (0..32).map(|bits: u32| {
        let bit = |n: u32| bits >> n & 1 == 1;
        Profile { files: bit(0), files_write: bit(1), tcp: bit(2), udp: bit(3), listen: bit(4) }
    })
}

fn mmap(protection: i32, flags: i32) -> i64 {
    // SAFETY: the kernel chooses the address; nobody uses the mapping.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags | libc::MAP_ANONYMOUS, -1, 0) };
    if address == libc::MAP_FAILED { -1 } else { 0 }
}

fn socket(family: i32, kind: i32, protocol: i32) -> i64 {
    // SAFETY: takes numbers only.
    unsafe { libc::socket(family, kind, protocol) }.into()
}

fn set_option(kind: i32, level: i32, option: i32) -> i64 {
    let fd = socket(libc::AF_INET, kind, 0) as i32;
    if fd < 0 {
        return -1;
    }
    let on = 1_i32;
    // SAFETY: `on` is a valid int of the length told.
    unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), 4) }.into()
}

fn send_fast(kind: c_long) -> i64 {
    let fd = socket(libc::AF_INET, libc::SOCK_STREAM, 0) as i32;
    // SAFETY: an all-zero sockaddr_in and msghdr are valid.
    let (mut address, mut header) = unsafe { std::mem::zeroed::<(libc::sockaddr_in, libc::msghdr)>() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = 9_u16.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    header.msg_name = (&raw mut address).cast();
    header.msg_namelen = 16;
    let sent = if kind == libc::SYS_sendto {
        // SAFETY: a zero-length buffer and a valid address.
        unsafe { libc::sendto(fd, null(), 0, libc::MSG_FASTOPEN, (&raw const address).cast(), 16) }
    } else {
        // SAFETY: the header points to a valid address and to no buffers.
        unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_FASTOPEN) }
    };
    // Nothing listens there: that the kernel tried is told by any error but EPERM.
    // SAFETY: `__errno_location` is valid in every thread.
    if sent >= 0 || unsafe { *libc::__errno_location() } != libc::EPERM { 0 } else { -1 }
}

/// A call with numbers, or null pointers, that gets past the kernel's permission checks for anybody. `Ok` where the
/// kernel was reached: by success or by an error other than `EPERM`.
fn reached(value: i64) -> i64 {
    // SAFETY: `__errno_location` is valid in every thread.
    if value >= 0 || unsafe { *libc::__errno_location() } != libc::EPERM { 0 } else { -1 }
}

macro_rules! raw {
    ($call:expr $(, $argument:expr)*) => {
        // SAFETY: null pointers and numbers: the kernel answers EFAULT, EINVAL or ENOENT, or acts on this child only.
        reached(unsafe { syscall($call $(, $argument)*) })
    };
}

type Attempt = (&'static str, fn() -> i64);

/// Refused under every profile.
const ALWAYS: &[Attempt] = &[
    ("fork", || {
        // SAFETY: the grandchild leaves at once.
        let pid = unsafe { syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if pid == 0 {
            // SAFETY: ends the grandchild.
            unsafe { libc::_exit(0) }
        }
        pid
    }),
    ("clone3", || raw!(libc::SYS_clone3, 0, 0)),
    ("execve", || raw!(libc::SYS_execve, c"/".as_ptr(), 0, 0)),
    ("execveat", || raw!(libc::SYS_execveat, -1, c"".as_ptr(), 0, 0, 0)),
    ("ptrace", || raw!(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
    ("process_vm_readv", || raw!(libc::SYS_process_vm_readv, libc::getpid(), 0, 0, 0, 0, 0)),
    ("memfd_create", || raw!(libc::SYS_memfd_create, c"x".as_ptr(), 0)),
    ("keyctl", || raw!(libc::SYS_keyctl, 0, -3, 1)),
    ("prctl", || raw!(libc::SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0)),
    ("kill", || raw!(libc::SYS_kill, libc::getpid(), 0)),
    ("tgkill", || raw!(libc::SYS_tgkill, libc::getpid(), libc::getpid(), 0)),
    ("pidfd_open", || raw!(libc::SYS_pidfd_open, libc::getpid(), 0)),
    ("unshare", || raw!(libc::SYS_unshare, 0)),
    ("seccomp", || raw!(libc::SYS_seccomp, 2, 0, 0)),
    ("personality", || raw!(libc::SYS_personality, 0xffff_ffff_u64)),
    ("prlimit64", || raw!(libc::SYS_prlimit64, 0, 0, 0, 0)),
    ("getppid", || raw!(libc::SYS_getppid)),
    ("setresuid", || raw!(libc::SYS_setresuid, -1, -1, -1)),
    ("chdir", || raw!(libc::SYS_chdir, c"/".as_ptr())),
    ("fchmodat", || raw!(libc::SYS_fchmodat, -1, c"".as_ptr(), 0)),
    ("fchownat", || raw!(libc::SYS_fchownat, -1, c"".as_ptr(), -1, -1, 0)),
    ("mknodat", || raw!(libc::SYS_mknodat, -1, c"".as_ptr(), 0o010_644, 0)),
    ("setxattr", || raw!(libc::SYS_setxattr, 0, 0, 0, 0, 0)),
    ("inotify_init1", || raw!(libc::SYS_inotify_init1, 0)),
    ("timerfd_create", || raw!(libc::SYS_timerfd_create, 0, 0)),
    ("signalfd4", || raw!(libc::SYS_signalfd4, -1, 0, 8, 0)),
    ("pipe2", || raw!(libc::SYS_pipe2, 0, 0)),
    ("sendmmsg", || raw!(libc::SYS_sendmmsg, -1, 0, 0, 0)),
    ("splice", || raw!(libc::SYS_splice, -1, 0, -1, 0, 0, 0)),
    ("pkey_mprotect", || raw!(libc::SYS_pkey_mprotect, 0, 0, 0, -1)),
    ("executable mapping", || mmap(libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE)),
    ("executable protection", || raw!(libc::SYS_mprotect, 0, 0, libc::PROT_EXEC)),
    ("shared mapping", || mmap(libc::PROT_READ, libc::MAP_SHARED)),
    ("shared validated mapping", || reached(mmap(libc::PROT_READ, libc::MAP_SHARED_VALIDATE))),
    ("unix socket", || socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)),
    ("netlink socket", || socket(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
    ("socketpair", || raw!(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, 0)),
];

/// Refused even where sockets and files are granted.
const WITH_SOCKETS: &[Attempt] = &[
    ("multipath tcp", || reached(socket(libc::AF_INET, libc::SOCK_STREAM, 262))),
    ("ping socket", || reached(socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP))),
    ("udp-lite", || reached(socket(libc::AF_INET, libc::SOCK_DGRAM, 136))),
    ("sctp", || reached(socket(libc::AF_INET, libc::SOCK_STREAM, 132))),
    ("fast open option", || set_option(libc::SOCK_STREAM, libc::IPPROTO_TCP, 30)),
    ("ip options", || reached(set_option(libc::SOCK_STREAM, libc::IPPROTO_IP, libc::IP_OPTIONS))),
    ("mark", || reached(set_option(libc::SOCK_STREAM, libc::SOL_SOCKET, libc::SO_REUSEPORT))),
    ("sendto fast open", || send_fast(libc::SYS_sendto)),
    ("sendmsg fast open", || send_fast(libc::SYS_sendmsg)),
    ("fcntl F_SETOWN", || raw!(libc::SYS_fcntl, 0, libc::F_SETOWN, libc::getpid())),
    ("fcntl O_ASYNC", || raw!(libc::SYS_fcntl, 0, libc::F_SETFL, libc::O_ASYNC)),
    ("fcntl F_SETLEASE", || reached(unsafe_fcntl(1024))),
    ("ioctl FIOASYNC", || raw!(libc::SYS_ioctl, 0, 0x5452, 0)),
    ("ioctl TIOCSTI", || raw!(libc::SYS_ioctl, 0, 0x5412, 0)),
];

fn unsafe_fcntl(command: i32) -> i64 {
    // SAFETY: numbers only, on a descriptor that does not exist.
    unsafe { syscall(libc::SYS_fcntl, -1, command, 0) }
}

fn refused(profile: Profile, attempts: &[Attempt]) {
    let program = profile.program().unwrap();
    for (name, attempt) in attempts {
        assert_eq!(child(|| true, attempt), Ok(()), "`{name}` must work without the program");
        let confined = child(|| act_lockdown::seccomp(&program).is_ok(), attempt);
        assert_eq!(confined, Err(libc::EPERM), "`{name}` under {profile:?}");
    }
}

fn allowed(profile: Profile, attempts: &[Attempt]) {
    let program = profile.program().unwrap();
    for (name, attempt) in attempts {
        let confined = child(|| act_lockdown::seccomp(&program).is_ok(), attempt);
        assert_eq!(confined, Ok(()), "`{name}` under {profile:?}");
    }
}

#[test]
fn what_no_profile_allows() {
    for profile in [NOTHING, ALL] {
        refused(profile, ALWAYS);
    }
}

#[test]
fn what_the_widest_profile_refuses() {
    refused(ALL, WITH_SOCKETS);
}

const STREAM: Attempt = ("tcp", || socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0));
const STREAM6: Attempt = ("tcp6", || socket(libc::AF_INET6, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 6));
const DATAGRAM: Attempt = ("udp", || socket(libc::AF_INET, libc::SOCK_DGRAM, 17));
const LISTEN: Attempt = ("listen", || raw!(libc::SYS_listen, -1, 1));
const ACCEPT: Attempt = ("accept4", || raw!(libc::SYS_accept4, -1, 0, 0, 0));
const OPEN: Attempt = ("openat", || raw!(libc::SYS_openat, -100, c"/".as_ptr(), 0));
const STAT: Attempt = ("fstat", || raw!(libc::SYS_fstat, 0, 0));
const UNLINK: Attempt = ("unlinkat", || raw!(libc::SYS_unlinkat, -1, c"".as_ptr(), 0));
const TRUNCATE: Attempt = ("ftruncate", || raw!(libc::SYS_ftruncate, -1, 0));

#[test]
fn each_grant_opens_its_own_calls_only() {
    let files = Profile { files: true, ..NOTHING };
    let write = Profile { files_write: true, ..NOTHING };
    let tcp = Profile { tcp: true, ..NOTHING };
    let udp = Profile { udp: true, ..NOTHING };
    let listen = Profile { listen: true, ..NOTHING };
    refused(NOTHING, &[STREAM, STREAM6, DATAGRAM, LISTEN, ACCEPT, OPEN, STAT, UNLINK, TRUNCATE]);
    allowed(files, &[OPEN, STAT]);
    refused(files, &[UNLINK, TRUNCATE, STREAM, DATAGRAM]);
    allowed(write, &[OPEN, STAT, UNLINK, TRUNCATE]);
    allowed(tcp, &[STREAM, STREAM6]);
    refused(tcp, &[DATAGRAM, LISTEN, ACCEPT, OPEN]);
    allowed(udp, &[DATAGRAM]);
    refused(udp, &[STREAM, STREAM6, LISTEN]);
    allowed(listen, &[STREAM, LISTEN, ACCEPT]);
    refused(listen, &[DATAGRAM]);
    allowed(ALL, &[STREAM, STREAM6, DATAGRAM, LISTEN, ACCEPT, OPEN, STAT, UNLINK, TRUNCATE]);
}

#[test]
fn the_compile_worker_has_neither_files_nor_sockets() {
    let program = compile_worker().unwrap();
    for (name, attempt) in ALWAYS.iter().chain(&[STREAM, DATAGRAM, OPEN, STAT, UNLINK]) {
        let confined = child(|| act_lockdown::seccomp(&program).is_ok(), attempt);
        assert_eq!(confined, Err(libc::EPERM), "`{name}`");
    }
    let memory: Attempt = ("memory", || mmap(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE));
    assert_eq!(child(|| act_lockdown::seccomp(&program).is_ok(), memory.1), Ok(()));
}

#[test]
fn programs_are_short_and_lists_bounded() {
    for profile in profiles() {
        assert!(profile.calls().unwrap() <= CALLS, "{profile:?}: {} calls", profile.calls().unwrap());
        assert!(profile.program().unwrap().len() < 700, "{profile:?}");
    }
    assert!(NOTHING.calls().unwrap() <= 30, "{}", NOTHING.calls().unwrap());
    println!("instructions: nothing {}, all {}", NOTHING.program().unwrap().len(), ALL.program().unwrap().len());
}

/// One more allowed thing never refuses what was allowed: call numbers only grow.
#[test]
fn lists_grow_with_grants() {
    for profile in profiles() {
        assert!(profile.calls().unwrap() >= NOTHING.calls().unwrap());
        assert!(profile.calls().unwrap() <= ALL.calls().unwrap());
    }
}
