//! Tests that need another kernel than the one at hand, and what they are made of.
//!
//! **Purpose.** `cargo xtask vm-test` boots a real kernel in QEMU with `vm-init` as PID 1. It mounts what programs
//! expect, runs the test binary and reports each of its lines as a [`frame`]; then it powers the machine off.
//! `tests/limits.rs` runs `act` in there as people run it ([`call`]) and looks at its [`cgroup`].
//!
//! **Limits.** Everything here is made for that machine: root, one test at a time, the fixed paths of [`place`]. Nothing of
//! it runs in an ordinary `cargo test`.

pub mod call;
pub mod cgroup;
pub mod frame;
pub mod place;
pub mod sys;
pub mod worker;
