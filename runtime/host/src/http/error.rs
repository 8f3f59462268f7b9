//! What went wrong, in the error codes of `wasi:http`.

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use wasmtime_wasi_http::Error;

/// A connection that was not made.
pub(super) fn connect(problem: io::Error) -> Error {
    match problem.kind() {
        ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        ErrorKind::TimedOut => Error::ConnectionTimeout,
        // A kernel layer refused it.
        ErrorKind::PermissionDenied => Error::DestinationIpProhibited,
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Error::DestinationIpUnroutable,
        ErrorKind::ConnectionReset => Error::ConnectionTerminated,
        _ => Error::DestinationUnavailable,
    }
}

/// A connection over which TLS came not about, or broke.
pub(super) fn tls(problem: &io::Error) -> Error {
    match problem.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Error::TlsCertificateError
        }
        Some(rustls::Error::AlertReceived(alert)) => Error::TlsAlertReceived {
            alert_id: Some(u8::from(*alert)),
            alert_message: alert.as_str().map(str::to_owned),
        },
        Some(_) => Error::TlsProtocolError,
        None => Error::ConnectionTerminated,
    }
}

/// A request or response that did not come through.
pub(super) fn exchange(problem: hyper::Error) -> Error {
    if problem.is_timeout() {
        return Error::HttpResponseTimeout;
    }
    if problem.is_parse_too_large() {
        return Error::HttpResponseHeaderSectionSize(None);
    }
    if problem.is_incomplete_message() {
        return Error::HttpResponseIncomplete;
    }
    if let Some(cause) = cause::<io::Error>(&problem) {
        return tls(cause);
    }
    if problem.is_canceled() || problem.is_closed() {
        return Error::ConnectionTerminated;
    }
    if problem.is_parse() {
        return Error::HttpProtocolError;
    }
    Error::Hyper(problem)
}

/// The first cause of this kind.
fn cause<E: StdError + 'static>(problem: &hyper::Error) -> Option<&E> {
    let mut next = problem.source();
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
