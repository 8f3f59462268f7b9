//! The sending half of the channel, with the records of judged operations.

use act_wire::{Bounded, Channel, ChannelError, Record, ToSupervisor};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most records, and most bytes of them, that wait.
const RECORDS: usize = 256;
const BYTES: usize = 32 * 1024;
/// What a record weighs beside its paths and names.
const OVERHEAD: usize = 48;

/// Sends in order: the records that were made before a message go before it.
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    /// Told when the channel is gone.
    pub(crate) gone: Notify,
}

struct Inner {
    channel: Channel,
    records: Vec<Record>,
    bytes: usize,
    failed: bool,
}

impl Outbox {
    pub(crate) fn new(channel: Channel) -> Self {
        let inner = Inner { channel, records: Vec::new(), bytes: 0, failed: false };
        Self { inner: Mutex::new(inner), gone: Notify::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Send the waiting records and then `message`.
    pub(crate) fn send(&self, message: &ToSupervisor) {
        let mut inner = self.inner();
        let sent = inner.flush().and_then(|()| inner.channel.send(message));
        self.note(&mut inner, &sent);
    }

    /// Keep a record for later, or send it at once with those before it.
    pub(crate) fn record(&self, record: Record, at_once: bool) {
        let mut inner = self.inner();
        inner.bytes += OVERHEAD + weight(&record);
        inner.records.push(record);
        if at_once || inner.records.len() >= RECORDS || inner.bytes >= BYTES {
            let sent = inner.flush();
            self.note(&mut inner, &sent);
        }
    }

    fn note(&self, inner: &mut Inner, sent: &Result<(), ChannelError>) {
        if sent.is_err() {
            inner.failed = true;
            self.gone.notify_one();
        }
    }

    /// Whether sending failed once. Nothing may be done any more then: it would go unrecorded.
    pub(crate) fn failed(&self) -> bool {
        self.inner().failed
    }
}

impl Inner {
    fn flush(&mut self) -> Result<(), ChannelError> {
        if self.failed {
            return Err(ChannelError::Closed);
        }
        if self.records.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        self.channel.send(&ToSupervisor::Records(Bounded(std::mem::take(&mut self.records))))
    }
}

fn weight(record: &Record) -> usize {
    use act_policy::Request;
    match &record.request {
        Request::File { path, .. } => path.len(),
        Request::Connect { names, .. } => names.iter().map(String::len).sum(),
        Request::Lookup { host, .. } => host.len(),
        Request::Http { method, scheme, host, .. } => method.len() + scheme.len() + host.len(),
        Request::Credential { key } => key.len(),
        Request::Consent { class, key, arguments } => {
            class.len() + key.len() + arguments.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        }
        // Addresses alone, and what a guest does nothing of.
        Request::Bind { .. }
        | Request::Listen { .. }
        | Request::Net { .. }
        | Request::Tool { .. }
        | Request::Spawn { .. }
        | Request::Ui { .. } => 0,
    }
}
