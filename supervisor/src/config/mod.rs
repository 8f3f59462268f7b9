//! The operator's side of a run: flags, configuration file and profile, brought together with a component.

pub mod dirs;
mod files;
mod policy;
mod resolve_heads;

pub use policy::{Effective, Operator, PolicyArgs};
pub use resolve_heads::resolve;
