//! Streamable HTTP: connections are accepted and bounded here, [`front`] checks each request, `rmcp` does the rest.
//!
//! Bounds: 64 connections (more wait), 64 KiB and 64 fields of a head within 10 s, 4 MiB of a body within 30 s, 50
//! requests in a second for each peer ([`rate`]), 64 sessions of clients before 2026-07-28 ([`clients`]).

mod clients;
mod front;
mod rate;
pub(super) mod tls;

use super::Token;
use super::endpoint::Endpoint;
use axum::Router;
use clients::Clients;
use front::{Front, Peer};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rustls::ServerConfig;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// The one path that is served.
const PATH: &str = "/mcp";
/// Most connections at once.
const CONNECTIONS: u32 = 64;
const MAX_HEAD: usize = 64 << 10;
const MAX_FIELDS: usize = 64;
const MAX_BODY: usize = 4 << 20;
/// How long the head of a request may take, the wait for the next one on a connection, and TLS's handshake.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// How long a peer may leave what was sent to it untaken, in milliseconds.
const SEND_TIME: u32 = 60_000;
/// A client's session ends when it was not in use for so long.
const IDLE: Duration = Duration::from_mins(5);
/// How long answers that are under way may take in the end, and after that the streams.
const LAST: Duration = Duration::from_millis(500);

/// Where it is served, and who may come.
#[derive(Debug)]
pub struct Http {
    listener: TcpListener,
    at: SocketAddr,
    /// What the operator calls this host, as in an address of the web.
    host: String,
    tls: Option<Arc<ServerConfig>>,
    token: Option<Token>,
}

impl Http {
    /// Serve on `listener`, whose address is `at` and was given as `host`.
    pub fn new(
        listener: TcpListener,
        at: SocketAddr,
        host: &str,
        tls: Option<Arc<ServerConfig>>,
        token: Option<Token>,
    ) -> Self {
        let host = host.parse::<Ipv6Addr>().map_or_else(|_| host.to_ascii_lowercase(), |ip| format!("[{ip}]"));
        Self { listener, at, host, tls, token }
    }

    /// The address for clients.
    pub fn url(&self) -> String {
        format!("{}{PATH}", self.origin(&self.host))
    }

    fn origin(&self, host: &str) -> String {
        format!("{}://{host}:{}", if self.tls.is_some() { "https" } else { "http" }, self.at.port())
    }

    /// What clients may call this host. Other names may be a stranger's that were made to lead here.
    fn hosts(&self) -> Vec<String> {
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(String::from).into();
        if !self.is_everywhere() && !hosts.contains(&self.host) {
            hosts.push(self.host.clone());
        }
        hosts
    }

    /// Whether it listens on all addresses of this machine.
    fn is_everywhere(&self) -> bool {
        self.at.ip().to_canonical().is_unspecified()
    }

    fn config(&self) -> StreamableHttpServerConfig {
        let hosts = self.hosts();
        let origins: Vec<String> = hosts.iter().map(|host| self.origin(host)).collect();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_origins(origins)
            .enforce_origin_validation()
            .with_max_request_body_bytes(MAX_BODY);
        // The names of a machine that listens everywhere are not known; there, a token is required.
        if self.is_everywhere() && self.token.is_some() {
            config.disable_allowed_hosts()
        } else {
            config.with_allowed_hosts(hosts)
        }
    }

    /// Serve until `stop` is told; the error is one line.
    pub(super) async fn serve(self, endpoint: Endpoint, mut stop: oneshot::Receiver<()>) -> Result<(), String> {
        let config = self.config();
        let streams = config.cancellation_token.clone();
        let clients = Arc::new(Clients::new());
        let service = StreamableHttpService::new(move || Ok(endpoint.for_client()), Arc::clone(&clients), config);
        let front = Front { token: self.token, rates: Mutex::default(), clients: Arc::clone(&clients) };
        let router = Router::new()
            .route_service(PATH, service)
            .layer(axum::middleware::from_fn_with_state(Arc::new(front), front::pass));

        let failed = |e: std::io::Error| format!("the MCP server: {e}");
        self.listener.set_nonblocking(true).map_err(failed)?;
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(failed)?;
        let tls = self.tls.map(TlsAcceptor::from);
        let slots = Arc::new(Semaphore::new(CONNECTIONS as usize));
        let (end, ending) = watch::channel(());
        let accept = async {
            loop {
                // It is never closed.
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
                let Ok((stream, peer)) = listener.accept().await else {
                    // No descriptor is left, or the like: it passes.
                    sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let (tls, router, ending) = (tls.clone(), router.clone(), ending.clone());
                tokio::spawn(async move {
                    connection(stream, peer.ip(), tls, router, ending).await;
                    drop(slot);
                });
            }
        };
        let end_idle = async {
            loop {
                sleep(IDLE / 10).await;
                clients.end_idle(IDLE).await;
            }
        };
        tokio::select! {
            () = accept => {}
            () = end_idle => {}
            _ = &mut stop => {}
        }
        drop(listener);
        drop(end);
        let all = || timeout(LAST, slots.acquire_many(CONNECTIONS));
        let answered = all().await.is_ok();
        streams.cancel();
        if !answered {
            let _ = all().await;
        }
        Ok(())
    }
}

/// Serve a connection to its end. Whatever is wrong with it is the peer's affair.
async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    ending: watch::Receiver<()>,
) {
    // An answer need not wait for more; a peer that takes nothing must not hold its place for ever.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, SEND_TIME);
    match tls {
        None => requests(stream, peer, router, ending).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HEAD_TIME, tls.accept(stream)).await {
                requests(stream, peer, router, ending).await;
            }
        }
    }
}

async fn requests<S>(stream: S, peer: IpAddr, router: Router, mut ending: watch::Receiver<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD)
        .max_header_size(MAX_HEAD)
        .max_headers(MAX_FIELDS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => {}
        // The sender is gone: no more requests.
        _ = ending.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(at: &str, host: &str, token: bool) -> Http {
        let at: SocketAddr = at.parse().unwrap();
        let token = token.then(|| Token::generate().unwrap().0);
        Http::new(TcpListener::bind("127.0.0.1:0").unwrap(), at, host, None, token)
    }

    #[test]
    fn a_host_goes_by_its_own_names() {
        for (at, host, token, url, hosts, origin) in [
            ("[::1]:3000", "::1", false, "http://[::1]:3000/mcp", 3, "http://[::1]:3000"),
            ("127.0.0.1:80", "localhost", false, "http://localhost:80/mcp", 3, "http://localhost:80"),
            ("127.0.0.2:1", "127.0.0.2", false, "http://127.0.0.2:1/mcp", 4, "http://127.0.0.2:1"),
            ("192.0.2.1:1", "Tools.Example", true, "http://tools.example:1/mcp", 4, "http://tools.example:1"),
            ("[2001:db8::1]:1", "2001:db8::1", true, "http://[2001:db8::1]:1/mcp", 4, "http://[2001:db8::1]:1"),
            ("0.0.0.0:1", "0.0.0.0", true, "http://0.0.0.0:1/mcp", 0, "http://localhost:1"),
            ("[::]:1", "::", true, "http://[::]:1/mcp", 0, "http://localhost:1"),
            // It does not come to this; but where it did, a name would still be checked.
            ("0.0.0.0:1", "0.0.0.0", false, "http://0.0.0.0:1/mcp", 3, "http://localhost:1"),
        ] {
            let http = http(at, host, token);
            let config = http.config();
            assert_eq!(http.url(), url);
            assert_eq!(config.allowed_hosts.len(), hosts, "{host}");
            assert!(config.allowed_origins.iter().any(|own| own == origin), "{host}");
        }
    }
}
