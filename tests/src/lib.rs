//! Support for the tests of the built programs.
//!
//! **Purpose.** `tests/*.rs` run `act` as people run it, and look at its output, its exit code and the world around it.
//! Programs and fixtures come from the environment, as `cargo xtask test` sets it: `ACT_BIN_DIR`, `ACT_UNCHECKED_DIR`
//! (the guest's own check is off) and `ACT_GUESTS`. Without them a test prints `skipped: …`; where `ACT_CI` is `1` it
//! fails instead, so that a pipeline cannot lose tests.
//!
//! **Limits.** Linux only. Everything that a test makes lies in one temporary folder ([`World`]); every process ends
//! with its guard ([`Running`]); sockets are on loopback, with ports that the kernel chose, or in a
//! [`Network`] of the test's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]

pub mod attempts;
mod mcp;
mod name_server;
mod network;
mod probe;
pub mod process;
mod run;
mod server;
mod web;
mod world;

pub use mcp::Client;
pub use name_server::{NameServer, Zone};
pub use network::{NAME_SERVER, Network, Sent};
pub use probe::{Probe, setpriv};
pub use run::{Run, Running};
pub use server::Server;
pub use web::{Authority, Web};
pub use world::{Guest, World, case, require, root};
