//! What an answer is about: a class, an action and what it is done to.

use act_policy::{Access, Engine, Host, Request, escape};

/// The key of an answer. Two requests with the same key are the same question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    class: String,
    action: String,
    object: Vec<u8>,
}

impl Key {
    /// The key of a request.
    pub fn of(request: &Request) -> Self {
        let class = Engine::class_of(request).as_str().to_owned();
        let (action, object) = match request {
            // Looking at a thing and reading it are one; writing is another.
            Request::File { access: Access::Write, path } => ("write".to_owned(), path.clone()),
            Request::File { access: Access::Stat | Access::List | Access::Read, path } => {
                ("read".to_owned(), path.clone())
            }
            Request::Http { method, scheme, host, port, address: _ } => {
                (method.clone(), format!("{scheme}://{}:{port}", canonical(host)).into_bytes())
            }
            Request::Lookup { host, .. } => ("look up".to_owned(), canonical(host).into_bytes()),
            Request::Connect { addr, protocol, names } => {
                // With the names, so that a yes to one name is none to another one of the same address.
                let object = format!("{addr}/{protocol} {}", names.join(" "));
                ("connect to".to_owned(), object.trim_end().as_bytes().to_vec())
            }
            Request::Bind { addr, protocol } => ("bind".to_owned(), format!("{addr}/{protocol}").into_bytes()),
            Request::Listen { addr } => ("listen on".to_owned(), addr.to_string().into_bytes()),
            Request::Credential { key } => ("read".to_owned(), key.clone().into_bytes()),
            Request::Consent { key, arguments, .. } => {
                let mut object = format!("{key:?}");
                for (name, value) in arguments {
                    object.push_str(&format!(" {name:?}={value:?}"));
                }
                ("do".to_owned(), object.into_bytes())
            }
            Request::Tool { component, tool } => ("call".to_owned(), format!("{component:?}.{tool:?}").into_bytes()),
            Request::Net { .. } | Request::Spawn { .. } | Request::Ui { .. } => {
                ("use".to_owned(), request.describe().into_bytes())
            }
        };
        Self { class, action, object }
    }

    /// Whether it only reads a file: one yes holds for the rest of the call, for one operation is several of these.
    pub fn reads_a_file(&self) -> bool {
        self.class == "wasi:filesystem" && self.action == "read"
    }

    /// The key in words, on one line.
    pub fn text(&self) -> String {
        let object = escape(&String::from_utf8_lossy(&self.object));
        format!("{} {} {object}", escape(&self.class), escape(&self.action))
    }
}

fn canonical(host: &str) -> String {
    Host::parse(host).map_or_else(|_| host.to_owned(), |host| host.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_apart_what_is_not_the_same() {
        let file = |access, path: &str| Key::of(&Request::File { access, path: path.into() });
        assert_eq!(file(Access::Read, "/a"), file(Access::List, "/a"));
        assert_ne!(file(Access::Read, "/a"), file(Access::Write, "/a"));
        assert_ne!(file(Access::Read, "/a"), file(Access::Read, "/a/b"));
        let http = |method: &str, host: &str, port| {
            let (method, scheme, host) = (method.into(), "https".into(), host.into());
            Key::of(&Request::Http { method, scheme, host, port, address: None })
        };
        assert_eq!(http("GET", "A.test.", 443), http("GET", "a.test", 443));
        assert_ne!(http("GET", "a.test", 443), http("POST", "a.test", 443));
        assert_ne!(http("GET", "a.test", 443), http("GET", "a.test", 8443));
        let consent = |key: &str, arguments: &[(&str, &str)]| {
            let arguments = arguments.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Key::of(&Request::Consent { class: "db:drop".into(), key: key.into(), arguments })
        };
        assert_ne!(consent("a", &[("b", "c")]), consent("a", &[]));
        assert_ne!(consent("a \"b\"=\"c\"", &[]), consent("a", &[("b", "c")]));
        let tool =
            |component: &str, tool: &str| Key::of(&Request::Tool { component: component.into(), tool: tool.into() });
        assert_ne!(tool("a.b", "c"), tool("a", "b.c"));
        assert!(file(Access::Stat, "/a").reads_a_file() && !file(Access::Write, "/a").reads_a_file());
        assert_eq!(file(Access::Write, "/a\n\u{202e}").text(), "wasi:filesystem write /a\\n\\u{202e}");
    }
}
