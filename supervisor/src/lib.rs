//! The supervisor: the only process with privileges, descriptors and secrets.
//!
//! It reads policy and component, starts one guest child for the component, confines it ([`sandbox`]), watches it
//! ([`session`]), does on its behalf what it may not do itself ([`broker`]) and records what was decided ([`audit`]).
//! It links no wasmtime: a component is compiled by `act-compile` and run by `act-guest`, each in a lock-down of its own.
//!
//! # Threat model
//!
//! The guest child is taken to run hostile native code. Its messages are bounded and checked; what it may do is held by
//! the kernel, not by its good will. The operator, the configuration and the files of this user are trusted.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod audit;
pub mod broker;
pub mod cache;
pub mod cli;
pub mod component;
pub mod config;
pub mod consent;
pub mod content;
pub mod exit;
mod folder;
pub mod mcp;
pub mod sandbox;
pub mod schema;
pub mod secrets;
pub mod session;
pub mod signals;
pub mod store;
pub mod terminal;
pub mod timing;
pub mod tools;
pub mod values;
