//! One tree for the three formats that policy is written in: JSON grants, TOML configuration, CBOR manifests.
//!
//! Each reader is strict in its own format (duplicate keys, text after the value, nesting); what the members mean is
//! then decided once, whatever the format was.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use toml::de::{DeTable, DeValue};

/// Deepest nesting that is read, in any format.
pub(crate) const MAX_DEPTH: usize = 32;

/// A value with the line that it stands on (0 where lines mean nothing).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float,
    Text(String),
    Bytes,
    List(Vec<Node>),
    Map(Vec<Member>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) line: u32,
    pub(crate) value: Node,
}

/// What is wrong, and on which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeError {
    pub(crate) line: u32,
    pub(crate) message: String,
}

impl NodeError {
    pub(crate) fn new(line: u32, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl Value {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float => "a number",
            Self::Text(_) => "a string",
            Self::Bytes => "bytes",
            Self::List(_) => "a list",
            Self::Map(_) => "a table",
        }
    }
}

impl Node {
    pub(crate) fn text(&self, what: &str) -> Result<&str, NodeError> {
        match &self.value {
            Value::Text(t) => Ok(t),
            other => Err(NodeError::new(self.line, format!("{what}: expected a string, found {}", other.name()))),
        }
    }
    pub(crate) fn list(&self, what: &str) -> Result<&[Node], NodeError> {
        match &self.value {
            Value::List(l) => Ok(l),
            other => Err(NodeError::new(self.line, format!("{what}: expected a list, found {}", other.name()))),
        }
    }
    pub(crate) fn map(&self, what: &str) -> Result<&[Member], NodeError> {
        match &self.value {
            Value::Map(m) => Ok(m),
            other => Err(NodeError::new(self.line, format!("{what}: expected a table, found {}", other.name()))),
        }
    }
    /// The member of that name, if this is a table that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(m) => m.iter().find(|m| m.key == key).map(|m| &m.value),
            _ => None,
        }
    }

    /// Whether some value of the tree cannot be written as JSON text.
    pub(crate) fn is_lossy(&self) -> bool {
        match &self.value {
            Value::Float | Value::Bytes => true,
            Value::Int(n) => i64::try_from(*n).is_err(),
            Value::Null | Value::Bool(_) | Value::Text(_) => false,
            Value::List(items) => items.iter().any(Self::is_lossy),
            Value::Map(members) => members.iter().any(|m| m.value.is_lossy()),
        }
    }

    /// The tree as JSON text; what JSON cannot hold is null.
    pub(crate) fn to_json(&self) -> String {
        fn convert(node: &Node) -> serde_json::Value {
            match &node.value {
                Value::Null | Value::Float | Value::Bytes => serde_json::Value::Null,
                Value::Bool(b) => (*b).into(),
                Value::Int(n) => i64::try_from(*n).map_or(serde_json::Value::Null, Into::into),
                Value::Text(t) => t.as_str().into(),
                Value::List(l) => serde_json::Value::Array(l.iter().map(convert).collect()),
                Value::Map(m) => {
                    serde_json::Value::Object(m.iter().map(|m| (m.key.clone(), convert(&m.value))).collect())
                }
            }
        }
        convert(self).to_string()
    }

    /// Read JSON text: one value, no duplicate keys, nothing after it.
    pub(crate) fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str::<Self>(text).map_err(|e| e.to_string())
    }

    /// Read TOML text.
    pub(crate) fn from_toml(text: &str) -> Result<Self, NodeError> {
        let lines = Lines::new(text);
        let table = DeTable::parse(text).map_err(|e| {
            let line = e.span().map_or(0, |s| lines.of(s.start));
            NodeError::new(line, e.message().lines().next().unwrap_or("not TOML").to_owned())
        })?;
        let line = lines.of(table.span().start);
        from_toml_table(table.into_inner(), line, &lines, 0)
    }

    /// Read CBOR bytes: one value, text keys, no duplicate keys, nothing after it.
    pub(crate) fn from_cbor(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = bytes;
        let value: ciborium::Value = ciborium::de::from_reader_with_recursion_limit(&mut rest, MAX_DEPTH)
            .map_err(|e| format!("not CBOR: {e}").replace('\n', " "))?;
        if !rest.is_empty() {
            return Err(format!("{} bytes after the CBOR value", rest.len()));
        }
        from_cbor_value(value)
    }
}

/// Offsets of line starts.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect())
    }
    fn of(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|n| *n < offset) + 1).unwrap_or(u32::MAX)
    }
}

fn from_toml_table(table: DeTable<'_>, line: u32, lines: &Lines, depth: usize) -> Result<Node, NodeError> {
    let mut members = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_line = lines.of(key.span().start);
        let value_line = lines.of(value.span().start);
        let value = from_toml_value(value.into_inner(), value_line, lines, depth + 1)?;
        members.push(Member { key: key.into_inner().into_owned(), line: key_line, value });
    }
    Ok(Node { line, value: Value::Map(members) })
}

fn from_toml_value(value: DeValue<'_>, line: u32, lines: &Lines, depth: usize) -> Result<Node, NodeError> {
    if depth > MAX_DEPTH {
        return Err(NodeError::new(line, format!("nested more than {MAX_DEPTH} deep")));
    }
    let value = match value {
        DeValue::String(s) => Value::Text(s.into_owned()),
        DeValue::Integer(i) => match i128::from_str_radix(i.as_str(), i.radix()) {
            Ok(n) => Value::Int(n),
            Err(_) => return Err(NodeError::new(line, format!("number `{i}` is out of range"))),
        },
        DeValue::Float(_) | DeValue::Datetime(_) => Value::Float,
        DeValue::Boolean(b) => Value::Bool(b),
        DeValue::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for item in items {
                let item_line = lines.of(item.span().start);
                list.push(from_toml_value(item.into_inner(), item_line, lines, depth + 1)?);
            }
            Value::List(list)
        }
        DeValue::Table(table) => return from_toml_table(table, line, lines, depth),
    };
    Ok(Node { line, value })
}

fn from_cbor_value(value: ciborium::Value) -> Result<Node, String> {
    let value = match value {
        ciborium::Value::Null => Value::Null,
        ciborium::Value::Bool(b) => Value::Bool(b),
        ciborium::Value::Integer(i) => Value::Int(i.into()),
        ciborium::Value::Float(_) => Value::Float,
        ciborium::Value::Text(t) => Value::Text(t),
        ciborium::Value::Bytes(_) => Value::Bytes,
        ciborium::Value::Tag(_, inner) => return from_cbor_value(*inner),
        ciborium::Value::Array(items) => Value::List(items.into_iter().map(from_cbor_value).collect::<Result<_, _>>()?),
        ciborium::Value::Map(pairs) => {
            let mut members: Vec<Member> = Vec::with_capacity(pairs.len());
            let mut seen = std::collections::HashSet::new();
            for (key, value) in pairs {
                let ciborium::Value::Text(key) = key else { return Err("a key that is not text".into()) };
                if !seen.insert(key.clone()) {
                    return Err(format!("duplicate key `{}`", key.escape_debug()));
                }
                members.push(Member { key, line: 0, value: from_cbor_value(value)? });
            }
            Value::Map(members)
        }
        _ => return Err("a CBOR type that a manifest does not use".into()),
    };
    Ok(Node { line: 0, value })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Json;
        impl<'de> Visitor<'de> for Json {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E: de::Error>(self, v: bool) -> Result<Value, E> {
                Ok(Value::Bool(v))
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Value, E> {
                Ok(Value::Int(v.into()))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Value, E> {
                Ok(Value::Int(v.into()))
            }
            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value, E> {
                Ok(Value::Float)
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Value, E> {
                Ok(Value::Text(v.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(Value::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut members: Vec<Member> = Vec::new();
                let mut seen = std::collections::HashSet::new();
                while let Some((key, value)) = map.next_entry::<String, Node>()? {
                    if !seen.insert(key.clone()) {
                        return Err(de::Error::custom(format!("duplicate key `{}`", key.escape_debug())));
                    }
                    members.push(Member { key, line: 0, value });
                }
                Ok(Value::Map(members))
            }
        }
        deserializer.deserialize_any(Json).map(|value| Self { line: 0, value })
    }
}
