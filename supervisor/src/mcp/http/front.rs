//! What every request has to pass before `rmcp` sees it: the peer's rate and the token. Host and Origin are `rmcp`'s.

use super::clients::{Clients, Hold};
use super::rate::Rates;
use crate::mcp::Token;
use axum::Extension;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::body::{Frame, SizeHint};
use std::cell::Cell;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Names the session of a client.
const SESSION_ID: &str = "mcp-session-id";
/// How long a body may take to come.
const BODY_TIME: Duration = Duration::from_secs(30);
/// When to come again, in seconds.
const LATER: HeaderValue = HeaderValue::from_static("1");

tokio::task_local! {
    /// The answer to a request that `rmcp` fails on: it knows no better one than "internal error".
    static REFUSAL: Cell<Option<StatusCode>>;
}

/// What requests are checked with.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) token: Option<Token>,
    pub(super) rates: Mutex<Rates>,
    pub(super) clients: Arc<Clients>,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// Check a request and hand it on.
pub(super) async fn pass(
    State(front): State<Arc<Front>>,
    Extension(Peer(peer)): Extension<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    if !front.rates.lock().unwrap_or_else(PoisonError::into_inner).take(peer, Instant::now()) {
        return refusal(StatusCode::TOO_MANY_REQUESTS);
    }
    if front.token.as_ref().is_some_and(|token| !token.admits(request.headers())) {
        return refusal(StatusCode::UNAUTHORIZED);
    }
    // It has served; nothing behind this line needs it.
    request.headers_mut().remove(AUTHORIZATION);
    let hold = hold(&front, request.headers());
    let request = request.map(|body| Body::new(Timely { body, late: Box::pin(tokio::time::sleep(BODY_TIME)) }));
    let answered = async { (next.run(request).await, REFUSAL.with(Cell::get)) };
    let (response, refused) = REFUSAL.scope(Cell::new(None), answered).await;
    if let Some(status) = refused {
        return refusal(status);
    }
    // The answer to `initialize` names the session.
    let hold = hold.or_else(|| self::hold(&front, response.headers()));
    response.map(|body| Body::new(Held { body, _hold: hold }))
}

/// Answer the request that is under way with this status, whatever comes of it.
pub(super) fn refuse_with(status: StatusCode) {
    // Outside of a request there is nobody to tell.
    let _ = REFUSAL.try_with(|refusal| refusal.set(Some(status)));
}

fn hold(front: &Front, headers: &HeaderMap) -> Option<Hold> {
    front.clients.hold(headers.get(SESSION_ID)?.to_str().ok()?)
}

fn refusal(status: StatusCode) -> Response {
    let mut response = Response::new(Body::from(status.canonical_reason().unwrap_or_default()));
    *response.status_mut() = status;
    let header = match status {
        StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, LATER)),
        _ => None,
    };
    response.headers_mut().extend(header);
    // Who is not let in must not keep one of the connections either.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The body of a request, which has to come in time.
struct Timely {
    body: Body,
    late: Pin<Box<Sleep>>,
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.late.as_mut().poll(context).is_ready() {
            refuse_with(StatusCode::REQUEST_TIMEOUT);
            return Poll::Ready(Some(Err(axum::Error::new("the body came too slowly"))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which keeps a session in use.
struct Held {
    body: Body,
    _hold: Option<Hold>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
