//! What a request asks for, in the one form that everything after it works on.

use act_policy::{Host, Request};
use act_wire::Purpose;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Method, Uri};
use std::net::IpAddr;
use wasmtime_wasi_http::WasiBody;

/// Longest method in bytes; the longest registered one has 16 (IANA HTTP Method Registry, 2024).
const MAX_METHOD: usize = 64;

/// Where a request goes, and how.
pub(super) struct Target {
    pub(super) method: Method,
    /// Whether over TLS.
    pub(super) secure: bool,
    pub(super) host: Host,
    pub(super) port: u16,
    /// The host as the component wrote it, for the record.
    written: String,
}

/// Where a connection goes.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    secure: bool,
    host: Host,
    port: u16,
}

impl Target {
    /// Read a request. The error is the request as it is put on record.
    pub(super) fn of(request: &http::Request<WasiBody>) -> Result<Self, Request> {
        let uri = request.uri();
        let secure = uri.scheme() != Some(&Scheme::HTTP);
        let scheme = if secure { "https" } else { "http" };
        // Rules hold methods in upper case, and servers may be lax about case: what is judged is what is sent.
        let method = request.method().as_str().to_ascii_uppercase();
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        let malformed = |method: &str| Request::Http {
            method: method.chars().take(MAX_METHOD).collect(),
            scheme: scheme.to_owned(),
            // With all that is wrong about it: user information, a port that is none.
            host: authority.to_owned(),
            port: 0,
            address: None,
        };
        let parsed = Method::from_bytes(method.as_bytes()).ok().filter(|_| method.len() <= MAX_METHOD);
        let (Some(parsed), Some((written, port))) = (parsed, split(authority)) else { return Err(malformed(&method)) };
        let Ok(host) = Host::parse(written) else { return Err(malformed(&method)) };
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        let written = written.strip_prefix('[').and_then(|w| w.strip_suffix(']')).unwrap_or(written);
        Ok(Self { method: parsed, secure, host, port, written: written.to_owned() })
    }

    /// Whether the host is a name, so that a rule may cover it and its address apart.
    pub(super) const fn named(&self) -> bool {
        matches!(self.host, Host::Name(_))
    }

    const fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// What is judged.
    pub(super) fn request(&self, address: Option<IpAddr>) -> Request {
        Request::Http {
            method: self.method.as_str().to_owned(),
            scheme: self.scheme().to_owned(),
            host: self.written.clone(),
            port: self.port,
            address,
        }
    }

    /// What a connection must share with this request to be used for it.
    pub(super) fn place(&self) -> Place {
        Place { secure: self.secure, host: self.host.clone(), port: self.port }
    }

    /// What a look-up of the host is for.
    pub(super) fn purpose(&self) -> Purpose {
        let method = self.method.as_str().to_owned();
        Purpose::Http { method, scheme: self.scheme().to_owned(), port: self.port }
    }

    /// Host, and port where it is not the scheme's own.
    fn authority(&self) -> String {
        let host = match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            host => host.to_string(),
        };
        let usual = if self.secure { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// The value of the `host` field.
    pub(super) fn host_field(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.authority()).ok()
    }

    /// The whole URI, with the path of `from`.
    pub(super) fn uri(&self, from: &Uri) -> Option<Uri> {
        Uri::builder().scheme(self.scheme()).authority(self.authority()).path_and_query(path(from)).build().ok()
    }
}

/// The path and query of a URI, as they stand on a request line.
pub(super) fn path(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| if path.as_str().is_empty() { "/" } else { path.as_str() })
}

/// Host and port of an authority; `None` where it has user information, or a port that is none.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    if authority.is_empty() || authority.contains('@') {
        return None;
    }
    // The colons of an IPv6 literal are inside its brackets.
    let after = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = authority.get(after..)?.find(':') else { return Some((authority, None)) };
    let (host, port) = (authority.get(..after + colon)?, authority.get(after + colon + 1..)?);
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port != 0)?;
    Some((host, Some(port)))
}
