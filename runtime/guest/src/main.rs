//! `act-guest`: runs one component for the supervisor on descriptor 0. Not for people to start.

use act_guest::serve;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    // Nothing of a panic leaves the process but the exit code: its message may hold what the component chose, and
    // printing a backtrace opens files.
    std::panic::set_hook(Box::new(|_| std::process::exit(70)));
    // SAFETY: descriptor 0 is the channel, by the contract with the supervisor; nothing else in this program uses it,
    // and this runs once.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    serve(socket, |gate| Arc::new(gate))
}
