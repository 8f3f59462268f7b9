//! Requests to try: a fixed few of every kind, and those that the rules of a policy are about.

use act_policy::{Access, Class, Matches, PathPattern, Policy, Protocol, Request, Target};
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

/// Most rules of a policy that requests are made from.
const MOST_RULES: usize = 24;

const ACCESSES: [Access; 4] = [Access::Stat, Access::List, Access::Read, Access::Write];
const PATHS: [&str; 12] = [
    "/",
    "/data",
    "/data/a",
    "/data/a/b.db",
    "/data-secret/x",
    "/home/a",
    "/home/a/notes/d/x.md",
    "/home/a/.ssh/id",
    "/ws/.env",
    "/work/x",
    "/etc/passwd",
    "/x/[y]/*",
];
const ADDRESSES: [&str; 8] = [
    "10.1.2.3:80",
    "10.1.2.3:22",
    "127.0.0.1:5432",
    "0.0.0.0:80",
    "[fd00::1]:53",
    "[::1]:80",
    "[64:ff9b::a01:203]:80",
    "9.9.9.9:443",
];
const NAMES: [&str; 5] = ["example.com", "a.example.com", "EXAMPLE.org.", "x.example.org", "localhost"];

static FIXED: LazyLock<Vec<Request>> = LazyLock::new(make_fixed);

/// A few requests of every kind.
pub(crate) fn fixed() -> Vec<Request> {
    FIXED.clone()
}

fn make_fixed() -> Vec<Request> {
    let mut all = Vec::new();
    for path in PATHS {
        files(path.as_bytes(), &mut all);
    }
    for address in ADDRESSES {
        let address: SocketAddr = address.parse().expect("an address");
        connections(address.ip(), &[address.port()], &[], &mut all);
        all.push(Request::Bind { addr: address, protocol: Protocol::Udp });
        all.push(Request::Listen { addr: address });
    }
    for name in NAMES {
        hosts(name, &[80, 443], &mut all);
    }
    for host in ["[::1]", "127.1", "a b", ""] {
        all.push(Request::Net { host: host.into(), port: Some(80) });
    }
    for key in ["tmp_1", "prod", ""] {
        semantic("db:drop", key, &mut all);
        all.push(Request::Credential { key: key.into() });
    }
    semantic("wasi:http", "x", &mut all);
    for (component, tool) in [("git", "push"), ("my.id", "a"), ("my", "id.a"), ("builtin", "bash")] {
        all.push(Request::Tool { component: component.into(), tool: tool.into() });
    }
    for program in ["git", "/usr/bin/git", "/bin/rm"] {
        all.push(Request::Spawn { program: program.into(), words: vec!["push".into(), "--force".into()] });
    }
    all.push(Request::Ui { placement: "band".into() });
    all
}

/// Requests about what the rules of a policy name.
pub(crate) fn about(policy: &Policy) -> Vec<Request> {
    let mut all = Vec::new();
    for rule in policy.rules.iter().take(MOST_RULES) {
        match &rule.matches {
            Matches::File { path, .. } => below(path, &mut all),
            Matches::Socket { target, ports, .. } => named(target, &ports_of(&ports.only, &ports.except), &mut all),
            Matches::Http { target, ports, methods, scheme } => {
                let ports = ports_of(&ports.only, &ports.except);
                let Some(target) = target else { continue };
                named(target, &ports, &mut all);
                if let (Target::Name(host) | Target::Suffix(host), Some(method)) = (target, methods.first()) {
                    let scheme = scheme.clone().unwrap_or_else(|| "http".into());
                    let (method, host) = (method.clone(), host.clone());
                    all.push(Request::Http { method, scheme, host, port: ports[0], address: None });
                }
            }
            Matches::Host { target, port } => named(target, &ports_of(port.as_slice(), &[]), &mut all),
            Matches::Dimensions(dimensions) => {
                for class in &policy.classes {
                    let key = dimensions.iter().find(|(name, _)| name == "key").map_or("x", |(_, glob)| glob);
                    let arguments = dimensions.clone();
                    all.push(Request::Consent { class: class.class.to_string(), key: key.into(), arguments });
                    semantic(class.class.as_str(), key, &mut all);
                }
            }
            Matches::Key(key) => all.push(Request::Credential { key: key.clone() }),
            Matches::Tool { component, tool } => {
                for (component, tool) in [(component.as_str(), tool.as_str()), (component, "x"), ("x", tool)] {
                    all.push(Request::Tool { component: component.into(), tool: tool.into() });
                }
                if let Some((head, rest)) = component.split_once('.') {
                    all.push(Request::Tool { component: head.into(), tool: format!("{rest}.{tool}") });
                }
            }
            Matches::Command(words) => {
                let program = words.first().cloned().unwrap_or_default();
                for rest in [words.get(1..).unwrap_or_default(), &[]] {
                    all.push(Request::Spawn { program: program.clone(), words: rest.to_vec() });
                    all.push(Request::Spawn { program: format!("/bin/{program}"), words: rest.to_vec() });
                }
            }
            Matches::Ui(place) => all.push(Request::Ui { placement: place.clone().unwrap_or_default() }),
        }
    }
    all
}

/// A path in every access.
pub(crate) fn files(path: &[u8], all: &mut Vec<Request>) {
    all.extend(ACCESSES.map(|access| Request::File { access, path: path.to_vec() }));
}

/// Paths at, above and below the head of a pattern, and the text of its tail taken as names.
pub(crate) fn below(pattern: &PathPattern, all: &mut Vec<Request>) {
    let head = String::from_utf8_lossy(&pattern.head).into_owned();
    let above = head.rsplit_once('/').map_or("", |(above, _)| above);
    let tail = pattern.tail.replace("**", "a/b").replace(['*', '?'], "a").replace('\\', "");
    for path in [
        format!("{head}/a"),
        format!("{head}/a/b"),
        format!("{head}/a.db"),
        format!("{head}x"),
        format!("{head}/{tail}"),
        format!("{head}/{tail}/a"),
        format!("{above}/a"),
        if head.is_empty() { "/".into() } else { head.clone() },
        if above.is_empty() { "/".into() } else { above.into() },
    ] {
        files(path.as_bytes(), all);
    }
}

fn ports_of(only: &[u16], except: &[u16]) -> Vec<u16> {
    let mut ports: Vec<u16> = only.iter().chain(except).copied().take(4).collect();
    let next = ports.first().map_or(443, |port| port.wrapping_add(1).max(1));
    ports.push(next);
    ports
}

/// Whatever a target names, in each class.
fn named(target: &Target, ports: &[u16], all: &mut Vec<Request>) {
    match target {
        Target::Any => hosts("example.com", ports, all),
        Target::Name(name) => {
            hosts(name, ports, all);
            connections("10.9.9.9".parse().expect("an address"), ports, std::slice::from_ref(name), all);
        }
        Target::Suffix(suffix) => {
            hosts(suffix, ports, all);
            hosts(&format!("x.{suffix}"), ports, all);
            hosts(&format!("x{suffix}"), ports, all);
        }
        Target::Mapped(address) => hosts(&address.to_ipv6_mapped().to_string(), ports, all),
        Target::Range(net) => {
            connections(net.network(), ports, &[], all);
            connections(net.broadcast(), ports, &[], all);
            if let IpAddr::V4(v4) = net.addr() {
                connections(IpAddr::V6(v4.to_ipv6_mapped()), ports, &[], all);
                connections(IpAddr::V6(v4.to_ipv6_compatible()), ports, &[], all);
            }
            hosts(&net.addr().to_string(), ports, all);
        }
    }
}

fn connections(address: IpAddr, ports: &[u16], names: &[String], all: &mut Vec<Request>) {
    for port in ports {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let addr = SocketAddr::new(address, *port);
            all.push(Request::Connect { addr, protocol, names: names.to_vec() });
        }
    }
}

fn hosts(host: &str, ports: &[u16], all: &mut Vec<Request>) {
    let address: IpAddr = "10.1.2.3".parse().expect("an address");
    for class in [Class::sockets(), Class::http()] {
        all.push(Request::Lookup { class, host: host.into() });
    }
    all.push(Request::Net { host: host.into(), port: None });
    for port in ports {
        all.push(Request::Net { host: host.into(), port: Some(*port) });
        for (method, scheme, address) in [("GET", "https", None), ("POST", "http", Some(address))] {
            let (method, scheme, host) = (method.into(), scheme.into(), host.into());
            all.push(Request::Http { method, scheme, host, port: *port, address });
        }
    }
}

fn semantic(class: &str, key: &str, all: &mut Vec<Request>) {
    all.push(Request::Consent { class: class.into(), key: key.into(), arguments: Vec::new() });
}
