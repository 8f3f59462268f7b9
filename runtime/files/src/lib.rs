//! Operations on files: resolved, judged on the path that the kernel opens, then done on the pinned place.
//!
//! **Purpose.** The same code serves the guest child, which judges what its component asks (layer 1), and the broker in
//! the supervisor, which does for the child what Landlock does not open. [`Files`] is made over a [`Judge`]; a child has
//! a [`Remote`] besides, which it hands those operations to that its kernel layer would refuse.
//!
//! **How.** A path is resolved first (`act-paths`), the real path is judged, and the operation acts on the pinned parent
//! with one component and without following links. A directory descriptor is an `O_PATH` one: it pins a place and gives
//! no right to list. Its path is read back from the kernel for every operation, so that a rename by somebody else is
//! noticed.
//!
//! **Limits.** Only regular files and directories are opened. Files of procfs are not: `/proc/self/mem` is a regular file,
//! too. A listing has at most [`MAX_LISTING`] bytes.
//!
//! **Threat model.** Whoever asks is hostile, and so may be others who change the same directories meanwhile.

mod ends;
mod fault;
mod files;
mod judge;
mod list;
mod open;
mod remote;

pub use fault::Fault;
pub use files::{Files, identity};
pub use judge::{Judge, file};
pub use list::{Entry, Kind, MAX_LISTING};
pub use open::{Opened, Opening};
pub use remote::{Answer, Direct, Operation, Remote};
