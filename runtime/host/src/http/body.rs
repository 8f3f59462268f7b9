//! The body of a response, which has to keep coming.

use super::error;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use wasmtime_wasi_http::Error;

pub(super) struct Timed {
    body: Incoming,
    between: Duration,
    /// Runs while somebody waits for the next piece, not while the component is busy with the last one.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    pub(super) fn new(body: Incoming, between: Duration) -> Self {
        Self { body, between, waiting: None }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(error::exchange)));
        }
        let between = self.between;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(between)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
