//! Ten thousand random prefixes in the kernel's trie against a matcher that reads them one by one.

use crate::attempts::{UDP, errno, socket_for};
use crate::lab::{Lab, Puppet};
use act_bpf::{Direction, Flags, Guard, MAX_RANGES, NetEntry, NetTable, PortRange, Reach, Verdict};
use rustix::net::connect;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A small generator (xorshift64*): the same numbers in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 16) % bound
    }

    fn verdict(&mut self) -> Verdict {
        [Verdict::Allow, Verdict::Allow, Verdict::Unlisted, Verdict::Denied][self.below(4) as usize]
    }

    fn port(&mut self) -> u16 {
        [1, 2, 80, 443, 1000, 32768, 65534, 65535][self.below(8) as usize]
    }

    /// Close to each other, so that prefixes nest and addresses hit.
    fn addr(&mut self, v6: bool) -> IpAddr {
        let few = self.below(1 << 12) as u32;
        let bits = if self.below(2) == 0 { few << 12 } else { few } | 127 << 24;
        if v6 {
            Ipv6Addr::from_bits(u128::from(bits) << 64 | 0xfd << 120).into()
        } else {
            Ipv4Addr::from_bits(bits).into()
        }
    }

    fn entry(&mut self, v6: bool) -> NetEntry {
        let mut ranges: Vec<PortRange> = (0..self.below(5))
            .map(|_| {
                let (a, b) = (self.port(), self.port());
                let protocol = [0, 6, 17][self.below(3) as usize];
                PortRange { lo: a.min(b), hi: a.max(b), protocol, verdict: self.verdict(), rule: self.next() as u32 }
            })
            .collect();
        if self.below(50) == 0 {
            ranges = (0..MAX_RANGES as u16)
                .map(|i| PortRange { lo: i, hi: i * 1100, protocol: 17, verdict: self.verdict(), rule: 1 })
                .collect();
        }
        NetEntry {
            direction: Direction::Out,
            addr: self.addr(v6),
            prefix: if v6 { 20 + self.below(109) as u8 } else { 8 + self.below(25) as u8 },
            ranges,
            default_verdict: self.verdict(),
            default_rule: self.next() as u32,
        }
    }
}

fn covers(entry: &NetEntry, addr: IpAddr) -> bool {
    match (entry.addr, addr) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(32 - u32::from(entry.prefix)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(128 - u32::from(entry.prefix)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// The last entry of the longest prefix, then its first range.
fn naive(entries: &[NetEntry], addr: IpAddr, port: u16) -> Verdict {
    let longest = entries.iter().filter(|entry| covers(entry, addr)).max_by_key(|entry| entry.prefix);
    longest.map_or(Verdict::Unlisted, |entry| {
        let range = entry.ranges.iter().find(|r| [0, 17].contains(&r.protocol) && (r.lo..=r.hi).contains(&port));
        range.map_or(entry.default_verdict, |range| range.verdict)
    })
}

fn compare(v6: bool, entries: usize, probes: u32) {
    let Some(lab) = Lab::open() else { return };
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let entries: Vec<NetEntry> = (0..entries).map(|_| random.entry(v6)).collect();
    let targets: Vec<SocketAddr> = (0..probes).map(|_| SocketAddr::new(random.addr(v6), random.port())).collect();

    let guard = Guard::load(Reach::Rules).unwrap();
    let cgroup = lab.cgroup();
    let mut attached = cgroup.attach(&guard);
    let flags = Flags { udp: true, ..Flags::default() };
    attached.configure(&NetTable { flags, entries: entries.clone() }).unwrap();

    let act = |step: u32| {
        let target = targets[step as usize];
        errno(socket_for(target, UDP).and_then(|socket| connect(&socket, &target)))
    };
    let (held, free) = (Puppet::start(Some(&cgroup), act), Puppet::start(None, act));
    let mut counts = [0; 2];
    for (step, target) in (0..).zip(&targets) {
        let allowed = naive(&entries, target.ip(), target.port()) == Verdict::Allow;
        assert_eq!(held.step(step), if allowed { 0 } else { libc::EPERM }, "{target}");
        counts[usize::from(allowed)] += 1;
        if step % 64 == 0 {
            assert_eq!(free.step(step), 0, "{target} without the guard");
        }
    }
    assert!(counts.iter().all(|count| *count > probes / 10), "one-sided: {counts:?}");
    attached.retire().unwrap();
}

#[test]
fn v4_as_naive() {
    compare(false, 10_000, 8_000);
}

#[test]
fn v6_as_naive() {
    compare(true, 10_000, 4_000);
}
