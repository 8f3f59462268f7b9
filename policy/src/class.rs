//! Capability classes, their aliases and the four modes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A full class id, for example `wasi:filesystem` or `db:drop`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Class(String);

/// What a class governs; decides which constraints its rules may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `wasi:filesystem`
    Filesystem,
    /// `wasi:http`
    Http,
    /// `wasi:sockets`
    Sockets,
    /// `act:credentials`
    Credentials,
    /// Any class that a component declares for `act:consent`.
    Semantic,
}

/// Alias, full id and shorthand of the classes that every host knows, in the order of the help text.
pub const CLASSES: [(&str, &str, &str); 4] = [
    ("fs", "wasi:filesystem", "<path glob>[:ro|:rw]"),
    ("http", "wasi:http", "[scheme://]host[:port]"),
    ("sockets", "wasi:sockets", "host[:port][/tcp|/udp], [v6][:port] or a CIDR"),
    ("creds", "act:credentials", "no rule"),
];

/// Why a text is not a class id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{}` (classes: {}, their full ids, or a semantic class such as db:drop)", name.escape_debug(), aliases())]
pub struct UnknownClass {
    /// The text.
    pub name: String,
}

fn aliases() -> String {
    CLASSES.map(|(alias, _, _)| alias).join(", ")
}

impl Class {
    /// `wasi:filesystem`
    pub fn filesystem() -> Self {
        Self("wasi:filesystem".into())
    }
    /// `wasi:http`
    pub fn http() -> Self {
        Self("wasi:http".into())
    }
    /// `wasi:sockets`
    pub fn sockets() -> Self {
        Self("wasi:sockets".into())
    }

    /// `act:credentials`
    pub fn credentials() -> Self {
        Self("act:credentials".into())
    }

    /// A class as a component names it: taken as it is, since nothing that no rule knows is ever permitted.
    pub(crate) fn announced(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// Parse a full id or an alias.
    pub fn parse(text: &str) -> Result<Self, UnknownClass> {
        let unknown = || UnknownClass { name: text.to_owned() };
        if let Some((_, id, _)) = CLASSES.iter().find(|(alias, id, _)| *alias == text || *id == text) {
            return Ok(Self((*id).to_owned()));
        }
        let (space, name) = text.split_once(':').ok_or_else(unknown)?;
        let reserved = space == "wasi" || space == "act";
        let part = |s: &str| !s.is_empty() && !s.contains(|c: char| c.is_control() || c.is_whitespace() || c == '*');
        if reserved || !part(space) || !part(name) {
            return Err(unknown());
        }
        Ok(Self(text.to_owned()))
    }

    /// What the class governs.
    pub fn kind(&self) -> Kind {
        match self.0.as_str() {
            "wasi:filesystem" => Kind::Filesystem,
            "wasi:http" => Kind::Http,
            "wasi:sockets" => Kind::Sockets,
            "act:credentials" => Kind::Credentials,
            _ => Kind::Semantic,
        }
    }

    /// The alias, or the full id where there is none.
    pub fn alias(&self) -> &str {
        CLASSES.iter().find(|(_, id, _)| *id == self.0).map_or(&self.0, |(alias, _, _)| alias)
    }

    /// The full id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How the grant of a class decides inside the component's ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A human answers on first access; an allow list narrows.
    #[default]
    Ask,
    /// Refuse every operation.
    Deny,
    /// Permit what an allow rule matches, minus the deny rules.
    Allowlist,
    /// Permit the whole ceiling, minus the deny rules.
    Open,
}

impl Mode {
    /// Parse the name used in grants and configuration.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ask" => Self::Ask,
            "deny" => Self::Deny,
            "allowlist" => Self::Allowlist,
            "open" => Self::Open,
            _ => return None,
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ask => "ask",
            Self::Deny => "deny",
            Self::Allowlist => "allowlist",
            Self::Open => "open",
        })
    }
}
