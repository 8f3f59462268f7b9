//! The seccomp programs, built by the supervisor.
//!
//! A list of allowed calls; everything else gets `EPERM`. What was measured with strace on the programs decides the
//! list, not convenience. Not on it, whatever is granted: starting threads or processes, `execve`, `ptrace`, `bpf`,
//! `io_uring_*`, `mount`, `keyctl`, `kill` and `tgkill`, `prctl`, `memfd_create`, `userfaultfd`, executable mappings,
//! shared mappings (an anonymous one escapes `RLIMIT_DATA`), sockets other than IPv4 and IPv6.

use crate::error::LockdownError;
use crate::sys::{INSTRUCTIONS, pack};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// What a guest child may do with the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a group of calls")]
pub struct Profile {
    /// Look at and read files.
    pub files: bool,
    /// Change files; implies `files`.
    pub files_write: bool,
    /// TCP sockets over IPv4 and IPv6.
    pub tcp: bool,
    /// UDP sockets over IPv4 and IPv6.
    pub udp: bool,
    /// Accept TCP connections; implies `tcp`.
    pub listen: bool,
}

/// Most calls on any list.
pub const CALLS: usize = 60;

impl Profile {
    /// The program of a guest child.
    pub fn program(self) -> Result<Vec<u64>, LockdownError> {
        compile(self.rules()?)
    }

    /// How many calls are allowed at all, with conditions or without.
    pub fn calls(self) -> Result<usize, LockdownError> {
        Ok(self.rules()?.0.len())
    }

    fn rules(self) -> Result<Rules, LockdownError> {
        let mut rules = Rules::default();
        rules.any(BASE);
        rules.memory()?;
        // The channel to the supervisor.
        rules.any(&[libc::SYS_recvmsg, libc::SYS_ppoll, libc::SYS_epoll_ctl, EPOLL_WAIT]);
        rules.when(libc::SYS_sendmsg, &[Is::None(2, number(libc::MSG_FASTOPEN))])?;
        if self.files || self.files_write {
            rules.any(FILES);
            for command in [libc::F_GETFL, libc::F_GETFD, libc::F_DUPFD_CLOEXEC] {
                rules.when(libc::SYS_fcntl, &[Is::Equal(1, number(command))])?;
            }
            let quiet = Is::None(2, number(libc::O_ASYNC));
            rules.when(libc::SYS_fcntl, &[Is::Equal(1, number(libc::F_SETFL)), quiet])?;
        }
        if self.files_write {
            rules.any(FILES_WRITE);
        }
        if self.tcp || self.udp || self.listen {
            rules.any(SOCKETS);
            rules.when(libc::SYS_sendto, &[Is::None(3, number(libc::MSG_FASTOPEN))])?;
            rules.when(libc::SYS_ioctl, &[Is::Equal(1, libc::FIONBIO)])?;
            for (level, option) in OPTIONS {
                rules.when(libc::SYS_setsockopt, &[Is::Equal(1, number(*level)), Is::Equal(2, number(*option))])?;
            }
        }
        if self.tcp || self.listen {
            rules.socket(libc::SOCK_STREAM, libc::IPPROTO_TCP)?;
        }
        if self.udp {
            rules.socket(libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
        }
        if self.listen {
            rules.any(&[libc::SYS_listen, libc::SYS_accept4]);
        }
        Ok(rules)
    }
}

/// The program of the compile worker: bytes in, bytes out, on threads that are there already.
pub fn compile_worker() -> Result<Vec<u64>, LockdownError> {
    let mut rules = Rules::default();
    rules.any(BASE);
    rules.memory()?;
    rules.any(&[libc::SYS_gettid, libc::SYS_sched_getaffinity]);
    compile(rules)
}

const BASE: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What glibc's `epoll_wait` calls.
#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: c_long = libc::SYS_epoll_wait;
#[cfg(not(target_arch = "x86_64"))]
const EPOLL_WAIT: c_long = libc::SYS_epoll_pwait;

const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_pread64,
    libc::SYS_fadvise64,
];

/// Times are set by the broker: neither Landlock nor the mode of a descriptor bounds who may set those of an own file.
const FILES_WRITE: &[c_long] = &[
    libc::SYS_pwrite64,
    libc::SYS_pwritev2,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
];

const SOCKETS: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
];

/// The options that wasmtime-wasi 48 sets. Never `TCP_FASTOPEN_CONNECT`, `IP_OPTIONS` or `IPV6_RTHDR`.
const OPTIONS: &[(i32, i32)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
];

/// A condition on a 32-bit argument.
enum Is {
    /// The argument is this.
    Equal(u8, u64),
    /// None of these bits is set.
    None(u8, u64),
    /// Without these bits the argument is that.
    Without(u8, u64, u64),
}

impl Is {
    fn condition(&self) -> Result<SeccompCondition, LockdownError> {
        let (argument, operator, value) = match *self {
            Self::Equal(argument, value) => (argument, SeccompCmpOp::Eq, value),
            Self::None(argument, bits) => (argument, SeccompCmpOp::MaskedEq(bits), 0),
            Self::Without(argument, bits, value) => {
                (argument, SeccompCmpOp::MaskedEq(u64::from(u32::MAX) & !bits), value)
            }
        };
        SeccompCondition::new(argument, Dword, operator, value).map_err(build)
    }
}

fn number(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

fn build(error: impl std::error::Error + Send + Sync + 'static) -> LockdownError {
    LockdownError::Build(Box::new(error))
}

#[derive(Default)]
struct Rules(BTreeMap<i64, Vec<SeccompRule>>);

impl Rules {
    fn any(&mut self, calls: &[c_long]) {
        self.0.extend(calls.iter().map(|&call| (call, Vec::new())));
    }

    fn when(&mut self, call: c_long, conditions: &[Is]) -> Result<(), LockdownError> {
        let conditions = conditions.iter().map(Is::condition).collect::<Result<_, _>>()?;
        self.0.entry(call).or_default().push(SeccompRule::new(conditions).map_err(build)?);
        Ok(())
    }

    /// Mappings that are neither executable nor shared (`MAP_SHARED_VALIDATE` has the bit of `MAP_SHARED`).
    fn memory(&mut self) -> Result<(), LockdownError> {
        let data = || Is::None(2, number(libc::PROT_EXEC));
        self.when(libc::SYS_mmap, &[data(), Is::None(3, number(libc::MAP_SHARED))])?;
        self.when(libc::SYS_mprotect, &[data()])
    }

    fn socket(&mut self, kind: i32, protocol: i32) -> Result<(), LockdownError> {
        let flags = number(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        for family in [libc::AF_INET, libc::AF_INET6] {
            for protocol in [0, protocol] {
                let family = Is::Equal(0, number(family));
                let kind = Is::Without(1, flags, number(kind));
                self.when(libc::SYS_socket, &[family, kind, Is::Equal(2, number(protocol))])?;
            }
        }
        Ok(())
    }
}

fn compile(rules: Rules) -> Result<Vec<u64>, LockdownError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(build)?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules.0, refuse, SeccompAction::Allow, arch).map_err(build)?;
    let program = BpfProgram::try_from(filter).map_err(build)?;
    if program.len() > INSTRUCTIONS {
        return Err(LockdownError::Program { instructions: program.len() });
    }
    Ok(program.into_iter().map(|i| pack(i.code, i.jt, i.jf, i.k)).collect())
}
