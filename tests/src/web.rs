//! Web servers on loopback, over HTTP/1.1 and HTTP/2, with and without TLS, which know what was asked of them.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// An authority whose certificates a test may trust.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Write its certificate into a file in PEM, as `SSL_CERT_FILE` names one.
    pub fn file(&self, path: &Path) -> PathBuf {
        std::fs::write(path, self.0.pem()).unwrap();
        path.to_owned()
    }

    /// Write a certificate for these names and its key into files in PEM.
    pub fn server_files(&self, folder: &Path, names: &[&str]) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.issue(names);
        let files = (folder.join("server.pem"), folder.join("server.key"));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }

    fn issue(&self, names: &[&str]) -> (Certificate, KeyPair) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate, key)
    }

    fn server(&self, names: &[&str], protocols: &[&str]) -> TlsAcceptor {
        let (certificate, key) = self.issue(names);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate.into()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

/// A web server. By the path of a request:
///
/// | path | answer |
/// |---|---|
/// | `/echo` | the body, as it comes |
/// | `/to?URL` | a redirect there |
/// | `/head` | a head of 360 KB |
/// | `/slow` | nothing |
/// | `/stall` | the first part of a body and nothing more |
/// | `/big?N` | a body of N bytes |
/// | `/hop?URL` | a redirect there, without a body |
/// | `/leave?URL` | the same, and the connection is closed |
/// | `/close` | as any other, and the connection is closed |
/// | `/length` | how long the body is, once it is there |
/// | any other | `METHOD PATH` |
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Connections,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How many there were, and how many of them are open.
#[derive(Clone, Debug, Default)]
struct Connections(Arc<(AtomicUsize, AtomicUsize)>);

impl Connections {
    fn add(&self) -> Open {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        self.0.1.fetch_add(1, Ordering::SeqCst);
        Open(self.clone())
    }
}

struct Open(Connections);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Web {
    /// Without TLS, on a port that the kernel chooses.
    pub fn start(ip: &str) -> std::io::Result<Self> {
        Self::serve(TcpListener::bind((ip, 0))?, None)
    }

    /// Without TLS, on this port.
    pub fn start_at(ip: &str, port: u16) -> std::io::Result<Self> {
        Self::serve(TcpListener::bind((ip, port))?, None)
    }

    /// With TLS, for these names, speaking these protocols (`h2`, `http/1.1`).
    pub fn secure(ip: &str, authority: &Authority, names: &[&str], protocols: &[&str]) -> std::io::Result<Self> {
        Self::serve(TcpListener::bind((ip, 0))?, Some(authority.server(names, protocols)))
    }

    fn serve(listener: TcpListener, tls: Option<TlsAcceptor>) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let (log, connections) = (seen.clone(), Connections::default());
        let count = connections.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                let accept = async {
                    loop {
                        let Ok((stream, _)) = listener.accept().await else { continue };
                        let (tls, log, open) = (tls.clone(), log.clone(), count.add());
                        tokio::spawn(async move {
                            let _open = open;
                            match tls {
                                None => connection(stream, false, log).await,
                                Some(tls) => {
                                    let Ok(stream) = tls.accept(stream).await else { return };
                                    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                                    connection(stream, http2, log).await;
                                }
                            }
                        });
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { address, seen, connections, stop: Some(stop), thread: Some(thread) })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// How many connections came.
    pub fn accepted(&self) -> usize {
        self.connections.0.0.load(Ordering::SeqCst)
    }

    /// How many are open, once they are as `many` or some time has passed.
    pub fn open(&self, many: usize, within: Duration) -> usize {
        let (until, open) = (Instant::now() + within, || self.connections.0.1.load(Ordering::SeqCst));
        while open() != many && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        open()
    }

    /// What was asked since the last call: `GET /path host:port HTTP/1.1`.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn connection<S>(stream: S, http2: bool, log: Arc<Mutex<Vec<String>>>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| answer(request, log.clone()));
    let io = TokioIo::new(stream);
    // A client may leave at any time.
    if http2 {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    }
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

async fn answer(request: Request<Incoming>, log: Arc<Mutex<Vec<String>>>) -> Result<Answer, Infallible> {
    let uri = request.uri();
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
    let line = format!("{} {} {host} {:?}", request.method(), uri.path(), request.version());
    log.lock().unwrap().push(line);
    let query = uri.query().unwrap_or_default().to_owned();
    let (path, method) = (uri.path().to_owned(), request.method().clone());
    let mut response = match path.as_str() {
        "/length" => {
            let body = request.into_body().collect().await;
            text(body.map(|body| body.to_bytes().len()).unwrap_or_default().to_string())
        }
        "/hop" | "/leave" => text(String::new()),
        "/echo" => return Ok(Response::new(request.into_body().boxed())),
        "/stall" => return Ok(Response::new(Stall { sent: false }.boxed())),
        "/slow" => {
            tokio::time::sleep(Duration::from_mins(1)).await;
            text(String::new())
        }
        "/big" => text("x".repeat(query.parse().unwrap())),
        path => text(format!("{method} {path}")),
    };
    if matches!(path.as_str(), "/close" | "/leave") {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    match path.as_str() {
        "/to" | "/hop" | "/leave" => {
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(LOCATION, HeaderValue::try_from(query).unwrap());
        }
        "/head" => {
            for n in 0..90 {
                let name = http::HeaderName::try_from(format!("x-{n}")).unwrap();
                response.headers_mut().insert(name, HeaderValue::try_from("v".repeat(4000)).unwrap());
            }
        }
        _ => {}
    }
    Ok(response)
}

fn text(text: String) -> Answer {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// A body that begins and never goes on.
struct Stall {
    sent: bool,
}

impl Body for Stall {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if std::mem::replace(&mut self.sent, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"first part")))))
    }
}
