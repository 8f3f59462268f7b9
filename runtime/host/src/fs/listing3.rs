//! The stream of entries of 0.3: judged and read when the guest first reads from it.

use super::p3::kind;
use crate::state::State;
use act_files::Entry;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{Destination, StreamProducer, StreamResult};
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};

/// The entries, once they are read.
pub(super) type Listed = Pin<Box<dyn Future<Output = Result<Vec<Entry>, ErrorCode>> + Send>>;

enum Stage {
    Waiting(Listed),
    Entries(vec::IntoIter<Entry>),
}

/// A listing that is judged and read when the guest first reads from the stream.
pub(super) struct Listing {
    state: Stage,
    result: Option<oneshot::Sender<Result<(), ErrorCode>>>,
}

impl Listing {
    pub(super) fn new(listed: Listed, result: oneshot::Sender<Result<(), ErrorCode>>) -> Self {
        Self { state: Stage::Waiting(listed), result: Some(result) }
    }

    fn end(&mut self, result: Result<(), ErrorCode>) -> StreamResult {
        if let Some(sender) = self.result.take() {
            // The guest may have dropped its end; nobody waits then.
            _ = sender.send(result);
        }
        StreamResult::Dropped
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.end(Ok(()));
    }
}

impl StreamProducer<State> for Listing {
    type Item = DirectoryEntry;
    type Buffer = wasmtime::component::VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut store: StoreContextMut<'a, State>,
        mut destination: Destination<'a, Self::Item, Self::Buffer>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let room = destination.remaining(&mut store).unwrap_or(64);
        if room == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        if let Stage::Waiting(listed) = &mut self.state {
            match listed.as_mut().poll(context) {
                Poll::Pending if finish => return Poll::Ready(Ok(StreamResult::Cancelled)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(entries)) => self.state = Stage::Entries(entries.into_iter()),
                Poll::Ready(Err(code)) => return Poll::Ready(Ok(self.end(Err(code)))),
            }
        }
        let Stage::Entries(entries) = &mut self.state else { return Poll::Pending };
        let some: Vec<_> =
            entries.by_ref().take(room).map(|e| DirectoryEntry { type_: kind(e.kind), name: e.name }).collect();
        if some.is_empty() {
            return Poll::Ready(Ok(self.end(Ok(()))));
        }
        destination.set_buffer(some.into());
        Poll::Ready(Ok(StreamResult::Completed))
    }
}
