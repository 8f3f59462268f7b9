//! Allowed operations of one call, counted by class, verb and rule.

use act_policy::{Access, Class, Engine, Kind, Policy, Request, Verdict, escape};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most different lines of a roll-up; the rest is summed.
const MAX_KEYS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Rollup {
    counts: BTreeMap<(String, &'static str, String), u64>,
    other: u64,
}

impl Rollup {
    pub(super) fn count(&mut self, policy: &Policy, request: &Request, verdict: &Verdict) {
        let verb = match request {
            // Looking at metadata is part of every open; it would drown what was read and written.
            // The last four are nothing that a component does.
            Request::File { access: Access::Stat, .. }
            | Request::Net { .. }
            | Request::Tool { .. }
            | Request::Spawn { .. }
            | Request::Ui { .. } => return,
            Request::File { access: Access::List, .. } => "list",
            Request::File { access: Access::Read, .. } => "read",
            Request::File { access: Access::Write, .. } => "write",
            Request::Connect { .. } => "connect",
            Request::Bind { .. } => "bind",
            Request::Listen { .. } => "listen",
            Request::Lookup { .. } => "lookup",
            Request::Http { method, .. } => verb_of(method),
            Request::Credential { .. } => "credential",
            Request::Consent { .. } => "consent",
        };
        let class = short_name(&Engine::class_of(request));
        let rule = verdict.rule.and_then(|id| policy.rule(id)).map(|r| r.text.clone()).unwrap_or_default();
        let key = (class, verb, rule);
        if self.counts.len() >= MAX_KEYS && !self.counts.contains_key(&key) {
            self.other += 1;
        } else {
            *self.counts.entry(key).or_default() += 1;
        }
    }

    /// `filesystem: 1 read under /data/**, 2 write under /data/**  sockets: 1 connect under db.local:5432`
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let mut class_before = "";
        for ((class, verb, rule), n) in &self.counts {
            if class == class_before {
                out.push_str(", ");
            } else {
                let _ = write!(out, "  {class}: ");
                class_before = class;
            }
            let _ = write!(out, "{n} {verb}");
            if !rule.is_empty() {
                let _ = write!(out, " under {rule}");
            }
        }
        if self.other > 0 {
            let _ = write!(out, "  other: {}", self.other);
        }
        out
    }
}

/// The usual methods by name, and one word for all others: the guest chooses them.
fn verb_of(method: &str) -> &'static str {
    const USUAL: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];
    USUAL.into_iter().find(|usual| *usual == method).unwrap_or("request")
}

/// `filesystem` of `wasi:filesystem`.
fn short_name(class: &Class) -> String {
    let id = class.as_str();
    escape(match class.kind() {
        Kind::Semantic => id,
        _ => id.split_once(':').map_or(id, |(_, name)| name),
    })
}
