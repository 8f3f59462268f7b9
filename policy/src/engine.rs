//! The compiled policy and its one decision function.
//!
//! A request is looked up once in the indexes, which tell the matching rule of every list ([`Hits`]). What the lists say
//! is then judged by four gates: the component's ceiling, the managed layer, the grant, and the permission rules. All
//! have to let it pass; [`Engine::decide`] and everything that explains are views of that [`Judgement`].

use crate::class::{Class, Kind};
use crate::gates::{Judgement, Strict};
use crate::glob::KeyGlob;
use crate::host::{Host, canonical_name, mapped_literal};
use crate::index::files::{FileIndex, Speaks};
use crate::index::net::{NetIndex, NetKind, NetQuery, forms};
use crate::index::tools::ToolIndex;
use crate::index::{Hits, List, Listed};
use crate::pattern::{PathPattern, PatternError, key_glob};
use crate::permission::{Answer, Aspect, Level};
use crate::plan::Subtree;
use crate::policy::{ClassPolicy, Policy};
use crate::request::{Access, Decision, Protocol, Reason, Request, RuleId, Verdict};
use crate::rule::Matches;
use crate::source::Layer;
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// A policy that is ready to decide.
///
/// Deciding does no I/O, never panics, and an internal inconsistency denies.
#[derive(Debug)]
pub struct Engine {
    policy: Policy,
    pub(crate) files: FileIndex,
    pub(crate) net: NetIndex,
    tools: ToolIndex,
    /// Rules over keys, commands and placements: few, and tried one by one.
    others: Vec<Other>,
    /// The globs of rules over dimensions.
    dimensions: HashMap<RuleId, (Listed, Vec<(String, KeyGlob)>)>,
    pub(crate) strict: Strict,
    classes: Classes,
}

/// Where the policy of each physical class stands.
#[derive(Clone, Copy, Debug)]
struct Classes {
    files: Option<usize>,
    http: Option<usize>,
    sockets: Option<usize>,
    credentials: Option<usize>,
}

#[derive(Debug)]
struct Other {
    listed: Listed,
    matches: Words,
}

#[derive(Debug)]
enum Words {
    Key(KeyGlob),
    Command(Vec<KeyGlob>),
    Placement(Option<String>),
}

impl Engine {
    /// Compile a policy.
    pub fn compile(policy: Policy) -> Result<Self, PatternError> {
        let mut files = FileIndex::default();
        let mut tools = ToolIndex::default();
        let mut net = Vec::new();
        let mut others = Vec::new();
        let mut dimensions = HashMap::new();
        for (list, id, aspect) in listed(&policy) {
            let Some(rule) = policy.rule(id) else { continue };
            let listed = Listed { list, rule: id, rank: rule.source.layer as u8 };
            match &rule.matches {
                Matches::File { path, write } => {
                    let speaks = match (list, aspect) {
                        (_, Some(_)) => Speaks { reads: !write, writes: *write },
                        (List::Deny | List::ManagedDeny, None) => Speaks::BOTH,
                        (_, None) => Speaks { reads: true, writes: *write },
                    };
                    files.add(listed, speaks, path)?;
                }
                Matches::Tool { component, tool } => tools.add(listed, component, tool)?,
                Matches::Dimensions(rules) => {
                    let globs = rules.iter().map(|(name, glob)| Ok((name.clone(), key_glob(glob)?)));
                    dimensions.insert(id, (listed, globs.collect::<Result<_, PatternError>>()?));
                }
                Matches::Key(glob) => {
                    others.push(Other { listed, matches: Words::Key(key_glob(glob)?) });
                }
                Matches::Command(words) => {
                    let globs = words.iter().map(|word| key_glob(word));
                    let globs = globs.collect::<Result<_, PatternError>>()?;
                    others.push(Other { listed, matches: Words::Command(globs) });
                }
                Matches::Ui(place) => others.push(Other { listed, matches: Words::Placement(place.clone()) }),
                network @ (Matches::Socket { .. } | Matches::Http { .. } | Matches::Host { .. }) => {
                    net.push((listed, network.clone()));
                }
            }
        }
        let place = |class: Class| policy.classes.iter().position(|c| c.class == class);
        let classes = Classes {
            files: place(Class::filesystem()),
            http: place(Class::http()),
            sockets: place(Class::sockets()),
            credentials: place(Class::credentials()),
        };
        let strict = Strict::new(&policy);
        Ok(Self { files, net: NetIndex::new(net.into_iter()), tools, others, dimensions, strict, classes, policy })
    }

    /// The policy behind the decisions.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Deny a folder of the host program itself, with all below it.
    pub fn deny_folder(&mut self, folder: Vec<u8>) -> Result<(), PatternError> {
        let pattern = PathPattern { head: folder, tail: String::new() };
        let Some(rule) = self.policy.deny_folder(pattern.clone()) else { return Ok(()) };
        let listed = Listed { list: List::Deny, rule, rank: Layer::BuiltIn as u8 };
        self.files.add(listed, Speaks::BOTH, &pattern)
    }

    /// Deny writing to a folder or file that the host program relies on, with all below it.
    pub fn deny_writing(&mut self, folder: Vec<u8>) -> Result<(), PatternError> {
        let pattern = PathPattern { head: folder, tail: String::new() };
        let Some(rule) = self.policy.deny_writing(pattern.clone()) else { return Ok(()) };
        let list = List::Permission(Level::Agent, Answer::Deny);
        let listed = Listed { list, rule, rank: Layer::BuiltIn as u8 };
        self.files.add(listed, Speaks { reads: false, writes: true }, &pattern)
    }

    /// Somebody may be there to answer: what asks is kept open for an answer, where the kernel's layers cannot be widened
    /// later. Decisions stay what they are.
    pub fn attend(&mut self) {
        self.policy.attended = true;
    }

    /// The subtrees that the kernel has to open for a component.
    pub fn subtrees(&self) -> Vec<Subtree> {
        crate::plan::subtrees(self)
    }

    /// Decide.
    pub fn decide(&self, request: &Request) -> Verdict {
        self.judge(request).verdict
    }

    /// Decide, and tell what each gate said.
    pub fn judge(&self, request: &Request) -> Judgement {
        let refused = |reason| Judgement::refused(Verdict::deny(reason));
        match request {
            Request::File { access, path } => match canonical(path) {
                Some(path) => self.file(*access, path),
                None => refused(Reason::Malformed),
            },
            Request::Connect { addr, protocol, names } => self.connect(*addr, *protocol, names),
            // No rule can grant listening yet: a rule names where a component may connect to.
            Request::Bind { .. } | Request::Listen { .. } => {
                let declared = self.class(self.classes.sockets).is_some_and(|c| c.declared.is_some());
                refused(if declared { Reason::NotGranted } else { Reason::OutsideCeiling })
            }
            Request::Lookup { class, host } => self.lookup(class, host),
            Request::Http { method, scheme, host, port, address } => self.http(method, scheme, host, *port, *address),
            Request::Net { host, port } => self.any_network(host, *port),
            Request::Credential { key } => {
                let hits = self.words(|words| matches!(words, Words::Key(glob) if glob.matches(key)));
                self.granted(self.classes.credentials, Aspect::Creds, &hits, false)
            }
            Request::Consent { class, key, arguments } => self.consent(class, key, arguments),
            Request::Tool { component, tool } => self.permitted(Aspect::Tool, &self.tools.find(component, tool)),
            Request::Spawn { program, words } => self.spawn(program, words),
            Request::Ui { placement } => self.ui(placement),
        }
    }

    /// The class that a request belongs to.
    pub fn class_of(request: &Request) -> Class {
        match request {
            Request::File { .. } => Class::filesystem(),
            Request::Http { .. } | Request::Net { .. } => Class::http(),
            Request::Connect { .. } | Request::Bind { .. } | Request::Listen { .. } => Class::sockets(),
            Request::Lookup { class, .. } => class.clone(),
            Request::Credential { .. } => Class::credentials(),
            Request::Consent { class, .. } => Class::announced(class),
            Request::Tool { .. } => Class::announced("tool"),
            Request::Spawn { .. } => Class::announced("spawn"),
            Request::Ui { .. } => Class::announced("ui"),
        }
    }

    /// Whether a name may be shown in a listing.
    pub fn visible(&self, path: &[u8]) -> bool {
        canonical(path).is_some_and(|path| self.file(Access::Stat, path).verdict.decision != Decision::Deny)
    }

    /// Whether all below a directory may be written and nothing below it is denied: only such a directory may be
    /// renamed, for a rename carries what is below it to where other rules hold.
    pub fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        let Some(path) = canonical(path) else { return false };
        let Some(class) = self.class(self.classes.files) else { return false };
        self.subtree_holds(class, path)
    }

    fn class(&self, place: Option<usize>) -> Option<&ClassPolicy> {
        self.policy.classes.get(place?)
    }

    /// What the gates say of a request of a class. An agent's own doings have no grant.
    fn granted(&self, class: Option<usize>, aspect: Aspect, hits: &Hits, stat: bool) -> Judgement {
        if self.policy.component.is_none() {
            return self.permitted(aspect, hits);
        }
        match self.class(class) {
            Some(class) => Judgement::new(Some(class), Some(aspect), self.strict, hits, stat),
            None => Judgement::refused(Verdict::deny(Reason::OutsideCeiling)),
        }
    }

    /// What the permission rules alone say.
    fn permitted(&self, aspect: Aspect, hits: &Hits) -> Judgement {
        Judgement::new(None, Some(aspect), self.strict, hits, false)
    }

    fn file(&self, access: Access, path: &[u8]) -> Judgement {
        let write = access == Access::Write;
        let hits = self.files.find(path, write);
        let aspect = if write { Aspect::Write } else { Aspect::Read };
        self.granted(self.classes.files, aspect, &hits, access == Access::Stat)
    }

    fn connect(&self, addr: SocketAddr, protocol: Protocol, names: &[String]) -> Judgement {
        if addr.port() == 0 {
            return Judgement::refused(Verdict::deny(Reason::Malformed));
        }
        // Rules hold canonical names; the caller may have kept the spelling of the guest.
        let names: Vec<Cow<'_, str>> = names.iter().filter_map(|name| canonical_name(name)).collect();
        let (range, embedded) = forms(addr.ip());
        let kind = NetKind::Socket(Some(protocol));
        let (range, port) = (Some(range), Some(addr.port()));
        self.sockets(&NetQuery { kind, range, literal: true, mapped: false, embedded, port, names: &names })
    }

    /// The judgement about a connection; also what the kernel tables are computed from.
    pub(crate) fn sockets(&self, query: &NetQuery<'_>) -> Judgement {
        self.granted(self.classes.sockets, Aspect::Net, &self.net.find(query), false)
    }

    /// The same for HTTP.
    pub(crate) fn requests(&self, query: &NetQuery<'_>) -> Judgement {
        self.granted(self.classes.http, Aspect::Net, &self.net.find(query), false)
    }

    fn lookup(&self, class: &Class, host: &str) -> Judgement {
        let Some(name) = canonical_name(host) else {
            return Judgement::refused(Verdict::deny(Reason::Malformed));
        };
        let names = [name];
        let query = |kind| NetQuery {
            kind,
            range: None,
            literal: false,
            mapped: false,
            embedded: None,
            port: None,
            names: &names,
        };
        match class.kind() {
            Kind::Sockets => self.sockets(&query(NetKind::Socket(None))),
            Kind::Http => self.requests(&query(NetKind::Http(None))),
            _ => Judgement::refused(Verdict::deny(Reason::Malformed)),
        }
    }

    fn http(&self, method: &str, scheme: &str, host: &str, port: u16, address: Option<IpAddr>) -> Judgement {
        let kind = NetKind::Http(Some((method, scheme)));
        let (names, literal, address) = match Host::parse(host) {
            Ok(Host::Address(literal)) => (Vec::new(), true, Some(literal)),
            // What a name resolves to can be denied by a range; it is allowed by its name alone.
            Ok(Host::Name(name)) => (vec![Cow::Owned(name)], false, address),
            Err(_) => return Judgement::refused(Verdict::deny(Reason::Malformed)),
        };
        let forms = address.map(forms);
        let (range, embedded) = (forms.map(|(range, _)| range), forms.and_then(|(_, embedded)| embedded));
        let mapped = mapped_literal(host).is_some();
        self.requests(&NetQuery { kind, range, literal, mapped, embedded, port: Some(port), names: &names })
    }

    fn any_network(&self, host: &str, port: Option<u16>) -> Judgement {
        let (names, forms) = match Host::parse(host) {
            Ok(Host::Address(literal)) => (Vec::new(), Some(forms(literal))),
            Ok(Host::Name(name)) => (vec![Cow::Owned(name)], None),
            Err(_) => return Judgement::refused(Verdict::deny(Reason::Malformed)),
        };
        let (range, embedded) = (forms.map(|(range, _)| range), forms.and_then(|(_, embedded)| embedded));
        let kind = NetKind::Any;
        let query = NetQuery { kind, range, literal: true, mapped: false, embedded, port, names: &names };
        self.permitted(Aspect::Net, &self.net.find(&query))
    }

    fn consent(&self, class: &str, key: &str, arguments: &[(String, String)]) -> Judgement {
        let class = Class::announced(class);
        if class.kind() != Kind::Semantic {
            return Judgement::refused(Verdict::deny(Reason::NotSemantic));
        }
        let Some(class) = self.policy.class(&class) else {
            return Judgement::refused(Verdict::deny(Reason::OutsideCeiling));
        };
        let value = |dimension: &str| match dimension {
            "key" => Some(key),
            other => arguments.iter().find(|(name, _)| name == other).map(|(_, value)| value.as_str()),
        };
        let mut hits = Hits::default();
        let managed = class.managed.iter().flat_map(|m| m.allow.iter().chain(&m.deny));
        let rules = class.declared.iter().flatten().chain(&class.allow).chain(&class.deny).chain(managed);
        for (listed, globs) in rules.filter_map(|id| self.dimensions.get(id)) {
            // A dimension that was not sent never satisfies an allow, and counts as a match of a deny.
            let missing = listed.list.narrows();
            if globs.iter().all(|(name, glob)| value(name).map_or(missing, |value| glob.matches(value))) {
                hits.add(*listed);
            }
        }
        Judgement::new(Some(class), None, self.strict, &hits, false)
    }

    fn words(&self, matches: impl Fn(&Words) -> bool) -> Hits {
        let mut hits = Hits::default();
        for other in self.others.iter().filter(|other| matches(&other.matches)) {
            hits.add(other.listed);
        }
        hits
    }

    fn spawn(&self, program: &str, words: &[String]) -> Judgement {
        let name = program.rsplit('/').next().unwrap_or(program);
        let hits = self.words(|rule| {
            let Words::Command(globs) = rule else { return false };
            let mut globs = globs.iter();
            let by_name = globs.next().is_none_or(|glob| glob.matches(name) || glob.matches(program));
            // A rule is about the words that it names; more may follow.
            by_name && globs.len() <= words.len() && globs.zip(words).all(|(glob, word)| glob.matches(word))
        });
        self.permitted(Aspect::Spawn, &hits)
    }

    fn ui(&self, placement: &str) -> Judgement {
        let hits = self.words(|rule| match rule {
            Words::Placement(place) => place.as_deref().is_none_or(|place| place == placement),
            Words::Key(_) | Words::Command(_) => false,
        });
        self.permitted(Aspect::Ui, &hits)
    }
}

/// Every rule with its list.
fn listed(policy: &Policy) -> impl Iterator<Item = (List, RuleId, Option<Aspect>)> {
    let of = |list: List, ids: &[RuleId]| ids.iter().map(move |id| (list, *id, None)).collect::<Vec<_>>();
    let classes = policy.classes.iter().flat_map(move |class| {
        let mut rules = of(List::Declared, class.declared.as_deref().unwrap_or_default());
        rules.extend(of(List::Allow, &class.allow));
        rules.extend(of(List::Deny, &class.deny));
        if let Some(managed) = &class.managed {
            rules.extend(of(List::ManagedAllow, &managed.allow));
            rules.extend(of(List::ManagedDeny, &managed.deny));
        }
        rules
    });
    let permissions = policy.permissions.iter().map(|p| (List::Permission(p.level, p.answer), p.rule, Some(p.aspect)));
    classes.chain(permissions)
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
