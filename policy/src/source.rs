//! Where a rule was written.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The layer that a rule comes from, farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Layer {
    /// The component's own manifest: its ceiling.
    Component,
    /// Compiled into the program.
    BuiltIn,
    /// The machine's managed policy.
    Managed,
    /// The user's configuration file.
    User,
    /// A named profile of the configuration file.
    Profile,
    /// The workspace's own file, if the user trusts it.
    Workspace,
    /// Flags of this run.
    CommandLine,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Component => "component",
            Self::BuiltIn => "built-in",
            Self::Managed => "managed",
            Self::User => "user",
            Self::Profile => "profile",
            Self::Workspace => "workspace",
            Self::CommandLine => "cli",
        })
    }
}

/// The place of a rule: layer, file and line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The layer.
    pub layer: Layer,
    /// File, or a name in angle brackets for what has none (`<command line>`).
    pub file: String,
    /// Line, from 1; 0 where lines mean nothing (the command line, a manifest).
    pub line: u32,
}

impl Source {
    /// A flag on the command line, with its value where that is short enough to help.
    pub fn command_line(flag: &str) -> Self {
        Self { layer: Layer::CommandLine, file: format!("<command line> {}", flag.escape_debug()), line: 0 }
    }
    /// The component's manifest.
    pub fn component() -> Self {
        Self { layer: Layer::Component, file: "act:component".into(), line: 0 }
    }
    /// The built-in defaults.
    pub fn built_in() -> Self {
        Self { layer: Layer::BuiltIn, file: "<built-in default>".into(), line: 0 }
    }
    /// The same place on another line.
    #[must_use]
    pub fn at(&self, line: u32) -> Self {
        Self { line: if self.line == 0 && line == 0 { 0 } else { line }, ..self.clone() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.layer, self.file)?;
        if self.line > 0 { write!(f, ":{}", self.line) } else { Ok(()) }
    }
}
