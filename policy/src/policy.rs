//! The effective policy: layers and ceiling brought together, ready to be compiled and to be sent to the guest.

use crate::class::{Class, Mode};
use crate::grant::{Entry, Grants};
use crate::manifest::Manifest;
use crate::pattern::PathPattern;
use crate::request::RuleId;
use crate::rule::{Matches, Rule};
use crate::shorthand::{Flag, Shorthand};
use crate::source::Source;
use serde::{Deserialize, Serialize};

/// Everything that decides about one component in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// All rules, the ceiling's and the grant's; a [`RuleId`] is an index here.
    pub rules: Vec<Rule>,
    /// The classes: the four that every host knows, and those that the component declares.
    pub classes: Vec<ClassPolicy>,
}

/// The effective policy of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassPolicy {
    /// The class.
    pub class: Class,
    /// The mode of the grant.
    pub mode: Mode,
    /// Where the mode was set.
    pub source: Source,
    /// The ceiling: `None` is undeclared, an empty list the whole class (semantic classes and credentials).
    pub declared: Option<Vec<RuleId>>,
    /// Allow rules of the grant.
    pub allow: Vec<RuleId>,
    /// Deny rules of the grant.
    pub deny: Vec<RuleId>,
}

/// The operator's side, layer by layer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers<'a> {
    /// `[policy]` of the configuration file.
    pub user: Option<&'a Grants>,
    /// The chosen profile.
    pub profile: Option<&'a Grants>,
    /// All `--grant` objects, merged.
    pub grant: Option<&'a Grants>,
    /// `--allow` and `--deny`, in order.
    pub flags: &'a [Shorthand],
}

/// Flags that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FlagConflict(String);

/// Something that the operator should know before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub String);

impl Policy {
    /// Resolve the layers for a component.
    pub fn resolve(manifest: &Manifest, layers: &Layers<'_>) -> Result<(Self, Vec<Warning>), FlagConflict> {
        check_flags(layers.flags)?;
        let mut warnings = Vec::new();
        let mut classes: Vec<Class> =
            crate::class::CLASSES.iter().filter_map(|(_, id, _)| Class::parse(id).ok()).collect();
        classes.extend(manifest.capabilities.iter().map(|c| c.class.clone()));
        classes.sort();
        classes.dedup();
        let mut policy = Self { rules: Vec::new(), classes: Vec::with_capacity(classes.len()) };
        for class in classes {
            let entry = resolve_entry(&class, layers, &mut warnings);
            let capability = manifest.capabilities.iter().find(|c| c.class == class).filter(|c| c.declares());
            let declared = capability.map(|c| policy.add(c.constraints.clone().unwrap_or_default()));
            let (allow, deny) = (policy.add(entry.allow), policy.add(entry.deny));
            policy.classes.push(ClassPolicy { class, mode: entry.mode, source: entry.source, declared, allow, deny });
        }
        policy.warn_of_rules_without_host(&mut warnings);
        Ok((policy, warnings))
    }

    fn add(&mut self, rules: Vec<Rule>) -> Vec<RuleId> {
        rules
            .into_iter()
            .map(|rule| {
                self.rules.push(rule);
                RuleId(self.rules.len() as u32 - 1)
            })
            .collect()
    }

    /// Deny a folder of the host program itself, with all below it.
    pub fn deny_folder(&mut self, folder: Vec<u8>) {
        let path = PathPattern { head: folder, tail: String::new() };
        let rule =
            Rule { text: path.display(), source: Source::built_in(), matches: Matches::File { path, write: true } };
        let ids = self.add(vec![rule]);
        if let Some(class) = self.classes.iter_mut().find(|c| c.class == Class::filesystem()) {
            class.deny.extend(ids);
        }
    }

    /// The rule of an id.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.0 as usize)
    }

    /// The effective policy of a class.
    pub fn class(&self, class: &Class) -> Option<&ClassPolicy> {
        self.classes.iter().find(|c| c.class == *class)
    }

    /// The path patterns of all file rules, to have their literal heads resolved before the policy is compiled.
    pub fn path_heads(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        self.rules.iter_mut().filter_map(|rule| match &mut rule.matches {
            Matches::File { path, .. } => Some(&mut path.head),
            _ => None,
        })
    }

    fn warn_of_rules_without_host(&self, warnings: &mut Vec<Warning>) {
        for class in &self.classes {
            for rule in class.allow.iter().filter_map(|id| self.rule(*id)) {
                if matches!(rule.matches, Matches::Http { target: None, .. }) {
                    warnings.push(Warning(format!(
                        "a wasi:http allow rule without a host grants nothing ({})",
                        rule.source
                    )));
                }
            }
        }
    }
}

impl ClassPolicy {
    /// The mode as the audit shows it: an undeclared class is denied whatever was granted.
    pub fn shown_mode(&self) -> Mode {
        if self.declared.is_some() { self.mode } else { Mode::Deny }
    }
}

fn check_flags(flags: &[Shorthand]) -> Result<(), FlagConflict> {
    for whole in flags.iter().filter(|f| f.rule.is_none()) {
        let ruled = flags.iter().find(|f| f.flag == whole.flag && f.class == whole.class && f.rule.is_some());
        if let Some(ruled) = ruled {
            let flag = whole.flag.as_str();
            let (a, b) = (whole.token.escape_debug(), ruled.token.escape_debug());
            let message = format!("{flag} '{a}' and {flag} '{b}': the whole class or rules of it, not both");
            return Err(FlagConflict(message));
        }
    }
    Ok(())
}

fn resolve_entry(class: &Class, layers: &Layers<'_>, warnings: &mut Vec<Warning>) -> Entry {
    let granted = layers.grant.and_then(|g| g.entry(class));
    let below = || [layers.profile, layers.user].into_iter().flatten().find_map(|g| g.entry(class));
    let mut entry =
        granted.or_else(below).cloned().unwrap_or_else(|| Entry::plain(Mode::default(), Source::built_in()));
    let mut from_command_line = granted.is_some();
    let of_class = |flag: Flag| layers.flags.iter().filter(move |f| f.flag == flag && f.class == *class);
    for flag in of_class(Flag::Allow) {
        let source = Source::command_line(&format!("--allow {}", flag.token));
        match &flag.rule {
            None => {
                for rule in &entry.deny {
                    let message = format!("--allow {} drops the deny rule {} ({})", flag.token, rule.text, rule.source);
                    warnings.push(Warning(message));
                }
                entry = Entry::plain(Mode::Open, source);
            }
            Some(rule) => {
                // Rules of the command line add up; the allow rules of a farther layer are replaced, its denies stay.
                let keep = from_command_line && entry.mode == Mode::Allowlist;
                let allow = if keep { std::mem::take(&mut entry.allow) } else { Vec::new() };
                entry = Entry { mode: Mode::Allowlist, allow, deny: std::mem::take(&mut entry.deny), source };
                entry.allow.push(rule.clone());
            }
        }
        from_command_line = true;
    }
    for flag in of_class(Flag::Deny) {
        match &flag.rule {
            None => entry = Entry::plain(Mode::Deny, Source::command_line(&format!("--deny {}", flag.token))),
            Some(rule) => entry.deny.push(rule.clone()),
        }
    }
    entry
}
