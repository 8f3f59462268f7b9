//! One operation of a component in the form of a call: what the audit trail tells and no aspect of the rules has a word for.
//!
//! The words of a scope stand between white space; double quotes keep it inside a word, as in a command.

use crate::class::{Class, Kind};
use crate::pattern::is_glob;
use crate::permission::{Aspect, path};
use crate::request::{Access, Protocol, Request};
use crate::rule::Anchors;
use crate::words;
use std::net::SocketAddr;

/// The forms, as messages list them.
pub(crate) const FORMS: [&str; 8] = [
    "stat(/path)",
    "list(/path)",
    "connect(ADDRESS:PORT/tcp [name=NAME])",
    "bind(ADDRESS:PORT/tcp)",
    "listen(ADDRESS:PORT)",
    "lookup(CLASS NAME)",
    "http(METHOD SCHEME://HOST[:PORT] [address=ADDRESS])",
    "consent(CLASS KEY [NAME=VALUE])",
];

/// Parse an operation; `None` if the text is not one. The aspect is that of the permission rules about it.
pub(crate) fn parse(text: &str, anchors: &Anchors<'_>) -> Option<Result<(Option<Aspect>, Request), String>> {
    let (name, rest) = text.split_once('(')?;
    let form = FORMS.iter().find(|form| form.split_once('(').is_some_and(|(known, _)| known == name))?;
    let read = || {
        let scope = rest.strip_suffix(')').ok_or("no closing bracket")?.trim();
        if scope.is_empty() {
            return Err("empty scope".to_owned());
        }
        operation(name, scope, anchors)
    };
    Some(read().map_err(|reason| format!("{reason}: write {form}")))
}

fn operation(name: &str, scope: &str, anchors: &Anchors<'_>) -> Result<(Option<Aspect>, Request), String> {
    let file = |access| {
        if is_glob(scope) {
            return Err("a pattern: one call is explained, so write it without * ? [ ] { } \\".to_owned());
        }
        let mut path = path(scope, anchors)?.head;
        if path.is_empty() {
            path.push(b'/');
        }
        Ok((Some(Aspect::Read), Request::File { access, path }))
    };
    match name {
        "stat" => return file(Access::Stat),
        "list" => return file(Access::List),
        _ => {}
    }
    let words = words::split(scope)?;
    let mut words = words.iter().map(String::as_str);
    let first = words.next().ok_or("empty scope")?;
    let request = match name {
        "connect" => {
            let (addr, protocol) = endpoint(first)?;
            let names = words.by_ref().map(|word| keyed(word, "name")).collect::<Result<_, _>>()?;
            Request::Connect { addr, protocol, names }
        }
        "bind" => {
            let (addr, protocol) = endpoint(first)?;
            Request::Bind { addr, protocol }
        }
        "listen" => match endpoint(first)? {
            (addr, Protocol::Tcp) => Request::Listen { addr },
            (_, Protocol::Udp) => return Err("only TCP listens".into()),
        },
        "lookup" => {
            let class = Class::parse(first).map_err(|e| e.to_string())?;
            if !matches!(class.kind(), Kind::Sockets | Kind::Http) {
                return Err(format!("`{}` looks up no names", class.as_str().escape_debug()));
            }
            Request::Lookup { class, host: words.next().ok_or("no name")?.to_owned() }
        }
        "http" => {
            let url = words.next().ok_or("no URL")?;
            let address = words.next().map(|word| keyed(word, "address")).transpose()?;
            let address = match address {
                Some(text) => Some(text.parse().map_err(|_| format!("`{}` is no address", text.escape_debug()))?),
                None => None,
            };
            let (scheme, host, port) = url_parts(url)?;
            Request::Http { method: first.to_owned(), scheme, host, port, address }
        }
        _ => {
            let key = words.next().ok_or("no key")?.to_owned();
            let dimension = |word: &str| match word.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
                None => Err(format!("`{}` is not NAME=VALUE", word.escape_debug())),
            };
            let arguments = words.by_ref().map(dimension).collect::<Result<_, _>>()?;
            Request::Consent { class: first.to_owned(), key, arguments }
        }
    };
    if let Some(more) = words.next() {
        return Err(format!("`{}` after the end", more.escape_debug()));
    }
    Ok(((name != "consent").then_some(Aspect::Net), request))
}

/// `ADDRESS:PORT[/tcp|/udp]`
fn endpoint(text: &str) -> Result<(SocketAddr, Protocol), String> {
    let (address, protocol) = match text.split_once('/') {
        None => (text, Protocol::Tcp),
        Some((address, "tcp")) => (address, Protocol::Tcp),
        Some((address, "udp")) => (address, Protocol::Udp),
        Some((_, other)) => return Err(format!("unknown protocol `{}`: tcp or udp", other.escape_debug())),
    };
    let address = address.parse().map_err(|_| format!("`{}` is no address with a port", address.escape_debug()))?;
    Ok((address, protocol))
}

/// Scheme, host and port. No rule is about the rest of a URL, so that it may be there or not.
fn url_parts(url: &str) -> Result<(String, String, u16), String> {
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        other => return Err(format!("unknown scheme `{}`: http or https", other.escape_debug())),
    };
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(text) => text.parse().map_err(|_| format!("`{}` is not a port", text.escape_debug()))?,
        None => usual,
    };
    if host.is_empty() {
        return Err("no host".into());
    }
    Ok((scheme.to_owned(), host.to_owned(), port))
}

fn keyed(word: &str, key: &str) -> Result<String, String> {
    let value = word.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
    value.ok_or_else(|| format!("`{}` is not {key}=…", word.escape_debug()))
}
