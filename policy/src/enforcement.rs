//! Which layers hold a decision.

use crate::class::Class;
use crate::engine::Engine;
use crate::plan::{KernelPlan, NetVerdict, Subtree};
use crate::request::{Access, Protocol, Request};
use crate::rule::{Matches, Rule, Target};
use serde::Serialize;
use std::fmt;

/// A layer that refuses what the policy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcer {
    /// The WASI hosts, in the guest child.
    HostCheck,
    /// The broker in the supervisor, which does it on the component's behalf or not at all.
    Broker,
    /// Landlock, in the kernel.
    Landlock,
    /// The eBPF hooks on the child's cgroup.
    Ebpf,
    /// The system call filter.
    Seccomp,
}

impl fmt::Display for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HostCheck => "host check",
            Self::Broker => "broker",
            Self::Landlock => "Landlock",
            Self::Ebpf => "eBPF",
            Self::Seccomp => "seccomp",
        })
    }
}

impl KernelPlan {
    /// The layers that would refuse a request of a component, each alone, if all others let it pass.
    ///
    /// For a request that the policy allows these are none; for one that it refuses or asks about, at least one.
    pub fn enforcers(&self, engine: &Engine, request: &Request) -> Vec<Enforcer> {
        if engine.decide(request).allowed() {
            return Vec::new();
        }
        match request {
            Request::Tool { .. } | Request::Credential { .. } | Request::Consent { .. } | Request::Ui { .. } => {
                vec![Enforcer::Broker]
            }
            Request::Spawn { .. } => vec![Enforcer::Seccomp],
            Request::File { access, path } => {
                // Landlock does not see who looks at metadata.
                if *access == Access::Stat || self.opens(path, *access == Access::Write) {
                    return vec![Enforcer::HostCheck];
                }
                vec![Enforcer::HostCheck, Enforcer::Broker, Enforcer::Landlock]
            }
            Request::Connect { addr, protocol, .. } => self.socket(addr.ip(), addr.port(), *protocol),
            Request::Http { host, port, address, .. } => {
                let literal = host.trim_matches(['[', ']']).parse().ok();
                match address.or(literal) {
                    Some(address) => self.socket(address, *port, Protocol::Tcp),
                    // A name that no rule opens has no address in the kernel's tables.
                    None if self.name_stays_closed(engine, host) => vec![Enforcer::HostCheck, Enforcer::Ebpf],
                    None => vec![Enforcer::HostCheck],
                }
            }
            Request::Lookup { .. } => vec![Enforcer::Broker],
            Request::Bind { .. } => vec![Enforcer::HostCheck, Enforcer::Ebpf],
            Request::Listen { .. } => vec![Enforcer::HostCheck, Enforcer::Ebpf, Enforcer::Seccomp],
            Request::Net { .. } => vec![Enforcer::HostCheck],
        }
    }

    /// The layers that hold what a rule of a component's policy says.
    ///
    /// Where the host check stands alone, a guest that was taken over is not held by the rule itself; what the kernel
    /// opens for it is in [`KernelPlan::files`] and [`KernelPlan::net`].
    pub fn holders(&self, rule: &Rule, narrows: bool) -> Vec<Enforcer> {
        use Enforcer::{Broker, Ebpf, HostCheck, Landlock, Seccomp};
        match &rule.matches {
            Matches::File { path, .. } => {
                let direct = |subtree: &Subtree| subtree.exact && below(&path.head, &subtree.path);
                match (narrows, self.files.iter().any(direct)) {
                    // Nothing that Landlock opens holds anything that is refused.
                    (true, false) => vec![HostCheck, Broker, Landlock],
                    (true, true) => vec![HostCheck],
                    (false, true) => vec![HostCheck, Landlock],
                    (false, false) => vec![HostCheck, Broker],
                }
            }
            // The kernel sees neither methods nor schemes.
            Matches::Http { methods, scheme, .. } if !methods.is_empty() || scheme.is_some() => vec![HostCheck],
            Matches::Socket { target, .. }
            | Matches::Http { target: Some(target), .. }
            | Matches::Host { target, .. } => {
                match target {
                    Target::Range(_) | Target::Mapped(_) => vec![HostCheck, Ebpf],
                    // A name is looked up by the supervisor, which opens its addresses to the kernel's hooks.
                    Target::Name(_) | Target::Suffix(_) if narrows => vec![HostCheck, Broker],
                    Target::Name(_) | Target::Suffix(_) | Target::Any => vec![HostCheck, Broker, Ebpf],
                }
            }
            Matches::Http { target: None, .. } | Matches::Dimensions(_) => vec![HostCheck],
            Matches::Key(_) | Matches::Tool { .. } | Matches::Ui(_) => vec![Broker],
            Matches::Command(_) => vec![Seccomp],
        }
    }

    fn socket(&self, address: std::net::IpAddr, port: u16, protocol: Protocol) -> Vec<Enforcer> {
        let mut layers = vec![Enforcer::HostCheck];
        let address = crate::host::effective_address(address);
        let holding = self.net.entries.iter().filter(|entry| entry.range.contains(&address));
        let verdict = holding.max_by_key(|entry| entry.range.prefix_len()).map(|entry| {
            let range = entry.ports.iter().find(|r| r.protocol == protocol && (r.low..=r.high).contains(&port));
            range.map_or(entry.default, |range| range.verdict)
        });
        if verdict.is_none_or(|verdict| verdict != NetVerdict::Allow) {
            layers.push(Enforcer::Ebpf);
        }
        layers
    }

    fn name_stays_closed(&self, engine: &Engine, host: &str) -> bool {
        let looked_up = |class: Class| engine.decide(&Request::Lookup { class, host: host.to_owned() }).allowed();
        let everything = self.net.entries.iter().any(|e| e.range.prefix_len() == 0 && e.allows_anything());
        !everything && !looked_up(Class::http()) && !looked_up(Class::sockets())
    }

    fn opens(&self, path: &[u8], write: bool) -> bool {
        self.files.iter().any(|subtree| subtree.exact && (subtree.write || !write) && below(path, &subtree.path))
    }
}

/// Whether a path is a directory or lies below it (the root is empty).
fn below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
