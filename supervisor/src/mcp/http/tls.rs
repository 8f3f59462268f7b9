//! TLS of the server: certificates and key from PEM files, TLS 1.2 or later.

use act_policy::escape;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Largest file.
const MAX_FILE: u64 = 1 << 20;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{flag} {file}: {source}")]
    Io {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{flag} {file}: {what}")]
    Content {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The two do not go together.
    #[error("--tls-cert and --tls-key: {0}")]
    Pair(rustls::Error),
}

/// The configuration of a server with these certificates and this key.
pub fn config(certificates: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let (cert_flag, key_flag) = ("--tls-cert", "--tls-key");
    let content = |flag, path: &Path, what: String| TlsError::Content { flag, file: shown(path), what };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(cert_flag, certificates)?)
        .collect::<Result<_, _>>()
        .map_err(|e| content(cert_flag, certificates, e.to_string()))?;
    if chain.is_empty() {
        return Err(content(cert_flag, certificates, "no certificate in it (PEM is expected)".into()));
    }
    let pem = read(key_flag, key)?;
    let private = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| content(key_flag, key, "no private key in it (PEM without a passphrase is expected)".into()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn shown(path: &Path) -> String {
    escape(&path.display().to_string())
}

fn read(flag: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let mut bytes = Zeroizing::new(Vec::new());
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
        .map_err(|source| TlsError::Io { flag, file: shown(path), source })?;
    Ok(bytes)
}
