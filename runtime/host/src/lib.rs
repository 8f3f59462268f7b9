//! The hosts that a component sees: WASI 0.2 and 0.3, the ACT imports, and the call of its tools.
//!
//! **Purpose.** Layer 1: every operation of a component passes a [`Gate`] with the path or address that the kernel
//! would act on, before the kernel is asked. The crate holds no policy and no I/O of its own towards the supervisor.
//!
//! **What is ours and what is wasmtime-wasi's.** Path operations of `wasi:filesystem` are ours for both versions and
//! share one implementation (`fs::act`); reading and writing an open file is wasmtime-wasi's. Name lookup and the check
//! of addresses are ours, sockets themselves are not. Requests of `wasi:http` are sent by `http`, which is ours: one
//! hook for both versions. What a component asks of `act:consent` is judged like any operation; a secret of
//! `act:credentials` comes from the supervisor, for which it asks by key. Clocks and random numbers are given; standard
//! input is empty, output is discarded,
//! environment and arguments are empty.
//!
//! **Limits.** A function of WASI 0.2 that waits, for example for a human, holds the component's store: its other calls
//! wait with it. Memory, tables and handles are bounded by [`Limits`].
//!
//! **Threat model.** The component is hostile, and so is what it names. If it breaks out of wasmtime, nothing here holds
//! and the layers of the kernel do.
//!
//! **Tested** through the built `act-guest` with real components; path resolution by itself in `act-paths`.

mod bindings;
mod consent;
mod credentials;
mod fs;
mod gate;
mod http;
mod limits;
mod linker;
mod sessions;
mod sockets;
mod state;
mod tools;

pub use fs::PreopenError;
pub use gate::{Answer, Certificates, Gate};
pub use limits::Limits;
pub use linker::linker;
pub use sessions::Sessions;
pub use state::{Prepared, State};
pub use tools::{Component, Events, Instance, Tools};
