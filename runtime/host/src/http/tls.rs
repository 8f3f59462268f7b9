//! TLS by rustls, with the certificates that the supervisor hands over.

use super::error;
use super::stream::Stream;
use crate::gate::Gate;
use act_policy::Host;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wasmtime_wasi_http::Error;

/// Names of the protocols in ALPN (RFC 7301 §6, RFC 9113 §3.1).
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

pub(super) struct Tls {
    gate: Arc<dyn Gate>,
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    pub(super) fn new(gate: Arc<dyn Gate>) -> Self {
        Self { gate, config: OnceCell::new() }
    }

    /// Speak TLS on a connection to `host`, which has to prove that it is `host`.
    pub(super) async fn handshake(&self, stream: Stream, host: &Host) -> Result<TlsStream<Stream>, Error> {
        let config = self.config.get_or_try_init(|| self.configure()).await?.clone();
        let name = match host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| Error::HttpRequestUriInvalid)?,
            Host::Address(address) => ServerName::from(*address),
        };
        TlsConnector::from(config).connect(name, stream).await.map_err(|problem| error::tls(&problem))
    }

    async fn configure(&self) -> Result<Arc<ClientConfig>, Error> {
        let mut roots = RootCertStore::empty();
        let certificates = self.gate.roots().await;
        // A certificate that cannot be read is left out, and so trusted by nobody.
        roots.add_parsable_certificates(certificates.iter().map(|der| CertificateDer::from(der.as_slice())));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|_| Error::ConfigurationError)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Arc::new(config))
    }
}
