//! Files of cases for `act permissions test`: a call, and what the policy is expected to say of it.

use crate::config::ConfigError;
use crate::explanation::Explanation;
use crate::node::{Node, NodeError};
use crate::permission::Subject;
use crate::request::Decision;

/// Most cases of one file.
const MAX_CASES: usize = 10_000;

/// One case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Line in the file.
    pub line: u32,
    /// The call: `read(./x)`.
    pub request: String,
    /// What the policy has to say.
    pub expect: Decision,
    /// Who does it; `agent` where not given.
    pub subject: Option<Subject>,
    /// The component that does it: a file.
    pub component: Option<String>,
    /// A part of the reason.
    pub reason: Option<String>,
    /// The rule that decides.
    pub rule: Option<String>,
}

impl Case {
    /// Read a file of `[[case]]` tables.
    pub fn parse(text: &str, file: &str) -> Result<Vec<Self>, ConfigError> {
        let located = |e: NodeError| ConfigError { file: file.to_owned(), line: e.line.max(1), reason: e.message };
        let read = || -> Result<Vec<Self>, NodeError> {
            let node = Node::from_toml(text)?;
            for member in node.map("the file")? {
                if member.key != "case" {
                    let message = format!("unknown key `{}` (known: case)", member.key.escape_debug());
                    return Err(NodeError::new(member.line, message));
                }
            }
            let cases = node.get("case").ok_or_else(|| NodeError::new(1, "no [[case]]"))?.list("case")?;
            if cases.len() > MAX_CASES {
                return Err(NodeError::new(1, format!("more than {MAX_CASES} cases")));
            }
            cases.iter().map(case).collect()
        };
        read().map_err(located)
    }

    /// What an explanation misses, if anything.
    pub fn miss(&self, explanation: &Explanation) -> Option<String> {
        let word = |decision: Decision| match decision {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        };
        if explanation.verdict != self.expect {
            let (expected, found) = (word(self.expect), word(explanation.verdict));
            return Some(format!("expected {expected}, found {found}: {}", explanation.reason));
        }
        if let Some(reason) = self.reason.as_ref().filter(|reason| !explanation.reason.contains(reason.as_str())) {
            return Some(format!("expected the reason `{reason}`, found `{}`", explanation.reason));
        }
        let found = explanation.rule.as_ref().map_or("none", |rule| rule.text.as_str());
        match &self.rule {
            Some(rule) if rule != found => Some(format!("expected the rule `{rule}`, found `{found}`")),
            _ => None,
        }
    }
}

fn case(node: &Node) -> Result<Case, NodeError> {
    const KNOWN: [&str; 6] = ["request", "expect", "subject", "component", "reason", "rule"];
    for member in node.map("a case")? {
        if !KNOWN.contains(&member.key.as_str()) {
            let message =
                format!("unknown key `{}` in a case (known: {})", member.key.escape_debug(), KNOWN.join(", "));
            return Err(NodeError::new(member.line, message));
        }
    }
    let text = |key: &str| node.get(key).map(|value| value.text(key).map(str::to_owned)).transpose();
    let required = |key: &str| text(key)?.ok_or_else(|| NodeError::new(node.line, format!("a case without `{key}`")));
    let expect = match required("expect")?.as_str() {
        "allow" => Decision::Allow,
        "ask" => Decision::Ask,
        "deny" => Decision::Deny,
        other => {
            let message = format!("expect is \"allow\", \"ask\" or \"deny\", not `{}`", other.escape_debug());
            return Err(NodeError::new(node.line, message));
        }
    };
    let subject = text("subject")?.map(|subject| Subject::parse(&subject)).transpose();
    Ok(Case {
        line: node.line,
        request: required("request")?,
        expect,
        subject: subject.map_err(|e| NodeError::new(node.line, e))?,
        component: text("component")?,
        reason: text("reason")?,
        rule: text("rule")?,
    })
}
