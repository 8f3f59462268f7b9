//! The network plan in the words of the kernel programs.

use act_bpf::{Direction, Flags, NetEntry, NetTable, PortRange, Verdict};
use act_policy::{NetPlan, NetVerdict};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Rule number of an answer that no rule gave.
const NO_RULE: u32 = u32::MAX;

/// The table of a plan; without entries where no address can be reached.
///
/// TCP and UDP sockets may always be made, for the host check to see the address that is asked for. Besides the plan's own
/// entries the table holds the one local address that a connecting socket is bound to implicitly: the wildcard with port
/// 0. Every other bind is denied.
pub fn table(plan: &NetPlan) -> NetTable {
    let flags = Flags { tcp: true, udp: true, ..Flags::default() };
    if !plan.tcp && !plan.udp {
        return NetTable { flags, entries: Vec::new() };
    }
    let mut entries: Vec<NetEntry> = plan.entries.iter().map(entry).collect();
    for addr in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
        let any = PortRange { lo: 0, hi: 0, protocol: 0, verdict: Verdict::Allow, rule: NO_RULE };
        entries.push(NetEntry {
            direction: Direction::Bind,
            addr,
            prefix: if addr.is_ipv4() { 32 } else { 128 },
            ranges: vec![any],
            default_verdict: Verdict::Unlisted,
            default_rule: NO_RULE,
        });
    }
    NetTable { flags, entries }
}

/// One entry.
pub fn entry(entry: &act_policy::NetEntry) -> NetEntry {
    let (default_verdict, default_rule) = verdict(entry.default);
    let ranges = entry.ports.iter().map(|range| {
        let (verdict, rule) = verdict(range.verdict);
        PortRange { lo: range.low, hi: range.high, protocol: range.protocol.number(), verdict, rule }
    });
    NetEntry {
        direction: Direction::Out,
        addr: entry.range.addr(),
        prefix: entry.range.prefix_len(),
        ranges: ranges.collect(),
        default_verdict,
        default_rule,
    }
}

fn verdict(verdict: NetVerdict) -> (Verdict, u32) {
    match verdict {
        NetVerdict::Allow => (Verdict::Allow, NO_RULE),
        NetVerdict::Unlisted => (Verdict::Unlisted, NO_RULE),
        NetVerdict::Denied(rule) => (Verdict::Denied, rule.0),
    }
}
