//! `wasi:sockets`: the check of every address, and name lookup through the supervisor.
//!
//! The component's name lookups are answered by the supervisor, which judges the name, filters the addresses and opens
//! the kernel's tables for them. An address remembers the names that led to it in this run, because a rule with a host
//! name covers only such addresses.

mod check;
mod lookup2;
mod lookup3;
mod pins;

#[expect(unreachable_pub, reason = "generated code re-exports it")]
pub use lookup2::AddressStream;

use crate::gate::{Answer, Gate};
use act_policy::{Class, Decision, Host, Request};
use act_wire::Purpose;
use pins::Pins;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::component::{HasData, ResourceTable};

/// Names, and what was resolved and approved in this run.
pub(crate) struct Names {
    gate: Arc<dyn Gate>,
    pins: Mutex<Pins>,
}

/// Why a lookup has no addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LookupError {
    Denied,
    Unresolvable,
}

impl Names {
    pub(crate) fn new(gate: Arc<dyn Gate>) -> Self {
        Self { gate, pins: Mutex::new(Pins::default()) }
    }

    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remember that a name has these addresses.
    pub(crate) fn pin(&self, host: &str, addresses: &[IpAddr]) {
        self.pins().pin(host, addresses);
    }

    fn names_of(&self, address: SocketAddr) -> Vec<String> {
        self.pins().names(address.ip())
    }

    /// A literal address is its own answer, without a question.
    fn lookup(self: &Arc<Self>, host: String) -> Answer<Result<Vec<IpAddr>, LookupError>> {
        if let Some(address) = literal(&host) {
            return Box::pin(std::future::ready(Ok(vec![address])));
        }
        let request = Request::Lookup { class: Class::sockets(), host: host.clone() };
        if self.gate.peek(&request).decision == Decision::Deny {
            self.gate.judge(request);
            return Box::pin(std::future::ready(Err(LookupError::Denied)));
        }
        // One name has many spellings, some of them very long.
        let host = Host::parse(&host).map_or(host, |host| host.to_string());
        let names = self.clone();
        let answer = self.gate.resolve(host.clone(), Purpose::Sockets);
        Box::pin(async move {
            let addresses = answer.await;
            if addresses.is_empty() {
                return Err(LookupError::Unresolvable);
            }
            names.pins().pin(&host, &addresses);
            Ok(addresses)
        })
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

/// Marker for [`NamesView`].
pub(crate) struct HostNames;

impl HasData for HostNames {
    type Data<'a> = NamesView<'a>;
}

/// What name lookup sees of a store.
pub(crate) struct NamesView<'a> {
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) names: &'a Arc<Names>,
}
