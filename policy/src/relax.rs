//! Attempts of closer layers to allow what the managed layer denies: without effect, and told.

use crate::class::Mode;
use crate::pattern::{Cover, Matcher, PathPattern};
use crate::permission::Answer;
use crate::policy::{Policy, Warning};
use crate::rule::{Matches, Rule, Target};
use crate::source::Layer;

/// Most attempts that are told one by one.
const MOST: usize = 20;

impl Policy {
    pub(crate) fn warn_of_relaxations(&self, warnings: &mut Vec<Warning>) {
        let mut found = Vec::new();
        let managed: Vec<_> = self.permissions.iter().filter(|p| p.answer == Answer::Deny).collect();
        for allow in self.permissions.iter().filter(|p| p.answer != Answer::Deny) {
            for deny in managed.iter().filter(|deny| deny.aspect == allow.aspect) {
                report(self.rule(allow.rule), self.rule(deny.rule), &mut found);
            }
        }
        for class in &self.classes {
            let Some(managed) = &class.managed else { continue };
            for allow in class.allow.iter().map(|id| self.rule(*id)) {
                for deny in managed.deny.iter().map(|id| self.rule(*id)) {
                    report(allow, deny, &mut found);
                }
            }
            if class.mode != Mode::Deny && managed.mode == Mode::Deny && class.source.layer > Layer::Managed {
                found.push(format!(
                    "mode {} of {} ({}) cannot relax the managed mode deny ({})",
                    class.mode, class.class, class.source, managed.source
                ));
            }
        }
        let more = found.len().saturating_sub(MOST);
        warnings.extend(found.into_iter().take(MOST).map(Warning));
        if more > 0 {
            warnings.push(Warning(format!("{more} more rules cannot relax what the managed layer denies")));
        }
    }
}

fn report(allow: Option<&Rule>, deny: Option<&Rule>, found: &mut Vec<String>) {
    if let (Some(allow), Some(deny)) = (allow, deny)
        && deny.source.layer == Layer::Managed
        && allow.source.layer > Layer::Managed
        && overlaps(&allow.matches, &deny.matches)
    {
        found.push(format!(
            "{} ({}) cannot relax the managed deny {} ({})",
            allow.text, allow.source, deny.text, deny.source
        ));
    }
}

/// Whether an allow reaches into what a deny refuses, as far as that can be told without trying every request.
fn overlaps(allow: &Matches, deny: &Matches) -> bool {
    match (allow, deny) {
        (Matches::File { path: a, .. }, Matches::File { path: d, .. }) => reaches_into(a, d) || reaches_into(d, a),
        (Matches::Tool { component: ac, tool: at }, Matches::Tool { component: dc, tool: dt }) => {
            let meet = |a: &str, d: &str| a == d || a == "*" || d == "*";
            meet(ac, dc) && meet(at, dt)
        }
        (Matches::Command(a), Matches::Command(d)) => a.iter().zip(d).all(|(a, d)| a == d || a == "*" || d == "*"),
        (Matches::Ui(a), Matches::Ui(d)) => a.is_none() || d.is_none() || a == d,
        (Matches::Key(a), Matches::Key(d)) => a == d || a == "*" || d == "*",
        _ => match (target(allow), target(deny)) {
            (Some(a), Some(d)) => targets_meet(a, d),
            _ => allow == deny,
        },
    }
}

fn target(matches: &Matches) -> Option<&Target> {
    match matches {
        Matches::Host { target, .. } | Matches::Socket { target, .. } => Some(target),
        Matches::Http { target, .. } => target.as_ref(),
        _ => None,
    }
}

fn targets_meet(a: &Target, d: &Target) -> bool {
    let below =
        |name: &str, suffix: &str| name == suffix || name.strip_suffix(suffix).is_some_and(|head| head.ends_with('.'));
    match (a, d) {
        (Target::Any, _) | (_, Target::Any) => true,
        (Target::Name(a), Target::Name(d)) => a == d,
        (Target::Name(name), Target::Suffix(suffix)) | (Target::Suffix(suffix), Target::Name(name)) => {
            below(name, suffix)
        }
        (Target::Suffix(a), Target::Suffix(d)) => below(a, d) || below(d, a),
        (Target::Range(a), Target::Range(d)) => a.contains(d) || d.contains(a),
        _ => false,
    }
}

/// Whether the head of a pattern lies in what another covers, or on the way to it.
fn reaches_into(pattern: &PathPattern, other: &PathPattern) -> bool {
    let Ok(matcher) = Matcher::new(other) else { return false };
    matches!(matcher.cover(&pattern.head), Some(Cover::Full)) || pattern == other
}
