//! What the kernel layers are told: the policy lowered to file subtrees and address tables.

use crate::class::{Class, Mode};
use crate::engine::{Engine, Peer, single};
use crate::pattern::is_below;
use crate::request::{Protocol, Reason, RuleId, Verdict};
use crate::rule::{Matches, Ports, Target};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The policy as the kernel layers enforce it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPlan {
    /// Subtrees for Landlock.
    pub files: Vec<Subtree>,
    /// Tables for the eBPF hooks.
    pub net: NetPlan,
}

/// A subtree that Landlock opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// Absolute path; empty for the root.
    pub path: Vec<u8>,
    /// Whether writing is included.
    pub write: bool,
    /// Whether the rules say the same as the subtree: no glob below it, no deny inside. Where they do not, the host
    /// check alone holds the difference.
    pub exact: bool,
}

/// The network side of the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetPlan {
    /// Whether any TCP connection can be allowed.
    pub tcp: bool,
    /// Whether any UDP datagram can be allowed.
    pub udp: bool,
    /// The only TCP ports that can be allowed; `None` where a rule leaves the port open.
    pub tcp_ports: Option<Vec<u16>>,
    /// One entry for each prefix that a rule names, and one for all addresses of each family. The longest prefix that
    /// holds an address decides alone: every entry already includes the rules of the prefixes around it.
    pub entries: Vec<NetEntry>,
}

/// What holds for the addresses of one prefix that no longer prefix covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetEntry {
    /// The prefix.
    pub range: IpNet,
    /// Ports by protocol, in order, without overlap; what they leave out has the default.
    pub ports: Vec<PortRange>,
    /// The verdict for all other ports.
    pub default: NetVerdict,
}

/// A range of ports with one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port.
    pub low: u16,
    /// Last port.
    pub high: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The verdict.
    pub verdict: NetVerdict,
}

/// A verdict of the kernel tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetVerdict {
    /// Allowed by a rule.
    Allow,
    /// No rule allows it.
    Unlisted,
    /// A deny rule names it.
    Denied(RuleId),
}

impl From<Verdict> for NetVerdict {
    fn from(verdict: Verdict) -> Self {
        match (verdict.allowed(), verdict.reason, verdict.rule) {
            (true, _, _) => Self::Allow,
            (false, Reason::DeniedByRule, Some(rule)) => Self::Denied(rule),
            _ => Self::Unlisted,
        }
    }
}

impl KernelPlan {
    /// Lower a policy.
    pub fn new(engine: &Engine) -> Self {
        Self { files: files(engine), net: net(engine) }
    }
}

fn files(engine: &Engine) -> Vec<Subtree> {
    let policy = engine.policy();
    let Some(class) = policy.class(&Class::filesystem()) else { return Vec::new() };
    let patterns = |ids: &[RuleId]| -> Vec<(Vec<u8>, bool, bool)> {
        let rules = ids.iter().filter_map(|id| policy.rule(*id));
        rules
            .filter_map(|rule| match &rule.matches {
                Matches::File { path, write } => Some((path.head.clone(), path.tail.is_empty(), *write)),
                _ => None,
            })
            .collect()
    };
    let declared = patterns(class.declared.as_deref().unwrap_or_default());
    let granted = match class.mode {
        Mode::Open => vec![(Vec::new(), true, true)],
        Mode::Allowlist => patterns(&class.allow),
        Mode::Deny | Mode::Ask => Vec::new(),
    };
    let denied = patterns(&class.deny);
    let mut subtrees: Vec<Subtree> = Vec::new();
    for (ceiling, ceiling_whole, ceiling_write) in &declared {
        for (grant, grant_whole, grant_write) in &granted {
            let within = |inner: &Vec<u8>, outer: &Vec<u8>| inner == outer || is_below(inner, outer);
            let path = match (within(grant, ceiling), within(ceiling, grant)) {
                (true, _) => grant.clone(),
                (false, true) => ceiling.clone(),
                (false, false) => continue,
            };
            let inside = |head: &Vec<u8>| within(head, &path) || within(&path, head);
            let exact = *ceiling_whole && *grant_whole && !denied.iter().any(|(head, _, _)| inside(head));
            subtrees.push(Subtree { path, write: *ceiling_write && *grant_write, exact });
        }
    }
    let all = subtrees.clone();
    let mut kept: Vec<Subtree> = Vec::new();
    for subtree in subtrees {
        let covered = |other: &Subtree| {
            is_below(&subtree.path, &other.path) && (other.write || !subtree.write)
                || subtree.path == other.path && other.write && !subtree.write
        };
        if !all.iter().any(covered) && !kept.contains(&subtree) {
            kept.push(subtree);
        }
    }
    kept
}

fn net(engine: &Engine) -> NetPlan {
    let policy = engine.policy();
    let Some(class) = policy.class(&Class::sockets()) else { return NetPlan::default() };
    let mut prefixes = BTreeSet::from([
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
        IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
    ]);
    // HTTP: its rules name prefixes, too (see `reach`).
    for rule in &policy.rules {
        if let Matches::Socket { target: Target::Range(net), .. }
        | Matches::Http { target: Some(Target::Range(net)), .. } = &rule.matches
        {
            prefixes.insert(*net);
        }
    }
    let cuts = Cuts::new(engine);
    let entries = prefixes
        .into_iter()
        .map(|range| {
            cuts.entry(range, |port, protocol| {
                engine.reach(&Peer { range, embedded: None, port, protocol, names: &[] })
            })
        })
        .collect();
    let open = class.declared.is_some() && matches!(class.mode, Mode::Open | Mode::Allowlist);
    let speaks = |protocol: Protocol| {
        let any = |ids: &[RuleId]| {
            ids.iter().filter_map(|id| policy.rule(*id)).any(|rule| match &rule.matches {
                Matches::Socket { protocols, .. } => protocols.is_empty() || protocols.contains(&protocol),
                _ => false,
            })
        };
        open && any(class.declared.as_deref().unwrap_or_default()) && (class.mode == Mode::Open || any(&class.allow))
    };
    let declared = tcp_ports(engine, class.declared.as_deref().unwrap_or_default());
    let granted = if class.mode == Mode::Open { None } else { tcp_ports(engine, &class.allow) };
    // HTTP: its ports come on top of what sockets may reach.
    let (http, http_ports) = engine.http_ports();
    let sockets_ports = if speaks(Protocol::Tcp) { granted.or(declared) } else { Some(BTreeSet::new()) };
    let tcp_ports = match (sockets_ports, http_ports) {
        (Some(ports), Some(more)) => Some(ports.into_iter().chain(more).collect::<BTreeSet<u16>>()),
        _ => None,
    };
    let tcp_ports = tcp_ports.map(|ports| ports.into_iter().collect());
    NetPlan { tcp: speaks(Protocol::Tcp) || http, udp: speaks(Protocol::Udp), tcp_ports, entries }
}

/// All TCP ports that some rules name; `None` as soon as one names none.
fn tcp_ports(engine: &Engine, ids: &[RuleId]) -> Option<BTreeSet<u16>> {
    let mut all = BTreeSet::new();
    for rule in ids.iter().filter_map(|id| engine.policy().rule(*id)) {
        if let Matches::Socket { ports, protocols, .. } = &rule.matches
            && (protocols.is_empty() || protocols.contains(&Protocol::Tcp))
        {
            if ports.only.is_empty() {
                return None;
            }
            all.extend(&ports.only);
        }
    }
    Some(all)
}

impl NetEntry {
    /// Whether any port is allowed.
    pub fn allows_anything(&self) -> bool {
        self.default == NetVerdict::Allow || self.ports.iter().any(|range| range.verdict == NetVerdict::Allow)
    }

    /// The entry of one address that was looked up under the given names in this run.
    pub fn for_address(engine: &Engine, address: IpAddr, names: &[String]) -> Self {
        let range = single(address, 1, Protocol::Tcp, names).range;
        Cuts::new(engine).entry(range, |port, protocol| engine.reach(&single(address, port, protocol, names)))
    }
}

/// The ports at which a verdict can change.
struct Cuts(Vec<u16>);

impl Cuts {
    fn new(engine: &Engine) -> Self {
        let mut cuts = BTreeSet::from([1u16]);
        for rule in &engine.policy().rules {
            // HTTP: its rules cut the ports, too.
            if let Matches::Socket { ports: Ports { only, except }, .. }
            | Matches::Http { ports: Ports { only, except }, .. } = &rule.matches
            {
                for port in only.iter().chain(except) {
                    cuts.insert(*port);
                    if let Some(next) = port.checked_add(1) {
                        cuts.insert(next);
                    }
                }
            }
        }
        Self(cuts.into_iter().collect())
    }

    /// Ask for each stretch of ports, and keep what differs from the most common answer's stand-in, the last stretch.
    fn entry(&self, range: IpNet, verdict: impl Fn(u16, Protocol) -> Verdict) -> NetEntry {
        let top = self.0.last().copied().unwrap_or(1);
        let default = NetVerdict::from(verdict(top, Protocol::Tcp));
        let mut ports: Vec<PortRange> = Vec::new();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for (i, low) in self.0.iter().enumerate() {
                let high = self.0.get(i + 1).map_or(u16::MAX, |next| next - 1);
                let verdict = NetVerdict::from(verdict(*low, protocol));
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
}
