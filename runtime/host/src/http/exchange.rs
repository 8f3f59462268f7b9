//! One request and its response over one connection, HTTP/1.1 or HTTP/2.

use super::body::Timed;
use super::target::{Target, path};
use super::times::Times;
use super::{Sent, error};
use http::StatusCode;
use http::header::HOST;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use std::future::Future;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, WasiBody};

/// Most bytes of the head of a response, and of what is read ahead over HTTP/1.1; what one read brings may exceed it.
const HEAD: usize = 64 * 1024;
/// What the server may send ahead over HTTP/2, and what may wait to be sent to it.
const WINDOW: u32 = 256 * 1024;

pub(super) struct Exchange<'a> {
    pub(super) target: &'a Target,
    pub(super) times: Times,
    /// Free again when the connection is closed.
    pub(super) slot: OwnedSemaphorePermit,
}

impl Exchange<'_> {
    /// Send `request` on `stream`. The response comes when its head is there; both bodies may go on after that.
    pub(super) async fn run<S>(self, stream: S, http2: bool, request: http::Request<WasiBody>) -> Result<Sent, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (head, body) = request.into_parts();
        let mut request = http::Request::new(body);
        *request.method_mut() = self.target.method.clone();
        *request.headers_mut() = head.headers;
        let io = TokioIo::new(stream);
        let (response, connection) = if http2 {
            // The authority is in the URI.
            request.headers_mut().remove(HOST);
            *request.uri_mut() = self.target.uri(&head.uri).ok_or(Error::HttpRequestUriInvalid)?;
            let mut builder = http2::Builder::new(Executor);
            builder.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW);
            builder.max_send_buf_size(WINDOW as usize).max_header_list_size(HEAD as u32);
            let (mut sender, connection) = builder.handshake(io).await.map_err(error::exchange)?;
            let connection = Connection::drive(connection, self.slot);
            (timeout(self.times.first_byte, sender.send_request(request)).await, connection)
        } else {
            let host = self.target.host_field().ok_or(Error::HttpRequestUriInvalid)?;
            request.headers_mut().insert(HOST, host);
            *request.uri_mut() = path(&head.uri).parse().map_err(|_| Error::HttpRequestUriInvalid)?;
            let mut builder = http1::Builder::new();
            builder.max_buf_size(HEAD);
            let (mut sender, connection) = builder.handshake(io).await.map_err(error::exchange)?;
            let connection = Connection::drive(connection, self.slot);
            (timeout(self.times.first_byte, sender.send_request(request)).await, connection)
        };
        let response: http::Response<Incoming> =
            response.map_err(|_| Error::HttpResponseTimeout)?.map_err(error::exchange)?;
        // Nothing asked for another protocol, and what would come then is none of HTTP.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::HttpUpgradeFailed);
        }
        let between = self.times.between_bytes;
        let response = response.map(|body| Timed::new(body, between).boxed_unsync());
        Ok((response, Box::new(connection.end())))
    }
}

/// A connection that is served by a task of its own, and closed when nobody waits for its end any more.
struct Connection(JoinHandle<Result<(), hyper::Error>>);

impl Connection {
    fn drive(
        connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        Self(tokio::spawn(async move {
            let _slot = slot;
            connection.await
        }))
    }

    /// Ends with the connection. What breaks the response is told by its body; what is told here is about the request.
    async fn end(mut self) -> Result<(), Error> {
        match (&mut self.0).await {
            Ok(Err(problem)) if problem.is_user() => Err(error::exchange(problem)),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Connection {
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
