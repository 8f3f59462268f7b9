//! The child's end of the broker's socket: one question at a time, and wait.

use act_files::{Answer, Fault, Operation, Remote};
use act_wire::{Channel, ChannelError, FileAnswer};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// Most bytes of an answer: a whole listing.
const ANSWER: usize = act_files::MAX_LISTING;

pub(crate) struct Broker(Mutex<Channel>);

impl Broker {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(Channel::new(socket, ANSWER)))
    }

    fn ask(&self, operation: &Operation) -> Result<(FileAnswer, Vec<OwnedFd>), ChannelError> {
        let mut channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(operation)?;
        channel.receive_blocking()
    }
}

impl Remote for Broker {
    fn perform(&self, operation: Operation) -> Result<Answer, Fault> {
        let Ok((answer, mut files)) = self.ask(&operation) else { return Err(Errno::IO.into()) };
        if let Some(fault) = answer.fault() {
            return Err(fault);
        }
        match answer {
            FileAnswer::Opened => files.pop().map(Answer::Opened).ok_or(Errno::IO.into()),
            FileAnswer::Entries(entries) => Ok(Answer::Entries(entries)),
            FileAnswer::Done | FileAnswer::Denied | FileAnswer::Failed(_) => Ok(Answer::Done),
        }
    }
}
