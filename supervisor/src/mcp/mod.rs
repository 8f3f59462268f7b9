//! Serving the tools of one component over the Model Context Protocol, on standard input and output or over HTTP.
//!
//! Two threads share the work. The main thread has the guest: a child dies with the *thread* that spawned it
//! (`PR_SET_PDEATHSIG`), so that thread must be the one that lives longest. A second thread has the protocol
//! ([`endpoint`], through `rmcp`; [`http`] has the connections). Between them is a bounded [`queue`] that the main thread waits on together with
//! signals.
//!
//! # Limits
//!
//! Calls are served one after another. A call that the client has cancelled is skipped while it waits; one that is
//! under way ends with its guest, and the next call has a new one: nothing else stops a component that does not listen.

mod elicit;
mod endpoint;
mod http;
mod queue;
mod result;
mod server;
mod sessions;
mod token;

pub use self::http::Http;
pub use self::http::tls::{TlsError, config as tls_config};
pub use endpoint::{Identity, Transport};
pub use server::{Server, Settings};
pub use token::{Token, TokenError};
