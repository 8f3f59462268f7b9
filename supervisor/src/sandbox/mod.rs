//! Confinement of a guest child, in the order that makes it tight.
//!
//! 1. The cgroup is made, the kernel programs are loaded (on a thread, meanwhile).
//! 2. The child is born inside the cgroup ([`spawn`]) and gets its policy; it maps the component, then gives up its
//!    rights: Landlock, threads, seccomp.
//! 3. The programs are attached and configured; a cgroup without configuration may do nothing on the network, and the
//!    child has no socket yet.
//! 4. [`verify`] looks for itself at what holds. Only then the component may run.
//!
//! Which layers there are is decided by doing, never by a list of features. A missing layer is an error where isolation
//! is required, and a line of the audit elsewhere.

pub mod bpf;
pub mod cgroup;
pub mod limits;
pub mod probe;
pub mod spawn;
pub mod start;
pub mod verify;

pub use limits::Limits;
pub use start::{Isolation, Launch, Layer, Sandbox, Setup};

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A system call failed.
    #[error("cannot start the guest: {call}: {source}")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        source: std::io::Error,
    },
    /// A program is missing.
    #[error("`{name}` is not in {folder}: install the programs of act together")]
    Program {
        /// Its name.
        name: String,
        /// Where it should be.
        folder: String,
    },
    /// No cgroup.
    #[error("no cgroup: {reason}")]
    Cgroup {
        /// Why.
        reason: String,
    },
    /// A layer is missing and isolation is required.
    #[error("isolation is required and a layer is missing: {layer}: {reason} (see: act doctor)")]
    Missing {
        /// The layer.
        layer: &'static str,
        /// Why.
        reason: String,
    },
    /// The child failed to start.
    #[error("the guest did not start: {step}: {message}")]
    Guest {
        /// The step.
        step: String,
        /// Its message, escaped.
        message: String,
    },
    /// The child is not confined as it should be.
    #[error("the guest is not confined as it should be: {0}")]
    Unconfined(String),
    /// The channel to the child failed.
    #[error("the channel to the guest: {0}")]
    Channel(#[from] act_wire::ChannelError),
}
