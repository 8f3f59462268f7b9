//! Typed rules, and the one reader of constraints for grants, configuration and manifests.

use crate::class::{Class, Kind};
use crate::host::{Host, mapped_literal};
use crate::node::{Node, NodeError, Value};
use crate::pattern::{PathPattern, key_glob};
use crate::request::Protocol;
use crate::source::Source;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};

/// Most constraints that one list may hold.
const MAX_RULES: usize = 100_000;
/// Most bytes that the globs of a component's declaration may take: who wrote it is not trusted.
pub(crate) const MAX_DECLARED: usize = 4 << 20;

/// A rule with the place that it was written at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// As it was written, in one line, for people.
    pub text: String,
    /// Where.
    pub source: Source,
    /// What it matches.
    pub matches: Matches,
}

/// What a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Matches {
    /// Files.
    File {
        /// Which paths.
        path: PathPattern,
        /// Whether writing is included; a deny refuses both whatever this says.
        write: bool,
    },
    /// Connections.
    Socket {
        /// Where to.
        target: Target,
        /// On which ports.
        ports: Ports,
        /// With which protocols; empty: any.
        protocols: Vec<Protocol>,
    },
    /// HTTP requests.
    Http {
        /// Where to; `None` only in rules that grant nothing.
        target: Option<Target>,
        /// `http` or `https`; `None`: both.
        scheme: Option<String>,
        /// Methods in upper case; empty: any.
        methods: Vec<String>,
        /// On which ports.
        ports: Ports,
    },
    /// Actions of a semantic class, by their dimensions.
    Dimensions(Vec<(String, String)>),
    /// Permission rule `net`: connections, look-ups and HTTP requests.
    Host {
        /// Where to.
        target: Target,
        /// On which port; `None`: any.
        port: Option<u16>,
    },
    /// Permission rule `creds`: a glob over keys.
    Key(String),
    /// Permission rule `tool`: globs over the component's name and the tool's.
    Tool {
        /// The component.
        component: String,
        /// The tool.
        tool: String,
    },
    /// Permission rule `spawn`: globs over the words of a command, the program first. More words may follow.
    Command(Vec<String>),
    /// Permission rule `ui`: a placement; `None`: any.
    Ui(Option<String>),
}

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// `*`
    Any,
    /// A name.
    Name(String),
    /// `*.suffix`: the suffix itself and all below it.
    Suffix(String),
    /// A literal address or a range.
    Range(IpNet),
    /// An IPv4 address that an HTTP request spells as IPv4-mapped IPv6 (RFC 4291 §2.5.5.2), in a rule that allows. It is
    /// the same place as the IPv4 address and another host: what a rule for the one allows, the other does not get.
    Mapped(Ipv4Addr),
}

/// Ports of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The ports; empty: any.
    pub only: Vec<u16>,
    /// Ports carved back out.
    pub except: Vec<u16>,
}

impl Ports {
    /// Whether every port is among them.
    pub fn is_any(&self) -> bool {
        self.only.is_empty() && self.except.is_empty()
    }

    /// Whether a port is among them.
    pub fn contains(&self, port: u16) -> bool {
        (self.only.is_empty() || self.only.contains(&port)) && !self.except.contains(&port)
    }
}

impl Target {
    /// Parse `*`, `*.suffix`, a name or a literal address.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(suffix) = text.strip_prefix("*.") {
            return match Host::parse(suffix) {
                Ok(Host::Name(name)) => Ok(Self::Suffix(name)),
                Ok(Host::Address(_)) => Err(format!("`{text}`: a wildcard before an address")),
                Err(e) => Err(format!("`{}`: {e}", text.escape_debug())),
            };
        }
        if text.contains('*') {
            return Err(format!("`{}`: only a leading `*.` is a wildcard, as in *.example.com", text.escape_debug()));
        }
        match Host::parse(text) {
            Ok(Host::Name(name)) => Ok(Self::Name(name)),
            Ok(Host::Address(address)) => Ok(Self::Range(IpNet::from(address))),
            Err(e) => Err(format!("`{}`: {e}", text.escape_debug())),
        }
    }

    /// The same as an HTTP rule that allows means it, for the host as it was written.
    pub(crate) fn spelled(self, host: &str) -> Self {
        mapped_literal(host).map_or(self, Self::Mapped)
    }

    /// Parse a CIDR; bits below the prefix must be zero.
    pub fn parse_cidr(text: &str) -> Result<Self, String> {
        let net: IpNet = text.parse().map_err(|_| format!("`{}` is not a CIDR", text.escape_debug()))?;
        if net.trunc() != net {
            return Err(format!("`{net}` has bits below its prefix; write {}", net.trunc()));
        }
        Ok(Self::Range(canonical_range(net)))
    }
}

/// A range of IPv4-mapped addresses is the IPv4 range.
fn canonical_range(net: IpNet) -> IpNet {
    if let IpNet::V6(v6) = net
        && v6.prefix_len() >= 96
        && let Some(v4) = v6.network().to_ipv4_mapped()
        && let Ok(v4) = ipnet::Ipv4Net::new(v4, v6.prefix_len() - 96)
    {
        return IpNet::V4(v4);
    }
    net
}

/// How paths without a leading slash are anchored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anchors<'a> {
    /// The home directory, absolute; `None` refuses `~/`.
    pub home: Option<&'a str>,
    /// The directory that relative paths join; `None` refuses them.
    pub directory: Option<&'a str>,
    /// The directory that `./` of a permission rule means; `None` refuses it.
    pub workspace: Option<&'a str>,
    /// Whether a leading `**` is anchored at the root (manifests).
    pub stars_at_root: bool,
}

impl Anchors<'_> {
    /// Read a path pattern.
    pub fn pattern(&self, text: &str) -> Result<PathPattern, String> {
        if text == "~" || text.starts_with("~/") {
            let home =
                self.home.ok_or_else(|| format!("`{}`: no home directory is known (set HOME)", text.escape_debug()))?;
            let below = text.get(2..).filter(|b| !b.is_empty()).unwrap_or(".");
            return PathPattern::join(home, below).map_err(|e| e.to_string());
        }
        if text.starts_with('/') || text.is_empty() {
            return PathPattern::parse(text).map_err(|e| e.to_string());
        }
        if self.stars_at_root && (text == "**" || text.starts_with("**/")) {
            return PathPattern::join("", text).map_err(|e| e.to_string());
        }
        match self.directory {
            Some(directory) => PathPattern::join(directory, text).map_err(|e| e.to_string()),
            None => Err(format!("`{}`: a path here is absolute or starts with ~/ or **", text.escape_debug())),
        }
    }
}

/// On which side of the intersection a constraint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The component's declaration.
    Declared,
    /// The operator's allow list.
    Allow,
    /// The operator's deny list.
    Deny,
}

/// Read a list of constraints.
pub(crate) fn constraints(
    class: &Class,
    side: Side,
    list: &Node,
    source: &Source,
    anchors: &Anchors<'_>,
    what: &str,
) -> Result<Vec<Rule>, NodeError> {
    let items = list.list(what)?;
    if items.len() > MAX_RULES {
        return Err(NodeError::new(list.line, format!("{what}: more than {MAX_RULES} rules")));
    }
    let mut rules = Vec::with_capacity(items.len());
    let mut cost = 0;
    for item in items {
        let rule = constraint(class, side, item, source, anchors)?;
        cost += rule.matches.cost();
        if side == Side::Declared && cost > MAX_DECLARED {
            let message = format!("{what}: with their braces expanded, the globs take more than {MAX_DECLARED} bytes");
            return Err(NodeError::new(item.line, message));
        }
        rules.push(rule);
    }
    Ok(rules)
}

impl Matches {
    /// What the globs cost to keep, in bytes or so.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::File { path, .. } => path.cost(),
            Self::Dimensions(dimensions) => dimensions.iter().map(|(_, glob)| crate::glob::cost(glob)).sum(),
            _ => 0,
        }
    }
}

fn constraint(
    class: &Class,
    side: Side,
    item: &Node,
    source: &Source,
    anchors: &Anchors<'_>,
) -> Result<Rule, NodeError> {
    let members = item.map(&format!("a {class} rule"))?;
    let known: &[&str] = match class.kind() {
        Kind::Filesystem => &["path", "mode"],
        Kind::Http => &["host", "scheme", "methods", "ports", "cidr", "except-ports"],
        Kind::Sockets => &["host", "cidr", "ports", "except-ports", "protocols"],
        Kind::Credentials | Kind::Semantic => &[],
    };
    if class.kind() != Kind::Semantic
        && let Some(unknown) = members.iter().find(|m| !known.contains(&m.key.as_str()))
    {
        let list =
            if known.is_empty() { "it takes no rules".to_owned() } else { format!("known: {}", known.join(", ")) };
        let message = format!("unknown member `{}` in a {class} rule ({list})", unknown.key.escape_debug());
        return Err(NodeError::new(unknown.line.max(item.line), message));
    }
    let matches = match class.kind() {
        Kind::Filesystem => file(side, item, anchors)?,
        Kind::Sockets => Matches::Socket {
            target: target(item)?
                .ok_or_else(|| NodeError::new(item.line, "a wasi:sockets rule names a host or a cidr"))?,
            ports: ports(item)?,
            protocols: protocols(item)?,
        },
        Kind::Http => http(side, item)?,
        Kind::Credentials => {
            return Err(NodeError::new(item.line, "act:credentials takes no rules; allow or deny the class"));
        }
        Kind::Semantic => {
            let mut dimensions = Vec::with_capacity(members.len());
            for member in members {
                let glob = member.value.text(&member.key.escape_debug().to_string())?;
                key_glob(glob).map_err(|e| NodeError::new(member.value.line, e.to_string()))?;
                dimensions.push((member.key.clone(), glob.to_owned()));
            }
            Matches::Dimensions(dimensions)
        }
    };
    // A path is shown as it was written; the pattern itself is anchored and canonical.
    let text = match item.get("path").map(|p| &p.value) {
        Some(Value::Text(path)) if class.kind() == Kind::Filesystem => path.escape_debug().to_string(),
        _ => text_of(&matches),
    };
    Ok(Rule { text, source: source.at(item.line), matches })
}

fn file(side: Side, item: &Node, anchors: &Anchors<'_>) -> Result<Matches, NodeError> {
    let path = item.get("path").ok_or_else(|| NodeError::new(item.line, "a wasi:filesystem rule without `path`"))?;
    let pattern = anchors.pattern(path.text("path")?).map_err(|e| NodeError::new(path.line, e))?;
    let write = match item.get("mode") {
        Some(mode) => match mode.text("mode")? {
            "ro" => false,
            "rw" => true,
            other => {
                let message = format!("unknown mode `{}`: expected ro or rw", other.escape_debug());
                return Err(NodeError::new(mode.line, message));
            }
        },
        None if side == Side::Deny => true,
        None => return Err(NodeError::new(item.line, "a wasi:filesystem rule without `mode` (ro or rw)")),
    };
    Ok(Matches::File { path: pattern, write })
}

fn http(side: Side, item: &Node) -> Result<Matches, NodeError> {
    let mut target = target(item)?;
    if target.is_none() && side == Side::Declared {
        return Err(NodeError::new(item.line, "a wasi:http rule names a host"));
    }
    if side != Side::Deny
        && let Some(host) = item.get("host")
    {
        let text = host.text("host")?;
        target = target.map(|target| target.spelled(text));
    }
    let scheme = match item.get("scheme") {
        None => None,
        Some(s) => match s.text("scheme")? {
            known @ ("http" | "https") => Some(known.to_owned()),
            other => {
                let message = format!("unknown scheme `{}`: expected http or https", other.escape_debug());
                return Err(NodeError::new(s.line, message));
            }
        },
    };
    let mut methods = Vec::new();
    if let Some(list) = item.get("methods") {
        for method in list.list("methods")? {
            let text = method.text("methods")?;
            let token =
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
            if !token {
                return Err(NodeError::new(method.line, format!("`{}` is not a method", text.escape_debug())));
            }
            methods.push(text.to_ascii_uppercase());
        }
    }
    Ok(Matches::Http { target, scheme, methods, ports: ports(item)? })
}

fn target(item: &Node) -> Result<Option<Target>, NodeError> {
    match (item.get("host"), item.get("cidr")) {
        (Some(_), Some(cidr)) => {
            Err(NodeError::new(cidr.line.max(item.line), "both `host` and `cidr` in one rule: write two"))
        }
        (Some(host), None) => Target::parse(host.text("host")?).map(Some).map_err(|e| NodeError::new(host.line, e)),
        (None, Some(cidr)) => {
            Target::parse_cidr(cidr.text("cidr")?).map(Some).map_err(|e| NodeError::new(cidr.line, e))
        }
        (None, None) => Ok(None),
    }
}

fn ports(item: &Node) -> Result<Ports, NodeError> {
    let read = |name: &str| -> Result<Vec<u16>, NodeError> {
        let Some(list) = item.get(name) else { return Ok(Vec::new()) };
        let items = list.list(name)?;
        if items.is_empty() {
            return Err(NodeError::new(list.line, format!("an empty `{name}` list matches nothing: leave it out")));
        }
        items
            .iter()
            .map(|port| match port.value {
                Value::Int(n) if (1..=65535).contains(&n) => Ok(n as u16),
                Value::Int(n) => Err(NodeError::new(port.line, format!("{name}: `{n}` is not a port (1 to 65535)"))),
                _ => Err(NodeError::new(port.line, format!("{name}: a port is a number, found {}", port.value.name()))),
            })
            .collect()
    };
    Ok(Ports { only: read("ports")?, except: read("except-ports")? })
}

fn protocols(item: &Node) -> Result<Vec<Protocol>, NodeError> {
    let Some(list) = item.get("protocols") else { return Ok(Vec::new()) };
    let items = list.list("protocols")?;
    if items.is_empty() {
        return Err(NodeError::new(list.line, "an empty `protocols` list matches nothing: leave it out"));
    }
    items
        .iter()
        .map(|p| match p.text("protocols")? {
            "tcp" => Ok(Protocol::Tcp),
            "udp" => Ok(Protocol::Udp),
            other => {
                Err(NodeError::new(p.line, format!("unknown protocol `{}`: expected tcp or udp", other.escape_debug())))
            }
        })
        .collect()
}

/// One line for people.
pub(crate) fn text_of(matches: &Matches) -> String {
    let ports_text = |ports: &Ports| {
        let join = |list: &[u16]| list.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let mut text = String::new();
        if !ports.only.is_empty() {
            text = format!(":{}", join(&ports.only));
        }
        if !ports.except.is_empty() {
            text = format!("{text} except {}", join(&ports.except));
        }
        text
    };
    match matches {
        Matches::File { path, .. } => path.display(),
        Matches::Socket { target, ports, protocols } => {
            let protocols: String = protocols.iter().map(|p| format!("/{p}")).collect();
            format!("{target}{}{protocols}", ports_text(ports))
        }
        Matches::Http { target, scheme, methods, ports } => {
            let scheme = scheme.as_ref().map(|s| format!("{s}://")).unwrap_or_default();
            let target = target.as_ref().map_or_else(|| "(no host)".to_owned(), ToString::to_string);
            let methods = if methods.is_empty() { String::new() } else { format!("{} ", methods.join("|")) };
            format!("{methods}{scheme}{target}{}", ports_text(ports))
        }
        Matches::Dimensions(dimensions) => {
            dimensions.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ").escape_debug().to_string()
        }
        // Permission rules are always shown as they were written.
        Matches::Host { .. } | Matches::Key(_) | Matches::Tool { .. } | Matches::Command(_) | Matches::Ui(_) => {
            String::new()
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
            Self::Suffix(suffix) => write!(f, "*.{suffix}"),
            Self::Range(net) if net.prefix_len() == net.max_prefix_len() => match net.addr() {
                IpAddr::V6(a) => write!(f, "[{a}]"),
                IpAddr::V4(a) => write!(f, "{a}"),
            },
            Self::Mapped(address) => write!(f, "[{}]", address.to_ipv6_mapped()),
            Self::Range(net) => write!(f, "{net}"),
        }
    }
}
