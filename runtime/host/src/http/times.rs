//! How long the parts of a request may take.

use std::time::Duration;
use tokio::time::Instant;
use wasmtime_wasi_http::RequestOptions;

/// Look-up, connection and TLS, where the component asks for nothing else.
const CONNECT: Duration = Duration::from_secs(30);
/// The head of the response. Some services think for minutes.
const FIRST_BYTE: Duration = Duration::from_mins(5);
/// Between two pieces of the response's body.
const BETWEEN_BYTES: Duration = Duration::from_mins(5);
/// Whatever the component asks for.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Clone, Copy)]
pub(super) struct Times {
    connect: Duration,
    pub(super) first_byte: Duration,
    pub(super) between_bytes: Duration,
}

impl Times {
    pub(super) fn new(options: Option<RequestOptions>) -> Self {
        let options = options.unwrap_or_default();
        let time = |asked: Option<Duration>, usual: Duration| asked.unwrap_or(usual).min(LONGEST);
        Self {
            connect: time(options.connect_timeout, CONNECT),
            first_byte: time(options.first_byte_timeout, FIRST_BYTE),
            between_bytes: time(options.between_bytes_timeout, BETWEEN_BYTES),
        }
    }

    /// When a connection that is begun now has to be there.
    pub(super) fn connected_until(&self) -> Instant {
        Instant::now() + self.connect
    }
}
