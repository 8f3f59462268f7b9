//! Grants: class or pattern → mode, allow rules and deny rules.

use crate::class::{CLASSES, Class, Mode};
use crate::node::{Member, Node, NodeError, Value};
use crate::rule::{Anchors, Rule, Side, constraints};
use crate::source::Source;

/// What a layer says of one class or pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The mode.
    pub mode: Mode,
    /// Allow rules.
    pub allow: Vec<Rule>,
    /// Deny rules.
    pub deny: Vec<Rule>,
    /// Where the entry was written.
    pub source: Source,
}

impl Entry {
    /// An entry without rules.
    pub const fn plain(mode: Mode, source: Source) -> Self {
        Self { mode, allow: Vec::new(), deny: Vec::new(), source }
    }
}

/// One layer of grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Entries by class; a later object's entry replaces an earlier one whole.
    pub exact: Vec<(Class, Entry)>,
    /// Entries by `*`-suffix pattern: the text before the star.
    pub prefixes: Vec<(String, Entry)>,
    /// The entry for whatever nothing else names.
    pub default: Option<Entry>,
}

impl Grants {
    /// The entry of this layer for a class: exact id, then the longest prefix, then the default.
    pub fn entry(&self, class: &Class) -> Option<&Entry> {
        let exact = self.exact.iter().find(|(c, _)| c == class).map(|(_, e)| e);
        let prefix = || {
            let matching = self.prefixes.iter().filter(|(p, _)| class.as_str().starts_with(p.as_str()));
            matching.max_by_key(|(p, _)| p.len()).map(|(_, e)| e)
        };
        exact.or_else(prefix).or(self.default.as_ref())
    }

    /// Put another object of the same layer over this one: for one id the last wins whole.
    pub fn merge(&mut self, later: Self) {
        for (class, entry) in later.exact {
            self.exact.retain(|(c, _)| *c != class);
            self.exact.push((class, entry));
        }
        for (prefix, entry) in later.prefixes {
            self.prefixes.retain(|(p, _)| *p != prefix);
            self.prefixes.push((prefix, entry));
        }
        if later.default.is_some() {
            self.default = later.default;
        }
    }

    /// Parse the value of `--grant`.
    pub fn parse_json(text: &str, anchors: &Anchors<'_>) -> Result<Self, String> {
        let fail = |reason: &str| {
            let mut short: String = text.chars().take(60).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            format!("--grant '{}': {reason}", short.escape_debug())
        };
        let node = Node::from_json(text).map_err(|e| fail(&format!("not JSON: {e}")))?;
        Self::read(&node, &Source::command_line("--grant"), anchors).map_err(|e| fail(&e.message))
    }

    /// Read a table of entries.
    pub(crate) fn read(node: &Node, source: &Source, anchors: &Anchors<'_>) -> Result<Self, NodeError> {
        let mut grants = Self::default();
        let mut named: Vec<(Class, &str)> = Vec::new();
        for Member { key, line, value } in node.map("a grant is an object of classes")? {
            let at = source.at(*line);
            if key == "default" {
                grants.default = Some(entry(None, value, &at, anchors)?);
                continue;
            }
            if let Some(prefix) = key.strip_suffix('*') {
                if prefix.contains('*') {
                    return Err(NodeError::new(*line, format!("`{}`: one `*`, at the end", key.escape_debug())));
                }
                // Rules under a pattern can only be read where all classes that it matches have the same kind.
                let physical = CLASSES.iter().any(|(_, id, _)| id.starts_with(prefix) || prefix.starts_with("wasi:"));
                let sample = if physical || prefix.starts_with("act:") { None } else { Some(Class::announced(prefix)) };
                grants.prefixes.push((prefix.to_owned(), entry(sample.as_ref(), value, &at, anchors)?));
                continue;
            }
            let class = Class::parse(key).map_err(|e| NodeError::new(*line, e.to_string()))?;
            if let Some((_, first)) = named.iter().find(|(c, _)| *c == class) {
                let message = format!("`{first}` and `{key}` both name {class}: keep one");
                return Err(NodeError::new(*line, message));
            }
            grants.exact.push((class.clone(), entry(Some(&class), value, &at, anchors)?));
            named.push((class, key));
        }
        Ok(grants)
    }
}

fn entry(class: Option<&Class>, node: &Node, source: &Source, anchors: &Anchors<'_>) -> Result<Entry, NodeError> {
    let mode = |node: &Node| -> Result<Mode, NodeError> {
        let text = node.text("mode")?;
        Mode::parse(text).ok_or_else(|| {
            let message = format!("unknown mode `{}`: expected deny, allowlist, open or ask", text.escape_debug());
            NodeError::new(node.line, message)
        })
    };
    let Value::Map(members) = &node.value else {
        if matches!(node.value, Value::Text(_)) {
            return Ok(Entry::plain(mode(node)?, source.clone()));
        }
        let message = format!("expected a mode or a table with `mode`, found {}", node.value.name());
        return Err(NodeError::new(node.line.max(source.line), message));
    };
    if let Some(unknown) = members.iter().find(|m| !["mode", "allow", "deny"].contains(&m.key.as_str())) {
        let message = format!("unknown member `{}` (known: mode, allow, deny)", unknown.key.escape_debug());
        return Err(NodeError::new(unknown.line, message));
    }
    let mode = match node.get("mode") {
        Some(node) => mode(node)?,
        None => {
            return Err(NodeError::new(
                node.line.max(source.line),
                "an entry without `mode` (deny, allowlist, open or ask)",
            ));
        }
    };
    let list = |name: &str, side: Side| -> Result<Vec<Rule>, NodeError> {
        match (node.get(name), class) {
            (None, _) => Ok(Vec::new()),
            (Some(list), Some(class)) => constraints(class, side, list, source, anchors, name),
            (Some(list), None) => {
                let message = format!(
                    "`{name}` rules need one class: `default` and patterns of several kinds carry a mode alone"
                );
                Err(NodeError::new(list.line, message))
            }
        }
    };
    Ok(Entry { mode, allow: list("allow", Side::Allow)?, deny: list("deny", Side::Deny)?, source: source.clone() })
}
