//! The whole life of the process.

use crate::error::GuestError;
use crate::gate::PolicyGate;
use crate::outbox::Outbox;
use crate::questions::Questions;
use crate::reader::read;
use crate::start::{Ready, prepare};
use act_host::Gate;
use act_wire::{Channel, ToGuest, ToSupervisor};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::unbounded_channel;

/// Most bytes of a message from the supervisor.
const MESSAGE: usize = 256 << 20;

/// Serve the supervisor at the other end of `socket` until it closes. `make` wraps the gate; the program passes it on
/// as it is.
pub fn serve(socket: OwnedFd, make: impl FnOnce(PolicyGate) -> Arc<dyn Gate>) -> ExitCode {
    let since = Instant::now();
    let Ok(sending) = socket.try_clone() else { return ExitCode::FAILURE };
    let outbox = Arc::new(Outbox::new(Channel::new(sending, 0)));
    match run(since, Channel::new(socket, MESSAGE), &outbox, make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            outbox.send(&ToSupervisor::Failed { step: error.step().into(), message: error.line() });
            ExitCode::FAILURE
        }
    }
}

fn run(
    since: Instant,
    mut channel: Channel,
    outbox: &Arc<Outbox>,
    make: impl FnOnce(PolicyGate) -> Arc<dyn Gate>,
) -> Result<(), GuestError> {
    let questions = Arc::new(Questions::new(outbox.clone()));
    let Ready { runtime, runner, report } = prepare(since, &mut channel, outbox, &questions, make)?;
    outbox.send(&ToSupervisor::Ready(report));
    match channel.receive::<ToGuest>(None)? {
        (ToGuest::Go, _) => {}
        _ => return Err(GuestError::Protocol("go expected")),
    }
    let ended = runtime.block_on(async {
        let (sender, commands) = unbounded_channel();
        let reading = tokio::spawn(read(channel, questions, sender));
        tokio::select! {
            () = runner.run(commands) => Ok(()),
            () = outbox.gone.notified() => Ok(()),
            read = reading => read.unwrap_or(Err(GuestError::Protocol("the reader ended"))),
        }
    });
    // The blocking thread may sit in a system call: do not wait for it.
    runtime.shutdown_background();
    ended
}
