//! The audit trail: what was decided, by which rule, on standard error.
//!
//! Every line begins with `audit:`. Text that comes from a component is escaped, so that no line can be forged.

mod kernel;
mod rollup;
mod trail;

pub use kernel::{KernelDenials, describe};
pub use trail::{CallEnd, Detail, Trail};
