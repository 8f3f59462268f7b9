//! One connection, HTTP/1.1 or HTTP/2, that serves one request at a time.

use super::error;
use super::outgoing::Outgoing;
use super::stream::Stream;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use std::future::Future;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wasmtime_wasi_http::Error;
use wasmtime_wasi_http::io::TokioIo;

/// Most bytes of the head of a response, and of what is read ahead over HTTP/1.1; what one read brings may exceed it.
const HEAD: usize = 64 * 1024;
/// What the server may send ahead over HTTP/2, and what may wait to be sent to it.
const WINDOW: u32 = 256 * 1024;

/// Closed when it is dropped.
pub(super) struct Connection {
    sender: Sender,
    socket: Stream,
    /// The peer's, which was judged.
    pub(super) address: IpAddr,
    pub(super) born: Instant,
    driver: Driver,
}

enum Sender {
    One(http1::SendRequest<Outgoing>),
    Two(http2::SendRequest<Outgoing>),
}

/// What a new connection is made of.
pub(super) struct Wire<S> {
    /// What is spoken over: `socket`, or TLS on it.
    pub(super) stream: S,
    pub(super) socket: Stream,
    pub(super) address: IpAddr,
    pub(super) http2: bool,
    /// Free again when the connection is closed.
    pub(super) slot: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) async fn open<S>(wire: Wire<S>) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Wire { stream, socket, address, http2, slot } = wire;
        let (io, born) = (TokioIo::new(stream), Instant::now());
        let (sender, driver) = if http2 {
            let mut builder = http2::Builder::new(Executor);
            builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
            builder.max_send_buf_size(WINDOW as usize).max_header_list_size(HEAD as u32);
            let (sender, connection) = builder.handshake(io).await.map_err(error::exchange)?;
            (Sender::Two(sender), Driver::start(connection, slot))
        } else {
            let mut builder = http1::Builder::new();
            builder.max_buf_size(HEAD);
            let (sender, connection) = builder.handshake(io).await.map_err(error::exchange)?;
            (Sender::One(sender), Driver::start(connection, slot))
        };
        Ok(Self { sender, socket, address, born, driver })
    }

    pub(super) const fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Two(_))
    }

    /// Whether the last exchange is over, and neither side has closed. hyper closes after an error, `connection: close`
    /// and bytes that belong to no response.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::One(sender) => sender.is_ready() && !sender.is_closed(),
            Sender::Two(sender) => sender.is_ready() && !sender.is_closed(),
        }
    }

    /// The same, and nothing has come that hyper has not seen yet, not even the end.
    pub(super) fn is_usable(&self) -> bool {
        self.is_ready() && self.socket.is_quiet()
    }

    /// Send a request and wait for the head of its response. The error has the request in it if none of it was sent.
    pub(super) async fn send(
        &mut self,
        request: http::Request<Outgoing>,
    ) -> Result<http::Response<Incoming>, TrySendError<http::Request<Outgoing>>> {
        match &mut self.sender {
            Sender::One(sender) => sender.try_send_request(request).await,
            Sender::Two(sender) => sender.try_send_request(request).await,
        }
    }

    /// Let the exchange that is under way be the last. Ends with the connection; what breaks the response is told by
    /// its body, what is told here is about the request.
    pub(super) async fn end(self) -> Result<(), Error> {
        let Self { sender, mut driver, .. } = self;
        drop(sender);
        match (&mut driver.0).await {
            Ok(Err(problem)) if problem.is_user() => Err(error::exchange(problem)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// The task that serves a connection.
struct Driver(JoinHandle<Result<(), hyper::Error>>);

impl Driver {
    fn start(
        connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        Self(tokio::spawn(async move {
            let _slot = slot;
            connection.await
        }))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs what HTTP/2 does in the background.
#[derive(Clone)]
struct Executor;

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(future);
    }
}
