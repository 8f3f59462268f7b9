//! The supervisor's side of act's eBPF programs: loads them, attaches them to the cgroup of a guest child, fills their
//! rules and reads their events.
//!
//! # Order
//!
//! 1. The supervisor makes the cgroup and starts the child inside it. [`Guard::load`] takes a few milliseconds, nearly
//!    all of them in the kernel's verifier, so it may run meanwhile on another thread.
//! 2. [`Guard::attach`]. From here on the cgroup may do nothing on the network.
//! 3. [`Attached::configure`]. From here on it may do what the table says.
//! 4. Only now may the child run an instruction of the component, or make a socket.
//!
//! INVARIANT: before step 2 no hook runs, so until then the child must make no socket and receive none. A socket made
//! inside the cgroup before is judged from step 2 on like every other; one made *outside* never is, because the kernel
//! judges a socket by the cgroup it was made in. The supervisor holds this by its Go message and by closing every
//! descriptor of the child but the known ones.
//!
//! # Threat model
//!
//! The processes in the cgroup are hostile and run native code. They hold no capability, cannot call `bpf`, and are
//! given no descriptor of a program or map: whoever holds a program descriptor can attach it elsewhere without any
//! privilege. Programs attached by [`Guard::attach`] stay until the cgroup is removed, also when the supervisor is
//! killed. Everything fails closed: an unfilled record, an address without a rule, an unreadable packet is denied.
//!
//! # Limits
//!
//! Socket families other than IPv4 and IPv6 are not seen by these hooks (seccomp refuses them), nor is what an ancestor
//! cgroup's privileged program changes after them. Needs cgroup v2 and `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON` in
//! the initial user namespace; [`probe()`] says which is missing. Run on Linux 6.18; 5.10 is the minimum by the helpers.
//!
//! # Tests
//!
//! `tests/` runs attempts in real cgroups, each also without the guard to show that it works at all. They need root
//! and cgroup v2, and say so when they skip.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod attached;
mod error;
mod event;
mod guard;
mod maps;
mod object;
mod probe;
mod sys;
mod table;

pub use act_ebpf_common::{Direction, Hook, MAX_RANGES, Reason, Verdict};
pub use attached::Attached;
pub use error::BpfError;
pub use event::Event;
pub use guard::Guard;
pub use object::Reach;
pub use probe::{Capability, Unavailable, probe};
pub use table::{Flags, NetEntry, NetTable, PortRange};
