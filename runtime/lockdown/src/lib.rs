//! What a child process gives up before code that nobody trusts runs in it.
//!
//! **Purpose.** Layers 2 and 3: [`landlock`] bounds files, TCP ports, abstract sockets and signals; [`seccomp`] bounds
//! system calls. The child applies them to itself. The supervisor builds the seccomp program once, with
//! [`profile::Profile`], and sends it as numbers, so the child needs no generator.
//!
//! **Order.** `landlock` while the process has one thread: up to ABI 7 a domain holds for the calling thread and those
//! it starts later. Then the fixed threads. Then `seccomp`, which takes all threads along (`TSYNC`) and ends the
//! starting of threads.
//!
//! **Limits.** Landlock does not judge `stat`, `readlink`, `O_PATH`, UDP or addresses; it cannot subtract from a
//! subtree. A grant for writing that names what does not exist yet is lent to the nearest directory above that exists.
//! seccomp sees numbers, not memory: paths and socket addresses are judged elsewhere.
//!
//! **Threat model.** The code that runs afterwards has taken over the whole process.
//!
//! **Tested** in forked children that try each forbidden call with and without the layer.

mod error;
mod grants;
mod landlock;
pub mod profile;
mod sys;

pub use crate::landlock::{kernel_abi, landlock};
pub use error::LockdownError;
pub use sys::seccomp;

/// The newest Landlock ABI that this crate handles (Linux 6.15).
pub const NEWEST_ABI: u32 = 7;
