//! `--allow` and `--deny`: `CLASS` or `CLASS=RULE`.

use crate::class::{Class, Kind};
use crate::pattern::{PathPattern, key_glob};
use crate::request::Protocol;
use crate::rule::{Anchors, Matches, Ports, Rule, Target};
use crate::source::Source;

/// Which of the two flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `--allow`
    Allow,
    /// `--deny`
    Deny,
}

impl Flag {
    /// The flag as typed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "--allow",
            Self::Deny => "--deny",
        }
    }
}

/// A parsed flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shorthand {
    /// Which flag.
    pub flag: Flag,
    /// Its text, as typed.
    pub token: String,
    /// The class.
    pub class: Class,
    /// The rule; `None` is the whole class.
    pub rule: Option<Rule>,
}

/// A flag that could not be read; names the flag and the token, the reason and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} '{}': {reason}", flag.as_str(), token.escape_debug())]
pub struct ShorthandError {
    /// Which flag.
    pub flag: Flag,
    /// Its text.
    pub token: String,
    /// What is wrong and how to write it.
    pub reason: String,
}

impl Shorthand {
    /// Parse the value of a flag.
    pub fn parse(flag: Flag, token: &str, anchors: &Anchors<'_>) -> Result<Self, ShorthandError> {
        let fail = |reason: String| ShorthandError { flag, token: token.to_owned(), reason };
        if token.contains(char::is_control) {
            return Err(fail("control characters".into()));
        }
        if token.trim() != token {
            return Err(fail("leading or trailing white space: remove it".into()));
        }
        let (name, rule) = match token.split_once('=') {
            Some((name, rule)) => (name, Some(rule)),
            None => (token, None),
        };
        if name.contains('*') {
            let reason = match rule {
                Some(_) => "a rule needs one class, not a pattern: name the class",
                None => "one class at a time, not a pattern: name the class",
            };
            return Err(fail(reason.into()));
        }
        let class = Class::parse(name).map_err(|e| fail(e.to_string()))?;
        let rule = match rule {
            None => None,
            Some(text) => {
                if text.trim() != text {
                    return Err(fail("leading or trailing white space: remove it".into()));
                }
                let matches = parse_rule(flag, &class, text, anchors).map_err(fail)?;
                let source = Source::command_line(&format!("{} {token}", flag.as_str()));
                Some(Rule { text: text.to_owned(), source, matches })
            }
        };
        Ok(Self { flag, token: token.to_owned(), class, rule })
    }
}

fn parse_rule(flag: Flag, class: &Class, text: &str, anchors: &Anchors<'_>) -> Result<Matches, String> {
    match class.kind() {
        Kind::Filesystem => file(text, anchors),
        Kind::Http => http(flag, text),
        Kind::Sockets => socket(text),
        Kind::Credentials => Err(format!("act:credentials takes no rule: write {} creds", flag.as_str())),
        Kind::Semantic if text.is_empty() => Err("empty key".into()),
        Kind::Semantic => match key_glob(text) {
            Ok(_) => Ok(Matches::Dimensions(vec![("key".into(), text.to_owned())])),
            Err(e) => Err(e.to_string()),
        },
    }
}

fn file(text: &str, anchors: &Anchors<'_>) -> Result<Matches, String> {
    let (path, write) = match text.rsplit_once(':') {
        Some((path, "ro")) => (path, false),
        Some((path, "rw")) => (path, true),
        // A colon inside a name is not a mode; one short word after the last colon is a mistyped one.
        Some((_, mode)) if mode.len() <= 3 && !mode.contains('/') => {
            return Err(format!("unknown mode `{mode}`: expected ro or rw"));
        }
        _ => (text, true),
    };
    if path.is_empty() {
        return Err("empty path".into());
    }
    let path: PathPattern = anchors.pattern(path)?;
    Ok(Matches::File { path, write })
}

fn port(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(format!("`{text}` is not a port (1 to 65535)")),
    }
}

/// `host[:port]`, `[v6][:port]`.
pub(crate) fn authority(text: &str) -> Result<(Target, Ports), String> {
    let (host, port_text) = if text.starts_with('[') {
        let end = text.find(']').ok_or_else(|| format!("`{text}`: unclosed bracket"))?;
        let (host, rest) = text.split_at(end + 1);
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(format!("`{rest}` after the bracket")),
        }
    } else if text.matches(':').count() > 1 {
        let fixed = match text.rsplit_once(':') {
            Some((address, port))
                if port.len() > 1 && address.parse::<std::net::Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok() =>
            {
                format!("[{address}]:{port}")
            }
            _ => format!("[{text}]"),
        };
        return Err(format!("an IPv6 address is written in brackets: {fixed}"));
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err("empty host".into());
    }
    let ports = match port_text {
        Some(text) => Ports { only: vec![port(text)?], except: Vec::new() },
        None => Ports::default(),
    };
    Ok((Target::parse(host)?, ports))
}

pub(crate) fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, _)| address.parse::<std::net::IpAddr>().is_ok())
}

fn socket(text: &str) -> Result<Matches, String> {
    if text.is_empty() {
        return Err("empty host".into());
    }
    if is_cidr(text) {
        if let Some((cidr, _)) = text.rsplit_once(':')
            && Target::parse_cidr(cidr).is_ok()
        {
            return Err("a CIDR takes no port here: use --grant with `cidr` and `ports`".into());
        }
        return Ok(Matches::Socket {
            target: Target::parse_cidr(text)?,
            ports: Ports::default(),
            protocols: Vec::new(),
        });
    }
    let (rest, protocols) = match text.rsplit_once('/') {
        Some((rest, "tcp")) => (rest, vec![Protocol::Tcp]),
        Some((rest, "udp")) => (rest, vec![Protocol::Udp]),
        Some((cidr, _)) if cidr.split(':').next().is_some_and(|a| a.parse::<std::net::IpAddr>().is_ok()) => {
            return Err(format!("invalid CIDR `{text}` (a CIDR takes no port)"));
        }
        Some((_, other)) => return Err(format!("unknown protocol `{other}`: expected tcp or udp")),
        None => (text, Vec::new()),
    };
    let (target, ports) = authority(rest)?;
    Ok(Matches::Socket { target, ports, protocols })
}

fn http(flag: Flag, text: &str) -> Result<Matches, String> {
    if text.is_empty() {
        return Err("empty host".into());
    }
    if is_cidr(text) {
        return match flag {
            Flag::Allow => Err("a CIDR cannot be allowed for http: name a host (a range can be denied)".into()),
            Flag::Deny => Ok(Matches::Http {
                target: Some(Target::parse_cidr(text)?),
                scheme: None,
                methods: Vec::new(),
                ports: Ports::default(),
            }),
        };
    }
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (Some(scheme.to_owned()), rest),
        Some((other, _)) => return Err(format!("unknown scheme `{other}`: expected http or https")),
        None => (None, text),
    };
    if let Some((host, path)) = rest.split_once('/') {
        return Err(format!("a path (`/{path}`) in an http rule: rules cover whole hosts, write {host}"));
    }
    if rest == "*" {
        return Err(format!("`*` is every host: write {} http for the whole class", flag.as_str()));
    }
    let (mut target, ports) = authority(rest)?;
    if let (Flag::Allow, Some((literal, _))) = (flag, rest.split_once(']')) {
        target = target.spelled(literal.trim_start_matches('['));
    }
    Ok(Matches::Http { target: Some(target), scheme, methods: Vec::new(), ports })
}
