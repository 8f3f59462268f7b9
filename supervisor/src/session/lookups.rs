//! Names that the guest wants to know the addresses of: judged, looked up, filtered, and opened in the kernel's tables.

use super::asks::Kind;
use super::{Session, SessionError};
use crate::broker::resolve;
use act_policy::{Answer, Class, Decision, Mode, Reason, Request, Verdict};
use act_wire::{Purpose, ToGuest};
use std::net::IpAddr;

impl Session<'_> {
    /// Judge a look-up, and the request that it is for; the resolver works on it while the loop goes on.
    pub(super) fn resolve(&mut self, ask: u32, host: String, purpose: Purpose) -> Result<(), SessionError> {
        let Some(requests) = resolve::requests(host.clone(), &purpose) else {
            return Err(self.refuse("a look-up out of bounds".into()));
        };
        let policy = self.engine.policy();
        // A request of `wasi:http` was answered for when it was asked about: its look-up with it.
        let mut answered = false;
        for request in requests {
            let verdict = self.engine.decide(&request);
            answered |= self.passes.cover(&request, &verdict);
            let passes = policy.passes(&verdict);
            match verdict.decision {
                Decision::Ask if answered => {}
                // A request that may go is on record when the guest makes it.
                Decision::Ask | Decision::Allow if passes && matches!(request, Request::Http { .. }) => {}
                Decision::Ask if passes => self.trail.consented(policy, &request, &verdict),
                Decision::Ask => {
                    return self.put(Kind::Resolve { ask, host, purpose }, request, &verdict, String::new());
                }
                Decision::Allow => self.trail.judged(policy, &request, &verdict),
                Decision::Deny => {
                    self.trail.judged(policy, &request, &verdict);
                    return self.send(&ToGuest::Resolved { ask, addresses: Vec::new() });
                }
            }
        }
        if !self.resolver.begin(ask, &host, purpose) {
            return self.send(&ToGuest::Resolved { ask, addresses: Vec::new() });
        }
        Ok(())
    }

    /// Answers of the resolver: addresses that the policy refuses are dropped, the kernel's tables are opened for the
    /// rest, and only then the guest is told.
    pub(super) fn resolved(&mut self) -> Result<(), SessionError> {
        for answer in self.resolver.finished() {
            let mut addresses = Vec::new();
            if self.alias_may_be_used(&answer) {
                for address in &answer.addresses {
                    if self.admit(&answer, *address) {
                        addresses.push(*address);
                    }
                }
            }
            self.send(&ToGuest::Resolved { ask: answer.ask, addresses })?;
        }
        Ok(())
    }

    /// Whether no rule refuses what a name is an alias of. It needs no rule that allows it: the name that was asked for
    /// has one.
    fn alias_may_be_used(&mut self, answer: &resolve::Answer) -> bool {
        let Some(canonical) = &answer.canonical else { return true };
        for request in resolve::requests(canonical.clone(), &answer.purpose).unwrap_or_default() {
            let verdict = self.engine.decide(&request);
            if verdict.reason == Reason::DeniedByRule {
                self.trail.judged(self.engine.policy(), &request, &verdict);
                return false;
            }
        }
        true
    }

    /// Judge one address of a name, and open the kernel's tables for it.
    fn admit(&mut self, answer: &resolve::Answer, address: IpAddr) -> bool {
        let name = &answer.name;
        let Some(names) = self.resolver.pin(address, name) else {
            self.trail.warn_once(&format!("{name} resolves to {address}, which has too many names already: dropped"));
            return false;
        };
        if !self.request_may_go(&answer.purpose, name, address) {
            return false;
        }
        self.answered_for(&answer.purpose, name, address);
        let entry = self.entry(address, &names);
        if !entry.allows_anything() {
            let rule = entry.refusing_rule();
            // Each connection will be asked about, and opens the address then.
            if rule.is_none() && matches!(answer.purpose, Purpose::Sockets) && self.connections_ask() {
                return true;
            }
            let reason = if rule.is_some() { Reason::DeniedByRule } else { Reason::NotGranted };
            let verdict = Verdict { rule, ..Verdict::deny(reason) };
            self.trail.address(self.engine.policy(), &answer.purpose, name, address, &verdict);
            return false;
        }
        self.tell_kernel(address, &names)
    }

    /// Whether connections of the component's own sockets may be asked about.
    fn connections_ask(&self) -> bool {
        let policy = self.engine.policy();
        let asks = policy.class(&Class::sockets()).is_some_and(|class| class.mode == Mode::Ask);
        policy.may_ask() && (asks || policy.permissions.iter().any(|p| p.answer == Answer::Ask))
    }

    /// Judge the request of `wasi:http` that a name was looked up for with one of its addresses. A refusal is on record
    /// here, for the guest never hears of the address; what is allowed is on record when the guest connects to it.
    fn request_may_go(&mut self, purpose: &Purpose, name: &str, address: IpAddr) -> bool {
        let Some(request) = resolve::http_request(purpose, name, Some(address)) else { return true };
        let verdict = self.engine.decide(&request);
        let refused = verdict.decision == Decision::Deny;
        if refused {
            self.trail.judged(self.engine.policy(), &request, &verdict);
        }
        !refused
    }
}
