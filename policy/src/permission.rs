//! Permission rules: `aspect(scope)` in an allow, ask or deny list, for a subject.

use crate::node::{Member, Node, NodeError, Value};
use crate::pattern::{PathPattern, is_glob, key_glob};
use crate::request::RuleId;
use crate::rule::{Anchors, Matches, Rule, Target};
use crate::shorthand::{authority, is_cidr};
use crate::source::Source;
use crate::words;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most permission rules of one layer.
const MAX_RULES: usize = 100_000;
/// Most subjects of one layer.
const MAX_SUBJECTS: usize = 1024;
/// Longest text of a rule in bytes.
pub(crate) const MAX_TEXT: usize = 8192;
/// Where a component may be shown.
pub(crate) const PLACEMENTS: [&str; 6] = ["pane.right", "pane.left", "band", "inline", "footer", "hidden"];

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Aspect {
    /// Files: looking at them, reading, listing.
    Read,
    /// Files: creating, changing, removing.
    Write,
    /// Native commands.
    Spawn,
    /// Connections, look-ups and HTTP requests.
    Net,
    /// Credentials.
    Creds,
    /// Tool calls.
    Tool,
    /// Where a component is shown.
    Ui,
}

impl Aspect {
    /// All aspects, in the order in which messages list them.
    pub const ALL: [Self; 7] = [Self::Read, Self::Write, Self::Spawn, Self::Net, Self::Creds, Self::Tool, Self::Ui];

    /// The name in rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Spawn => "spawn",
            Self::Net => "net",
            Self::Creds => "creds",
            Self::Tool => "tool",
            Self::Ui => "ui",
        }
    }

    /// How a rule of it is written.
    const fn form(self) -> &'static str {
        match self {
            Self::Read => "read(./**)",
            Self::Write => "write(/srv/data/**)",
            Self::Spawn => "spawn(cmd: git) or spawn(*)",
            Self::Net => "net(domain: docs.rs) or net(*)",
            Self::Creds => "creds(key)",
            Self::Tool => "tool(id.name) or tool(*)",
            Self::Ui => "ui(band)",
        }
    }
}

/// What a rule answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Refuse.
    Deny,
    /// A human decides.
    Ask,
    /// Let it pass.
    Allow,
}

impl Answer {
    /// All answers, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Deny, Self::Ask, Self::Allow];

    /// The name of the list.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.as_str() == text)
    }
}

/// Whom a rule binds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Subject {
    /// Whoever calls tools.
    Agent,
    /// A connected client by its name.
    Client(String),
    /// A component by its name.
    Component(String),
}

impl Subject {
    /// Parse `agent`, `agent:NAME` or `ext:NAME`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = |name: &str, of: fn(String) -> Self| {
            let plain = !name.is_empty() && !name.contains(|c: char| c.is_control()) && name.trim() == name;
            plain.then(|| of(name.to_owned()))
        };
        let subject = match text.split_once(':') {
            None if text == "agent" => Some(Self::Agent),
            Some(("agent", client)) => name(client, Self::Client),
            Some(("ext", component)) => name(component, Self::Component),
            _ => None,
        };
        subject.ok_or_else(|| {
            format!("unknown subject `{}` (agent, agent:<client> or ext:<component>)", text.escape_debug())
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent => f.write_str("agent"),
            Self::Client(name) => write!(f, "agent:{}", crate::escape(name)),
            Self::Component(name) => write!(f, "ext:{}", crate::escape(name)),
        }
    }
}

/// Place of a subject in the chain that a request is judged along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Level {
    /// `agent`
    Agent,
    /// `agent:<client>`
    Client,
    /// `ext:<component>`
    Component,
}

impl Level {
    /// The whole chain.
    pub const ALL: [Self; 3] = [Self::Agent, Self::Client, Self::Component];
}

/// A permission rule of a compiled policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permission {
    /// The rule.
    pub rule: RuleId,
    /// What it is about.
    pub aspect: Aspect,
    /// What it answers.
    pub answer: Answer,
    /// Whom it binds.
    pub level: Level,
}

/// A rule as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whom it binds.
    pub subject: Subject,
    /// What it is about.
    pub aspect: Aspect,
    /// What it answers.
    pub answer: Answer,
    /// Text, place and meaning.
    pub rule: Rule,
}

/// The permission rules of one layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The rules, in the order of the file.
    pub rules: Vec<Written>,
}

/// Keys for what agents do most, with the rule that each stands for.
const ACTIONS: [(&str, &str); 5] = [
    ("shell", "tool(builtin.bash)"),
    ("network", "net(domain: *)"),
    ("commit", "tool(git.commit)"),
    ("push", "tool(git.push)"),
    ("pr", "tool(git.pr)"),
];

impl Permissions {
    /// The rules that hold for an agent for whom nothing else was written.
    pub fn built_in(anchors: &Anchors<'_>) -> Self {
        let texts = ["tool(*)", "read(./**)", "write(./**)", "spawn(*)"];
        let rules = (1..).zip(texts).filter_map(|(line, text)| {
            let (aspect, matches) = parse(text, anchors).ok()?;
            let rule = Rule { text: text.into(), source: Source { line, ..Source::built_in() }, matches };
            Some(Written { subject: Subject::Agent, aspect, answer: Answer::Allow, rule })
        });
        Self { rules: rules.collect() }
    }

    /// Parse the value of `--permission`: `deny=read(./.env)`.
    pub fn parse_flag(text: &str, anchors: &Anchors<'_>) -> Result<Written, String> {
        let fail = |reason: String| format!("--permission '{}': {reason}", text.escape_debug());
        let (answer, rule) =
            text.split_once('=').ok_or_else(|| fail("write LIST=RULE, as in deny=read(./.env)".into()))?;
        let answer = Answer::parse(answer)
            .ok_or_else(|| fail(format!("unknown list `{}`: allow, ask or deny", answer.escape_debug())))?;
        let (aspect, matches) = parse(rule, anchors).map_err(fail)?;
        let source = Source::command_line(&format!("--permission {text}"));
        let rule = Rule { text: rule.to_owned(), source, matches };
        Ok(Written { subject: Subject::Agent, aspect, answer, rule })
    }

    /// Read `[permissions]`.
    pub(crate) fn read(node: &Node, source: &Source, anchors: &Anchors<'_>) -> Result<Self, NodeError> {
        let mut permissions = Self::default();
        permissions.read_subject(&Subject::Agent, node, source, anchors)?;
        if let Some(subjects) = node.get("subject") {
            let members = subjects.map("permissions.subject")?;
            if members.len() > MAX_SUBJECTS {
                return Err(NodeError::new(subjects.line, format!("more than {MAX_SUBJECTS} subjects")));
            }
            for Member { key, line, value } in members {
                let subject = Subject::parse(key).map_err(|e| NodeError::new(*line, e))?;
                if permissions.rules.iter().any(|w| w.subject == subject) {
                    let message =
                        format!("`{}` stands for the rules above it: write them in one place", key.escape_debug());
                    return Err(NodeError::new(*line, message));
                }
                if let Some(inner) = value.get("subject") {
                    return Err(NodeError::new(inner.line, "a subject inside a subject"));
                }
                permissions.read_subject(&subject, value, source, anchors)?;
            }
        }
        if permissions.rules.len() > MAX_RULES {
            return Err(NodeError::new(node.line, format!("more than {MAX_RULES} permission rules")));
        }
        Ok(permissions)
    }

    fn read_subject(
        &mut self,
        subject: &Subject,
        node: &Node,
        source: &Source,
        anchors: &Anchors<'_>,
    ) -> Result<(), NodeError> {
        for Member { key, line, value } in node.map("permissions")? {
            if key == "subject" {
                continue;
            }
            if let Some(answer) = Answer::parse(key) {
                for item in value.list(key)? {
                    let text = item.text(&format!("a rule of `{key}`"))?;
                    let located = |message: String| {
                        let short: String = text.chars().take(200).collect();
                        NodeError::new(item.line, format!("{message} (`{}`)", short.escape_debug()))
                    };
                    let (aspect, matches) = parse(text, anchors).map_err(located)?;
                    let rule = Rule { text: text.to_owned(), source: source.at(item.line), matches };
                    self.rules.push(Written { subject: subject.clone(), aspect, answer, rule });
                }
                continue;
            }
            let Some((_, rule)) = ACTIONS.iter().find(|(action, _)| action == key) else {
                let actions = ACTIONS.map(|(action, _)| action).join(", ");
                let message = format!(
                    "unknown key `{}` in permissions (known: allow, ask, deny, subject, and {actions})",
                    key.escape_debug()
                );
                return Err(NodeError::new(*line, message));
            };
            let answer = match &value.value {
                Value::Text(text) => Answer::parse(text),
                _ => None,
            };
            let answer = answer
                .ok_or_else(|| NodeError::new(value.line, format!("`{key}` is \"allow\", \"ask\" or \"deny\"")))?;
            let (aspect, matches) = parse(rule, anchors).map_err(|e| NodeError::new(*line, e))?;
            let rule = Rule { text: format!("{key}: {rule}"), source: source.at(*line), matches };
            self.rules.push(Written { subject: subject.clone(), aspect, answer, rule });
        }
        Ok(())
    }
}

/// Split `aspect(scope)`.
pub(crate) fn split(text: &str) -> Result<(Aspect, &str), String> {
    if text.len() > MAX_TEXT {
        return Err(format!("more than {MAX_TEXT} bytes"));
    }
    if text.contains(char::is_control) {
        return Err("control characters".into());
    }
    let forms = || Aspect::ALL.map(Aspect::form).join(", ");
    let (name, rest) = text.split_once('(').ok_or_else(|| format!("not of the form aspect(scope): {}", forms()))?;
    let aspect = Aspect::ALL.into_iter().find(|aspect| aspect.as_str() == name).ok_or_else(|| {
        let known = Aspect::ALL.map(Aspect::as_str).join(", ");
        format!("unknown aspect `{}` (known: {known})", name.escape_debug())
    })?;
    let scope = rest.strip_suffix(')').ok_or_else(|| format!("no closing bracket: write {}", aspect.form()))?.trim();
    if scope.is_empty() {
        return Err(format!("empty scope: write {}", aspect.form()));
    }
    Ok((aspect, scope))
}

/// Parse a rule.
pub(crate) fn parse(text: &str, anchors: &Anchors<'_>) -> Result<(Aspect, Matches), String> {
    let (aspect, scope) = split(text)?;
    if aspect != Aspect::Spawn && words::parts(scope).count() > 1 {
        return Err("a second pattern: write one rule for each".into());
    }
    let matches = match aspect {
        Aspect::Read | Aspect::Write => Matches::File { path: path(scope, anchors)?, write: aspect == Aspect::Write },
        Aspect::Net => host(scope)?,
        Aspect::Creds => {
            key_glob(scope).map_err(|e| e.to_string())?;
            Matches::Key(scope.to_owned())
        }
        Aspect::Tool => tool(scope)?,
        Aspect::Spawn => command(scope)?,
        Aspect::Ui if scope == "*" => Matches::Ui(None),
        Aspect::Ui => Matches::Ui(Some(placement(scope)?)),
    };
    Ok((aspect, matches))
}

/// A path or pattern: `./` below the workspace, `/` absolute, `~/` home.
pub(crate) fn path(scope: &str, anchors: &Anchors<'_>) -> Result<PathPattern, String> {
    if scope == "*" {
        return PathPattern::parse("/").map_err(|e| e.to_string());
    }
    let below = if scope == "." { Some(".") } else { scope.strip_prefix("./") };
    if let Some(below) = below {
        let root = anchors.workspace.ok_or_else(|| format!("`{scope}`: no workspace root is known here"))?;
        let below = if below.is_empty() { "." } else { below };
        return PathPattern::join(root, below).map_err(|e| e.to_string());
    }
    if scope.starts_with('/') || scope.starts_with("~/") || scope == "~" {
        return anchors.pattern(scope);
    }
    Err(format!("`{}`: a path starts with ./ (the workspace), / or ~/", scope.escape_debug()))
}

/// The value of `key: value`.
fn keyed<'a>(scope: &'a str, key: &str, aspect: Aspect) -> Result<&'a str, String> {
    match scope.split_once(':') {
        Some((name, value)) if name.trim() == key => {
            let value = value.trim();
            if value.is_empty() { Err(format!("empty `{key}`: write {}", aspect.form())) } else { Ok(value) }
        }
        Some((name, _)) if name.trim().bytes().all(|b| b.is_ascii_alphabetic()) => {
            Err(format!("unknown key `{}` (known: {key}): write {}", name.trim(), aspect.form()))
        }
        _ => Err(format!("`{}` without its key: write {}", scope.escape_debug(), aspect.form())),
    }
}

fn host(scope: &str) -> Result<Matches, String> {
    if scope == "*" {
        return Ok(Matches::Host { target: Target::Any, port: None });
    }
    let value = keyed(scope, "domain", Aspect::Net)?;
    if is_cidr(value) {
        return Ok(Matches::Host { target: Target::parse_cidr(value)?, port: None });
    }
    let (target, ports) = authority(value)?;
    Ok(Matches::Host { target, port: ports.only.first().copied() })
}

/// Id and tool of `id.tool`; an id that holds a dot is written in quotes.
pub(crate) fn tool_name(scope: &str) -> Result<(String, String), String> {
    let form = || format!("`{}`: a tool is named id.tool, an id with a dot \"my.id\".tool", scope.escape_debug());
    let (id, tool) = match scope.strip_prefix('"') {
        Some(rest) => rest.split_once("\".").ok_or_else(form)?,
        None => scope.split_once('.').ok_or_else(form)?,
    };
    if id.is_empty() || tool.is_empty() {
        return Err(form());
    }
    Ok((id.to_owned(), tool.to_owned()))
}

fn tool(scope: &str) -> Result<Matches, String> {
    if scope == "*" {
        return Ok(Matches::Tool { component: "*".into(), tool: "*".into() });
    }
    let (component, tool) = tool_name(scope)?;
    for glob in [&component, &tool] {
        if is_glob(glob) {
            key_glob(glob).map_err(|e| e.to_string())?;
        }
    }
    Ok(Matches::Tool { component, tool })
}

fn command(scope: &str) -> Result<Matches, String> {
    if scope == "*" {
        return Ok(Matches::Command(Vec::new()));
    }
    let words = words::split(keyed(scope, "cmd", Aspect::Spawn)?)?;
    let program = words.first().map(String::as_str).unwrap_or_default();
    if program.contains('/') && !program.starts_with('/') {
        return Err(format!("`{}`: a command is a name or an absolute path", program.escape_debug()));
    }
    for word in &words {
        key_glob(word).map_err(|e| e.to_string())?;
    }
    Ok(Matches::Command(words))
}

/// A known placement.
pub(crate) fn placement(scope: &str) -> Result<String, String> {
    if PLACEMENTS.contains(&scope) {
        return Ok(scope.to_owned());
    }
    Err(format!("unknown placement `{}` (known: {}, *)", scope.escape_debug(), PLACEMENTS.join(", ")))
}
