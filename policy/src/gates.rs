//! The gates that a request has to pass: ceiling, managed layer, grant, permission rules.

use crate::class::Mode;
use crate::engine::Engine;
use crate::index::{Hits, List, bit};
use crate::permission::{Answer, Aspect, Level};
use crate::policy::{ClassPolicy, Policy};
use crate::request::{Decision, Reason, Verdict};

/// What each gate said of a request, and what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What is done.
    pub verdict: Verdict,
    /// The component's ceiling; `None` where no grant is about the request.
    pub ceiling: Option<Verdict>,
    /// The managed layer's grant, where it speaks of the class.
    pub managed: Option<Verdict>,
    /// The operator's grant.
    pub grant: Option<Verdict>,
    /// The permission rules; `None` where none is about the request.
    pub permission: Option<Verdict>,
}

/// For which aspects and subjects a request that no rule matches is refused.
///
/// Such a request of an agent always is. A component's own rules refuse what they do not list once they list anything;
/// rules that were written for the agent bind a component where they match, and leave the rest to the grant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Strict([u8; Aspect::ALL.len()]);

impl Strict {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut strict = Self::default();
        for aspect in Aspect::ALL {
            let by_agent = policy.component.is_none() || matches!(aspect, Aspect::Tool | Aspect::Spawn | Aspect::Ui);
            for level in Level::ALL {
                let own = || {
                    let mut own = policy.permissions.iter().filter(|p| p.level == level && p.aspect == aspect);
                    own.any(|p| p.answer != Answer::Deny)
                };
                let holds = match level {
                    Level::Agent => by_agent,
                    Level::Client => by_agent && own(),
                    Level::Component => own(),
                };
                if let (true, Some(levels)) = (holds, strict.0.get_mut(aspect as usize)) {
                    *levels |= 1 << level as u8;
                }
            }
        }
        strict
    }

    pub(crate) fn holds(self, aspect: Aspect, level: Level) -> bool {
        self.0.get(aspect as usize).is_none_or(|levels| levels & (1 << level as u8) != 0)
    }
}

impl Judgement {
    /// A request that no gate had to look at.
    pub(crate) const fn refused(verdict: Verdict) -> Self {
        Self { verdict, ceiling: None, managed: None, grant: None, permission: None }
    }

    /// `stat`: whether it is enough to be on the way to what a rule names.
    pub(crate) fn new(
        class: Option<&ClassPolicy>,
        aspect: Option<Aspect>,
        strict: Strict,
        hits: &Hits,
        stat: bool,
    ) -> Self {
        let ceiling = class.map(|class| ceiling(class, hits, stat));
        let inside = ceiling.unwrap_or(WHOLE_CLASS);
        let managed = class.and_then(|class| managed(class, hits, stat, inside));
        let grant = class.map(|class| grant(class, hits, stat, inside));
        let permission = aspect.and_then(|aspect| permission(aspect, strict, hits, stat));
        let verdict = narrowest(ceiling, managed, grant, permission);
        Self { verdict, ceiling, managed, grant, permission }
    }
}

/// The narrowest answer of all gates. Of several refusals the ceiling's is named, then the closest to a rule.
fn narrowest(
    ceiling: Option<Verdict>,
    managed: Option<Verdict>,
    grant: Option<Verdict>,
    permission: Option<Verdict>,
) -> Verdict {
    let gates = [managed, permission, grant];
    let all = || gates.into_iter().flatten();
    let refused = |v: &Verdict| v.decision == Decision::Deny;
    if let Some(verdict) = ceiling.filter(refused) {
        return verdict;
    }
    let by_rule = all().find(|v| v.reason == Reason::DeniedByRule);
    let denied = by_rule.or_else(|| [grant, managed, permission].into_iter().flatten().find(refused));
    let asked = || all().find(|v| v.decision == Decision::Ask);
    let way = || all().find(|v| v.reason == Reason::Ancestor);
    // An operation is allowed for what the grant says, where there is a grant.
    let allowed = || [grant, permission].into_iter().flatten().next();
    denied.or_else(asked).or_else(way).or_else(allowed).unwrap_or(Verdict::deny(Reason::NoRuleAllows))
}

/// Whether an allowing list lets a request pass: by a rule, or as a directory on the way to one.
fn passes(list: List, hits: &Hits, stat: bool) -> Option<Verdict> {
    match hits.rule(list) {
        Some(rule) => Some(Verdict { decision: Decision::Allow, reason: Reason::Allowed, rule: Some(rule) }),
        None if stat && hits.is_above(list) => Some(ANCESTOR),
        None => None,
    }
}

const ANCESTOR: Verdict = Verdict { decision: Decision::Allow, reason: Reason::Ancestor, rule: None };
const WHOLE_CLASS: Verdict = Verdict { decision: Decision::Allow, reason: Reason::Allowed, rule: None };

fn ceiling(class: &ClassPolicy, hits: &Hits, stat: bool) -> Verdict {
    let outside = Verdict::deny(Reason::OutsideCeiling);
    match class.declared {
        None => outside,
        Some(_) if class.declares_all() => WHOLE_CLASS,
        Some(_) => passes(List::Declared, hits, stat).unwrap_or(outside),
    }
}

/// `inside`: how the request lies inside the ceiling, for modes that speak of all of it.
fn managed(class: &ClassPolicy, hits: &Hits, stat: bool, inside: Verdict) -> Option<Verdict> {
    let managed = class.managed.as_ref()?;
    if let Some(rule) = hits.rule(List::ManagedDeny) {
        return Some(Verdict { decision: Decision::Deny, reason: Reason::DeniedByRule, rule: Some(rule) });
    }
    let refused = Verdict::deny(Reason::Managed);
    let passed = passes(List::ManagedAllow, hits, stat);
    Some(match managed.mode {
        Mode::Deny => refused,
        Mode::Open => inside,
        Mode::Allowlist => passed.unwrap_or(refused),
        Mode::Ask if managed.allow.is_empty() => ask(inside, Reason::ManagedAsk),
        Mode::Ask => passed.map_or(refused, |passed| ask(passed, Reason::ManagedAsk)),
    })
}

fn grant(class: &ClassPolicy, hits: &Hits, stat: bool, inside: Verdict) -> Verdict {
    if let Some(rule) = hits.rule(List::Deny) {
        return Verdict { decision: Decision::Deny, reason: Reason::DeniedByRule, rule: Some(rule) };
    }
    let refused = Verdict::deny(Reason::NotGranted);
    let passed = passes(List::Allow, hits, stat);
    match class.mode {
        Mode::Deny => refused,
        // The rule that is named is the ceiling's.
        Mode::Open => inside,
        Mode::Allowlist => passed.unwrap_or(refused),
        Mode::Ask if class.allow.is_empty() => ask(inside, Reason::AskMode),
        Mode::Ask => passed.map_or(refused, |passed| ask(passed, Reason::AskMode)),
    }
}

/// The way to something can be looked at without an answer.
fn ask(passed: Verdict, reason: Reason) -> Verdict {
    match passed.reason {
        Reason::Ancestor => passed,
        _ => Verdict { decision: Decision::Ask, reason, rule: passed.rule },
    }
}

fn permission(aspect: Aspect, strict: Strict, hits: &Hits, stat: bool) -> Option<Verdict> {
    let of = |level, answer| hits.rule(List::Permission(level, answer));
    // Every deny first, whosever it is; then ask, then allow.
    let closest = |answer| Level::ALL.into_iter().rev().find_map(|level| of(level, answer));
    if let Some(rule) = closest(Answer::Deny) {
        return Some(Verdict { decision: Decision::Deny, reason: Reason::DeniedByRule, rule: Some(rule) });
    }
    let mut asked = None;
    let mut allowed = None;
    for level in Level::ALL {
        if let Some(rule) = of(level, Answer::Ask) {
            asked = Some(rule);
        } else if let Some(rule) = of(level, Answer::Allow) {
            allowed = Some(Verdict { decision: Decision::Allow, reason: Reason::Allowed, rule: Some(rule) });
        } else if strict.holds(aspect, level) {
            let way = [Answer::Ask, Answer::Allow].into_iter().any(|a| hits.is_above(List::Permission(level, a)));
            if !(stat && way) {
                return Some(Verdict::deny(Reason::NoRuleAllows));
            }
            allowed.get_or_insert(ANCESTOR);
        }
    }
    let asked = asked.map(|rule| Verdict { decision: Decision::Ask, reason: Reason::AskRule, rule: Some(rule) });
    asked.or(allowed)
}

impl Engine {
    /// Whether all gates let a component write to a directory and to all that could ever be below it.
    pub(crate) fn subtree_holds(&self, class: &ClassPolicy, path: &[u8]) -> bool {
        let area = self.files.area(path);
        let covered = |list| area.is_covered(bit(list), true);
        let granted = match class.mode {
            Mode::Open => true,
            Mode::Allowlist => covered(List::Allow),
            Mode::Deny | Mode::Ask => false,
        };
        let managed = class.managed.as_ref().is_none_or(|managed| match managed.mode {
            Mode::Open => true,
            Mode::Allowlist => covered(List::ManagedAllow),
            Mode::Deny | Mode::Ask => false,
        });
        let denied = |list| area.is_touched(bit(list), false) || area.is_touched(bit(list), true);
        let permitted = Level::ALL.into_iter().all(|level| {
            let narrowed = [Answer::Deny, Answer::Ask].into_iter().any(|a| denied(List::Permission(level, a)));
            let listed = !self.strict.holds(Aspect::Write, level) || covered(List::Permission(level, Answer::Allow));
            // What may be written there could be read from another place.
            let readable = !self.strict.holds(Aspect::Read, level)
                || area.is_covered(bit(List::Permission(level, Answer::Allow)), false);
            !narrowed && listed && readable
        });
        granted && managed && permitted && covered(List::Declared) && !denied(List::Deny) && !denied(List::ManagedDeny)
    }
}
