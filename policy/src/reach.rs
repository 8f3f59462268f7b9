//! Which addresses the kernel layers have to leave open: what sockets may reach, and what requests of `wasi:http` may.
//!
//! The kernel sees an address, a port and a protocol; of a request it sees neither method nor scheme nor, of a literal
//! address, that it was one. So a connection is open to the child where **some** request or socket of the policy may
//! make it, and the host check alone holds what is finer.

use crate::class::{Class, Mode};
use crate::engine::{Engine, Peer, judge, names_target, reaches};
use crate::request::{Decision, Protocol, Reason, RuleId, Verdict};
use crate::rule::{Matches, Target};

impl Engine {
    /// The verdict of the kernel tables: sockets or `wasi:http`, whichever allows. Where none does, a deny rule is named.
    pub(crate) fn reach(&self, peer: &Peer<'_>) -> Verdict {
        let sockets = self.peer(peer);
        if sockets.allowed() {
            return sockets;
        }
        let http = self.http_reach(peer);
        if http.allowed() || sockets.reason != Reason::DeniedByRule { http } else { sockets }
    }

    /// Whether some request of `wasi:http` may connect there. Each name is judged by itself, as each request is: a
    /// deny of one name leaves the address open to another name, and to the address as a literal.
    fn http_reach(&self, peer: &Peer<'_>) -> Verdict {
        let class = self.policy().class(&Class::http());
        let Some(class) = class.filter(|_| peer.protocol == Protocol::Tcp) else {
            return Verdict::deny(Reason::OutsideCeiling);
        };
        let bare = Peer { names: &[], ..*peer };
        let host = |target: &Target, name: Option<&str>, deny: bool| match name {
            None => reaches(target, &bare, deny),
            Some(name) => names_target(target, name) || deny && reaches(target, &bare, true),
        };
        let verdict = |name: Option<&str>| {
            judge(class, |id, deny| match self.policy().rule(id).map(|r| &r.matches) {
                Some(Matches::Http { target, scheme, methods, ports }) => {
                    // A deny of some methods or of one scheme leaves the others, so the port stays open.
                    (!deny || methods.is_empty() && scheme.is_none())
                        && ports.contains(peer.port)
                        && target.as_ref().map_or(deny, |target| host(target, name, deny))
                }
                _ => false,
            })
        };
        let mut last = verdict(None);
        for name in peer.names {
            if last.allowed() {
                break;
            }
            let next = verdict(Some(name));
            if next.allowed() || next.decision == Decision::Deny && last.reason != Reason::DeniedByRule {
                last = next;
            }
        }
        last
    }

    /// Whether any request of `wasi:http` may be allowed, and the only TCP ports then; `None` where a rule leaves the
    /// port open.
    pub(crate) fn http_ports(&self) -> (bool, Option<Vec<u16>>) {
        let Some(class) = self.policy().class(&Class::http()) else { return (false, Some(Vec::new())) };
        let declared = class.declared.as_deref().unwrap_or_default();
        let granted = match class.mode {
            Mode::Open => declared,
            Mode::Allowlist => &class.allow,
            Mode::Deny | Mode::Ask => &[],
        };
        let names_a_host = |ids: &[RuleId]| {
            let rules = ids.iter().filter_map(|id| self.policy().rule(*id));
            rules.into_iter().any(|rule| matches!(rule.matches, Matches::Http { target: Some(_), .. }))
        };
        if !names_a_host(declared) || !names_a_host(granted) {
            return (false, Some(Vec::new()));
        }
        let ports = |ids: &[RuleId]| {
            let mut all = Vec::new();
            for rule in ids.iter().filter_map(|id| self.policy().rule(*id)) {
                if let Matches::Http { target: Some(_), ports, .. } = &rule.matches {
                    if ports.only.is_empty() {
                        return None;
                    }
                    all.extend(&ports.only);
                }
            }
            Some(all)
        };
        (true, ports(granted).or_else(|| ports(declared)))
    }
}
