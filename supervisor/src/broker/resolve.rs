//! Name resolution: by the supervisor, for names that the policy admits, once per question.
//!
//! The guest has no resolver: `getaddrinfo(3)` would load libraries and read files inside the sandbox. Each question
//! runs on a thread of its own, so that a slow name server stops neither the loop nor a time-out.

use act_policy::{Class, Host, Request, effective_address};
use act_wire::Purpose;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Most questions under way at once.
const MAX_OPEN: usize = 16;
/// Most addresses taken from one answer.
const MAX_ADDRESSES: usize = 64;
/// Most bytes of what a guest names in a question; the guest program sends no more.
const MAX_HOST: usize = 4096;
const MAX_METHOD: usize = 64;
/// Most addresses that are remembered with their names.
const MAX_PINS: usize = 4096;

/// Resolves names and remembers which addresses they had.
#[derive(Debug)]
pub struct Resolver {
    wake: Arc<OwnedFd>,
    sender: Sender<Answer>,
    receiver: Receiver<Answer>,
    open: usize,
    pins: BTreeMap<IpAddr, BTreeSet<String>>,
}

/// The addresses of a name.
#[derive(Debug)]
pub struct Answer {
    /// The guest's question.
    pub ask: u32,
    /// The canonical name.
    pub name: String,
    /// What for.
    pub purpose: Purpose,
    /// Its addresses, not filtered yet.
    pub addresses: Vec<IpAddr>,
}

impl Resolver {
    /// A resolver without memory.
    pub fn new() -> Result<Self, Errno> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, receiver) = channel();
        Ok(Self { wake, sender, receiver, open: 0, pins: BTreeMap::new() })
    }

    /// Begin to resolve a name; false when it is no name or too many questions are open.
    pub fn begin(&mut self, ask: u32, host: &str, purpose: Purpose) -> bool {
        let Ok(Host::Name(name)) = Host::parse(host) else { return false };
        if self.open >= MAX_OPEN {
            return false;
        }
        let (wake, sender) = (Arc::clone(&self.wake), self.sender.clone());
        let work = move || {
            // The port is of no interest; getaddrinfo wants one.
            let found = (name.as_str(), 0u16).to_socket_addrs();
            let addresses: BTreeSet<IpAddr> = found.into_iter().flatten().map(|a| effective_address(a.ip())).collect();
            let addresses = addresses.into_iter().take(MAX_ADDRESSES).collect();
            let _ = sender.send(Answer { ask, name, purpose, addresses });
            let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
        };
        let started = std::thread::Builder::new().name("resolve".into()).spawn(work).is_ok();
        self.open += usize::from(started);
        started
    }

    /// Answers that have come.
    pub fn finished(&mut self) -> Vec<Answer> {
        let _ = rustix::io::read(&*self.wake, &mut [0u8; 8]);
        let answers: Vec<Answer> = self.receiver.try_iter().collect();
        self.open = self.open.saturating_sub(answers.len());
        answers
    }

    /// Remember that a name had an address; all names that it had in this run.
    pub fn pin(&mut self, address: IpAddr, name: &str) -> Vec<String> {
        if self.pins.len() < MAX_PINS || self.pins.contains_key(&address) {
            self.pins.entry(address).or_default().insert(name.to_owned());
        }
        self.pins.get(&address).into_iter().flatten().cloned().collect()
    }
}

impl Resolver {
    /// The same request with the names that we resolved to the address, whatever names the guest tells.
    pub fn with_own_names(&self, request: &Request) -> Request {
        match request {
            Request::Connect { addr, protocol, .. } => {
                let names = self.pins.get(&effective_address(addr.ip())).into_iter().flatten().cloned().collect();
                Request::Connect { addr: *addr, protocol: *protocol, names }
            }
            other => other.clone(),
        }
    }
}

/// What has to be allowed before a name is looked up for a purpose; `None` where the question is out of bounds.
pub fn requests(host: String, purpose: &Purpose) -> Option<Vec<Request>> {
    if host.len() > MAX_HOST {
        return None;
    }
    match purpose {
        Purpose::Sockets => Some(vec![Request::Lookup { class: Class::sockets(), host }]),
        Purpose::Http { method, scheme, .. } => {
            let fits = method.len() <= MAX_METHOD && matches!(scheme.as_str(), "http" | "https");
            let lookup = Request::Lookup { class: Class::http(), host: host.clone() };
            let request = http_request(purpose, &host, None).filter(|_| fits)?;
            Some(vec![request, lookup])
        }
    }
}

/// The request that a name is looked up for, before it has an address or with one; `None` for sockets.
pub fn http_request(purpose: &Purpose, host: &str, address: Option<IpAddr>) -> Option<Request> {
    let Purpose::Http { method, scheme, port } = purpose else { return None };
    let (method, scheme, host) = (method.clone(), scheme.clone(), host.to_owned());
    Some(Request::Http { method, scheme, host, port: *port, address })
}

impl AsFd for Resolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
