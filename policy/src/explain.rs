//! Verdicts in words, for the audit trail and for people.

use crate::engine::Engine;
use crate::policy::Policy;
use crate::request::{Reason, Request, RuleId, Verdict};

impl Policy {
    /// A rule with its place: `RULE (layer, file:line)`.
    pub fn describe(&self, id: RuleId) -> String {
        match self.rule(id) {
            Some(rule) => format!("{} ({})", rule.text, rule.source),
            None => format!("rule {}", id.0),
        }
    }

    /// Why a verdict is what it is, without the mode.
    pub fn reason(&self, verdict: &Verdict) -> String {
        let rule = || verdict.rule.map_or_else(|| "a rule".to_owned(), |id| self.describe(id));
        match verdict.reason {
            Reason::Allowed => {
                format!("under {}", verdict.rule.and_then(|id| self.rule(id)).map_or("the whole class", |r| &r.text))
            }
            Reason::Ancestor => "on the way to an allowed path".into(),
            Reason::OutsideCeiling => "outside ceiling".into(),
            Reason::NotGranted => "not granted".into(),
            Reason::DeniedByRule => format!("denied by {}", rule()),
            Reason::Managed => "refused by the managed policy".into(),
            Reason::NoRuleAllows => "no rule allows it".into(),
            Reason::AskMode | Reason::ManagedAsk => "needs an answer".into(),
            Reason::AskRule => format!("needs an answer, says {}", rule()),
            Reason::SpecialFile => "not a regular file or directory".into(),
            Reason::NotSemantic => "not a semantic class".into(),
            Reason::Malformed => "malformed".into(),
            Reason::Unsupported => "not supported by this version of act".into(),
        }
    }

    /// The mode of a request's class, as the audit shows it; `None` where no grant is about the request.
    pub fn mode_of(&self, request: &Request) -> Option<String> {
        match request {
            Request::Tool { .. } | Request::Spawn { .. } | Request::Ui { .. } | Request::Net { .. } => None,
            _ => {
                let class = self.class(&Engine::class_of(request));
                Some(class.map_or_else(|| "deny".to_owned(), |c| c.mode.to_string()))
            }
        }
    }
}

impl Request {
    /// Verb and object, escaped for one line: `read /data/x`, `connect 10.0.0.5:5432/tcp`, `GET example.com:443/https`.
    pub fn describe(&self) -> String {
        match self {
            Self::File { access, path } => format!("{access} {}", escape(&String::from_utf8_lossy(path))),
            Self::Connect { addr, protocol, names } => {
                let names: String = names.iter().map(|n| format!(" ({})", escape(n))).collect();
                format!("connect {addr}/{protocol}{names}")
            }
            Self::Bind { addr, protocol } => format!("bind {addr}/{protocol}"),
            Self::Listen { addr } => format!("listen {addr}/tcp"),
            Self::Lookup { host, .. } => format!("lookup {}", escape(host)),
            Self::Http { method, scheme, host, port, address } => {
                let host = if host.contains(':') { format!("[{}]", escape(host)) } else { escape(host) };
                let address = address.map(|a| format!(" ({a})")).unwrap_or_default();
                format!("{} {host}:{port}/{}{address}", escape(method), escape(scheme))
            }
            Self::Credential { key } => format!("credential {}", escape(key)),
            Self::Consent { key, .. } => format!("consent {}", escape(key)),
            Self::Net { host, port } => {
                format!("net {}{}", escape(host), port.map(|p| format!(":{p}")).unwrap_or_default())
            }
            Self::Tool { component, tool } => format!("call {}.{}", escape(component), escape(tool)),
            Self::Spawn { program, words } => {
                let words: String = words.iter().map(|word| format!(" {}", escape(word))).collect();
                format!("spawn {}{words}", escape(program))
            }
            Self::Ui { placement } => format!("show {}", escape(placement)),
        }
    }
}

/// Untrusted text in one line: control, bidirectional and other invisible characters are written as escapes.
///
/// ```
/// assert_eq!(act_policy::escape("a\n\u{202e}b"), "a\\n\\u{202e}b");
/// ```
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{61c}' | '\u{e0000}'..='\u{e007f}');
        if c.is_control() || hidden {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
