//! Name resolution: by the supervisor, for names that the policy admits, once per question.
//!
//! The guest has no resolver: `getaddrinfo(3)` would load libraries and read files inside the sandbox. Each question
//! runs on a thread of its own, so that a slow name server stops neither the loop nor a time-out.

use act_policy::{Class, Host, Request, effective_address};
use act_wire::Purpose;
use dns_lookup::{AddrInfoHints, getaddrinfo};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Most questions under way at once.
const MAX_OPEN: usize = 16;
/// Most addresses taken from one answer.
const MAX_ADDRESSES: usize = 64;
/// Most bytes of what a guest names in a question; the guest program sends no more.
const MAX_HOST: usize = 4096;
const MAX_METHOD: usize = 64;
/// Most addresses that are remembered with their names, and most names of one address; as in the guest.
const MAX_PINS: usize = 4096;
const MAX_NAMES: usize = 64;
/// What is known without asking a name server (`hosts(5)`).
const HOSTS: &str = "/etc/hosts";

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
    /// The name that the addresses belong to in the end, where the name is an alias (`CNAME`).
    pub canonical: Option<String>,
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
            let (addresses, canonical) = look_up(&name);
            let _ = sender.send(Answer { ask, name, purpose, addresses, canonical });
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

    /// Remember that a name had an address; all names that it had in this run. `None`: there is no room to remember it.
    pub fn pin(&mut self, address: IpAddr, name: &str) -> Option<Vec<String>> {
        if self.pins.len() >= MAX_PINS && !self.pins.contains_key(&address) {
            return None;
        }
        let names = self.pins.entry(address).or_default();
        if names.len() >= MAX_NAMES && !names.contains(name) {
            return None;
        }
        names.insert(name.to_owned());
        Some(names.iter().cloned().collect())
    }
}

/// The addresses of a canonical name, and what it is an alias of. The name is absolute: the search list of
/// `resolv.conf(5)` would make another one of it, which nobody judged.
fn look_up(name: &str) -> (Vec<IpAddr>, Option<String>) {
    let known = in_hosts(name, &std::fs::read_to_string(HOSTS).unwrap_or_default());
    if !known.is_empty() {
        return (known, None);
    }
    let hints = AddrInfoHints { flags: libc::AI_CANONNAME, socktype: libc::SOCK_STREAM, ..AddrInfoHints::default() };
    let Ok(found) = getaddrinfo(Some(&format!("{name}.")), None, Some(hints)) else { return (Vec::new(), None) };
    let (mut addresses, mut canonical) = (BTreeSet::new(), None);
    for info in found.filter_map(Result::ok) {
        addresses.insert(effective_address(info.sockaddr.ip()));
        canonical = canonical.or(info.canonname);
    }
    // What is no host name cannot be judged, and names nothing that a rule could.
    let canonical = canonical.and_then(|text| Host::parse(&text).ok()).map(|host| host.to_string());
    let addresses = addresses.into_iter().take(MAX_ADDRESSES).collect();
    (addresses, canonical.filter(|canonical| canonical != name))
}

/// What `hosts(5)` says of a name.
fn in_hosts(name: &str, hosts: &str) -> Vec<IpAddr> {
    let lines = hosts.lines().filter_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| matches!(Host::parse(word), Ok(Host::Name(known)) if known == name)).then_some(address)
    });
    let addresses: BTreeSet<IpAddr> = lines.map(effective_address).collect();
    addresses.into_iter().take(MAX_ADDRESSES).collect()
}

impl Resolver {
    /// The addresses that a name had in this run.
    pub fn addresses(&self, name: &str) -> Vec<IpAddr> {
        self.pins.iter().filter(|(_, names)| names.contains(name)).map(|(address, _)| *address).collect()
    }

    /// The names that had an address in this run.
    pub fn names(&self, address: IpAddr) -> Vec<String> {
        self.pins.get(&effective_address(address)).into_iter().flatten().cloned().collect()
    }

    /// The same request with the names that we resolved to the address, whatever names the guest tells.
    pub fn with_own_names(&self, request: &Request) -> Request {
        match request {
            Request::Connect { addr, protocol, .. } => {
                Request::Connect { addr: *addr, protocol: *protocol, names: self.names(addr.ip()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_files() {
        let hosts = "127.0.0.1\tlocalhost\n# 10.0.0.9 remark\n10.0.0.1 A.test a # b.test\nfe80::1%lo0 a.test\n::ffff:10.0.0.2 a.test.\nx a.test\n";
        for (name, expected) in [
            ("localhost", &["127.0.0.1"][..]),
            ("a.test", &["10.0.0.1", "10.0.0.2"]),
            ("a", &["10.0.0.1"]),
            ("b.test", &[]),
            ("remark", &[]),
        ] {
            let found: Vec<String> = in_hosts(name, hosts).iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn names_of_one_address_are_bounded() {
        let mut resolver = Resolver::new().unwrap();
        let address = IpAddr::from([10, 0, 0, 1]);
        for n in 0..MAX_NAMES {
            assert_eq!(resolver.pin(address, &format!("{n}.test")).map(|names| names.len()), Some(n + 1));
        }
        assert_eq!(resolver.pin(address, "more.test"), None);
        assert_eq!(resolver.pin(address, "0.test").map(|names| names.len()), Some(MAX_NAMES));
    }
}
