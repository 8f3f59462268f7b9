//! Why the process ends early.

use act_wire::ChannelError;

/// Why the child could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The channel failed.
    #[error("channel: {0}")]
    Channel(#[from] ChannelError),
    /// The supervisor sent what does not fit the state.
    #[error("protocol: {0}")]
    Protocol(&'static str),
    /// The policy does not compile.
    #[error("policy: {0}")]
    Policy(String),
    /// The component cannot be mapped or linked.
    #[error("component: {0:#}")]
    Component(wasmtime::Error),
    /// The file system could not be prepared.
    #[error(transparent)]
    Preopen(#[from] act_host::PreopenError),
    /// Landlock failed.
    #[error("{0}")]
    Landlock(#[source] act_lockdown::LockdownError),
    /// seccomp failed.
    #[error("{0}")]
    Seccomp(#[source] act_lockdown::LockdownError),
    /// The runtime or a thread could not be made.
    #[error("runtime: {0}")]
    Runtime(#[source] std::io::Error),
}

impl GuestError {
    /// The layer or step for `ToSupervisor::Failed`.
    pub(crate) fn step(&self) -> &'static str {
        match self {
            Self::Channel(_) | Self::Protocol(_) => "protocol",
            Self::Policy(_) => "policy",
            Self::Component(_) => "component",
            Self::Preopen(_) => "filesystem",
            Self::Landlock(_) => "landlock",
            Self::Seccomp(_) => "seccomp",
            Self::Runtime(_) => "runtime",
        }
    }

    /// One line with all causes.
    pub(crate) fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self).and_then(std::error::Error::source);
        while let Some(error) = cause {
            line.push_str(": ");
            line.push_str(&error.to_string());
            cause = error.source();
        }
        line.replace(['\n', '\r'], " ")
    }
}
