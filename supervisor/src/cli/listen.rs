//! Where `act run --http` listens, and who may come: flags, addresses, files.

use super::tell;
use crate::exit::Failure;
use crate::mcp::{Http, Token, tls_config};
use act_policy::escape;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::PathBuf;

/// Where it listens if nothing is said.
const DEFAULT_PORT: u16 = 3000;

#[derive(clap::Args, Debug)]
pub(super) struct ListenArgs {
    /// Serve the tools over MCP as Streamable HTTP, at /mcp
    #[arg(long)]
    http: bool,
    /// Where --http listens: PORT (on loopback), HOST:PORT or [V6]:PORT; `[::1]:3000` if nothing is said
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Let only clients in that send the bearer token in this file, which is made if there is none
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates for HTTPS in PEM, the server's own first
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key to --tls-cert in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

/// Flags that fit together.
#[derive(Debug)]
pub(super) struct Listen {
    address: Address,
    token_file: Option<PathBuf>,
    /// Certificates and key.
    tls: Option<(PathBuf, PathBuf)>,
}

/// An address as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    /// A name, or an address without brackets.
    host: String,
    port: u16,
}

impl ListenArgs {
    /// Whether the flags fit together; `None`: no HTTP.
    pub(super) fn parse(&self) -> Result<Option<Listen>, Failure> {
        if !self.http {
            let flags = [
                ("--listen", self.listen.clone()),
                ("--token-file", self.token_file.as_ref().map(|file| file.display().to_string())),
                ("--tls-cert", self.tls_cert.as_ref().map(|file| file.display().to_string())),
                ("--tls-key", self.tls_key.as_ref().map(|file| file.display().to_string())),
            ];
            return match flags.into_iter().find_map(|(flag, value)| Some((flag, value?))) {
                Some((flag, value)) => Err(Failure::usage(format!("{flag} {}: it needs --http", escape(&value)))),
                None => Ok(None),
            };
        }
        let address = match &self.listen {
            None => Address { host: Ipv6Addr::LOCALHOST.to_string(), port: DEFAULT_PORT },
            Some(text) => Address::parse(text).ok_or_else(|| {
                Failure::usage(format!(
                    "--http --listen {}: it is no address: use PORT, HOST:PORT or [V6]:PORT, as in 127.0.0.1:3000",
                    escape(text)
                ))
            })?,
        };
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificates), Some(key)) => Some((certificates.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => return Err(Failure::usage("--tls-cert: it needs --tls-key FILE")),
            (None, Some(_)) => return Err(Failure::usage("--tls-key: it needs --tls-cert FILE")),
        };
        Ok(Some(Listen { address, token_file: self.token_file.clone(), tls }))
    }
}

impl Listen {
    /// Read the files and take the address. Who comes from then on waits until it is served.
    pub(super) fn open(&self) -> Result<Http, Failure> {
        let tls = match &self.tls {
            None => None,
            Some((certificates, key)) => Some(tls_config(certificates, key).map_err(Failure::usage)?),
        };
        let (listener, at) = self.bind()?;
        let loopback = at.ip().to_canonical().is_loopback();
        let token = match &self.token_file {
            Some(file) => {
                let (token, made) = Token::in_file(file).map_err(|e| Failure::usage(format!("--token-file {e}")))?;
                if made {
                    tell(&format!("act: wrote a new token to {}", escape(&file.display().to_string())));
                }
                Some(token)
            }
            None if loopback => None,
            None => {
                let (token, text) = Token::generate().map_err(Failure::failed)?;
                tell(&format!("act: clients need this token, which is not shown again: {}", text.as_str()));
                Some(token)
            }
        };
        if !loopback && tls.is_none() {
            tell("act: ⚠ others on the network can read the token and what is sent: add --tls-cert and --tls-key");
        }
        Ok(Http::new(listener, at, &self.address.host, tls, token))
    }

    /// Listen on the first address of the host that can be listened on.
    fn bind(&self) -> Result<(TcpListener, SocketAddr), Failure> {
        let Address { host, port } = &self.address;
        let fail = |exit: fn(String) -> Failure, error: std::io::Error| {
            exit(format!(
                "--http --listen {}: {error} (choose another address with --listen)",
                escape(&self.address.to_string())
            ))
        };
        let addresses = (host.as_str(), *port).to_socket_addrs().map_err(|e| fail(Failure::usage, e))?;
        let mut error = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            match TcpListener::bind(address).and_then(|listener| listener.local_addr().map(|at| (listener, at))) {
                Ok(bound) => return Ok(bound),
                Err(e) => error = e,
            }
        }
        Err(fail(Failure::failed, error))
    }
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            None | Some(("", _)) => (Ipv6Addr::LOCALHOST.to_string(), text.strip_prefix(':').unwrap_or(text)),
            Some((host, port)) => match host.strip_prefix('[') {
                Some(inside) => (inside.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.to_string(), port),
                None => (Some(host).filter(|host| host.bytes().all(is_host))?.to_owned(), port),
            },
        };
        let port = Some(port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
        Some(Self { host, port })
    }
}

/// Letters of names and of IPv4.
fn is_host(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'.' || b == b'-'
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("3000", Some("[::1]:3000")),
            (":3000", Some("[::1]:3000")),
            ("0", Some("[::1]:0")),
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("localhost:8080", Some("localhost:8080")),
            ("a-b.example:65535", Some("a-b.example:65535")),
            ("[::1]:3000", Some("[::1]:3000")),
            ("[::]:3000", Some("[::]:3000")),
            ("[0:0::1]:1", Some("[::1]:1")),
            ("", None),
            (":", None),
            ("::1", None),
            ("::1:3000", None),
            ("foo", None),
            ("foo:", None),
            ("foo:bar", None),
            ("foo:+1", None),
            ("65536", None),
            ("[::1]", None),
            ("[::1]3000", None),
            ("[127.0.0.1]:80", None),
            ("a b:80", None),
            ("http://localhost:80", None),
            ("\u{1b}[2J:80", None),
        ] {
            assert_eq!(Address::parse(text).map(|address| address.to_string()).as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn every_flag_needs_http() {
        let none = || ListenArgs { http: false, listen: None, token_file: None, tls_cert: None, tls_key: None };
        assert!(none().parse().unwrap().is_none());
        let file = || Some(PathBuf::from("f"));
        for (args, text) in [
            (ListenArgs { listen: Some("3000".into()), ..none() }, "--listen 3000: it needs --http"),
            (ListenArgs { token_file: file(), ..none() }, "--token-file f: it needs --http"),
            (ListenArgs { tls_cert: file(), ..none() }, "--tls-cert f: it needs --http"),
            (ListenArgs { tls_key: file(), ..none() }, "--tls-key f: it needs --http"),
            (ListenArgs { http: true, tls_cert: file(), ..none() }, "--tls-cert: it needs --tls-key FILE"),
            (ListenArgs { http: true, tls_key: file(), ..none() }, "--tls-key: it needs --tls-cert FILE"),
        ] {
            assert_eq!(args.parse().unwrap_err().message, text);
        }
        assert_eq!(ListenArgs { http: true, ..none() }.parse().unwrap().unwrap().address.to_string(), "[::1]:3000");
    }
}
