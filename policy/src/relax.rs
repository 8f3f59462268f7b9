//! Attempts of closer layers to allow what the managed layer denies: without effect, and told.

use crate::class::Mode;
use crate::pattern::{Cover, Matcher, PathPattern};
use crate::permission::Answer;
use crate::policy::{Policy, Warning};
use crate::request::RuleId;
use crate::rule::{Matches, Rule, Target};
use crate::source::Layer;
use std::net::IpAddr;

/// Most attempts that are told one by one.
const MOST: usize = 20;

impl Policy {
    pub(crate) fn warn_of_relaxations(&self, warnings: &mut Vec<Warning>) {
        let mut found = Vec::new();
        let permissions = |deny: bool| {
            let of = self.permissions.iter().filter(move |p| (p.answer == Answer::Deny) == deny);
            of.filter_map(|p| Some((p.aspect, Side::new(self.rule(p.rule)?)?)))
        };
        let denies: Vec<_> = permissions(true).filter(|(_, side)| side.rule.source.layer == Layer::Managed).collect();
        if !denies.is_empty() {
            for (aspect, allow) in permissions(false) {
                let denies = denies.iter().filter(|(of, _)| *of == aspect).map(|(_, deny)| deny);
                report(&allow, denies, &mut found);
            }
        }
        for class in &self.classes {
            let Some(managed) = &class.managed else { continue };
            let sides = |ids: &[RuleId]| -> Vec<_> { ids.iter().filter_map(|id| Side::new(self.rule(*id)?)).collect() };
            let denies = sides(&managed.deny);
            if !denies.is_empty() {
                for allow in sides(&class.allow) {
                    report(&allow, denies.iter(), &mut found);
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

/// A rule that may stand against one of another layer.
struct Side<'a> {
    rule: &'a Rule,
    /// For a rule over paths.
    matcher: Option<Matcher>,
}

impl<'a> Side<'a> {
    fn new(rule: &'a Rule) -> Option<Self> {
        let matcher = match &rule.matches {
            Matches::File { path, .. } => Some(Matcher::new(path).ok()?),
            _ => None,
        };
        Some(Self { rule, matcher })
    }

    /// Whether the head of another rule lies in what this one covers.
    fn covers_head(&self, other: &PathPattern) -> bool {
        self.matcher.as_ref().is_some_and(|matcher| matcher.cover(&other.head) == Some(Cover::Full))
    }
}

fn report<'a>(allow: &Side<'a>, denies: impl Iterator<Item = &'a Side<'a>>, found: &mut Vec<String>) {
    if allow.rule.source.layer <= Layer::Managed {
        return;
    }
    for deny in denies.filter(|deny| overlaps(allow, deny)) {
        let (allow, deny) = (allow.rule, deny.rule);
        found.push(format!(
            "{} ({}) cannot relax the managed deny {} ({})",
            allow.text, allow.source, deny.text, deny.source
        ));
    }
}

/// Whether an allow reaches into what a deny refuses, as far as that can be told without trying every request.
fn overlaps(allow: &Side<'_>, deny: &Side<'_>) -> bool {
    match (&allow.rule.matches, &deny.rule.matches) {
        (Matches::File { path: a, .. }, Matches::File { path: d, .. }) => {
            a == d || deny.covers_head(a) || allow.covers_head(d)
        }
        (Matches::Tool { component: ac, tool: at }, Matches::Tool { component: dc, tool: dt }) => {
            let meet = |a: &str, d: &str| a == d || a == "*" || d == "*";
            meet(ac, dc) && meet(at, dt)
        }
        (Matches::Command(a), Matches::Command(d)) => a.iter().zip(d).all(|(a, d)| a == d || a == "*" || d == "*"),
        (Matches::Ui(a), Matches::Ui(d)) => a.is_none() || d.is_none() || a == d,
        (Matches::Key(a), Matches::Key(d)) => a == d || a == "*" || d == "*",
        (allow, deny) => match (target(allow), target(deny)) {
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
        (Target::Mapped(a), Target::Range(d)) => d.contains(&IpAddr::V4(*a)),
        _ => false,
    }
}
