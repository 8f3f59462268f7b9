//! Asking a human, where the policy says `ask`.
//!
//! A question is put to the [`Desk`]. Every channel that is attached shows it (the terminal, the client), and the first
//! answer counts. What was answered for the session is remembered there, and nowhere else; [`Passes`] hold what a call may
//! do because of an answer, for the layers below the host check, until the call ends.

mod desk;
mod key;
mod passes;
mod terminal;

pub use desk::{Answer, Channel, Desk, Inbox, Outcome, Question, Reason, Ticket};
pub use key::Key;
pub use passes::Passes;
pub use terminal::TerminalChannel;
