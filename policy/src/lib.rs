#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod class;
mod config;
mod credential;
mod engine;
mod explain;
mod file_set;
mod grant;
mod host;
mod manifest;
mod node;
mod pattern;
mod plan;
mod policy;
mod request;
mod rule;
mod shorthand;
mod source;

pub use class::{CLASSES, Class, Kind, Mode, UnknownClass};
pub use config::{Config, ConfigError, MAX_CONFIG};
pub use credential::{Credential, Field};
pub use engine::Engine;
pub use explain::escape;
pub use grant::{Entry, Grants};
pub use host::{Host, HostError, effective_address, embedded_ipv4};
pub use manifest::{Capability, MAX_SECTION, Manifest, ManifestError, Mounts, SECTION};
pub use pattern::{PathPattern, PatternError};
pub use plan::{KernelPlan, NetEntry, NetPlan, NetVerdict, PortRange, Subtree};
pub use policy::{ClassPolicy, FlagConflict, Layers, Policy, Warning};
pub use request::{Access, Decision, Protocol, Reason, Request, RuleId, Verdict};
pub use rule::{Anchors, Matches, Ports, Rule, Target};
pub use shorthand::{Flag, Shorthand, ShorthandError};
pub use source::{Layer, Source};
