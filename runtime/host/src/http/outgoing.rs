//! The body of a request, which tells when it is out of our hands.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use wasmtime_wasi_http::{Error, WasiBody};

pub(super) struct Outgoing {
    body: WasiBody,
    gone: Gone,
}

/// Whether hyper has let go of a body: it was sent, or it may not be sent any more. In the second case the connection
/// is not ready for another request.
#[derive(Clone, Default)]
pub(super) struct Gone(Arc<AtomicBool>);

impl Gone {
    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Outgoing {
    pub(super) fn new(body: WasiBody) -> Self {
        Self { body, gone: Gone::default() }
    }

    pub(super) fn gone(&self) -> Gone {
        self.gone.clone()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.gone.0.store(true, Ordering::Relaxed);
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
