//! Denials, as the programs report them.

use act_ebpf_common::{self as common, Hook, Reason, Verdict};
use std::net::{IpAddr, Ipv6Addr};

/// A denied request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub timestamp: u64,
    /// The hook that denied.
    pub hook: Hook,
    /// Id of the attached cgroup; of the task's own one before it is configured.
    pub cgroup: u64,
    /// Process id in the initial namespace; 0 from [`Hook::Egress`].
    pub pid: u32,
    /// Thread id in the initial namespace; 0 from [`Hook::Egress`].
    pub tid: u32,
    /// User id in the initial namespace; `None` from [`Hook::Egress`].
    pub uid: Option<u32>,
    /// Address as given, a mapped one as IPv4; unspecified from [`Hook::SockCreate`].
    pub addr: IpAddr,
    /// Port in host order; 0 where there is none.
    pub port: u16,
    /// IANA number. MPTCP is 262.
    pub protocol: u32,
    /// Address family of the call or packet.
    pub family: u16,
    /// `SOCK_STREAM`, …; 0 from every hook but [`Hook::SockCreate`].
    pub socket_type: u8,
    /// Id of the rule that denied; `None` where no rule did, see `reason`.
    pub rule: Option<u32>,
    /// Why.
    pub reason: Reason,
    /// [`Verdict::Unlisted`] or [`Verdict::Denied`].
    pub verdict: Verdict,
    /// Name of the thread, which it chose itself: hostile text. Empty from [`Hook::Egress`].
    pub comm: Vec<u8>,
}

impl Event {
    /// `None` when a byte has no meaning, as from an object of another version.
    pub(crate) fn decode(raw: &common::Event) -> Option<Self> {
        let reason = Reason::from_byte(raw.reason)?;
        let end = raw.comm.iter().position(|byte| *byte == 0).unwrap_or(raw.comm.len());
        Some(Self {
            timestamp: raw.timestamp,
            hook: Hook::from_byte(raw.hook)?,
            cgroup: raw.cgroup,
            pid: raw.pid,
            tid: raw.tid,
            uid: (raw.uid != u32::MAX).then_some(raw.uid),
            addr: Ipv6Addr::from(raw.addr).to_canonical(),
            port: raw.port,
            protocol: raw.protocol,
            family: raw.family,
            socket_type: raw.socket_type,
            rule: (reason == Reason::Rule).then_some(raw.rule),
            reason,
            verdict: Verdict::from_byte(raw.verdict)?,
            comm: raw.comm.get(..end)?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> common::Event {
        common::Event {
            timestamp: 7,
            cgroup: 11,
            pid: 1,
            tid: 2,
            uid: 3,
            rule: 4,
            protocol: 262,
            family: 10,
            port: 443,
            hook: Hook::Connect6 as u8,
            verdict: Verdict::Denied as u8,
            reason: Reason::Rule as u8,
            socket_type: 0,
            reserved: 0,
            addr: "::ffff:10.1.2.3".parse::<Ipv6Addr>().unwrap().octets(),
            comm: *b"sixteen bytes...",
        }
    }

    #[test]
    fn decodes_each_field() {
        let event = Event::decode(&raw()).unwrap();
        assert_eq!(event.hook, Hook::Connect6);
        assert_eq!(event.addr, "10.1.2.3".parse::<IpAddr>().unwrap());
        assert_eq!((event.port, event.protocol, event.rule, event.uid), (443, 262, Some(4), Some(3)));
        assert_eq!(event.comm, b"sixteen bytes...");
    }

    #[test]
    fn a_rule_is_named_only_where_one_decided() {
        let event = Event::decode(&common::Event { reason: Reason::NoRule as u8, uid: u32::MAX, ..raw() }).unwrap();
        assert_eq!((event.rule, event.uid), (None, None));
    }

    #[test]
    fn bytes_without_meaning_are_refused() {
        for raw in [
            common::Event { hook: 0, ..raw() },
            common::Event { hook: 200, ..raw() },
            common::Event { reason: 99, ..raw() },
            common::Event { verdict: 9, ..raw() },
        ] {
            assert_eq!(Event::decode(&raw), None);
        }
    }
}
