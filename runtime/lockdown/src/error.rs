//! Why a layer is missing.

use rustix::io::Errno;

/// Why a layer could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum LockdownError {
    /// The kernel has no Landlock, or it is switched off.
    #[error("this kernel has no Landlock (`CONFIG_SECURITY_LANDLOCK`, `lsm=landlock,…`)")]
    NoLandlock,
    /// The ruleset could not be built or enforced.
    #[error("landlock: {step}")]
    Landlock {
        /// The step.
        step: &'static str,
        /// The crate's error.
        #[source]
        source: landlock::RulesetError,
    },
    /// A granted path could not be opened.
    #[error("landlock: open the grant `{}`", String::from_utf8_lossy(.path))]
    Grant {
        /// The path.
        path: Vec<u8>,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// The seccomp program is empty or longer than the kernel takes.
    #[error("seccomp: a program of {instructions} instructions")]
    Program {
        /// Its length.
        instructions: usize,
    },
    /// The seccomp program could not be built.
    #[error("seccomp: build the program")]
    Build(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A system call failed.
    #[error("{call}")]
    System {
        /// The call.
        call: &'static str,
        /// Its error.
        #[source]
        source: Errno,
    },
    /// Another thread could not take the filter.
    #[error("seccomp: thread {thread} did not take the program")]
    Thread {
        /// Its number.
        thread: i64,
    },
}
