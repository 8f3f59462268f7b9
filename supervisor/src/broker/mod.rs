//! What the supervisor does on behalf of a guest, after a decision of its own.

pub mod credentials;
pub mod files;
pub mod resolve;
pub mod roots;
