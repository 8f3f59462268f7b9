//! Messages between the supervisor (`act`) and a guest child (`act-guest`).
//!
//! They travel over one `SOCK_SEQPACKET` socket pair, cut into packets of at most [`PACKET`] bytes, so that a message
//! never depends on the size of the socket buffer. Each side bounds what it accepts: the supervisor treats every byte
//! from the child as hostile. The child trusts the supervisor, and still checks lengths.
//!
//! The encoding is postcard with a leading version byte; both programs come from one build, so a version that differs
//! is an error, never a negotiation.

mod bounded;
mod channel;
mod files;
mod message;
mod secret;

pub use bounded::Bounded;
pub use channel::{Channel, ChannelError, PACKET};
pub use files::FileAnswer;
pub use message::{
    AskId, CallId, Confinement, ContentPart, FileGrant, GuestError, GuestLimits, LIMIT, Lockdown, NOT_STARTED,
    Observed, Preopen, Purpose, RESERVED, Record, Report, Start, ToGuest, ToSupervisor, Tool, ToolEvent, VERSION,
};
pub use secret::{Fields, Secret, SecretInfo, SecretRefusal};
