//! `wasi:http`: outgoing requests, one hook for 0.2 and 0.3.
//!
//! A request is brought into one canonical form ([`target`]), and that form alone is judged, looked up, connected to
//! and sent. It is judged before its name is looked up, so that a refused name causes no packet, and again with the
//! address that the connection goes to, whether that is a new one or one that an earlier request has left open
//! ([`pool`]). Redirects are the component's to follow, each by a new request. No environment variable is read: there
//! are no proxies.

mod body;
mod connect;
mod connection;
mod error;
mod exchange;
mod outgoing;
mod pool;
mod stream;
mod target;
mod times;
mod tls;

use crate::gate::{Gate, permit, refuse};
use crate::sockets::Names;
use act_policy::{Decision, Reason};
use connection::{Connection, Wire};
use exchange::{Exchange, Outcome};
use pool::Pool;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use stream::Stream;
use target::Target;
use times::Times;
use tls::Tls;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// Most connections at once. What each may buffer (see [`connection`]) fits many times into the memory that the process
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

    async fn send(&self, pool: &Arc<Pool>, request: http::Request<WasiBody>, times: Times) -> Result<Sent, Error> {
        let target = match Target::of(&request) {
            Ok(target) => target,
            Err(malformed) => {
                refuse(&*self.gate, malformed, Reason::Malformed);
                return Err(Error::HttpRequestUriInvalid);
            }
        };
        let passed = self.judge(&target).await?;
        let until = times.connected_until();
        let mut exchange = Exchange::new(&target, times, pool, request);
        let mut admitted = None;
        if let Some(connection) = pool.take(&target.place(), |address| self.may_go(&target, address, passed)) {
            let address = connection.address;
            if !self.admit(&target, address, passed) {
                return Err(Error::HttpRequestDenied);
            }
            exchange = match exchange.run(connection).await? {
                Outcome::Sent(sent) => return Ok(sent),
                // It was closed in the meantime. What was not begun can be done anew, whatever it asks for.
                Outcome::Unsent(exchange, _) => *exchange,
            };
            admitted = Some(address);
        }
        let slot = self.slot(pool, until).await?;
        let addresses = self.addresses(&target, until).await?;
        let (socket, address) = self.connect(&target, &addresses, passed, admitted, until).await?;
        let connection = self.speak(&target, socket, address, slot, until).await?;
        match exchange.run(connection).await? {
            Outcome::Sent(sent) => Ok(sent),
            Outcome::Unsent(_, problem) => Err(problem),
        }
    }

    /// Leave to make a connection.
    async fn slot(&self, pool: &Pool, until: Instant) -> Result<OwnedSemaphorePermit, Error> {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Ok(slot);
        }
        let _wanted = pool.make_room();
        match timeout_at(until, self.slots.clone().acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Error::ConnectionLimitReached),
        }
    }

    /// Speak HTTP over a connection, over TLS if that is asked for.
    async fn speak(
        &self,
        target: &Target,
        socket: Stream,
        address: IpAddr,
        slot: OwnedSemaphorePermit,
        until: Instant,
    ) -> Result<Connection, Error> {
        if !target.secure {
            let stream = socket.clone();
            return Connection::open(Wire { stream, socket, address, http2: false, slot }).await;
        }
        let handshake = timeout_at(until, self.tls.handshake(socket.clone(), &target.host)).await;
        let stream = handshake.map_err(|_| Error::ConnectionTimeout)??;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2);
        Connection::open(Wire { stream, socket, address, http2, slot }).await
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
    client: Arc<Client>,
    pool: Arc<Pool>,
}

impl HttpHooks {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, pool: Arc::default() }
    }
}

impl WasiHttpHooks for HttpHooks {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _response_read: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let (client, pool) = (self.client.clone(), self.pool.clone());
        Box::new(async move { client.send(&pool, request, Times::new(options)).await })
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }

    fn p3_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }
}
