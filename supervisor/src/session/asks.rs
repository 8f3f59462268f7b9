//! What waits for a human: questions of the guest that the policy asks about, and what an answer opens.

use super::{Session, SessionError};
use crate::broker::resolve;
use crate::consent::{Desk, Inbox, Key, Outcome};
use act_policy::{Decision, Host, NetEntry, Protocol, Request, Verdict, effective_address};
use act_wire::{Purpose, ToGuest};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Where a call's questions are put.
#[derive(Debug)]
pub struct Asker {
    pub(super) desk: Arc<Desk>,
    pub(super) inbox: Arc<Inbox>,
}

impl Asker {
    /// One that asks at this desk.
    pub fn new(desk: Arc<Desk>) -> Result<Self, Errno> {
        Ok(Self { desk, inbox: Inbox::new()? })
    }
}

/// A question of the guest.
#[derive(Debug)]
pub(super) enum Kind {
    /// May an operation go on?
    Ask(u32),
    /// Read a credential.
    Secret { ask: u32, key: String },
    /// Look up a name.
    Resolve { ask: u32, host: String, purpose: Purpose },
}

/// One that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    token: u64,
    kind: Kind,
    request: Request,
    words: String,
}

/// Addresses that an answer opened in the kernel, until the call ends.
pub(super) type Opened = BTreeMap<IpAddr, BTreeSet<(u16, Protocol)>>;

impl Session<'_> {
    /// Where the questions of the next calls are put; `None`: nobody can be asked.
    pub fn set_asker(&mut self, asker: Option<Asker>) {
        self.asker = asker;
    }

    /// Ask about a request that the policy asks about, unless that is settled already.
    pub(super) fn put(
        &mut self,
        kind: Kind,
        request: Request,
        verdict: &Verdict,
        words: String,
    ) -> Result<(), SessionError> {
        let policy = self.engine.policy();
        if policy.passes(verdict) {
            self.trail.consented(policy, &request, verdict);
            return self.proceed(kind, true);
        }
        let key = Key::of(&request);
        if key.reads_a_file() && self.passes.holds(&key) {
            self.trail.answered_before(policy, &request, verdict);
            return self.proceed(kind, true);
        }
        let asker = self.asker.as_ref().filter(|_| policy.may_ask());
        let Some(asker) = asker else {
            self.trail.unanswered_about(policy, &request, &words);
            return self.proceed(kind, false);
        };
        self.last_token += 1;
        let token = self.last_token;
        let asked = asker.desk.ask(policy, &request, verdict, &words, (&asker.inbox, token));
        let waiting = Waiting { token, kind, request, words };
        if let Some(outcome) = asked {
            return self.settle(waiting, outcome);
        }
        self.waiting.push(waiting);
        Ok(())
    }

    /// Outcomes that have come.
    pub(super) fn outcomes(&mut self) -> Result<(), SessionError> {
        let Some(asker) = &self.asker else { return Ok(()) };
        if self.waiting.is_empty() {
            return Ok(());
        }
        asker.desk.expire();
        for (token, outcome) in asker.inbox.take() {
            // Of an earlier call, or twice: nothing.
            let Some(place) = self.waiting.iter().position(|waiting| waiting.token == token) else { continue };
            let waiting = self.waiting.swap_remove(place);
            self.settle(waiting, outcome)?;
        }
        Ok(())
    }

    fn settle(&mut self, waiting: Waiting, outcome: Outcome) -> Result<(), SessionError> {
        let Waiting { kind, request, words, .. } = waiting;
        self.trail.answered(self.engine.policy(), &request, &words, outcome);
        // The layers below know of it before the guest does.
        let allow = outcome.allow && self.open_for(&request);
        self.proceed(kind, allow)
    }

    /// Tell the guest.
    fn proceed(&mut self, kind: Kind, allow: bool) -> Result<(), SessionError> {
        match kind {
            Kind::Ask(ask) => self.send(&ToGuest::Answer { ask, allow }),
            Kind::Secret { ask, key } => self.send_secret(ask, allow.then_some(key)),
            Kind::Resolve { ask, host, purpose } => {
                if allow && self.resolver.begin(ask, &host, purpose) {
                    return Ok(());
                }
                self.send(&ToGuest::Resolved { ask, addresses: Vec::new() })
            }
        }
    }

    /// Open the layers below for what was answered with yes. False: they cannot be told, and it is refused.
    fn open_for(&mut self, request: &Request) -> bool {
        self.passes.add(Key::of(request));
        let (address, port, protocol) = match request {
            Request::Connect { addr, protocol, .. } => (addr.ip(), addr.port(), *protocol),
            Request::Http { host, port, .. } => match Host::parse(host) {
                Ok(Host::Address(address)) => (address, *port, Protocol::Tcp),
                // What it was looked up to before may be connected still.
                Ok(Host::Name(name)) => return self.open_addresses_of(&name, request),
                Err(_) => return true,
            },
            _ => return true,
        };
        let address = effective_address(address);
        self.opened.entry(address).or_default().insert((port, protocol));
        let names = self.resolver.names(address);
        self.tell_kernel(address, &names)
    }

    /// Open the port of a request at the addresses that its name had in this run, as far as no rule refuses one.
    fn open_addresses_of(&mut self, name: &str, request: &Request) -> bool {
        let Request::Http { method, scheme, host, port, .. } = request else { return true };
        for address in self.resolver.addresses(name) {
            let (method, scheme, host) = (method.clone(), scheme.clone(), host.clone());
            let with = Request::Http { method, scheme, host, port: *port, address: Some(address) };
            if self.engine.decide(&with).decision == Decision::Deny {
                continue;
            }
            self.opened.entry(address).or_default().insert((*port, Protocol::Tcp));
            let names = self.resolver.names(address);
            if !self.tell_kernel(address, &names) {
                return false;
            }
        }
        true
    }

    /// Tell the kernel's tables what holds for an address: what the policy says, and what answers opened.
    pub(super) fn tell_kernel(&mut self, address: IpAddr, names: &[String]) -> bool {
        let entry = self.entry(address, names);
        let Some(attached) = &mut self.sandbox.attached else { return true };
        match attached.allow(&crate::sandbox::bpf::entry(&entry)) {
            Ok(()) => true,
            Err(error) => {
                let reason = crate::sandbox::start::with_sources(&error);
                let names = names.join(", ");
                self.trail.warn_once(&format!("the kernel cannot be told of {address} ({names}): {reason}: dropped"));
                false
            }
        }
    }

    /// What the kernel's tables should say of an address.
    pub(super) fn entry(&self, address: IpAddr, names: &[String]) -> NetEntry {
        let opened = self.opened.get(&address).into_iter().flatten();
        let entry = NetEntry::for_address(self.engine, address, names);
        opened.fold(entry, |entry, (port, protocol)| entry.with_port(*port, *protocol))
    }

    /// Whether an answer lets the request of `wasi:http` pass that a name is looked up for; its port is opened then.
    pub(super) fn answered_for(&mut self, purpose: &Purpose, name: &str, address: IpAddr) -> bool {
        let Purpose::Http { port, .. } = purpose else { return false };
        let Some(request) = resolve::http_request(purpose, name, None) else { return false };
        let answered = self.passes.cover(&request, &self.engine.decide(&request));
        if answered {
            self.opened.entry(address).or_default().insert((*port, Protocol::Tcp));
        }
        answered
    }

    /// The call is over: nothing waits for it, and what answers opened is closed.
    pub(super) fn end_of_call(&mut self) {
        if let Some(asker) = &self.asker {
            asker.desk.withdraw(&asker.inbox);
            drop(asker.inbox.take());
        }
        for waiting in std::mem::take(&mut self.waiting) {
            // What the component left running in the background must not wait for ever.
            if self.alive && self.proceed(waiting.kind, false).is_err() {
                break;
            }
        }
        self.passes.clear();
        for address in std::mem::take(&mut self.opened).into_keys() {
            let names = self.resolver.names(address);
            if self.alive && !self.tell_kernel(address, &names) {
                // It would stay open.
                self.kill();
            }
        }
    }
}
