//! One request and its response over a connection.

use super::body::Timed;
use super::connection::Connection;
use super::outgoing::Outgoing;
use super::pool::{Lease, Pool};
use super::target::{Target, path};
use super::times::Times;
use super::{Sent, error};
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use std::future::ready;
use std::sync::Arc;
use tokio::time::timeout;
use wasmtime_wasi_http::{Error, WasiBody};

/// A request, and where and how it goes.
pub(super) struct Exchange<'a> {
    pub(super) target: &'a Target,
    pub(super) times: Times,
    pub(super) pool: &'a Arc<Pool>,
    request: http::Request<Outgoing>,
    /// The connection is known by this request as much as the other way round: no other may go over it.
    bound: bool,
}

/// What came of a request that was given to a connection.
pub(super) enum Outcome<'a> {
    /// The response comes when its head is there; both bodies may go on after that.
    Sent(Sent),
    /// The connection broke before any of the request was sent, and how.
    Unsent(Box<Exchange<'a>>, Error),
}

impl<'a> Exchange<'a> {
    pub(super) fn new(target: &'a Target, times: Times, pool: &'a Arc<Pool>, request: http::Request<WasiBody>) -> Self {
        let (head, body) = request.into_parts();
        let bound = binds(&head.headers);
        let mut request = http::Request::new(Outgoing::new(body));
        *request.method_mut() = target.method.clone();
        *request.uri_mut() = head.uri;
        *request.headers_mut() = head.headers;
        Self { target, times, pool, request, bound }
    }

    /// Send the request on `connection`.
    pub(super) async fn run(mut self, mut connection: Connection) -> Result<Outcome<'a>, Error> {
        self.address(connection.is_http2())?;
        let gone = self.request.body().gone();
        let Self { target, times, pool, request, bound } = self;
        let response = match timeout(times.first_byte, connection.send(request)).await {
            Err(_) => return Err(Error::HttpResponseTimeout),
            Ok(Err(mut problem)) => {
                let request = problem.take_message();
                let problem = error::exchange(problem.into_error());
                let Some(request) = request else { return Err(problem) };
                return Ok(Outcome::Unsent(Box::new(Self { target, times, pool, request, bound }), problem));
            }
            Ok(Ok(response)) => response,
        };
        // Nothing asked for another protocol, and what would come then is none of HTTP.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::HttpUpgradeFailed);
        }
        // A server that answers before it has the whole request may not have read the rest of it.
        let reusable = gone.is() && !bound;
        let between = times.between_bytes;
        if reusable {
            let lease = Lease::new(pool, target.place(), connection);
            let response = response.map(|body| Timed::new(body, between, Some(lease)).boxed_unsync());
            Ok(Outcome::Sent((response, Box::new(ready(Ok(()))))))
        } else {
            let response = response.map(|body| Timed::new(body, between, None).boxed_unsync());
            Ok(Outcome::Sent((response, Box::new(connection.end()))))
        }
    }

    /// Name the target as the protocol of the connection has it.
    fn address(&mut self, http2: bool) -> Result<(), Error> {
        let uri = self.request.uri();
        let uri = if http2 { self.target.uri(uri) } else { path(uri).parse().ok() };
        *self.request.uri_mut() = uri.ok_or(Error::HttpRequestUriInvalid)?;
        let headers = self.request.headers_mut();
        if http2 {
            // The authority is in the URI.
            headers.remove(HOST);
        } else {
            headers.insert(HOST, self.target.host_field().ok_or(Error::HttpRequestUriInvalid)?);
        }
        Ok(())
    }
}

/// Whether a request may make the server take the connection, and not only this request, for somebody's (RFC 4559 §6).
fn binds(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|value| {
        let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
        [b"ntlm".as_slice(), b"negotiate"].iter().any(|bound| scheme.eq_ignore_ascii_case(bound))
    })
}
