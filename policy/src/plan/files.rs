//! Subtrees for Landlock: what every gate could let pass, by literal heads.

use super::Subtree;
use crate::class::{Class, Mode};
use crate::engine::Engine;
use crate::index::files::upwards;
use crate::index::{List, bit};
use crate::permission::{Answer, Aspect, Level};
use crate::request::RuleId;
use crate::rule::Matches;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The head of a pattern and what is opened there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Opened {
    head: Vec<u8>,
    write: bool,
    /// Whether the pattern is the head and all below it.
    exact: bool,
}

pub(crate) fn subtrees(engine: &Engine) -> Vec<Subtree> {
    let policy = engine.policy();
    let Some(class) = policy.class(&Class::filesystem()) else { return Vec::new() };
    let patterns = |ids: &[RuleId]| -> Vec<Opened> {
        let rules = ids.iter().filter_map(|id| policy.rule(*id));
        rules
            .filter_map(|rule| match &rule.matches {
                Matches::File { path, write } => {
                    Some(Opened { head: path.head.clone(), write: *write, exact: path.tail.is_empty() })
                }
                _ => None,
            })
            .collect()
    };
    let everything = || vec![Opened { head: Vec::new(), write: true, exact: true }];
    let by_mode = |mode: Mode, allow: &[RuleId], asks_pass: bool| match mode {
        Mode::Open => everything(),
        Mode::Allowlist => patterns(allow),
        Mode::Ask if asks_pass || policy.may_ask() => {
            let asked = if allow.is_empty() { everything() } else { patterns(allow) };
            // Until somebody answers, nothing there is open; the broker knows the answers.
            asked.into_iter().map(|o| Opened { exact: o.exact && asks_pass, ..o }).collect()
        }
        Mode::Ask | Mode::Deny => Vec::new(),
    };
    let mut opened = patterns(class.declared.as_deref().unwrap_or_default());
    opened = intersect(&opened, &by_mode(class.mode, &class.allow, policy.asks_pass()));
    if let Some(managed) = &class.managed {
        opened = intersect(&opened, &by_mode(managed.mode, &managed.allow, false));
    }
    let asks_open = policy.asks_pass() || policy.may_ask();
    // The lists of a component's own permission rules refuse what they do not name.
    let listed = |aspect: Aspect| {
        let mut ids = Vec::new();
        for permission in policy.permissions.iter().filter(|p| p.level == Level::Component && p.aspect == aspect) {
            if permission.answer == Answer::Allow || permission.answer == Answer::Ask && asks_open {
                ids.push(permission.rule);
            }
        }
        patterns(&ids)
    };
    let strict = |aspect| engine.strict.holds(aspect, Level::Component);
    if strict(Aspect::Read) || strict(Aspect::Write) {
        let of = |aspect| if strict(aspect) { listed(aspect) } else { everything() };
        let reads = of(Aspect::Read).into_iter().map(|o| Opened { write: false, ..o });
        let writes = of(Aspect::Write).into_iter().map(|o| Opened { write: true, ..o });
        let lists: Vec<Opened> = reads.chain(writes).map(|o| Opened { exact: false, ..o }).collect();
        opened = intersect(&opened, &lists);
    }
    let of = |answer| Level::ALL.into_iter().fold(0, |all, level| all | bit(List::Permission(level, answer)));
    let denying = bit(List::Deny) | bit(List::ManagedDeny) | of(Answer::Deny);
    let refusing = if asks_open { denying } else { denying | of(Answer::Ask) };
    let narrowing = if policy.asks_pass() { denying } else { denying | of(Answer::Ask) };
    let narrowed: Vec<Subtree> = opened.into_iter().filter_map(|o| narrow(engine, refusing, narrowing, o)).collect();
    without_covered(narrowed)
}

/// All pairs that meet, at the deeper head.
fn intersect(a: &[Opened], b: &[Opened]) -> Vec<Opened> {
    let (mut both, mut seen) = (Vec::new(), HashSet::new());
    let mut meet = |deeper: &Opened, other: &Opened| {
        let opened = Opened {
            head: deeper.head.clone(),
            write: deeper.write && other.write,
            exact: deeper.exact && other.exact,
        };
        if seen.insert(opened.clone()) {
            both.push(opened);
        }
    };
    let (in_a, in_b) = (by_head(a), by_head(b));
    for (head, opened) in &in_a {
        for others in upwards(head).filter_map(|above| in_b.get(above)) {
            for x in opened {
                for y in others {
                    meet(x, y);
                }
            }
        }
    }
    for (head, opened) in &in_b {
        for others in upwards(head).skip(1).filter_map(|above| in_a.get(above)) {
            for y in opened {
                for x in others {
                    meet(y, x);
                }
            }
        }
    }
    both
}

/// What is opened at each head, each kind once.
fn by_head(opened: &[Opened]) -> BTreeMap<&[u8], BTreeSet<&Opened>> {
    let mut by_head: BTreeMap<&[u8], BTreeSet<&Opened>> = BTreeMap::new();
    for opened in opened {
        by_head.entry(&opened.head).or_default().insert(opened);
    }
    by_head
}

/// Take out what rules of the refusing lists refuse as a whole; what the narrowing ones refuse or ask about in part,
/// Landlock cannot say.
fn narrow(engine: &Engine, refusing: u16, narrowing: u16, opened: Opened) -> Option<Subtree> {
    let Opened { head, write, exact } = opened;
    let area = engine.files.area(&head);
    let (reads, writes) = (!area.is_covered(refusing, false), write && !area.is_covered(refusing, true));
    if !reads && !writes {
        return None;
    }
    let touched = |write| area.is_touched(narrowing, write);
    let exact = exact && reads && !touched(false) && !(writes && touched(true));
    Some(Subtree { path: head, write: writes, exact })
}

/// Leave out what a wider subtree opens anyway.
fn without_covered(subtrees: Vec<Subtree>) -> Vec<Subtree> {
    // By path, whether anything there may be written.
    let mut by_path: HashMap<Vec<u8>, bool> = HashMap::new();
    for subtree in &subtrees {
        *by_path.entry(subtree.path.clone()).or_default() |= subtree.write;
    }
    let above = |path: &[u8]| {
        let mut next = path.iter().rposition(|b| *b == b'/');
        let mut rest = path.to_vec();
        std::iter::from_fn(move || {
            rest.truncate(next?);
            next = rest.iter().rposition(|b| *b == b'/');
            Some(rest.clone())
        })
    };
    let mut kept: Vec<Subtree> = Vec::new();
    let mut seen = HashSet::new();
    for subtree in subtrees {
        let wider = above(&subtree.path).any(|p| by_path.get(&p).is_some_and(|write| *write || !subtree.write));
        let written = by_path.get(&subtree.path).copied().unwrap_or_default() && !subtree.write;
        if !wider && !written && seen.insert((subtree.path.clone(), subtree.write, subtree.exact)) {
            kept.push(subtree);
        }
    }
    kept
}
