#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod call;
mod cases;
mod class;
mod config;
mod consent;
mod credential;
mod enforcement;
mod engine;
mod explain;
mod explanation;
mod gates;
mod glob;
mod grant;
mod host;
mod index;
mod manifest;
mod mounts;
mod node;
mod operation;
mod pattern;
mod permission;
mod plan;
mod policy;
mod relax;
mod request;
mod rule;
mod shorthand;
mod source;
mod words;

pub use call::Call;
pub use cases::Case;
pub use class::{CLASSES, Class, Kind, Mode, UnknownClass};
pub use config::{Config, ConfigError, MAX_CONFIG, Profile, Section};
pub use consent::Consent;
pub use credential::{Credential, Field};
pub use enforcement::Enforcer;
pub use engine::Engine;
pub use explain::escape;
pub use explanation::{ExplainedRule, Explanation, Gate};
pub use gates::Judgement;
pub use grant::{Entry, Grants};
pub use host::{Host, HostError, effective_address, embedded_ipv4};
pub use manifest::{Capability, MAX_SECTION, Manifest, ManifestError, SECTION};
pub use mounts::Mounts;
pub use pattern::{PathPattern, PatternError};
pub use permission::{Answer, Aspect, Level, Permission, Permissions, Subject, Written};
pub use plan::{KernelPlan, NetEntry, NetPlan, NetVerdict, PortRange, Subtree};
pub use policy::{ClassPolicy, FlagConflict, Layers, ManagedClass, Policy, Warning};
pub use request::{Access, Decision, Protocol, Reason, Request, RuleId, Verdict};
pub use rule::{Anchors, Matches, Ports, Rule, Target};
pub use shorthand::{Flag, Shorthand, ShorthandError};
pub use source::{Layer, Source};
