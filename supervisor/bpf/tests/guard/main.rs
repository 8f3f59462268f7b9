//! The guard in real cgroups: what it denies, what it lets pass, how it ends.
//!
//! Each test has a network namespace of its own in which every address is local, so that an attempt on any address can
//! succeed; nothing leaves the machine. Each denied attempt is also made outside the cgroup, where it must work: one
//! that fails there for another reason proves nothing, and is counted and printed as a skip.
//!
//! Needs root, cgroup v2, and `ip` from iproute2.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod attempts;
mod enforcement;
mod lab;
mod lifetime;
mod matcher;
mod rows;
