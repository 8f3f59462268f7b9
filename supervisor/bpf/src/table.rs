//! The rules of one sandbox, and how they become keys and values of the tries.

use crate::BpfError;
use act_ebpf_common::{self as common, Direction, Key4, Key6, Lpm, RuleSet, SCOPE_BITS, Verdict, flags, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Everything a sandbox may do on the network. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetTable {
    /// Which sockets may be made.
    pub flags: Flags,
    /// What holds for which addresses. What no entry covers is denied.
    ///
    /// The longest prefix alone decides, so an entry must contain what the shorter ones around it say.
    pub entries: Vec<NetEntry>,
}

/// Which sockets a sandbox may make, and what egress judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four independent switches")]
pub struct Flags {
    /// TCP sockets may be made.
    pub tcp: bool,
    /// UDP sockets may be made.
    pub udp: bool,
    /// TCP sockets may accept connections. Set it exactly when an entry allows a TCP `bind`: without it a socket that
    /// listens on a port it did not bind is held too.
    pub listen: bool,
    /// Judge every TCP and UDP packet again on its way out, so that a rule changed later holds open connections too.
    /// Replies on accepted connections are then judged as outgoing.
    pub every_packet: bool,
}

/// What holds for the addresses under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetEntry {
    /// Sending there or binding there.
    pub direction: Direction,
    /// Address; bits behind the prefix are ignored. A mapped IPv6 address counts as IPv4 when its prefix says so.
    ///
    /// Destinations of `0.0.0.0` and `::` are looked up as `127.0.0.1` and `::1`.
    pub addr: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
    /// Port ranges: the first that matches decides. At most [`MAX_RANGES`](crate::MAX_RANGES).
    pub ranges: Vec<PortRange>,
    /// Where no range matches, and for protocols other than TCP and UDP.
    pub default_verdict: Verdict,
    /// Id of the rule behind `default_verdict`.
    pub default_rule: u32,
}

/// A range of ports with its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port; 0 is what `bind` asks for to be given any.
    pub lo: u16,
    /// Last port.
    pub hi: u16,
    /// 0 (TCP and UDP), 6 or 17.
    pub protocol: u8,
    /// What holds.
    pub verdict: Verdict,
    /// Id of the rule that says so.
    pub rule: u32,
}

impl Flags {
    /// The bits of a policy record that is in force.
    pub(crate) fn bits(self) -> u32 {
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        flags::CONFIGURED
            | bit(self.tcp, flags::ALLOW_TCP)
            | bit(self.udp, flags::ALLOW_UDP)
            | bit(self.listen, flags::ALLOW_LISTEN)
            | bit(self.every_packet, flags::EGRESS_ALL)
    }
}

/// Key of an entry, in the trie of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    V4(Lpm<Key4>),
    V6(Lpm<Key6>),
}

impl NetEntry {
    /// The key of this entry in the tries, for the cgroup with this id.
    pub(crate) fn key(&self, cgroup: u64) -> Result<Key, BpfError> {
        let scope = cgroup.to_be_bytes();
        let direction = self.direction as u8;
        let (addr, prefix) = match self.addr {
            IpAddr::V6(v6) if self.prefix >= 96 && self.prefix <= 128 => match v6.to_ipv4_mapped() {
                Some(v4) => (IpAddr::V4(v4), self.prefix - 96),
                None => (self.addr, self.prefix),
            },
            addr => (addr, self.prefix),
        };
        let too_long = BpfError::Prefix { addr: self.addr, prefix: self.prefix };
        match addr {
            IpAddr::V4(addr) => {
                let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                let addr = Ipv4Addr::from_bits(addr.to_bits() & !host).octets();
                if prefix > 32 {
                    return Err(too_long);
                }
                let data = Key4 { scope, direction, addr, reserved: [0; 3] };
                Ok(Key::V4(Lpm { prefix_len: SCOPE_BITS + u32::from(prefix), data }))
            }
            IpAddr::V6(addr) => {
                let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                let addr = Ipv6Addr::from_bits(addr.to_bits() & !host).octets();
                if prefix > 128 {
                    return Err(too_long);
                }
                let data = Key6 { scope, direction, addr, reserved: [0; 3] };
                Ok(Key::V6(Lpm { prefix_len: SCOPE_BITS + u32::from(prefix), data }))
            }
        }
    }

    /// The value of this entry in the tries. Too many ranges are an error: leaving one out could open a port.
    pub(crate) fn rule_set(&self) -> Result<RuleSet, BpfError> {
        let mut set = RuleSet::new(self.default_verdict, self.default_rule);
        if self.ranges.len() > set.ranges.len() {
            return Err(BpfError::TooManyRanges { addr: self.addr, prefix: self.prefix, count: self.ranges.len() });
        }
        for (slot, range) in set.ranges.iter_mut().zip(&self.ranges) {
            let &PortRange { lo, hi, protocol, verdict, rule } = range;
            if lo > hi || !matches!(protocol, protocol::ANY | protocol::TCP | protocol::UDP) {
                return Err(BpfError::Range { lo, hi, protocol });
            }
            *slot = common::PortRange { lo, hi, protocol, verdict: verdict as u8, reserved: 0, rule };
        }
        set.count = self.ranges.len() as u32;
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(addr: &str, prefix: u8) -> NetEntry {
        NetEntry {
            direction: Direction::Out,
            addr: addr.parse().unwrap(),
            prefix,
            ranges: Vec::new(),
            default_verdict: Verdict::Allow,
            default_rule: 1,
        }
    }

    #[test]
    fn keys() {
        let v4 = |prefix_len, addr| {
            Key::V4(Lpm {
                prefix_len,
                data: Key4 { scope: [0, 0, 0, 0, 0, 0, 1, 2], direction: 0, addr, reserved: [0; 3] },
            })
        };
        for (addr, prefix, expected) in [
            ("10.1.2.3", 32, v4(104, [10, 1, 2, 3])),
            ("10.1.2.3", 8, v4(80, [10, 0, 0, 0])),
            ("10.1.2.3", 0, v4(72, [0; 4])),
            ("::ffff:10.1.2.3", 128, v4(104, [10, 1, 2, 3])),
            ("::ffff:10.1.2.3", 104, v4(80, [10, 0, 0, 0])),
            ("::ffff:0:0", 96, v4(72, [0; 4])),
        ] {
            assert_eq!(entry(addr, prefix).key(0x102).unwrap(), expected, "{addr}/{prefix}");
        }
        for (addr, prefix, prefix_len, expected) in [
            ("fd00::ff", 128, 200, "fd00::ff"),
            ("fd00::ff", 16, 88, "fd00::"),
            ("fd00::ff", 0, 72, "::"),
            ("::ffff:10.1.2.3", 95, 167, "::fffe:0:0"),
        ] {
            let Key::V6(key) = entry(addr, prefix).key(0x102).unwrap() else { panic!("{addr}/{prefix} is not IPv6") };
            assert_eq!(
                (key.prefix_len, Ipv6Addr::from(key.data.addr)),
                (prefix_len, expected.parse().unwrap()),
                "{addr}/{prefix}"
            );
        }
    }

    #[test]
    fn prefixes_longer_than_the_address_are_refused() {
        for (addr, prefix) in [("10.0.0.0", 33), ("::", 129), ("::ffff:10.0.0.0", 129), ("10.0.0.0", 255)] {
            assert!(matches!(entry(addr, prefix).key(1), Err(BpfError::Prefix { .. })), "{addr}/{prefix}");
        }
    }

    #[test]
    fn ranges_are_refused_rather_than_cut() {
        let range = PortRange { lo: 1, hi: 2, protocol: 6, verdict: Verdict::Denied, rule: 1 };
        let with = |ranges: Vec<PortRange>| NetEntry { ranges, ..entry("10.0.0.0", 8) }.rule_set();
        assert_eq!(with(vec![range; 32]).unwrap().count, 32);
        let error = with(vec![range; 33]).unwrap_err();
        assert_eq!(error.to_string(), "33 port ranges for `10.0.0.0/8`: at most 32 fit");
        assert!(matches!(with(vec![PortRange { lo: 3, ..range }]), Err(BpfError::Range { .. })));
        assert!(matches!(with(vec![PortRange { protocol: 1, ..range }]), Err(BpfError::Range { .. })));
    }
}
