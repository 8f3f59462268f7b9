//! The receiving half of the channel, served while calls run.

use crate::calls::Command;
use crate::error::GuestError;
use crate::questions::Questions;
use act_wire::{Channel, ChannelError, ToGuest};
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::UnboundedSender;

struct Socket(Channel);

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Read until the supervisor closes the channel. Answers go to who asked, calls to `commands`.
pub(crate) async fn read(
    channel: Channel,
    questions: Arc<Questions>,
    commands: UnboundedSender<Command>,
) -> Result<(), GuestError> {
    // SAFETY: `as_raw_fd` always gives the channel's own descriptor, which the channel owns and which stays open for as
    // long as the `AsyncFd` owns the channel: nothing takes it out.
    let registered = unsafe { AsyncFd::register_with_interest(Socket(channel), Interest::READABLE) };
    let mut socket = registered.map_err(|error| GuestError::Runtime(error.into()))?;
    loop {
        let mut ready = socket.readable_mut().await.map_err(GuestError::Runtime)?;
        loop {
            let message = match ready.get_inner_mut().0.try_receive::<ToGuest>() {
                Ok(Some((message, _))) => message,
                Ok(None) => break,
                Err(ChannelError::Closed) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let command = match message {
                ToGuest::Resolved { ask, addresses } => {
                    questions.resolved(ask, addresses);
                    continue;
                }
                ToGuest::Roots { certificates, .. } => {
                    questions.roots_given(certificates);
                    continue;
                }
                ToGuest::Answer { ask, allow } => {
                    questions.answer(ask, allow);
                    continue;
                }
                ToGuest::Secret { ask, result } => {
                    questions.secret(ask, result);
                    continue;
                }
                ToGuest::Secrets { ask, result } => {
                    questions.secrets(ask, result);
                    continue;
                }
                ToGuest::SessionSchema { call, metadata } => Command::Schema { call, metadata },
                ToGuest::OpenSession { call, arguments, metadata } => Command::Open { call, arguments, metadata },
                ToGuest::CloseSession { call, session } => Command::Close { call, session },
                ToGuest::ListTools { call, metadata } => Command::List { call, metadata },
                ToGuest::CallTool { call, name, arguments, metadata } => {
                    Command::Call { call, name, arguments, metadata }
                }
                ToGuest::Start(_) | ToGuest::Lock(_) | ToGuest::Go => {
                    return Err(GuestError::Protocol("a second start"));
                }
            };
            if commands.send(command).is_err() {
                return Ok(());
            }
        }
        ready.clear_ready();
    }
}
