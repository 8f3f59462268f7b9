//! Tables of attempts, and the rules that they run against.

use crate::lab::{Cgroup, Lab, OTHER, PORT, Puppet, skip};
use act_bpf::{Direction, Event, Flags, Guard, Hook, NetEntry, NetTable, PortRange, Reach, Reason, Verdict};
use std::net::{IpAddr, SocketAddr};

const TCP_ONLY: u8 = 6;

/// Ids of the rules of [`table`].
pub(crate) mod rule {
    pub(crate) const LOOPBACK4: u32 = 10;
    pub(crate) const LOOPBACK6: u32 = 12;
    pub(crate) const TEN: u32 = 20;
    pub(crate) const METADATA: u32 = 30;
    pub(crate) const BIND: u32 = 40;
    pub(crate) const PORTS: u32 = 50;
}

pub(crate) fn entry(
    direction: Direction,
    network: &str,
    verdict: Verdict,
    rule: u32,
    ranges: &[PortRange],
) -> NetEntry {
    let (addr, prefix) = network.split_once('/').unwrap();
    NetEntry {
        direction,
        addr: addr.parse().unwrap(),
        prefix: prefix.parse().unwrap(),
        ranges: ranges.to_vec(),
        default_verdict: verdict,
        default_rule: rule,
    }
}

pub(crate) fn range(lo: u16, hi: u16, protocol: u8, verdict: Verdict, rule: u32) -> PortRange {
    PortRange { lo, hi, protocol, verdict, rule }
}

/// Everything is allowed but loopback (except TCP port 7002), 10/8, one metadata service, a port range of 9.9.9.9, and
/// all of 192.0.2.0/24 for want of a rule.
pub(crate) fn table() -> NetTable {
    use Direction::{Bind, Out};
    use Verdict::{Allow, Denied, Unlisted};
    let except = [range(OTHER, OTHER, TCP_ONLY, Allow, 11)];
    NetTable {
        flags: Flags { tcp: true, udp: true, ..Flags::default() },
        entries: vec![
            entry(Out, "0.0.0.0/0", Allow, 1, &[]),
            entry(Out, "::/0", Allow, 2, &[]),
            entry(Out, "127.0.0.0/8", Denied, rule::LOOPBACK4, &except),
            entry(Out, "::1/128", Denied, rule::LOOPBACK6, &except),
            entry(Out, "10.0.0.0/8", Denied, rule::TEN, &[]),
            entry(Out, "fd00:ec2::254/128", Denied, rule::METADATA, &[]),
            entry(
                Out,
                "9.9.9.9/32",
                Allow,
                1,
                &[range(PORT, PORT, 17, Denied, rule::PORTS), range(PORT + 1, 8000, 0, Denied, rule::PORTS + 1)],
            ),
            entry(Out, "192.0.2.0/24", Unlisted, 60, &[]),
            entry(Bind, "0.0.0.0/32", Unlisted, rule::BIND, &[range(0, 0, 0, Allow, rule::BIND)]),
            entry(Bind, "127.0.0.0/8", Unlisted, rule::BIND, &[range(7100, 7199, TCP_ONLY, Allow, rule::BIND)]),
        ],
    }
}

/// What the guard must make of an attempt.
enum Expect {
    Passes,
    Denied { hook: Hook, addr: &'static str, port: u16, reason: Reason, rule: Option<u32> },
}

/// An attempt with what must become of it.
pub(crate) struct Row {
    name: String,
    attempt: Box<dyn Fn() -> i32>,
    expect: Expect,
}

pub(crate) fn passes(name: &str, attempt: impl Fn() -> i32 + 'static) -> Row {
    Row { name: name.to_owned(), attempt: Box::new(attempt), expect: Expect::Passes }
}

/// A denial by a rule.
pub(crate) fn denied(name: &str, hook: Hook, to: (&'static str, u16, u32), attempt: impl Fn() -> i32 + 'static) -> Row {
    let (addr, port, rule) = to;
    let expect = Expect::Denied { hook, addr, port, reason: Reason::Rule, rule: Some(rule) };
    Row { name: name.to_owned(), attempt: Box::new(attempt), expect }
}

/// A denial that no rule makes.
pub(crate) fn refused(
    name: &str,
    hook: Hook,
    to: (&'static str, u16),
    reason: Reason,
    attempt: impl Fn() -> i32 + 'static,
) -> Row {
    let (addr, port) = to;
    Row {
        name: name.to_owned(),
        attempt: Box::new(attempt),
        expect: Expect::Denied { hook, addr, port, reason, rule: None },
    }
}

pub(crate) fn events(guard: &Guard) -> Vec<Event> {
    let mut events = Vec::new();
    guard.drain(&mut |event| events.push(event));
    events
}

/// Runs each row outside and inside the cgroup.
pub(crate) fn check(guard: &Guard, cgroup: &Cgroup, id: u64, rows: &[Row]) {
    let act = |step: u32| (rows[step as usize].attempt)();
    let free = Puppet::start(None, act);
    let held = Puppet::start(Some(cgroup), act);
    events(guard);
    let mut wrong = Vec::new();
    for (step, row) in (0..).zip(rows) {
        let control = free.step(step);
        if control != 0 {
            skip(&format!("{}: does not work here without the guard either (errno {control})", row.name));
            continue;
        }
        let result = held.step(step);
        let events = events(guard);
        match &row.expect {
            Expect::Passes if result == 0 && events.is_empty() => {}
            Expect::Passes => wrong.push(format!("{}: errno {result}, {events:?}", row.name)),
            &Expect::Denied { hook, addr, port, reason, rule } => {
                let addr: IpAddr = addr.parse().unwrap();
                let said = events.first().is_some_and(|e| {
                    let task = hook == Hook::Egress || (e.pid == held.pid() && e.uid == Some(0) && !e.comm.is_empty());
                    task && (e.hook, e.addr, e.port, e.reason, e.rule, e.cgroup) == (hook, addr, port, reason, rule, id)
                });
                if result != libc::EPERM || !said {
                    wrong.push(format!("{}: errno {result}, {events:?}", row.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A lab with a configured cgroup.
pub(crate) fn configured(table: &NetTable) -> Option<(Lab, Guard, Cgroup, act_bpf::Attached)> {
    let lab = Lab::open()?;
    let guard = Guard::load(Reach::Rules).unwrap();
    let cgroup = lab.cgroup();
    let mut attached = cgroup.attach(&guard);
    attached.configure(table).unwrap();
    Some((lab, guard, cgroup, attached))
}

pub(crate) fn to(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}
