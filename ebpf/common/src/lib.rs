//! Types and constants shared byte for byte by act's eBPF programs and by the supervisor that loads them.
//!
//! Every map key and value and the event of the ring buffer are `repr(C)` without hidden padding, and their sizes are
//! asserted when this crate is compiled, on the BPF target and on the host alike. The crate also holds the two pure
//! decisions that both sides must agree on: which address an IPv6 address really names ([`address`]), and which range
//! of a rule set matches ([`RuleSet::judge`]). Both are tested here, on the host, and run in the kernel.
#![no_std]

pub mod address;
mod byte_enum;
mod event;
mod rules;

pub use event::{Event, Hook, Reason};
pub use rules::{Direction, Finding, Key4, Key6, Lpm, MAX_RANGES, PortRange, RuleSet, SCOPE_BITS, Verdict, protocol};

/// The policy record of one cgroup, in the `POLICY` map (`BPF_MAP_TYPE_CGROUP_STORAGE`, 8-byte key: the cgroup's id).
///
/// The kernel makes it at attach, filled with zeros, and frees it with the cgroup. All hooks share it. Zero in
/// [`flags`](Self::flags) means *not configured*: every hook denies.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Id of the cgroup the programs are attached to, big endian: the first eight bytes of every key in the tries.
    pub scope: [u8; 8],
    /// Bits of [`flags`].
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bits of [`Policy::flags`].
pub mod flags {
    /// The record is filled and the tries hold its rules. Without this bit everything is denied.
    pub const CONFIGURED: u32 = 1;
    /// TCP sockets may be made.
    pub const ALLOW_TCP: u32 = 1 << 1;
    /// UDP sockets may be made.
    pub const ALLOW_UDP: u32 = 1 << 2;
    /// TCP sockets may accept connections. Without it egress drops every SYN-ACK, which also holds a socket that
    /// listens without `bind`: no bind hook sees the port that `listen` takes for it.
    pub const ALLOW_LISTEN: u32 = 1 << 3;
    /// Egress judges TCP and UDP packets too, not only what the socket hooks could not see. Replies on accepted
    /// connections are then judged as outgoing.
    pub const EGRESS_ALL: u32 = 1 << 4;
}

const _: () = assert!(size_of::<Policy>() == 16 && align_of::<Policy>() == 4);
