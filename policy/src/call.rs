//! One call in the form of a permission rule, or one operation of a component, as `act permissions explain` takes it.

use crate::class::Class;
use crate::host::Host;
use crate::operation;
use crate::pattern::is_glob;
use crate::permission::{Aspect, MAX_TEXT, path, placement, split, tool_name};
use crate::policy::Policy;
use crate::request::{Access, Protocol, Request};
use crate::rule::{Anchors, Target};
use crate::shorthand::authority;
use crate::words;
use std::net::SocketAddr;

/// A call that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// As it was written.
    pub text: String,
    /// Of which permission rules it is; `None` for what they never speak of.
    pub aspect: Option<Aspect>,
    /// Whether it is an operation of a component, which no rule has a word for.
    pub operation: bool,
    request: Request,
}

impl Call {
    /// Parse `read(./notes.txt)`, `net(domain: docs.rs:443)`, `tool(sqlite.query)`: one call, never a pattern.
    ///
    /// Or one operation of a component, more exactly than a rule would name it: `stat(/path)`, `list(/path)`,
    /// `connect(ADDRESS:PORT/tcp [name=NAME])`, `bind(ADDRESS:PORT/tcp)`, `listen(ADDRESS:PORT)`, `lookup(CLASS NAME)`,
    /// `http(METHOD SCHEME://HOST[:PORT] [address=ADDRESS])`, `consent(CLASS KEY [NAME=VALUE])`.
    pub fn parse(text: &str, anchors: &Anchors<'_>) -> Result<Self, String> {
        let fail = |reason: String| format!("{reason} (`{}`)", text.escape_debug());
        if text.len() > MAX_TEXT {
            return Err(format!("more than {MAX_TEXT} bytes"));
        }
        if text.contains(char::is_control) {
            return Err(fail("control characters".into()));
        }
        let known = || operation::FORMS.join(", ");
        let (aspect, scope) = match operation::parse(text, anchors) {
            Some(parsed) => {
                let (aspect, request) = parsed.map_err(fail)?;
                return Ok(Self { text: text.to_owned(), aspect, operation: true, request });
            }
            None => {
                split(text).map_err(|reason| fail(format!("{reason}; an operation of a component: {}", known())))?
            }
        };
        // An address has brackets, and a command's words are looked at one by one.
        if !matches!(aspect, Aspect::Spawn | Aspect::Net) && is_glob(scope) {
            let message = "a pattern: one call is explained, so write it without * ? [ ] { } \\";
            return Err(fail(message.into()));
        }
        let request = match aspect {
            Aspect::Read | Aspect::Write => {
                let mut path = path(scope, anchors).map_err(fail)?.head;
                if path.is_empty() {
                    path.push(b'/');
                }
                let access = if aspect == Aspect::Write { Access::Write } else { Access::Read };
                Request::File { access, path }
            }
            Aspect::Net => {
                let value = scope.strip_prefix("domain:").map_or(scope, str::trim);
                let (target, ports) = authority(value).map_err(fail)?;
                let host = match target {
                    Target::Name(name) => name,
                    Target::Range(net) => net.addr().to_string(),
                    Target::Mapped(address) => address.to_string(),
                    Target::Any | Target::Suffix(_) => return Err(fail("a pattern: one call is explained".into())),
                };
                Request::Net { host, port: ports.only.first().copied() }
            }
            Aspect::Creds => Request::Credential { key: scope.to_owned() },
            Aspect::Tool => {
                let (component, tool) = tool_name(scope).map_err(fail)?;
                Request::Tool { component, tool }
            }
            Aspect::Spawn => {
                let command = scope.strip_prefix("cmd:").map_or(scope, str::trim);
                let mut command = words::split(command).map_err(fail)?.into_iter();
                let program = command.next().ok_or_else(|| fail("an empty command".into()))?;
                if is_glob(&program) {
                    return Err(fail("a pattern: one call is explained".into()));
                }
                Request::Spawn { program, words: command.collect() }
            }
            Aspect::Ui => Request::Ui { placement: placement(scope).map_err(fail)? },
        };
        Ok(Self { text: text.to_owned(), aspect: Some(aspect), operation: false, request })
    }

    /// The literal path, to have its links resolved before it is judged.
    pub fn path(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.request {
            Request::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// What is asked of a policy. For a component a use of the network is one of the classes that it declares.
    pub fn request(&self, policy: &Policy) -> Request {
        let Request::Net { host, port } = &self.request else { return self.request.clone() };
        if policy.component.is_none() {
            return self.request.clone();
        }
        let declares = |class: Class| policy.class(&class).is_some_and(|c| c.declared.is_some());
        let literal = match Host::parse(host) {
            Ok(Host::Address(address)) => Some(address),
            _ => None,
        };
        match (declares(Class::sockets()) && !declares(Class::http()), literal, port) {
            (true, Some(address), Some(port)) => {
                Request::Connect { addr: SocketAddr::new(address, *port), protocol: Protocol::Tcp, names: Vec::new() }
            }
            (true, None, None) => Request::Lookup { class: Class::sockets(), host: host.clone() },
            (false, None, None) => Request::Lookup { class: Class::http(), host: host.clone() },
            (_, _, port) => Request::Http {
                method: "GET".into(),
                scheme: if *port == Some(80) { "http".into() } else { "https".into() },
                host: host.clone(),
                port: port.unwrap_or(443),
                address: None,
            },
        }
    }
}
