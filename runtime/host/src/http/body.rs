//! The body of a response, which has to keep coming, and gives its connection back at its end.

use super::error;
use super::pool::Lease;
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
    /// The connection, if it may serve another request. Dropped with the body, it is closed.
    lease: Option<Lease>,
}

impl Timed {
    pub(super) fn new(body: Incoming, between: Duration, lease: Option<Lease>) -> Self {
        let mut timed = Self { body, between, waiting: None, lease };
        if timed.body.is_end_stream() {
            timed.give_back();
        }
        timed
    }

    fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
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
            match &frame {
                Some(Ok(frame)) if frame.is_data() && !self.body.is_end_stream() => {}
                Some(Err(_)) => self.lease = None,
                Some(Ok(_)) | None => self.give_back(),
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(error::exchange)));
        }
        let between = self.between;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(between)));
        ready!(waiting.as_mut().poll(context));
        self.lease = None;
        Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
