//! The configuration file: `[policy]`, `[profile.NAME.policy]` and `[audit]`.

use crate::grant::Grants;
use crate::node::{Member, Node, NodeError, Value};
use crate::rule::Anchors;
use crate::source::{Layer, Source};

/// Most bytes of a configuration file.
pub const MAX_CONFIG: usize = 4 << 20;

/// A parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `[policy]`
    pub policy: Grants,
    /// `[profile.NAME.policy]` by name, in the order of the file.
    pub profiles: Vec<(String, Grants)>,
    /// `[audit] detail = "full"`: print every allowed operation.
    pub audit_full: bool,
}

/// A configuration file that could not be read: place, reason and the valid choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct ConfigError {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// What is wrong.
    pub reason: String,
}

impl Config {
    /// Parse the text of a file that people know as `file`.
    pub fn parse(text: &str, file: &str, anchors: &Anchors<'_>) -> Result<Self, ConfigError> {
        let located = |e: NodeError| ConfigError { file: file.to_owned(), line: e.line.max(1), reason: e.message };
        if text.len() > MAX_CONFIG {
            return Err(located(NodeError::new(1, format!("more than {MAX_CONFIG} bytes"))));
        }
        let node = Node::from_toml(text).map_err(located)?;
        Self::read(&node, file, anchors).map_err(located)
    }

    fn read(node: &Node, file: &str, anchors: &Anchors<'_>) -> Result<Self, NodeError> {
        let source = |layer| Source { layer, file: file.to_owned(), line: 1 };
        let mut config = Self::default();
        for Member { key, line, value } in node.map("the configuration")? {
            match key.as_str() {
                "policy" => config.policy = Grants::read(value, &source(Layer::User), anchors)?,
                "profile" => {
                    for profile in value.map("profile")? {
                        let members = profile.value.map(&format!("profile `{}`", profile.key.escape_debug()))?;
                        if let Some(unknown) = members.iter().find(|m| m.key != "policy") {
                            return Err(unknown_key(unknown.line, &unknown.key, "in a profile", "policy"));
                        }
                        let grants = match profile.value.get("policy") {
                            Some(policy) => Grants::read(policy, &source(Layer::Profile), anchors)?,
                            None => Grants::default(),
                        };
                        config.profiles.push((profile.key.clone(), grants));
                    }
                }
                "audit" => {
                    for member in value.map("audit")? {
                        match (member.key.as_str(), &member.value.value) {
                            ("detail", Value::Text(t)) if t == "full" => config.audit_full = true,
                            ("detail", Value::Text(t)) if t == "summary" => config.audit_full = false,
                            ("detail", _) => {
                                let message = "audit.detail is \"summary\" or \"full\"";
                                return Err(NodeError::new(member.line, message));
                            }
                            (other, _) => return Err(unknown_key(member.line, other, "in [audit]", "detail")),
                        }
                    }
                }
                other => return Err(unknown_key(*line, other, "in the configuration", "policy, profile, audit")),
            }
        }
        Ok(config)
    }

    /// The grants of a profile.
    pub fn profile(&self, name: &str) -> Option<&Grants> {
        self.profiles.iter().find(|(n, _)| n == name).map(|(_, g)| g)
    }
}

fn unknown_key(line: u32, key: &str, place: &str, known: &str) -> NodeError {
    NodeError::new(line, format!("unknown key `{}` {place} (known: {known})", key.escape_debug()))
}
