//! The compiled policy and its one decision function.

use crate::class::{Class, Kind, Mode};
use crate::file_set::{FileMatch, FileSet};
use crate::host::{Host, effective_address, embedded_ipv4};
use crate::pattern::{PatternError, key_glob};
use crate::policy::{ClassPolicy, Policy};
use crate::request::{Access, Decision, Protocol, Reason, Request, RuleId, Verdict};
use crate::rule::{Matches, Target};
use globset::GlobMatcher;
use ipnet::{IpNet, Ipv4Net};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// A policy that is ready to decide.
///
/// Deciding does no I/O, never panics, and an internal inconsistency denies.
#[derive(Debug)]
pub struct Engine {
    policy: Policy,
    files: Files,
    /// The globs of rules over dimensions.
    dimensions: HashMap<RuleId, Vec<(String, GlobMatcher)>>,
}

#[derive(Debug)]
struct Files {
    declared: FileSet,
    allow: FileSet,
    deny: FileSet,
}

/// One end of a connection, as the rules see it: a single address, or a whole range when tables are lowered.
#[derive(Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) range: IpNet,
    /// The IPv4 address that the address embeds: it can only be denied by it.
    pub(crate) embedded: Option<Ipv4Net>,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    pub(crate) names: &'a [String],
}

impl Engine {
    /// Compile a policy.
    pub fn compile(policy: Policy) -> Result<Self, PatternError> {
        let class = policy.class(&Class::filesystem());
        let set = |ids: &[RuleId]| FileSet::new(ids.iter().filter_map(|id| policy.rule(*id).map(|rule| (*id, rule))));
        let files = match class {
            Some(class) => Files {
                declared: set(class.declared.as_deref().unwrap_or_default())?,
                allow: set(&class.allow)?,
                deny: set(&class.deny)?,
            },
            None => Files { declared: set(&[])?, allow: set(&[])?, deny: set(&[])? },
        };
        let mut dimensions = HashMap::new();
        for (id, rule) in (0..).map(RuleId).zip(&policy.rules) {
            if let Matches::Dimensions(rules) = &rule.matches {
                let globs = rules.iter().map(|(name, glob)| Ok((name.clone(), key_glob(glob)?.compile_matcher())));
                dimensions.insert(id, globs.collect::<Result<_, PatternError>>()?);
            }
        }
        Ok(Self { policy, files, dimensions })
    }

    /// The policy behind the decisions.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decide.
    pub fn decide(&self, request: &Request) -> Verdict {
        match request {
            Request::File { access, path } => self.file(*access, path),
            Request::Connect { addr, protocol, names } => self.connect(*addr, *protocol, names),
            // No rule can grant listening yet: a rule names where a component may connect to.
            Request::Bind { .. } | Request::Listen { .. } => {
                let declared = self.policy.class(&Class::sockets()).is_some_and(|c| c.declared.is_some());
                Verdict::deny(if declared { Reason::NotGranted } else { Reason::OutsideCeiling })
            }
            Request::Lookup { class, host } => self.lookup(class, host),
            Request::Http { method, scheme, host, port, address } => self.http(method, scheme, host, *port, *address),
            Request::Credential { .. } => match self.policy.class(&Class::credentials()) {
                Some(class) => judge(class, |_, _| false),
                None => Verdict::deny(Reason::OutsideCeiling),
            },
            Request::Consent { class, key, arguments } => self.consent(class, key, arguments),
        }
    }

    /// The class that a request belongs to.
    pub fn class_of(request: &Request) -> Class {
        match request {
            Request::File { .. } => Class::filesystem(),
            Request::Http { .. } => Class::http(),
            Request::Connect { .. } | Request::Bind { .. } | Request::Listen { .. } => Class::sockets(),
            Request::Lookup { class, .. } => class.clone(),
            Request::Credential { .. } => Class::credentials(),
            Request::Consent { class, .. } => Class::announced(class),
        }
    }

    /// Whether a name may be shown in a listing.
    pub fn visible(&self, path: &[u8]) -> bool {
        self.file(Access::Stat, path).decision != Decision::Deny
    }

    /// Whether all below a directory may be written and nothing below it is denied: only such a directory may be
    /// renamed, for a rename carries what is below it to where other rules hold.
    pub fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        let Some(path) = canonical(path) else { return false };
        let Some(class) = self.policy.class(&Class::filesystem()) else { return false };
        let granted = match class.mode {
            Mode::Open => true,
            Mode::Allowlist => self.files.allow.covers_subtree(path),
            Mode::Deny | Mode::Ask => false,
        };
        granted && self.files.declared.covers_subtree(path) && !self.files.deny.touches(path)
    }

    fn file(&self, access: Access, path: &[u8]) -> Verdict {
        let Some(class) = self.policy.class(&Class::filesystem()) else { return Verdict::deny(Reason::OutsideCeiling) };
        let Some(path) = canonical(path) else { return Verdict::deny(Reason::Malformed) };
        if class.declared.is_none() {
            return Verdict::deny(Reason::OutsideCeiling);
        }
        let write = access == Access::Write;
        let reach = |m: FileMatch| match m {
            FileMatch::Full(rule) => Some(Some(rule)),
            FileMatch::Ancestor if access == Access::Stat => Some(None),
            FileMatch::Ancestor | FileMatch::None => None,
        };
        let Some(ceiling) = reach(self.files.declared.find(path, write)) else {
            return Verdict::deny(Reason::OutsideCeiling);
        };
        if let FileMatch::Full(rule) = self.files.deny.find(path, false) {
            return denied_by(rule);
        }
        let grant = match class.mode {
            Mode::Deny => return Verdict::deny(Reason::NotGranted),
            Mode::Open => ceiling,
            Mode::Ask if class.allow.is_empty() => ceiling,
            Mode::Ask | Mode::Allowlist => match reach(self.files.allow.find(path, write)) {
                Some(grant) => grant,
                None => return Verdict::deny(Reason::NotGranted),
            },
        };
        match (ceiling, grant) {
            (Some(_), Some(rule)) if class.mode == Mode::Ask => ask(rule),
            (Some(_), Some(rule)) => allowed(rule),
            _ => Verdict { decision: Decision::Allow, reason: Reason::Ancestor, rule: None },
        }
    }

    fn connect(&self, addr: SocketAddr, protocol: Protocol, names: &[String]) -> Verdict {
        if addr.port() == 0 {
            return Verdict::deny(Reason::Malformed);
        }
        // Rules hold canonical names; the caller may have kept the spelling of the guest.
        let canonical = |name: &String| match Host::parse(name) {
            Ok(Host::Name(name)) => Some(name),
            Ok(Host::Address(_)) | Err(_) => None,
        };
        let names: Vec<String> = names.iter().filter_map(canonical).collect();
        self.peer(&single(addr.ip(), addr.port(), protocol, &names))
    }

    /// The decision about a connection; also what the kernel tables are computed from.
    pub(crate) fn peer(&self, peer: &Peer<'_>) -> Verdict {
        let Some(class) = self.policy.class(&Class::sockets()) else { return Verdict::deny(Reason::OutsideCeiling) };
        judge(class, |id, deny| match self.policy.rule(id).map(|r| &r.matches) {
            Some(Matches::Socket { target, ports, protocols }) => {
                ports.contains(peer.port)
                    && (protocols.is_empty() || protocols.contains(&peer.protocol))
                    && reaches(target, peer, deny)
            }
            _ => false,
        })
    }

    fn lookup(&self, class: &Class, host: &str) -> Verdict {
        let Ok(Host::Name(name)) = Host::parse(host) else { return Verdict::deny(Reason::Malformed) };
        let Some(class) = self.policy.class(class) else { return Verdict::deny(Reason::OutsideCeiling) };
        judge(class, |id, deny| match self.policy.rule(id).map(|r| &r.matches) {
            Some(Matches::Socket { target, ports, protocols }) => {
                // A deny of some ports or one protocol leaves the name itself to be looked up.
                let whole = ports.only.is_empty() && ports.except.is_empty() && protocols.is_empty();
                (!deny || whole) && names_target(target, &name)
            }
            Some(Matches::Http { target, scheme, methods, ports }) => {
                let whole = ports.only.is_empty() && ports.except.is_empty() && methods.is_empty() && scheme.is_none();
                (!deny || whole) && target.as_ref().is_some_and(|target| names_target(target, &name))
            }
            _ => false,
        })
    }

    fn http(&self, method: &str, scheme: &str, host: &str, port: u16, address: Option<IpAddr>) -> Verdict {
        let Ok(host) = Host::parse(host) else { return Verdict::deny(Reason::Malformed) };
        let Some(class) = self.policy.class(&Class::http()) else { return Verdict::deny(Reason::OutsideCeiling) };
        let in_range =
            |target: &Target, address: IpAddr, deny| reaches(target, &single(address, port, Protocol::Tcp, &[]), deny);
        judge(class, |id, deny| match self.policy.rule(id).map(|r| &r.matches) {
            Some(Matches::Http { target, scheme: only, methods, ports }) => {
                let there = match (target, &host) {
                    (None, _) => deny,
                    (Some(target), Host::Address(literal)) => in_range(target, *literal, deny),
                    (Some(target), Host::Name(name)) => {
                        // What a name resolves to can be denied by a range; it is allowed by its name alone.
                        names_target(target, name) || deny && address.is_some_and(|a| in_range(target, a, true))
                    }
                };
                there
                    && ports.contains(port)
                    && only.as_deref().is_none_or(|s| s == scheme)
                    && (methods.is_empty() || methods.iter().any(|m| m == method))
            }
            _ => false,
        })
    }

    fn consent(&self, class: &str, key: &str, arguments: &[(String, String)]) -> Verdict {
        let class = Class::announced(class);
        if class.kind() != Kind::Semantic {
            return Verdict::deny(Reason::NotSemantic);
        }
        let Some(class) = self.policy.class(&class) else { return Verdict::deny(Reason::OutsideCeiling) };
        let value = |dimension: &str| match dimension {
            "key" => Some(key),
            other => arguments.iter().find(|(name, _)| name == other).map(|(_, value)| value.as_str()),
        };
        judge(class, |id, deny| match self.dimensions.get(&id) {
            // A dimension that was not sent never satisfies an allow, and counts as a match of a deny.
            Some(globs) => globs.iter().all(|(name, glob)| value(name).map_or(deny, |value| glob.is_match(value))),
            None => false,
        })
    }
}

/// The order that every class but files shares: ceiling, deny rules, mode. (Files have ancestors besides.)
pub(crate) fn judge(class: &ClassPolicy, matches: impl Fn(RuleId, bool) -> bool) -> Verdict {
    let find = |ids: &[RuleId], deny: bool| ids.iter().copied().find(|id| matches(*id, deny));
    let Some(declared) = class.declared.as_deref() else { return Verdict::deny(Reason::OutsideCeiling) };
    let whole = declared.is_empty() && matches!(class.class.kind(), Kind::Semantic | Kind::Credentials);
    let ceiling = find(declared, false);
    if ceiling.is_none() && !whole {
        return Verdict::deny(Reason::OutsideCeiling);
    }
    if let Some(rule) = find(&class.deny, true) {
        return denied_by(rule);
    }
    let rule = match class.mode {
        Mode::Deny => return Verdict::deny(Reason::NotGranted),
        Mode::Open => ceiling,
        Mode::Ask if class.allow.is_empty() => ceiling,
        Mode::Ask | Mode::Allowlist => match find(&class.allow, false) {
            Some(rule) => Some(rule),
            None => return Verdict::deny(Reason::NotGranted),
        },
    };
    let (decision, reason) = match class.mode {
        Mode::Ask => (Decision::Ask, Reason::AskMode),
        _ => (Decision::Allow, Reason::Allowed),
    };
    Verdict { decision, reason, rule }
}

const fn allowed(rule: RuleId) -> Verdict {
    Verdict { decision: Decision::Allow, reason: Reason::Allowed, rule: Some(rule) }
}
const fn ask(rule: RuleId) -> Verdict {
    Verdict { decision: Decision::Ask, reason: Reason::AskMode, rule: Some(rule) }
}
const fn denied_by(rule: RuleId) -> Verdict {
    Verdict { decision: Decision::Deny, reason: Reason::DeniedByRule, rule: Some(rule) }
}

/// The path without the root's slash, if it is one that a kernel could have resolved.
fn canonical(path: &[u8]) -> Option<&[u8]> {
    if path == b"/" {
        return Some(&[]);
    }
    let below = path.strip_prefix(b"/")?;
    let fine = |c: &[u8]| !c.is_empty() && c != b"." && c != b".." && !c.contains(&0);
    below.split(|b| *b == b'/').all(fine).then_some(path)
}

/// A single address as a [`Peer`].
pub(crate) fn single(address: IpAddr, port: u16, protocol: Protocol, names: &[String]) -> Peer<'_> {
    let address = effective_address(address);
    let embedded = match address {
        IpAddr::V6(v6) => embedded_ipv4(v6).map(Ipv4Net::from),
        IpAddr::V4(_) => None,
    };
    Peer { range: IpNet::from(address), embedded, port, protocol, names }
}

pub(crate) fn reaches(target: &Target, peer: &Peer<'_>, deny: bool) -> bool {
    match target {
        Target::Range(net) => {
            net.contains(&peer.range) || deny && peer.embedded.is_some_and(|v4| net.contains(&IpNet::V4(v4)))
        }
        Target::Any => true,
        Target::Name(_) | Target::Suffix(_) => peer.names.iter().any(|name| names_target(target, name)),
    }
}

/// Whether a target covers a canonical name.
pub(crate) fn names_target(target: &Target, name: &str) -> bool {
    match target {
        Target::Any => true,
        Target::Name(n) => n == name,
        Target::Suffix(suffix) => {
            name == suffix || name.strip_suffix(suffix.as_str()).is_some_and(|head| head.ends_with('.'))
        }
        Target::Range(_) => false,
    }
}
