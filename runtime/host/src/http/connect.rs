//! The addresses of a host, and a connection to one that was judged.

use super::stream::Stream;
use super::target::Target;
use super::{Client, Passed, error};
use act_policy::{Decision, Host};
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use wasmtime_wasi_http::Error;

impl Client {
    /// The addresses that a request may go to. A name is looked up by the supervisor, which drops what the policy
    /// refuses and opens the kernel's tables for the rest.
    pub(super) async fn addresses(&self, target: &Target, until: Instant) -> Result<Vec<IpAddr>, Error> {
        let name = match &target.host {
            Host::Address(address) => return Ok(vec![*address]),
            Host::Name(name) => name.clone(),
        };
        let answer = timeout_at(until, async {
            // Kept while the supervisor works on it. It is never closed.
            let _turn = self.lookups.acquire().await;
            self.gate.resolve(name.clone(), target.purpose()).await
        });
        let mut addresses = answer.await.map_err(|_| Error::DnsTimeout)?;
        // As the supervisor remembers it.
        self.names.pin(&name, &addresses);
        addresses.retain(|address| {
            let request = target.request(Some(*address));
            let refused = self.gate.peek(&request).decision == Decision::Deny;
            if refused {
                self.gate.judge(request);
            }
            !refused
        });
        if addresses.is_empty() { Err(Error::DnsError { rcode: None, info_code: None }) } else { Ok(addresses) }
    }

    /// Whether a request that may go to its host may go to this address of it, too. Nothing is recorded.
    pub(super) fn may_go(&self, target: &Target, address: IpAddr, passed: Passed) -> bool {
        // A literal address is what was judged.
        if !target.named() {
            return true;
        }
        match self.gate.peek(&target.request(Some(address))).decision {
            Decision::Allow => true,
            // An answer is for the request, wherever no rule refuses the address.
            Decision::Ask => passed == Passed::Answer,
            Decision::Deny => false,
        }
    }

    /// Judge a request with the address that it is about to go to, and put it on record.
    pub(super) fn admit(&self, target: &Target, address: IpAddr, passed: Passed) -> bool {
        passed == Passed::Answer || self.gate.judge(target.request(target.named().then_some(address))).allowed()
    }

    /// Connect to the first address that answers; each is on record before it is tried. `admitted` is already.
    pub(super) async fn connect(
        &self,
        target: &Target,
        addresses: &[IpAddr],
        passed: Passed,
        admitted: Option<IpAddr>,
        until: Instant,
    ) -> Result<(Stream, IpAddr), Error> {
        let mut last = Error::HttpRequestDenied;
        for (tried, address) in addresses.iter().enumerate() {
            if admitted != Some(*address) && !self.admit(target, *address, passed) {
                continue;
            }
            // An address that does not answer leaves time for those after it.
            let left = until.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - tried).unwrap_or(1);
            let connecting = TcpStream::connect(SocketAddr::new(*address, target.port));
            last = match timeout_at(Instant::now() + share, connecting).await {
                Ok(Ok(stream)) => return Ok((Stream::new(stream), *address)),
                Ok(Err(problem)) => error::connect(problem),
                Err(_) => Error::ConnectionTimeout,
            };
        }
        Err(last)
    }
}
