//! Address tables for the kernel hooks: the union of what `wasi:sockets` and `wasi:http` may reach.

use super::{NetEntry, NetPlan, NetVerdict, PortRange};
use crate::class::{Class, Mode};
use crate::engine::Engine;
use crate::index::net::{NetKind, NetQuery, forms};
use crate::policy::ClassPolicy;
use crate::request::{Protocol, RuleId, Verdict};
use crate::rule::{Matches, Ports};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn plan(engine: &Engine) -> NetPlan {
    let mut ranges = BTreeSet::from([
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
        IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
    ]);
    ranges.extend(engine.net.named_ranges());
    let entries = ranges.into_iter().map(|range| entry(engine, range, None, &[])).collect();
    let policy = engine.policy();
    // Landlock cannot open a port later, so that it is open for an answer; the addresses are closed until then.
    let asks_open = policy.asks_pass() || policy.may_ask();
    let open = |class: &&ClassPolicy| class.declared.is_some() && (asks_open || class.mode != Mode::Ask);
    let sockets = policy.class(&Class::sockets()).filter(open);
    let http = policy.class(&Class::http()).filter(open);
    let speaks = |protocol| sockets.is_some_and(|class| uses(engine, class, protocol));
    let requests = http.is_some_and(|class| uses(engine, class, Protocol::Tcp));
    let tcp = speaks(Protocol::Tcp) || requests;
    let classes = [sockets.filter(|_| speaks(Protocol::Tcp)), http.filter(|_| requests)];
    let mut tcp_ports = Some(BTreeSet::new());
    for class in classes.into_iter().flatten() {
        let whole = class.mode == Mode::Open || class.mode == Mode::Ask && class.allow.is_empty();
        let granted = if whole { None } else { ports(engine, &class.allow) };
        let named = granted.or(ports(engine, class.declared.as_deref().unwrap_or_default()));
        tcp_ports = match (tcp_ports, named) {
            (Some(mut all), Some(named)) => {
                all.extend(named);
                Some(all)
            }
            _ => None,
        };
    }
    let tcp_ports = tcp_ports.filter(|_| tcp).map(|ports| ports.into_iter().collect());
    NetPlan { tcp, udp: speaks(Protocol::Udp), tcp_ports, entries }
}

/// Whether ceiling and grant of a class both have a rule for a protocol.
fn uses(engine: &Engine, class: &ClassPolicy, protocol: Protocol) -> bool {
    let any = |ids: &[RuleId]| {
        ids.iter().filter_map(|id| engine.policy().rule(*id)).any(|rule| match &rule.matches {
            Matches::Socket { protocols, .. } => protocols.is_empty() || protocols.contains(&protocol),
            Matches::Http { target, .. } => target.is_some() && protocol == Protocol::Tcp,
            _ => false,
        })
    };
    let granted = match class.mode {
        Mode::Deny => false,
        Mode::Open => true,
        Mode::Ask if class.allow.is_empty() => true,
        Mode::Ask | Mode::Allowlist => any(&class.allow),
    };
    granted && any(class.declared.as_deref().unwrap_or_default())
}

/// All TCP ports that some rules name; `None` as soon as one names none.
fn ports(engine: &Engine, ids: &[RuleId]) -> Option<BTreeSet<u16>> {
    let mut all = BTreeSet::new();
    for rule in ids.iter().filter_map(|id| engine.policy().rule(*id)) {
        let ports = match &rule.matches {
            Matches::Socket { ports, protocols, .. } if protocols.is_empty() || protocols.contains(&Protocol::Tcp) => {
                ports
            }
            Matches::Http { ports, .. } => ports,
            _ => continue,
        };
        if ports.only.is_empty() {
            return None;
        }
        all.extend(&ports.only);
    }
    Some(all)
}

impl NetEntry {
    /// Whether any port is allowed.
    pub fn allows_anything(&self) -> bool {
        self.default == NetVerdict::Allow || self.ports.iter().any(|range| range.verdict == NetVerdict::Allow)
    }

    /// The deny rule that refuses some port of it, if one does.
    pub fn refusing_rule(&self) -> Option<RuleId> {
        let verdicts = std::iter::once(self.default).chain(self.ports.iter().map(|range| range.verdict));
        verdicts.into_iter().find_map(|verdict| match verdict {
            NetVerdict::Denied(rule) => Some(rule),
            NetVerdict::Allow | NetVerdict::Unlisted => None,
        })
    }

    /// The same entry with one more port: somebody answered yes. What a deny rule refuses stays refused.
    #[must_use]
    pub fn with_port(mut self, port: u16, protocol: Protocol) -> Self {
        let here = |range: &PortRange| range.protocol == protocol && (range.low..=range.high).contains(&port);
        let place = self.ports.iter().position(here);
        let before = place.and_then(|place| self.ports.get(place)).copied();
        let verdict = before.map_or(self.default, |range| range.verdict);
        if port == 0 || verdict != NetVerdict::Unlisted {
            return self;
        }
        if let (Some(range), Some(place)) = (before, place) {
            self.ports.remove(place);
            self.ports.extend((range.low < port).then(|| PortRange { high: port - 1, ..range }));
            self.ports.extend((port < range.high).then(|| PortRange { low: port + 1, ..range }));
        }
        self.ports.push(PortRange { low: port, high: port, protocol, verdict: NetVerdict::Allow });
        self.ports.sort_by_key(|range| (range.protocol, range.low));
        self
    }

    /// The entry of one address that was looked up under the given names in this run.
    pub fn for_address(engine: &Engine, address: IpAddr, names: &[String]) -> Self {
        let (range, embedded) = forms(address);
        let names: Vec<Cow<'_, str>> = names.iter().map(|name| Cow::from(name.as_str())).collect();
        entry(engine, range, embedded, &names)
    }
}

/// What holds for a range, or for an address with the names that it was looked up under.
fn entry(engine: &Engine, range: IpNet, embedded: Option<Ipv4Net>, names: &[Cow<'_, str>]) -> NetEntry {
    let range_of = Some(range);
    let query = |kind, port| {
        // However a request may spell it.
        NetQuery { kind, range: range_of, literal: true, mapped: true, embedded, port: Some(port), names }
    };
    let verdict = |port: u16, protocol: Protocol| {
        let sockets = lowered(engine, engine.sockets(&query(NetKind::Socket(Some(protocol)), port)).verdict);
        if protocol == Protocol::Udp || sockets == NetVerdict::Allow {
            return sockets;
        }
        match (sockets, requests(engine, &query(NetKind::Http(None), port))) {
            (_, NetVerdict::Allow) => NetVerdict::Allow,
            (NetVerdict::Unlisted, http) => http,
            (sockets, _) => sockets,
        }
    };
    let cuts = cuts(engine, &query(NetKind::Any, 1));
    let top = cuts.last().copied().unwrap_or(1);
    // Only what differs from the last stretch of ports is written down.
    let default = verdict(top, Protocol::Tcp);
    let mut ports: Vec<PortRange> = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for (i, low) in cuts.iter().enumerate() {
            let high = cuts.get(i + 1).map_or(u16::MAX, |next| next - 1);
            let verdict = verdict(*low, protocol);
            if verdict == default {
                continue;
            }
            match ports.last_mut() {
                Some(last) if last.protocol == protocol && last.verdict == verdict && last.high + 1 == *low => {
                    last.high = high;
                }
                _ => ports.push(PortRange { low: *low, high, protocol, verdict }),
            }
        }
    }
    NetEntry { range, ports, default }
}

/// What some request of `wasi:http` may do. Each name is judged by itself, as each request is: a deny of one name leaves
/// the address open to another, and to the address as a literal.
fn requests(engine: &Engine, query: &NetQuery<'_>) -> NetVerdict {
    let mut found = lowered(engine, engine.requests(&NetQuery { names: &[], ..*query }).verdict);
    for name in query.names {
        // An address is allowed by its name alone, so that the range is not asked again.
        let query = NetQuery { literal: false, names: std::slice::from_ref(name), ..*query };
        match lowered(engine, engine.requests(&query).verdict) {
            NetVerdict::Allow => return NetVerdict::Allow,
            denied @ NetVerdict::Denied(_) if found == NetVerdict::Unlisted => found = denied,
            _ => {}
        }
    }
    found
}

fn lowered(engine: &Engine, verdict: Verdict) -> NetVerdict {
    if engine.policy().passes(&verdict) { NetVerdict::Allow } else { verdict.into() }
}

/// The ports at which a verdict about a range can change.
fn cuts(engine: &Engine, query: &NetQuery<'_>) -> Vec<u16> {
    let mut cuts = BTreeSet::from([1u16]);
    let mut cut = |port: u16| {
        cuts.insert(port);
        cuts.extend(port.checked_add(1));
    };
    for matches in engine.net.rules_about(query) {
        match matches {
            Matches::Socket { ports: Ports { only, except }, .. }
            | Matches::Http { ports: Ports { only, except }, .. } => {
                only.iter().chain(except).copied().for_each(&mut cut);
            }
            Matches::Host { port: Some(port), .. } => cut(*port),
            _ => {}
        }
    }
    cuts.into_iter().collect()
}
