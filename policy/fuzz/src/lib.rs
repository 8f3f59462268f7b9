//! What has to hold for every input, one function for each fuzz target.
//!
//! A function returns on input that the policy engine refuses, and panics where a property does not hold. So the same
//! functions run under libFuzzer (`cargo xtask fuzz`), and over the seeds alone in `cargo test`.

mod config;
mod grant;
mod host;
mod manifest;
mod path;
mod properties;
mod requests;
mod rules;
mod shorthand;
mod world;

pub use config::config;
pub use grant::grant;
pub use host::host;
pub use manifest::manifest;
pub use path::path;
pub use rules::rules;
pub use shorthand::shorthand;
