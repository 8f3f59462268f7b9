//! Whether the programs can be loaded here, and what is missing if not.

use crate::{BpfError, Guard, Reach};
use std::fmt;

/// A privilege that loading needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// `CAP_NET_ADMIN`: programs on cgroups.
    NetAdmin,
    /// `CAP_PERFMON`: the thread's name in events.
    Perfmon,
    /// `CAP_BPF`: maps and programs at all.
    Bpf,
}

impl Capability {
    const ALL: [Self; 3] = [Self::Bpf, Self::NetAdmin, Self::Perfmon];

    /// Whether an effective set has it, or `CAP_SYS_ADMIN` (21), which `bpf(2)` takes instead of each.
    fn held(self, effective: u64) -> bool {
        let bit = |number: u32| effective >> number & 1 == 1;
        let number = match self {
            Self::NetAdmin => 12,
            Self::Perfmon => 38,
            Self::Bpf => 39,
        };
        bit(number) || bit(21)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// Why the programs cannot be loaded here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The process lacks capabilities.
    #[error("eBPF programs need {}", list(missing))]
    Capabilities {
        /// Those that the effective set of this thread lacks; never empty.
        missing: Vec<Capability>,
        /// The step that failed.
        source: BpfError,
    },
    /// The capabilities are there and the kernel refuses nonetheless.
    #[error("the kernel refuses eBPF programs in spite of the capabilities")]
    Refused(#[source] BpfError),
    /// The kernel has no `bpf(2)`, or lacks a map type, helper or hook.
    #[error("the kernel lacks eBPF features")]
    Unsupported(#[source] BpfError),
    /// Something else: no memory, no descriptors, an object that does not fit.
    #[error("eBPF programs cannot be loaded")]
    Failed(#[source] BpfError),
}

impl Unavailable {
    /// What to do about it, in one line.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Capabilities { .. } => "run act as root, or give it CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
            Self::Refused(_) => {
                "run act in the initial user namespace, outside containers whose seccomp or LSM profile refuses bpf(2)"
            }
            Self::Unsupported(_) => "use Linux 5.10 or newer with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF",
            Self::Failed(_) => "free memory or descriptors and try again; if it persists, rebuild act",
        }
    }

    fn new(source: BpfError, effective: u64) -> Self {
        match source.errno() {
            Some(libc::EPERM | libc::EACCES) => {
                let missing: Vec<_> = Capability::ALL.into_iter().filter(|c| !c.held(effective)).collect();
                if missing.is_empty() { Self::Refused(source) } else { Self::Capabilities { missing, source } }
            }
            // Without CAP_PERFMON the verifier answers EINVAL to a helper that it does not offer.
            Some(libc::EINVAL) if !Capability::Perfmon.held(effective) => {
                Self::Capabilities { missing: vec![Capability::Perfmon], source }
            }
            Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG | libc::EOPNOTSUPP) => Self::Unsupported(source),
            _ => Self::Failed(source),
        }
    }
}

/// Loads the programs and lets them go again: the only test that tells. Lists of features say more than is so.
pub fn probe() -> Result<(), Unavailable> {
    Guard::load(Reach::Rules).map(drop).map_err(|error| Unavailable::new(error, effective_capabilities()))
}

/// The effective set of this thread; empty when it cannot be read.
fn effective_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hexadecimal| u64::from_str_radix(hexadecimal.trim(), 16).ok())
        .unwrap_or(0)
}

fn list(missing: &[Capability]) -> String {
    missing.iter().map(Capability::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn refused(errno: i32) -> BpfError {
        BpfError::CreateMap { name: "POLICY", source: io::Error::from_raw_os_error(errno) }
    }

    #[test]
    fn names_what_is_missing() {
        const BPF: u64 = 1 << 39;
        const NET_ADMIN: u64 = 1 << 12;
        const PERFMON: u64 = 1 << 38;
        const SYS_ADMIN: u64 = 1 << 21;
        for (errno, effective, message) in [
            (libc::EPERM, 0, "eBPF programs need CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON"),
            (libc::EPERM, BPF | PERFMON, "eBPF programs need CAP_NET_ADMIN"),
            (libc::EPERM, SYS_ADMIN, "the kernel refuses eBPF programs in spite of the capabilities"),
            (libc::EINVAL, BPF | NET_ADMIN, "eBPF programs need CAP_PERFMON"),
            (libc::EPERM, BPF | NET_ADMIN | PERFMON, "the kernel refuses eBPF programs in spite of the capabilities"),
            (libc::EINVAL, SYS_ADMIN | NET_ADMIN, "the kernel lacks eBPF features"),
            (libc::ENOSYS, 0, "the kernel lacks eBPF features"),
            (libc::ENOMEM, 0, "eBPF programs cannot be loaded"),
        ] {
            let error = Unavailable::new(refused(errno), effective);
            assert_eq!(error.to_string(), message);
            assert!(!error.hint().is_empty() && !error.hint().contains('\n'));
        }
    }
}
