//! The certificates that servers are checked against: read by the supervisor, for the guest can read no file of the
//! system.
//!
//! They are the system's, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR` where these are set. They are read when a guest
//! makes its first request over TLS, so that no other run pays for it.

use act_policy::{Class, Engine, Mode, escape};

/// Most bytes of certificates that are handed over; the bundles of distributions have 0.2 MB.
const MAX_BYTES: usize = 8 << 20;

/// Certificates in DER, and what is wrong with them.
pub fn read() -> (Vec<Vec<u8>>, Option<String>) {
    let found = rustls_native_certs::load_native_certs();
    let mut left = MAX_BYTES;
    let mut certificates = Vec::with_capacity(found.certs.len());
    for certificate in &found.certs {
        let Some(rest) = left.checked_sub(certificate.len()) else { break };
        left = rest;
        certificates.push(certificate.to_vec());
    }
    let problem = match found.errors.first() {
        Some(error) => Some(escape(&error.to_string())),
        None if certificates.is_empty() => Some("none found".to_owned()),
        None if certificates.len() < found.certs.len() => {
            Some(format!("more than {MAX_BYTES} bytes, the rest is unused"))
        }
        None => None,
    };
    let fix = "set SSL_CERT_FILE to a file of certificates in PEM";
    (certificates, problem.map(|problem| format!("certificates for https: {problem} ({fix})")))
}

/// Whether a component may get as far as TLS at all: `wasi:http` is declared, and not denied as a whole.
pub fn needed(engine: &Engine) -> bool {
    engine.policy().class(&Class::http()).is_some_and(|class| class.declared.is_some() && class.mode != Mode::Deny)
}
