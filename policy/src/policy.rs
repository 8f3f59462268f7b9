//! The effective policy: layers and ceiling brought together, ready to be compiled and to be sent to the guest.

use crate::class::{CLASSES, Class, Kind, Mode};
use crate::config::Section;
use crate::consent::Consent;
use crate::grant::{Entry, Grants};
use crate::manifest::Manifest;
use crate::pattern::PathPattern;
use crate::permission::{Answer, Aspect, Level, Permission, Permissions, Subject, Written};
use crate::request::{Decision, Reason, RuleId, Verdict};
use crate::rule::{Anchors, Matches, Rule};
use crate::shorthand::{Flag, Shorthand};
use crate::source::Source;
use serde::{Deserialize, Serialize};

/// Everything that decides about one subject in one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// All rules; a [`RuleId`] is an index here.
    pub rules: Vec<Rule>,
    /// The component whose ceiling and grant are judged too; `None`: the policy is about an agent's own doings.
    pub component: Option<String>,
    /// The connected client.
    pub client: Option<String>,
    /// The classes: the four that every host knows, and those that the component declares. Without a component none.
    pub classes: Vec<ClassPolicy>,
    /// Permission rules along the chain of subjects, in the order of their ids.
    pub permissions: Vec<Permission>,
    /// What becomes of a request that needs an answer, and where that was said.
    pub consent: Option<(Consent, Source)>,
    /// Whether somebody may be there who answers; see [`Engine::attend`](crate::Engine::attend).
    pub attended: bool,
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
    /// What the managed layer says of the class: a bound on the grant.
    pub managed: Option<ManagedClass>,
}

/// A class in the managed layer. It never grants: a request passes it and the grant, or is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedClass {
    /// Its mode.
    pub mode: Mode,
    /// Where it was set.
    pub source: Source,
    /// Its allow rules.
    pub allow: Vec<RuleId>,
    /// Its deny rules.
    pub deny: Vec<RuleId>,
}

/// The operator's side, layer by layer, farthest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layers<'a> {
    /// The machine's managed configuration.
    pub managed: Option<&'a Section>,
    /// The user's configuration.
    pub user: Option<&'a Section>,
    /// The chosen profile.
    pub profile: Option<&'a Section>,
    /// Permission rules of a trusted workspace.
    pub workspace: Option<&'a Permissions>,
    /// All `--grant` objects, merged.
    pub grant: Option<&'a Grants>,
    /// `--allow` and `--deny`, in order.
    pub flags: &'a [Shorthand],
    /// `--permission`, in order.
    pub permissions: &'a [Written],
    /// `--consent`
    pub consent: Option<Consent>,
    /// The connected client, for rules about `agent:<name>`.
    pub client: Option<&'a str>,
    /// What `./` means in the built-in rules.
    pub workspace_root: Option<&'a str>,
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
        let mut classes: Vec<Class> = CLASSES.iter().filter_map(|(_, id, _)| Class::parse(id).ok()).collect();
        classes.extend(manifest.capabilities.iter().map(|c| c.class.clone()));
        classes.sort();
        classes.dedup();
        let mut policy = Self::empty(layers);
        policy.component = Some(manifest.name.clone());
        for class in classes {
            let entry = resolve_entry(&class, layers, &mut warnings);
            let capability = manifest.capabilities.iter().find(|c| c.class == class).filter(|c| c.declares());
            let declared = capability.map(|c| policy.add(c.constraints.clone().unwrap_or_default()));
            let (allow, deny) = (policy.add(entry.allow), policy.add(entry.deny));
            let managed = layers.managed.and_then(|section| section.policy.entry(&class)).cloned();
            let managed = managed.map(|entry| ManagedClass {
                mode: entry.mode,
                source: entry.source,
                allow: policy.add(entry.allow),
                deny: policy.add(entry.deny),
            });
            let (mode, source) = (entry.mode, entry.source);
            policy.classes.push(ClassPolicy { class, mode, source, declared, allow, deny, managed });
        }
        policy.add_permissions(layers);
        policy.warn_of_rules_without_host(&mut warnings);
        policy.warn_of_relaxations(&mut warnings);
        Ok((policy, warnings))
    }

    /// Resolve the permission rules for what an agent does itself.
    pub fn of_agent(layers: &Layers<'_>) -> (Self, Vec<Warning>) {
        let mut policy = Self::empty(layers);
        policy.add_permissions(layers);
        let mut warnings = Vec::new();
        policy.warn_of_relaxations(&mut warnings);
        (policy, warnings)
    }

    fn empty(layers: &Layers<'_>) -> Self {
        Self {
            rules: Vec::new(),
            component: None,
            client: layers.client.map(str::to_owned),
            classes: Vec::new(),
            permissions: Vec::new(),
            consent: consent(layers),
            attended: false,
        }
    }

    fn add(&mut self, rules: Vec<Rule>) -> Vec<RuleId> {
        rules
            .into_iter()
            .map(|rule| {
                self.rules.push(rule);
                RuleId(u32::try_from(self.rules.len() - 1).unwrap_or(u32::MAX))
            })
            .collect()
    }

    /// The rules of every layer that bind a subject of this run, and the built-in ones where nothing replaces them.
    fn add_permissions(&mut self, layers: &Layers<'_>) {
        let of = |section: Option<&Section>| section.map(|s| s.permissions.rules.clone()).unwrap_or_default();
        let mut written = of(layers.managed);
        written.extend(of(layers.user));
        written.extend(of(layers.profile));
        written.extend(layers.workspace.map(|p| p.rules.clone()).unwrap_or_default());
        written.extend(layers.permissions.iter().cloned());
        // An allow or ask for an aspect replaces what is built in for it; a deny only narrows it.
        let replaced = |aspect: Aspect| {
            let mut agent = written.iter().filter(|w| w.subject == Subject::Agent && w.aspect == aspect);
            agent.any(|w| w.answer != Answer::Deny)
        };
        let anchors = Anchors { workspace: layers.workspace_root, ..Anchors::default() };
        let built_in = Permissions::built_in(&anchors).rules.into_iter();
        // What is built in speaks for the agent. A component's files are the business of its ceiling and grant.
        let agent_alone = self.component.is_none();
        let built_in: Vec<Written> = built_in
            .filter(|w| !replaced(w.aspect) && (agent_alone || matches!(w.aspect, Aspect::Tool | Aspect::Spawn)))
            .collect();
        for Written { subject, aspect, answer, rule } in built_in.into_iter().chain(written) {
            let level = match &subject {
                Subject::Agent => Some(Level::Agent),
                Subject::Client(name) => (self.client.as_ref() == Some(name)).then_some(Level::Client),
                Subject::Component(name) => (self.component.as_ref() == Some(name)).then_some(Level::Component),
            };
            let Some(level) = level else { continue };
            for rule in self.add(vec![rule]) {
                self.permissions.push(Permission { rule, aspect, answer, level });
            }
        }
    }

    /// Add a built-in deny rule to the files; `None` where there is no such class.
    pub(crate) fn deny_folder(&mut self, path: PathPattern) -> Option<RuleId> {
        let place = self.classes.iter().position(|c| c.class == Class::filesystem())?;
        let text = path.display();
        let rule = Rule { text, source: Source::built_in(), matches: Matches::File { path, write: true } };
        let id = self.add(vec![rule]).into_iter().next()?;
        self.classes.get_mut(place)?.deny.push(id);
        Some(id)
    }

    /// Add a built-in permission rule that denies writing.
    pub(crate) fn deny_writing(&mut self, path: PathPattern) -> Option<RuleId> {
        let text = format!("write({})", path.display());
        let rule = Rule { text, source: Source::built_in(), matches: Matches::File { path, write: true } };
        let id = self.add(vec![rule]).into_iter().next()?;
        let (aspect, answer, level) = (Aspect::Write, Answer::Deny, Level::Agent);
        self.permissions.push(Permission { rule: id, aspect, answer, level });
        Some(id)
    }

    /// The rule of an id.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.0 as usize)
    }

    /// The permission rule of an id, if it is one.
    pub fn permission(&self, id: RuleId) -> Option<&Permission> {
        let place = self.permissions.binary_search_by_key(&id, |p| p.rule).ok()?;
        self.permissions.get(place)
    }

    /// The effective policy of a class.
    pub fn class(&self, class: &Class) -> Option<&ClassPolicy> {
        self.classes.iter().find(|c| c.class == *class)
    }

    /// The subject whose doings are judged.
    pub fn subject(&self) -> Subject {
        match (&self.component, &self.client) {
            (Some(component), _) => Subject::Component(component.clone()),
            (None, Some(client)) => Subject::Client(client.clone()),
            (None, None) => Subject::Agent,
        }
    }

    /// Whether what asks is refused without asking, because somebody said so.
    pub fn never_asks(&self) -> bool {
        matches!(self.consent, Some((Consent::Never, _)))
    }

    /// Whether anything at all may be asked about.
    pub fn asks(&self) -> bool {
        let mode = |class: &ClassPolicy| {
            class.declared.is_some()
                && (class.mode == Mode::Ask || class.managed.as_ref().is_some_and(|m| m.mode == Mode::Ask))
        };
        self.classes.iter().any(mode) || self.permissions.iter().any(|p| p.answer == Answer::Ask)
    }

    /// Whether what asks waits for an answer, where it does not pass without one.
    pub fn may_ask(&self) -> bool {
        self.attended && !self.never_asks()
    }

    /// Whether this verdict lets a request pass: allowed, or asked about where asking is waived.
    pub fn passes(&self, verdict: &Verdict) -> bool {
        match verdict.decision {
            Decision::Allow => true,
            Decision::Ask => self.asks_pass() && verdict.reason != Reason::ManagedAsk,
            Decision::Deny => false,
        }
    }

    /// Whether what asks passes without an answer, unless the managed layer asks.
    pub fn asks_pass(&self) -> bool {
        matches!(self.consent, Some((Consent::Always, _)))
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

    /// Whether the declaration is the whole class.
    pub(crate) fn declares_all(&self) -> bool {
        let whole = matches!(self.class.kind(), Kind::Semantic | Kind::Credentials);
        whole && self.declared.as_ref().is_some_and(Vec::is_empty)
    }
}

/// The closest layer that speaks of consent, but never wider than the managed one.
fn consent(layers: &Layers<'_>) -> Option<(Consent, Source)> {
    let flag = layers.consent.map(|consent| (consent, Source::command_line(&format!("--consent {consent}"))));
    let of = |section: Option<&Section>| section.and_then(|s| s.consent.clone());
    let chosen = flag.or_else(|| of(layers.profile)).or_else(|| of(layers.user));
    match (chosen, of(layers.managed)) {
        (Some(chosen), Some(managed)) => Some(if managed.0 < chosen.0 { managed } else { chosen }),
        // Nobody chose: what is usual holds, unless the managed layer is narrower.
        (None, Some(managed)) if managed.0 == Consent::Never => Some(managed),
        (chosen, _) => chosen,
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
    let below = || [layers.profile, layers.user].into_iter().flatten().find_map(|s| s.policy.entry(class));
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
