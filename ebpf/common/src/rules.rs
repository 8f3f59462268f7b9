//! Keys and values of the rule tries.

use crate::byte_enum::byte_enum;
use crate::event::Reason;

/// Most port ranges one rule set holds. More are an error of the loader, never cut off.
pub const MAX_RANGES: usize = 32;

/// Bits of a key in front of the address: eight bytes of scope and one of direction.
pub const SCOPE_BITS: u32 = 72;

/// IANA protocol numbers that a [`PortRange`] can name.
pub mod protocol {
    /// TCP and UDP.
    pub const ANY: u8 = 0;
    /// Transmission Control Protocol.
    pub const TCP: u8 = 6;
    /// User Datagram Protocol.
    pub const UDP: u8 = 17;
}

/// What an address is asked for; a byte of the key.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To send to: connect, sendmsg, egress.
    Out = 0,
    /// To bind to.
    Bind = 1,
}

byte_enum! {
    /// Values of [`PortRange::verdict`] and [`RuleSet::default_verdict`]. Every other byte denies too.
    Verdict {
        /// Let it pass.
        Allow = 0,
        /// Deny: no rule allows it.
        Unlisted = 1,
        /// Deny: a deny rule names it. This one also holds for IPv6 addresses that embed the IPv4 address.
        Denied = 2,
    }
}

/// Key of an LPM trie: how many bits of the data count, then the data.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpm<K> {
    /// [`SCOPE_BITS`] plus the prefix length of the address.
    pub prefix_len: u32,
    /// [`Key4`] or [`Key6`].
    pub data: K,
}

/// Data of a key in `RULES4`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key4 {
    /// [`Policy::scope`](crate::Policy::scope).
    pub scope: [u8; 8],
    /// A [`Direction`].
    pub direction: u8,
    /// Address in network order.
    pub addr: [u8; 4],
    /// Zero; no prefix reaches it. Written out because the kernel reads it.
    pub reserved: [u8; 3],
}

/// Data of a key in `RULES6`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key6 {
    /// [`Policy::scope`](crate::Policy::scope).
    pub scope: [u8; 8],
    /// A [`Direction`].
    pub direction: u8,
    /// Address in network order.
    pub addr: [u8; 16],
    /// Zero; no prefix reaches it. Written out because the kernel reads it.
    pub reserved: [u8; 3],
}

/// A range of ports with its verdict.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange {
    /// First port.
    pub lo: u16,
    /// Last port.
    pub hi: u16,
    /// One of [`protocol`].
    pub protocol: u8,
    /// A [`Verdict`].
    pub verdict: u8,
    /// Zero.
    pub reserved: u16,
    /// Id of the rule that says so.
    pub rule: u32,
}

/// Value of both tries: what holds for the addresses under one prefix.
///
/// A trie returns the longest prefix only, so each set must already contain what its covering prefixes say.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// How many of `ranges` are used.
    pub count: u32,
    /// Rule behind `default_verdict`.
    pub default_rule: u32,
    /// [`Verdict`] where no range matches, and for every protocol but TCP and UDP.
    pub default_verdict: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The first match wins.
    pub ranges: [PortRange; MAX_RANGES],
}

/// What was found for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A [`Verdict`]; every value but [`Verdict::Allow`] denies.
    pub verdict: u8,
    /// Id of the deciding rule; counts only with [`Reason::Rule`].
    pub rule: u32,
    /// Why.
    pub reason: Reason,
}

impl Finding {
    /// A denial that no rule of a set made.
    #[inline(always)]
    pub const fn deny(reason: Reason) -> Self {
        Self { verdict: Verdict::Unlisted as u8, rule: u32::MAX, reason }
    }

    /// Whether the request may pass.
    #[inline(always)]
    pub const fn allows(&self) -> bool {
        self.verdict == Verdict::Allow as u8
    }

    /// Whether a deny rule names the request.
    #[inline(always)]
    pub const fn named(&self) -> bool {
        self.verdict == Verdict::Denied as u8
    }
}

impl PortRange {
    /// Whether a port is in the range. Without branches: each of the four conditions is a sign bit.
    #[inline(always)]
    const fn covers(&self, port: u16, protocol: u32) -> bool {
        let port = port as i64;
        let below = port - self.lo as i64;
        let above = self.hi as i64 - port;
        // Zero when the range is for both protocols, or for this one.
        let other = self.protocol as i64 * (self.protocol as i64 ^ protocol as i64);
        (below | above | -other) >= 0
    }
}

impl RuleSet {
    /// An empty set with a default.
    pub const fn new(default_verdict: Verdict, default_rule: u32) -> Self {
        let unused = PortRange { lo: 0, hi: 0, protocol: 0, verdict: 0, reserved: 0, rule: 0 };
        Self {
            count: 0,
            default_rule,
            default_verdict: default_verdict as u8,
            reserved: [0; 3],
            ranges: [unused; MAX_RANGES],
        }
    }

    /// The verdict for a port. The first range that matches decides, else the default.
    ///
    /// Ranges speak of TCP and UDP: every other protocol has no ports, and gets the default. The protocol is compared
    /// in full: 262 (MPTCP) is not 6.
    #[inline(always)]
    pub fn judge(&self, port: u16, protocol: u32) -> Finding {
        let mut finding = Finding { verdict: self.default_verdict, rule: self.default_rule, reason: Reason::Rule };
        if protocol != u32::from(protocol::TCP) && protocol != u32::from(protocol::UDP) {
            return finding;
        }
        // The verifier walks every way through this loop when a program is loaded, so a step has few: one out at its
        // end, one out on a match, one on.
        let mut index = 0;
        while index < MAX_RANGES {
            if index as u32 >= self.count {
                break;
            }
            let range = &self.ranges[index];
            if range.covers(port, protocol) {
                finding.verdict = range.verdict;
                finding.rule = range.rule;
                break;
            }
            index += 1;
        }
        finding
    }
}

const _: () = assert!(size_of::<Lpm<Key4>>() == 20 && size_of::<Lpm<Key6>>() == 32);
const _: () = assert!(size_of::<PortRange>() == 12 && size_of::<RuleSet>() == 12 + 12 * MAX_RANGES);
const _: () = assert!(align_of::<RuleSet>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u16, u16, u8, Verdict, u32)], default: Verdict) -> RuleSet {
        let mut set = RuleSet::new(default, 99);
        for (slot, &(lo, hi, protocol, verdict, rule)) in set.ranges.iter_mut().zip(ranges) {
            *slot = PortRange { lo, hi, protocol, verdict: verdict as u8, reserved: 0, rule };
        }
        set.count = ranges.len() as u32;
        set
    }

    #[test]
    fn first_matching_range_decides() {
        let set = set(
            &[
                (443, 443, protocol::TCP, Verdict::Allow, 1),
                (400, 500, protocol::ANY, Verdict::Denied, 2),
                (0, 0, protocol::UDP, Verdict::Allow, 3),
                (65535, 65535, protocol::ANY, Verdict::Allow, 4),
            ],
            Verdict::Unlisted,
        );
        for (port, protocol, verdict, rule) in [
            (443, 6, Verdict::Allow, 1),
            (443, 17, Verdict::Denied, 2),
            (400, 6, Verdict::Denied, 2),
            (500, 6, Verdict::Denied, 2),
            (501, 6, Verdict::Unlisted, 99),
            (399, 17, Verdict::Unlisted, 99),
            (0, 17, Verdict::Allow, 3),
            (0, 6, Verdict::Unlisted, 99),
            (65535, 6, Verdict::Allow, 4),
            // Not TCP or UDP: ranges for any protocol do not speak of it either. 262 is MPTCP; its low byte is TCP's.
            (443, 262, Verdict::Unlisted, 99),
            (443, 1, Verdict::Unlisted, 99),
            (443, 0, Verdict::Unlisted, 99),
        ] {
            let finding = set.judge(port, protocol);
            assert_eq!((finding.verdict, finding.rule), (verdict as u8, rule), "port {port} protocol {protocol}");
        }
    }

    #[test]
    fn unused_ranges_are_not_read_and_a_full_set_is_read_to_its_end() {
        let mut full = RuleSet::new(Verdict::Unlisted, 0);
        for (index, range) in full.ranges.iter_mut().enumerate() {
            *range = PortRange { lo: index as u16, hi: index as u16, rule: index as u32, ..PortRange::default() };
        }
        assert!(!full.judge(0, 6).allows());
        full.count = MAX_RANGES as u32;
        assert_eq!(full.judge(31, 6), Finding { verdict: 0, rule: 31, reason: Reason::Rule });
        assert!(!full.judge(32, 6).allows());
    }
}
