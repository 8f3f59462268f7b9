//! The credentials that a component declares: `std.credentials` of its manifest.
//!
//! The list describes; it grants nothing. A key that is not in it does not exist for the component.

use crate::manifest::text_member;
use crate::node::{Node, NodeError, Value};

/// Most credentials, and most fields of one.
const MAX_CREDENTIALS: usize = 256;
const MAX_FIELDS: usize = 64;
/// Longest key in bytes.
const MAX_KEY: usize = 256;

/// One credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The key by which the component asks for it.
    pub key: String,
    /// What it is for, in the component's words.
    pub description: Option<String>,
    /// What it consists of, in order.
    pub fields: Vec<Field>,
}

/// One field of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub key: String,
    /// What to call it when a human is asked, in the component's words; empty: the name.
    pub label: String,
    /// How it is encoded: `std:string` where nothing else is said.
    pub kind: String,
    /// Whether it must not be seen when it is typed.
    pub secret: bool,
    /// Whether the credential is of no use without it.
    pub required: bool,
}

impl Credential {
    /// A field by its name.
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.key == key)
    }
}

pub(crate) fn credentials(node: Option<&Node>) -> Result<Vec<Credential>, NodeError> {
    let Some(node) = node else { return Ok(Vec::new()) };
    let list = node.list("std.credentials")?;
    if list.len() > MAX_CREDENTIALS {
        return Err(NodeError::new(0, format!("more than {MAX_CREDENTIALS} credentials")));
    }
    let mut out: Vec<Credential> = Vec::with_capacity(list.len());
    for node in list {
        let credential = credential(node)?;
        if out.iter().any(|c| c.key == credential.key) {
            return Err(NodeError::new(0, format!("two credentials `{}`", credential.key.escape_debug())));
        }
        out.push(credential);
    }
    Ok(out)
}

fn credential(node: &Node) -> Result<Credential, NodeError> {
    known(node, "a credential", &["key", "description", "fields"])?;
    let key = key(node, "a credential")?;
    let within = |e: NodeError| NodeError::new(0, format!("credential `{}`: {}", key.escape_debug(), e.message));
    let list = node.get("fields").map_or(Ok(&[][..]), |fields| fields.list("fields")).map_err(within)?;
    if list.len() > MAX_FIELDS {
        return Err(within(NodeError::new(0, format!("more than {MAX_FIELDS} fields"))));
    }
    let mut fields: Vec<Field> = Vec::with_capacity(list.len());
    for node in list {
        let field = field(node).map_err(within)?;
        if fields.iter().any(|f| f.key == field.key) {
            return Err(within(NodeError::new(0, format!("two fields `{}`", field.key.escape_debug()))));
        }
        fields.push(field);
    }
    let description = text_member(node, "description", "description").map_err(within)?;
    Ok(Credential { key, description, fields })
}

fn field(node: &Node) -> Result<Field, NodeError> {
    // `resource` and `scopes` are for a kind of field that this host does not acquire by itself.
    known(node, "a field", &["key", "label", "type", "secret", "required", "resource", "scopes"])?;
    let key = key(node, "a field")?;
    let truth = |member: &str| match node.get(member).map(|n| &n.value) {
        None => Ok(true),
        Some(Value::Bool(value)) => Ok(*value),
        Some(other) => Err(NodeError::new(0, format!("{member}: expected a boolean, found {}", other.name()))),
    };
    text_member(node, "resource", "resource")?;
    for scope in node.get("scopes").map_or(Ok(&[][..]), |scopes| scopes.list("scopes"))? {
        scope.text("a scope")?;
    }
    Ok(Field {
        key,
        label: text_member(node, "label", "label")?.unwrap_or_default(),
        kind: text_member(node, "type", "type")?.unwrap_or_else(|| "std:string".into()),
        secret: truth("secret")?,
        required: truth("required")?,
    })
}

fn key(node: &Node, what: &str) -> Result<String, NodeError> {
    let key = text_member(node, "key", "key")?.unwrap_or_default();
    // Such a key could not be told from others where it is shown.
    let plain = !key.contains(|c: char| c.is_control() || c.is_whitespace());
    match key.len() {
        0 => Err(NodeError::new(0, format!("{what} without `key`"))),
        1..=MAX_KEY if plain => Ok(key),
        _ => Err(NodeError::new(0, format!("{what}: a key is 1 to {MAX_KEY} bytes without white space"))),
    }
}

fn known(node: &Node, what: &str, members: &[&str]) -> Result<(), NodeError> {
    match node.map(what)?.iter().find(|m| !members.contains(&m.key.as_str())) {
        None => Ok(()),
        Some(member) => {
            let (name, members) = (member.key.escape_debug(), members.join(", "));
            Err(NodeError::new(0, format!("{what}: unknown member `{name}` (known: {members})")))
        }
    }
}
