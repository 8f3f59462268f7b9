//! Requests from the protocol thread to the thread that has the guest, with an eventfd to wait on.

use crate::consent::{Channel, Desk};
use crate::session::Output;
use act_wire::Tool;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde_json::Value;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TryRecvError, sync_channel};
use tokio::sync::oneshot;

/// Most requests that wait.
const CAPACITY: usize = 64;

/// What the client wants of the guest.
#[derive(Debug)]
pub(super) enum Command {
    /// The tools.
    List {
        /// The tools, or one line why there are none.
        reply: oneshot::Sender<Result<Vec<Tool>, String>>,
    },
    /// A call.
    Call {
        /// The tool's name.
        tool: String,
        /// Its arguments, an object.
        arguments: Value,
        /// The session that the client named.
        session: Option<String>,
        /// Where its client's answers are kept, and the way to ask the client, if it can be asked.
        desk: Arc<Desk>,
        /// The latter.
        channel: Option<Box<dyn Channel>>,
        /// Can be read when the client does not want it any more.
        cancel: Arc<OwnedFd>,
        /// What it brought.
        reply: oneshot::Sender<Answer>,
    },
}

/// The end of a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// The tool was found.
    Output {
        /// What it brought.
        output: Output,
        /// Whether it failed after one of its operations was refused.
        denied: bool,
    },
    /// It was not; one line.
    Unknown(String),
}

/// The protocol's end.
#[derive(Debug)]
pub(super) struct Sender {
    /// `None` only while it is dropped.
    queue: Option<SyncSender<Command>>,
    wake: Arc<OwnedFd>,
}

/// The guest's end.
#[derive(Debug)]
pub(super) struct Receiver {
    queue: std::sync::mpsc::Receiver<Command>,
    wake: Arc<OwnedFd>,
}

/// Why the wait is over.
#[derive(Debug)]
pub(super) enum Wake {
    /// A request.
    Command(Command),
    /// There will be no more.
    Closed,
    /// The other descriptor can be read.
    Interrupted,
}

/// Both ends of a queue.
pub(super) fn queue() -> Result<(Sender, Receiver), Errno> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = sync_channel(CAPACITY);
    Ok((Sender { queue: Some(sender), wake: Arc::clone(&wake) }, Receiver { queue: receiver, wake }))
}

impl Sender {
    /// Hand over a request; false when too many wait or nobody serves them any more.
    pub(super) fn send(&self, command: Command) -> bool {
        let sent = self.queue.as_ref().is_some_and(|queue| queue.try_send(command).is_ok());
        self.wake();
        sent
    }

    fn wake(&self) {
        // It fails only when the counter is at its maximum, and then the other side is awake.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The queue must be closed before the other side looks at it.
        self.queue = None;
        self.wake();
    }
}

impl Receiver {
    /// Wait for a request, or until `interrupt` can be read.
    pub(super) fn wait(&self, interrupt: BorrowedFd<'_>) -> Result<Wake, Errno> {
        loop {
            match self.queue.try_recv() {
                Ok(command) => return Ok(Wake::Command(command)),
                Err(TryRecvError::Disconnected) => return Ok(Wake::Closed),
                Err(TryRecvError::Empty) => {}
            }
            let mut fds = [PollFd::new(&*self.wake, PollFlags::IN), PollFd::from_borrowed_fd(interrupt, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
            let [_, interrupted] = &fds;
            if !interrupted.revents().is_empty() {
                return Ok(Wake::Interrupted);
            }
            let _ = rustix::io::read(&*self.wake, &mut [0u8; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    fn the_wait_ends_for_each_reason() {
        let (sender, receiver) = queue().unwrap();
        let interrupt = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let list = || Command::List { reply: oneshot::channel().0 };
        assert!(sender.send(list()));
        assert!(matches!(receiver.wait(interrupt.as_fd()), Ok(Wake::Command(Command::List { .. }))));
        let later = std::thread::spawn(move || drop(sender));
        assert!(matches!(receiver.wait(interrupt.as_fd()), Ok(Wake::Closed)));
        later.join().unwrap();

        let (sender, receiver) = queue().unwrap();
        rustix::io::write(&interrupt, &1u64.to_ne_bytes()).unwrap();
        assert!(matches!(receiver.wait(interrupt.as_fd()), Ok(Wake::Interrupted)));
        let sent = (0..2 * CAPACITY).filter(|_| sender.send(list())).count();
        assert_eq!(sent, CAPACITY);
        drop(receiver);
        assert!(!sender.send(list()));
    }
}
