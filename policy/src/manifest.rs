//! The `act:component` section: who a component is, and the ceiling that it declares.

use crate::class::{Class, Kind};
use crate::credential::{Credential, credentials};
use crate::mounts::Mounts;
use crate::node::{Member, Node, NodeError, Value};
use crate::rule::{Anchors, MAX_DECLARED, Rule, Side, constraints};
use crate::source::Source;

/// Name of the custom section.
pub const SECTION: &str = "act:component";
/// Most bytes of the section.
pub const MAX_SECTION: usize = 1 << 20;
/// Most declared capabilities.
const MAX_CAPABILITIES: usize = 1024;
/// Longest name, version or description in bytes.
const MAX_TEXT: usize = 16 << 10;

/// A decoded manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Component name.
    pub name: String,
    /// Component version.
    pub version: String,
    /// Description.
    pub description: Option<String>,
    /// The declared classes: the ceiling.
    pub capabilities: Vec<Capability>,
    /// The credentials that it may ask for.
    pub credentials: Vec<Credential>,
}

/// One declared class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The class.
    pub class: Class,
    /// Its description.
    pub description: Option<String>,
    /// What it declares; `None` where it has no list at all.
    pub constraints: Option<Vec<Rule>>,
    /// Guest directories bound to host directories, and the guest path of the host's root.
    pub mounts: Mounts,
    /// The capability as JSON text, for `act info`.
    pub json: String,
}

impl Capability {
    /// Whether the declaration declares anything. A physical class needs a constraint; a semantic class or
    /// `act:credentials` without a list is the whole class.
    pub fn declares(&self) -> bool {
        match (&self.constraints, self.class.kind()) {
            (None, Kind::Semantic | Kind::Credentials) => true,
            (None, _) => false,
            (Some(list), Kind::Credentials) => list.is_empty(),
            (Some(list), _) => !list.is_empty(),
        }
    }
}

/// Why a manifest was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// No section.
    #[error("no {SECTION} section: not an ACT component, or not packed (act-build pack)")]
    Missing,
    /// More than one.
    #[error("more than one {SECTION} section: which one counts would depend on the reader")]
    Second,
    /// Too large.
    #[error("the {SECTION} section has {0} bytes, more than {MAX_SECTION}")]
    TooLarge(usize),
    /// Unreadable or malformed.
    #[error("{SECTION}: {0}")]
    Malformed(String),
}

impl Manifest {
    /// The guest directories that a component has, each with the host directory behind it; none if it declares no files.
    pub fn views(&self) -> Vec<(&str, &str)> {
        let files = self.capabilities.iter().find(|c| c.class.kind() == Kind::Filesystem && c.declares());
        files.map(|files| files.mounts.views()).unwrap_or_default()
    }

    /// Decode the payload of the section. `home` expands `~/`.
    pub fn decode(payload: &[u8], home: Option<&str>) -> Result<Self, ManifestError> {
        if payload.len() > MAX_SECTION {
            return Err(ManifestError::TooLarge(payload.len()));
        }
        let node = Node::from_cbor(payload).map_err(ManifestError::Malformed)?;
        let anchors = Anchors { home, directory: None, workspace: None, stars_at_root: true };
        read(&node, &anchors).map_err(|e| ManifestError::Malformed(e.message))
    }
}

pub(crate) fn text_member(node: &Node, key: &str, what: &str) -> Result<Option<String>, NodeError> {
    match node.get(key) {
        None => Ok(None),
        Some(value) => {
            let text = value.text(what)?;
            if text.len() > MAX_TEXT {
                return Err(NodeError::new(0, format!("{what} has more than {MAX_TEXT} bytes")));
            }
            Ok(Some(text.to_owned()))
        }
    }
}

fn read(node: &Node, anchors: &Anchors<'_>) -> Result<Manifest, NodeError> {
    node.map("the manifest")?;
    let std = node.get("std").ok_or_else(|| NodeError::new(0, "no `std`"))?;
    let required = |key: &str| -> Result<String, NodeError> {
        let text = text_member(std, key, &format!("std.{key}"))?;
        text.filter(|t| !t.is_empty()).ok_or_else(|| NodeError::new(0, format!("no std.{key}")))
    };
    let (name, version) = (required("name")?, required("version")?);
    let mut capabilities = Vec::new();
    if let Some(declared) = std.get("capabilities") {
        let members = declared.map("std.capabilities")?;
        if members.len() > MAX_CAPABILITIES {
            return Err(NodeError::new(0, format!("more than {MAX_CAPABILITIES} capabilities")));
        }
        for member in members {
            capabilities.push(capability(member, anchors)?);
            let declared = capabilities.iter().flat_map(|c: &Capability| c.constraints.iter().flatten());
            if declared.map(|rule| rule.matches.cost()).sum::<usize>() > MAX_DECLARED {
                return Err(NodeError::new(
                    0,
                    format!("the globs of all capabilities take more than {MAX_DECLARED} bytes"),
                ));
            }
        }
    }
    let credentials = credentials(std.get("credentials"))?;
    if !credentials.is_empty() && !capabilities.iter().any(|c: &Capability| c.class.kind() == Kind::Credentials) {
        return Err(NodeError::new(0, "`credentials` without the capability act:credentials"));
    }
    let description = text_member(std, "description", "std.description")?;
    Ok(Manifest { name, version, description, capabilities, credentials })
}

fn capability(member: &Member, anchors: &Anchors<'_>) -> Result<Capability, NodeError> {
    let key = member.key.as_str();
    let prefixed = |e: NodeError| NodeError::new(0, format!("{}: {}", key.escape_debug(), e.message));
    if key.is_empty() {
        return Err(NodeError::new(0, "an empty class id"));
    }
    if key.contains('*') {
        let message = "a declaration names one class, not a pattern";
        return Err(prefixed(NodeError::new(0, message)));
    }
    let class = Class::parse(key).map_err(|e| NodeError::new(0, e.to_string()))?;
    if class.as_str() != key {
        return Err(prefixed(NodeError::new(0, format!("a manifest writes the full id {class}"))));
    }
    member.value.map("a capability").map_err(prefixed)?;
    let list = match (member.value.get("constraints"), member.value.get("allow")) {
        (Some(_), Some(_)) => return Err(prefixed(NodeError::new(0, "both `constraints` and `allow`"))),
        (list, other) => list.or(other),
    };
    let constraints = match list {
        None => None,
        Some(list) => {
            let source = Source::component();
            Some(constraints(&class, Side::Declared, list, &source, anchors, "constraints").map_err(prefixed)?)
        }
    };
    let mounts = Mounts::read(member.value.get("params")).map_err(prefixed)?;
    let description = text_member(&member.value, "description", "description").map_err(prefixed)?;
    Ok(Capability { class, description, constraints, mounts, json: canonical(&member.value).to_json() })
}

/// The capability with its list under the name that the section uses.
fn canonical(node: &Node) -> Node {
    let mut node = node.clone();
    if let Value::Map(members) = &mut node.value {
        for member in members.iter_mut().filter(|m| m.key == "allow") {
            member.key = "constraints".into();
        }
    }
    node
}
