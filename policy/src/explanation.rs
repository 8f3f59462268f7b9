//! Why a call is allowed, asked about or refused: all that the decision looked at, as text and as JSON.

use crate::call::Call;
use crate::enforcement::Enforcer;
use crate::engine::Engine;
use crate::gates::Judgement;
use crate::permission::{Answer, Aspect, Level, Permission};
use crate::plan::KernelPlan;
use crate::policy::Policy;
use crate::request::{Decision, Reason, Request, RuleId, Verdict};
use crate::source::Source;
use serde::Serialize;
use std::fmt::Write as _;

/// Most considered rules that the text lists.
const MOST_CONSIDERED: usize = 50;

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The call, as it was asked about.
    pub request: String,
    /// What was judged: verb and object, links resolved.
    pub judged: String,
    /// Who would do it.
    pub subject: String,
    /// What is done.
    pub verdict: Decision,
    /// Why, in words.
    pub reason: String,
    /// The rule that decided, where one did.
    pub rule: Option<ExplainedRule>,
    /// What each gate said.
    pub gates: Vec<Gate>,
    /// The other permission rules about the same.
    pub considered: Vec<ExplainedRule>,
    /// The layers that refuse it, for a component.
    pub enforced_by: Vec<Enforcer>,
}

/// A rule with its list and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRule {
    /// `allow`, `ask`, `deny`, or `declares` for the ceiling.
    pub list: &'static str,
    /// The rule.
    pub text: String,
    /// Its layer.
    pub layer: String,
    /// Its file.
    pub file: String,
    /// Its line; 0 where lines mean nothing.
    pub line: u32,
}

/// What one gate said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// `ceiling`, `managed`, `grant` or `permissions`.
    pub gate: &'static str,
    /// What it said.
    pub verdict: Decision,
    /// Why.
    pub reason: String,
    /// Where: the rule that matched, or the place that set the mode.
    pub source: Option<String>,
}

impl Explanation {
    /// Explain a call. `plan` tells which layers hold the policy of a component.
    pub fn new(call: &Call, engine: &Engine, plan: Option<&KernelPlan>) -> Self {
        let policy = engine.policy();
        let request = call.request(policy);
        let judgement = engine.judge(&request);
        let verdict = judgement.verdict;
        Self {
            request: call.text.clone(),
            judged: request.describe(),
            subject: policy.subject().to_string(),
            verdict: verdict.decision,
            reason: policy.reason(&verdict),
            rule: verdict.rule.and_then(|id| explained(policy, id)),
            gates: gates(policy, &request, &judgement),
            considered: considered(policy, call.aspect, verdict.rule),
            enforced_by: plan.map(|plan| plan.enforcers(engine, &request)).unwrap_or_default(),
        }
    }

    /// The text for people.
    pub fn text(&self) -> String {
        let word = match self.verdict {
            Decision::Allow => "Allow",
            Decision::Ask => "Ask",
            Decision::Deny => "Deny",
        };
        let why = match &self.rule {
            Some(rule) if rule.list == "declares" => format!("`{}` in the component's declaration", rule.text),
            Some(rule) => format!("`{}` in the {} list", rule.text, rule.list),
            None => self.reason.clone(),
        };
        let mut text = format!("{} for {}: {word} — {why}\n", crate::escape(&self.request), self.subject);
        if let Some(rule) = &self.rule {
            let _ = writeln!(text, "  by {}", rule.line());
        }
        // For what no grant is about, the permission gate has said all above.
        if self.gates.len() > 1 {
            for gate in &self.gates {
                let decision = match gate.verdict {
                    Decision::Allow => "allow",
                    Decision::Ask => "ask",
                    Decision::Deny => "deny",
                };
                let source = gate.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
                let _ = writeln!(text, "  {} says {decision}: {}{source}", gate.gate, gate.reason);
            }
        }
        for rule in self.considered.iter().take(MOST_CONSIDERED) {
            let _ = writeln!(text, "  considered {}", rule.line());
        }
        if self.considered.len() > MOST_CONSIDERED {
            let _ = writeln!(text, "  considered {} more", self.considered.len() - MOST_CONSIDERED);
        }
        if !self.enforced_by.is_empty() {
            let layers: Vec<String> = self.enforced_by.iter().map(ToString::to_string).collect();
            let alone = if self.enforced_by == [Enforcer::HostCheck] { " only" } else { "" };
            let _ = writeln!(text, "  enforced by {}{alone}", layers.join(", "));
        }
        text
    }
}

impl ExplainedRule {
    fn line(&self) -> String {
        let line = if self.line > 0 { format!(":{}", self.line) } else { String::new() };
        format!("{} `{}` [{}] {}{line}", self.list, self.text, self.layer, self.file)
    }
}

fn explained(policy: &Policy, id: RuleId) -> Option<ExplainedRule> {
    let rule = policy.rule(id)?;
    let list = if let Some(permission) = policy.permission(id) {
        permission.answer.as_str()
    } else {
        let class = policy.classes.iter().find_map(|class| {
            let managed = class.managed.as_ref();
            let denies = class.deny.contains(&id) || managed.is_some_and(|m| m.deny.contains(&id));
            let allows = class.allow.contains(&id) || managed.is_some_and(|m| m.allow.contains(&id));
            match (denies, allows) {
                (true, _) => Some("deny"),
                (_, true) => Some("allow"),
                _ => class.declared.as_ref().is_some_and(|d| d.contains(&id)).then_some("declares"),
            }
        });
        class.unwrap_or("allow")
    };
    let Source { layer, file, line } = &rule.source;
    let (layer, file) = (layer.to_string(), file.clone());
    Some(ExplainedRule { list, text: crate::escape(&rule.text), layer, file, line: *line })
}

fn gates(policy: &Policy, request: &Request, judgement: &Judgement) -> Vec<Gate> {
    let class = policy.class(&Engine::class_of(request));
    let gate = |gate: &'static str, verdict: Option<Verdict>, mode: Option<(String, &Source)>| {
        let verdict = verdict?;
        let rule = verdict.rule.and_then(|id| policy.rule(id));
        let reason = match (verdict.reason, rule) {
            (Reason::DeniedByRule | Reason::AskRule, Some(rule)) => format!("`{}`", crate::escape(&rule.text)),
            (Reason::Allowed, Some(rule)) => format!("under `{}`", crate::escape(&rule.text)),
            _ => policy.reason(&verdict),
        };
        let rule = rule.map(|rule| rule.source.to_string());
        let source = match mode {
            Some((mode, source)) => {
                Some(match rule.filter(|_| verdict.reason != Reason::Allowed || mode == "mode allowlist") {
                    Some(rule) => format!("{mode}; {rule}"),
                    None => format!("{mode}; {source}"),
                })
            }
            None => rule,
        };
        Some(Gate { gate, verdict: verdict.decision, reason, source })
    };
    let managed = class.and_then(|c| c.managed.as_ref()).map(|m| (format!("mode {}", m.mode), &m.source));
    let granted = class.map(|c| (format!("mode {}", c.mode), &c.source));
    [
        gate("ceiling", judgement.ceiling, None),
        gate("managed", judgement.managed, managed),
        gate("grant", judgement.grant, granted),
        gate("permissions", judgement.permission, None),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The permission rules about the same aspect that did not decide: denies first, the closest layer first.
fn considered(policy: &Policy, aspect: Option<Aspect>, decided: Option<RuleId>) -> Vec<ExplainedRule> {
    let mut rules: Vec<&Permission> =
        policy.permissions.iter().filter(|p| Some(p.aspect) == aspect && Some(p.rule) != decided).collect();
    let layer = |p: &Permission| policy.rule(p.rule).map(|rule| rule.source.layer);
    rules.sort_by_key(|p| {
        let answer = Answer::ALL.iter().position(|a| *a == p.answer);
        let level = Level::ALL.iter().rev().position(|l| *l == p.level);
        (answer, std::cmp::Reverse(layer(p)), level)
    });
    rules.into_iter().filter_map(|p| explained(policy, p.rule)).collect()
}
