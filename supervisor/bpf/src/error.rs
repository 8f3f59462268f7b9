//! What can go wrong, by step.

use act_ebpf_common::MAX_RANGES;
use std::io;
use std::net::IpAddr;

/// A step that failed. The caller must then treat the sandbox as not there and start nothing in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The included object is no eBPF object.
    #[error("cannot parse the eBPF object")]
    Object(#[from] aya_obj::ParseError),
    /// The included object refers to something it does not hold.
    #[error("cannot relocate the eBPF object")]
    Relocate(#[from] aya_obj::relocation::EbpfRelocationError),
    /// The included object lacks a program or map, or its layout is another one than this crate was built with.
    #[error("the eBPF object does not fit this program: `{name}` {problem}")]
    Mismatch {
        /// Program or map.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// `BPF_MAP_CREATE` failed.
    #[error("cannot create eBPF map `{name}`")]
    CreateMap {
        /// Which map.
        name: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// `BPF_PROG_LOAD` failed.
    #[error("cannot load eBPF program `{name}`{}", log_suffix(log))]
    LoadProgram {
        /// Which program.
        name: &'static str,
        /// The kernel's answer.
        source: io::Error,
        /// The verifier's last words, one line; empty when it was not asked.
        log: String,
    },
    /// The ring buffer cannot be mapped.
    #[error("cannot read the eBPF event ring")]
    Ring(#[source] aya::maps::MapError),
    /// A thread or a descriptor for loading could not be had.
    #[error("cannot {step} to load the eBPF programs")]
    Resource {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The descriptor given to attach is not a directory of cgroup v2.
    #[error("not a cgroup v2 directory")]
    NotCgroup,
    /// Rules for a guard that was loaded without any ([`Reach::Nothing`](crate::Reach::Nothing)).
    #[error("the programs were loaded to deny everything and take no rules")]
    NoRules,
    /// The descriptor given to attach cannot be looked at.
    #[error("cannot identify the cgroup")]
    Cgroup(#[source] io::Error),
    /// `BPF_PROG_ATTACH` failed. `EPERM` with all capabilities means that a program on an ancestor allows no others.
    #[error("cannot attach eBPF program `{name}` to the cgroup")]
    Attach {
        /// Which program.
        name: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A map could not be written or read.
    #[error("cannot {step} eBPF map `{name}`")]
    Map {
        /// Which map.
        name: &'static str,
        /// `update`, `delete from` or `read`.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// An entry has more ranges than a rule set holds.
    #[error("{count} port ranges for `{addr}/{prefix}`: at most {MAX_RANGES} fit")]
    TooManyRanges {
        /// Address of the entry.
        addr: IpAddr,
        /// Prefix length of the entry.
        prefix: u8,
        /// How many ranges it has.
        count: usize,
    },
    /// An entry's prefix is longer than its address.
    #[error("prefix length {prefix} is too long for `{addr}`")]
    Prefix {
        /// Address of the entry.
        addr: IpAddr,
        /// Prefix length of the entry.
        prefix: u8,
    },
    /// A range is empty, or is for a protocol without ports.
    #[error(
        "port range `{lo}-{hi}` with protocol {protocol}: want first ≤ last and protocol 0 (both), 6 (TCP) or 17 (UDP)"
    )]
    Range {
        /// First port.
        lo: u16,
        /// Last port.
        hi: u16,
        /// IANA number.
        protocol: u8,
    },
}

fn log_suffix(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(": {log}") }
}

impl BpfError {
    /// The kernel's error number, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::CreateMap { source, .. }
            | Self::LoadProgram { source, .. }
            | Self::Resource { source, .. }
            | Self::Cgroup(source)
            | Self::Attach { source, .. }
            | Self::Map { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}
