//! `wasi:http`: one hook for 0.2 and 0.3, which judges and then refuses.

use crate::gate::{Gate, refuse};
use act_policy::{Reason, Request};
use http::uri::Scheme;
use std::future::Future;
use std::sync::Arc;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

pub(crate) struct HttpHooks {
    pub(crate) gate: Arc<dyn Gate>,
}

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

impl WasiHttpHooks for HttpHooks {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        _options: Option<RequestOptions>,
        _body: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let error = match describe(&request) {
            Some(judged) => {
                refuse(&*self.gate, judged, Reason::Unsupported);
                Error::HttpRequestDenied
            }
            None => Error::HttpRequestUriInvalid,
        };
        Box::new(std::future::ready(Err(error)))
    }
}

fn describe(request: &http::Request<WasiBody>) -> Option<Request> {
    let uri = request.uri();
    let authority = uri.authority()?;
    let scheme = uri.scheme().cloned().unwrap_or(Scheme::HTTPS);
    let port = authority.port_u16().unwrap_or(if scheme == Scheme::HTTP { 80 } else { 443 });
    let host = authority.host();
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Some(Request::Http {
        method: request.method().as_str().to_owned(),
        scheme: scheme.as_str().to_owned(),
        host: host.to_owned(),
        port,
        address: None,
    })
}
