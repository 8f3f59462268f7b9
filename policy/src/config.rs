//! Configuration files: the user's, the machine's managed one, a workspace's.

use crate::consent::Consent;
use crate::grant::Grants;
use crate::node::{Member, Node, NodeError, Value};
use crate::permission::Permissions;
use crate::rule::Anchors;
use crate::source::{Layer, Source};
use std::time::Duration;

/// Most bytes of a configuration file.
pub const MAX_CONFIG: usize = 4 << 20;
/// Longest that a question may wait for an answer.
const MAX_CONSENT_TIMEOUT: Duration = Duration::from_hours(24);

/// What one part of a file says: the top of it, or a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// `[policy]`
    pub policy: Grants,
    /// `[permissions]`
    pub permissions: Permissions,
    /// `consent`
    pub consent: Option<(Consent, Source)>,
    /// `consent-timeout`
    pub consent_timeout: Option<Duration>,
}

/// A named profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it says.
    pub section: Section,
    /// Metadata of every call under it: key and JSON value.
    pub metadata: Vec<(String, String)>,
}

/// A parsed configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The top of the file.
    pub section: Section,
    /// `[profile.NAME]`, in the order of the file.
    pub profiles: Vec<Profile>,
    /// `[audit] detail = "full"`: print every allowed operation.
    pub audit_full: bool,
    /// `trusted-workspaces`: roots whose `.act/config.toml` is read, as they were written.
    pub trusted_workspaces: Vec<String>,
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
    /// Parse the text of a file that people know as `file`. Its layer decides what it may hold.
    pub fn parse(text: &str, file: &str, layer: Layer, anchors: &Anchors<'_>) -> Result<Self, ConfigError> {
        let located = |e: NodeError| ConfigError { file: file.to_owned(), line: e.line.max(1), reason: e.message };
        if text.len() > MAX_CONFIG {
            return Err(located(NodeError::new(1, format!("more than {MAX_CONFIG} bytes"))));
        }
        let node = Node::from_toml(text).map_err(located)?;
        let source = Source { layer, file: file.to_owned(), line: 1 };
        Self::read(&node, &source, anchors).map_err(located)
    }

    fn read(node: &Node, source: &Source, anchors: &Anchors<'_>) -> Result<Self, NodeError> {
        let mut config = Self::default();
        // A workspace is shared with others: its rules are about what an agent does there, and it grants components nothing.
        let known: &[&str] = match source.layer {
            Layer::Workspace => &["permissions"],
            Layer::Managed => &["policy", "permissions", "consent", "consent-timeout"],
            _ => &["policy", "permissions", "consent", "consent-timeout", "profile", "audit", "trusted-workspaces"],
        };
        let place = match source.layer {
            Layer::Workspace => "in a workspace's configuration",
            Layer::Managed => "in the managed configuration",
            _ => "in the configuration",
        };
        for member in node.map("the configuration")? {
            let Member { key, line, value } = member;
            if !known.contains(&key.as_str()) {
                return Err(unknown_key(*line, key, place, &known.join(", ")));
            }
            match key.as_str() {
                "profile" => {
                    for Member { key, value, .. } in value.map("profile")? {
                        config.profiles.push(profile(key, value, source, anchors)?);
                    }
                }
                "audit" => config.audit_full = audit(value)?,
                "trusted-workspaces" => {
                    for root in value.list(key)? {
                        let text = root.text(key)?;
                        if !text.starts_with('/') && !text.starts_with("~/") {
                            let message =
                                format!("`{}`: a workspace is absolute or starts with ~/", text.escape_debug());
                            return Err(NodeError::new(root.line, message));
                        }
                        config.trusted_workspaces.push(text.to_owned());
                    }
                }
                _ => config.section.read(member, source, anchors)?,
            }
        }
        Ok(config)
    }

    /// A profile by its name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }
}

impl Section {
    fn read(&mut self, member: &Member, source: &Source, anchors: &Anchors<'_>) -> Result<(), NodeError> {
        let Member { key, line, value } = member;
        match key.as_str() {
            "policy" => self.policy = Grants::read(value, source, anchors)?,
            "permissions" => self.permissions = Permissions::read(value, source, anchors)?,
            "consent" => {
                let text = value.text(key)?;
                let consent = Consent::parse(text).ok_or_else(|| {
                    NodeError::new(
                        *line,
                        format!("consent is \"once\", \"always\" or \"never\", not `{}`", text.escape_debug()),
                    )
                })?;
                self.consent = Some((consent, source.at(*line)));
            }
            _ => {
                let time = duration(value.text(key)?).filter(|t| !t.is_zero() && *t <= MAX_CONSENT_TIMEOUT);
                let time = time.ok_or_else(|| {
                    NodeError::new(*line, "consent-timeout is a time such as \"60s\" or \"5m\", at most 24 hours")
                })?;
                self.consent_timeout = Some(time);
            }
        }
        Ok(())
    }
}

fn profile(name: &str, node: &Node, source: &Source, anchors: &Anchors<'_>) -> Result<Profile, NodeError> {
    const KNOWN: [&str; 5] = ["policy", "permissions", "consent", "consent-timeout", "metadata"];
    let mut profile = Profile { name: name.to_owned(), ..Profile::default() };
    let source = Source { layer: Layer::Profile, ..source.clone() };
    for member in node.map(&format!("profile `{}`", name.escape_debug()))? {
        match member.key.as_str() {
            "metadata" => {
                for entry in member.value.map("metadata")? {
                    if entry.value.is_lossy() {
                        let message = "metadata holds text, whole numbers, booleans, lists and tables";
                        return Err(NodeError::new(entry.line, message));
                    }
                    profile.metadata.push((entry.key.clone(), entry.value.to_json()));
                }
            }
            key if KNOWN.contains(&key) => profile.section.read(member, &source, anchors)?,
            key => return Err(unknown_key(member.line, key, "in a profile", &KNOWN.join(", "))),
        }
    }
    Ok(profile)
}

fn audit(node: &Node) -> Result<bool, NodeError> {
    let mut full = false;
    for member in node.map("audit")? {
        match (member.key.as_str(), &member.value.value) {
            ("detail", Value::Text(t)) if t == "full" => full = true,
            ("detail", Value::Text(t)) if t == "summary" => full = false,
            ("detail", _) => {
                return Err(NodeError::new(member.line, "audit.detail is \"summary\" or \"full\""));
            }
            (other, _) => return Err(unknown_key(member.line, other, "in [audit]", "detail")),
        }
    }
    Ok(full)
}

/// `500ms`, `2s`, `1m`, `1h`
fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let scale = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(scale).map(Duration::from_millis)
}

fn unknown_key(line: u32, key: &str, place: &str, known: &str) -> NodeError {
    NodeError::new(line, format!("unknown key `{}` {place} (known: {known})", key.escape_debug()))
}
