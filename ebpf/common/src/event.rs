//! The event of a denial.

use crate::byte_enum::byte_enum;

/// A denial, as it lies in the ring buffer `EVENTS`. Allowed requests make no event.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub timestamp: u64,
    /// Id of the configured cgroup whose programs denied, else of the cgroup of the task or socket.
    pub cgroup: u64,
    /// Process id in the initial namespace; 0 from [`Hook::Egress`], which runs in no task's name.
    pub pid: u32,
    /// Thread id in the initial namespace; 0 from [`Hook::Egress`].
    pub tid: u32,
    /// Effective user id in the initial namespace; `u32::MAX` from [`Hook::Egress`].
    pub uid: u32,
    /// Id of the rule that denied; counts only with [`Reason::Rule`].
    pub rule: u32,
    /// IANA protocol number. More than a byte: MPTCP is 262.
    pub protocol: u32,
    /// Address family, `AF_INET` (2) or `AF_INET6` (10).
    pub family: u16,
    /// Port in host order; 0 where there is none.
    pub port: u16,
    /// A [`Hook`].
    pub hook: u8,
    /// A [`Verdict`](crate::Verdict), never `Allow`.
    pub verdict: u8,
    /// A [`Reason`].
    pub reason: u8,
    /// Socket type (`SOCK_STREAM`, …) from [`Hook::SockCreate`], else 0.
    pub socket_type: u8,
    /// Zero.
    pub reserved: u32,
    /// Address as given, in network order; IPv4 as `::ffff:a.b.c.d`.
    pub addr: [u8; 16],
    /// Name of the thread, filled up with zeros; empty from [`Hook::Egress`].
    pub comm: [u8; 16],
}

const _: () = assert!(size_of::<Event>() == 80 && align_of::<Event>() == 8);

byte_enum! {
    /// The hook that denied.
    Hook {
        /// `connect` of an IPv4 socket.
        Connect4 = 1,
        /// `connect` of an IPv6 socket; a mapped address too.
        Connect6 = 2,
        /// A datagram with an IPv4 address; a mapped address on an IPv6 socket too.
        Sendmsg4 = 3,
        /// A datagram with an IPv6 address.
        Sendmsg6 = 4,
        /// `bind` to an IPv4 address.
        Bind4 = 5,
        /// `bind` to an IPv6 address.
        Bind6 = 6,
        /// `socket`.
        SockCreate = 7,
        /// A packet on its way out.
        Egress = 8,
    }
}

byte_enum! {
    /// Why a request was denied.
    Reason {
        /// A rule set says so: see `rule`.
        Rule = 0,
        /// No prefix covers the address.
        NoRule = 1,
        /// The cgroup's policy record is not filled yet, or no longer.
        Unconfigured = 2,
        /// A family, type or protocol of socket that is never allowed, or that nothing grants.
        SocketKind = 3,
        /// The packet may name further hops: IPv4 options or IPv6 extension headers.
        SourceRoute = 4,
        /// A connection from outside would be accepted, and listening is not granted.
        Listen = 5,
        /// The headers of a packet could not be read.
        Unreadable = 6,
    }
}
