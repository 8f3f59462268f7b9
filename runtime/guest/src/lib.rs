//! The process that runs one component.
//!
//! **Purpose.** Descriptor 0 is the channel to the supervisor. The process reads [`act_wire::Start`] with the compiled
//! component, prepares everything that needs rights, gives the rights up, reports, waits for the supervisor to check,
//! and then serves calls. All that the component does passes the gate (layer 1); Landlock and seccomp hold what is left
//! of the process if the component breaks out.
//!
//! **Order** (it is the security): map the component, link, open directories; Landlock while single threaded; the
//! ticker and exactly one blocking thread; seccomp on all threads; `Ready`; `Go`; only then the first instruction of the
//! component.
//!
//! **Limits.** One component, one instance at a time; after a trap the next call gets a fresh one. Calls run
//! concurrently as far as the component lets them: a function of WASI 0.2 that waits holds its instance. There is no
//! timeout here: the supervisor kills.
//!
//! **Threat model.** The supervisor is trusted, the component is not. A failure to send ends the process, so nothing
//! happens that goes unrecorded.
//!
//! **Tested** by running the built program under the supervisor, with real components (`tests/` of the project).

mod broker;
mod calls;
mod error;
mod gate;
mod outbox;
mod questions;
mod reader;
mod serve;
mod start;
mod ticker;

pub use error::GuestError;
pub use gate::{AllowAll, PolicyGate};
pub use serve::serve;
