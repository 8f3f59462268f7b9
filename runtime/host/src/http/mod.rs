//! `wasi:http`: outgoing requests, one hook for 0.2 and 0.3.
//!
//! A request is brought into one canonical form ([`target`]), and that form alone is judged, looked up, connected to
//! and sent. It is judged before its name is looked up, so that a refused name causes no packet, and again with the
//! address that the connection will go to. Every request has a connection of its own; redirects are the component's to
//! follow, each by a new request. No environment variable is read: there are no proxies.

mod body;
mod connect;
mod error;
mod exchange;
mod stream;
mod target;
mod times;
mod tls;

use crate::gate::{Gate, permit, refuse};
use crate::sockets::Names;
use act_policy::{Decision, Reason};
use exchange::Exchange;
use std::future::Future;
use std::sync::Arc;
use target::Target;
use times::Times;
use tls::Tls;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// Most connections at once. What each may buffer (see [`exchange`]) fits many times into the memory that the process
/// has beside the component's own.
const CONNECTIONS: usize = 64;
/// Most names that are looked up at once; the supervisor answers no to more than 16.
const LOOKUPS: usize = 8;
/// Most bytes that the component hands over in one write to a request's body.
const CHUNK: usize = 64 * 1024;

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// What all requests of the process share.
pub(crate) struct Client {
    gate: Arc<dyn Gate>,
    names: Arc<Names>,
    tls: Tls,
    slots: Arc<Semaphore>,
    lookups: Semaphore,
}

/// How a request was let pass.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// By a rule; it is on record once its address is known.
    Rule,
    /// By an answer, which is on record.
    Answer,
}

impl Client {
    pub(crate) fn new(gate: Arc<dyn Gate>, names: Arc<Names>) -> Self {
        let (slots, lookups) = (Arc::new(Semaphore::new(CONNECTIONS)), Semaphore::new(LOOKUPS));
        Self { tls: Tls::new(gate.clone()), gate, names, slots, lookups }
    }

    async fn send(&self, request: http::Request<WasiBody>, times: Times) -> Result<Sent, Error> {
        let target = match Target::of(&request) {
            Ok(target) => target,
            Err(malformed) => {
                refuse(&*self.gate, malformed, Reason::Malformed);
                return Err(Error::HttpRequestUriInvalid);
            }
        };
        let passed = self.judge(&target).await?;
        let until = times.connected_until();
        let Ok(Ok(slot)) = timeout_at(until, self.slots.clone().acquire_owned()).await else {
            return Err(Error::ConnectionLimitReached);
        };
        let addresses = self.addresses(&target, until).await?;
        let stream = self.connect(&target, &addresses, passed, until).await?;
        let exchange = Exchange { target: &target, times, slot };
        if target.secure {
            let handshake = timeout_at(until, self.tls.handshake(stream, &target.host)).await;
            let stream = handshake.map_err(|_| Error::ConnectionTimeout)??;
            let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
            exchange.run(stream, http2, request).await
        } else {
            exchange.run(stream, false, request).await
        }
    }

    /// Judge a request without an address. What is refused is on record; what passes is when it has an address.
    async fn judge(&self, target: &Target) -> Result<Passed, Error> {
        let request = target.request(None);
        if target.method == http::Method::CONNECT {
            refuse(&*self.gate, request, Reason::Unsupported);
            return Err(Error::HttpRequestDenied);
        }
        match self.gate.peek(&request).decision {
            Decision::Allow => Ok(Passed::Rule),
            Decision::Ask => {
                if permit(&*self.gate, request).await {
                    Ok(Passed::Answer)
                } else {
                    Err(Error::HttpRequestDenied)
                }
            }
            Decision::Deny => {
                self.gate.judge(request);
                Err(Error::HttpRequestDenied)
            }
        }
    }
}

/// The hook of one store.
pub(crate) struct HttpHooks {
    pub(crate) client: Arc<Client>,
}

impl WasiHttpHooks for HttpHooks {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _response_read: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let client = self.client.clone();
        Box::new(async move { client.send(request, Times::new(options)).await })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }
}
