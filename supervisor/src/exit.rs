//! Exit codes: one enum, one meaning each.

use std::process::ExitCode;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// The tool, the component or the runtime failed.
    Failed = 1,
    /// A flag, an argument or the configuration is wrong.
    Usage = 2,
    /// A required isolation layer is missing.
    Isolation = 3,
    /// The last tool call was denied, itself or in one of its operations.
    Denied = 4,
    /// Interrupted by a signal.
    Interrupted = 5,
    /// A limit or a kernel layer ended the call.
    Killed = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A failure that ends the program: an exit code and one line for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// One line: the input, the place and the fix.
    pub message: String,
}

impl Failure {
    /// A failure of the tool, the component or the runtime.
    pub fn failed(message: impl ToString) -> Self {
        Self { exit: Exit::Failed, message: message.to_string() }
    }
    /// A wrong flag, argument or configuration.
    pub fn usage(message: impl ToString) -> Self {
        Self { exit: Exit::Usage, message: message.to_string() }
    }
    /// A missing isolation layer.
    pub fn isolation(message: impl ToString) -> Self {
        Self { exit: Exit::Isolation, message: message.to_string() }
    }
    /// The policy or a kernel layer refused what it needed.
    pub fn denied(message: impl ToString) -> Self {
        Self { exit: Exit::Denied, message: message.to_string() }
    }
    /// The guest was killed.
    pub fn killed(message: impl ToString) -> Self {
        Self { exit: Exit::Killed, message: message.to_string() }
    }
    /// A signal asked the program to end.
    pub fn interrupted() -> Self {
        Self { exit: Exit::Interrupted, message: "interrupted".into() }
    }
}
