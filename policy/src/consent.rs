//! What becomes of a request that needs an answer.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Consent mode. The order is from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consent {
    /// Deny without asking.
    Never,
    /// Ask, and remember what was answered for the session.
    Once,
    /// Allow without asking. It overrides no deny, no ceiling and no managed rule.
    Always,
}

impl Consent {
    /// Parse the name used in flags and configuration.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "never" => Self::Never,
            "once" => Self::Once,
            "always" => Self::Always,
            _ => return None,
        })
    }
}

impl fmt::Display for Consent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::Once => "once",
            Self::Always => "always",
        })
    }
}
