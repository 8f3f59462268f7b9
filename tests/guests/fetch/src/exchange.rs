//! Requests and responses.

use crate::error;
use act_sdk::prelude::*;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme,
};
use wasip2::io::streams::{InputStream, StreamError};

/// Most bytes of a body that are shown.
const SHOWN: usize = 64 * 1024;

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

fn request(url: &str, method: &str) -> ActResult<OutgoingRequest> {
    let bad = || ActError::invalid_args(format!("`{url}` is no URL"));
    let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "CONNECT" => Method::Connect,
        other => Method::Other(other.to_owned()),
    };
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let request = OutgoingRequest::new(Fields::new());
    let set = request.set_method(&method).and_then(|()| request.set_scheme(Some(&scheme)));
    let set = set.and_then(|()| request.set_authority(Some(authority)));
    set.and_then(|()| request.set_path_with_query(Some(if path.is_empty() { "/" } else { path })))
        .map_err(|()| bad())?;
    Ok(request)
}

fn options(times: &str) -> Option<RequestOptions> {
    let options = RequestOptions::new();
    for (name, time) in times.split(',').filter_map(|part| part.split_once('=')) {
        let time = time.parse::<u64>().ok().map(|ms| ms * 1_000_000);
        _ = match name {
            "connect" => options.set_connect_timeout(time),
            "first" => options.set_first_byte_timeout(time),
            _ => options.set_between_bytes_timeout(time),
        };
    }
    (!times.is_empty()).then_some(options)
}

fn response(coming: &FutureIncomingResponse) -> ActResult<IncomingResponse> {
    coming.subscribe().block();
    match coming.get() {
        Some(Ok(answer)) => answer.map_err(error),
        _ => Err(error("NoResponse")),
    }
}

/// The next bytes; `None` at the end.
fn read(stream: &InputStream) -> ActResult<Option<Vec<u8>>> {
    match stream.blocking_read(16 * 1024) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(StreamError::Closed) => Ok(None),
        // The host knows no code here: it has the error of the request, not that of 0.2.
        Err(StreamError::LastOperationFailed(problem)) => Err(ActError::internal(problem.to_debug_string())),
    }
}

pub(crate) fn fetch(url: &str, method: &str, body: &[u8], times: &str) -> ActResult<Answer> {
    let request = request(url, method)?;
    let outgoing = request.body().map_err(|()| error("NoBody"))?;
    let coming = handle(request, options(times)).map_err(error)?;
    if !body.is_empty() {
        let stream = outgoing.write().map_err(|()| error("NoStream"))?;
        for piece in body.chunks(4096) {
            // A server may answer without reading on.
            if stream.blocking_write_and_flush(piece).is_err() {
                break;
            }
        }
    }
    _ = OutgoingBody::finish(outgoing, None);
    let response = response(&coming)?;
    let status = response.status();
    let location = response.headers().get("location").into_iter().next();
    let location = location.map(|value| String::from_utf8_lossy(&value).into_owned());
    let incoming: IncomingBody = response.consume().map_err(|()| error("NoBody"))?;
    let stream = incoming.stream().map_err(|()| error("NoStream"))?;
    let mut shown = Vec::new();
    while shown.len() < SHOWN
        && let Some(bytes) = read(&stream)?
    {
        shown.extend(bytes);
    }
    Ok(Answer { status, location, body: String::from_utf8_lossy(&shown).into_owned() })
}

pub(crate) fn duplex(url: &str, pieces: &str) -> ActResult<String> {
    let request = request(url, "POST")?;
    let outgoing = request.body().map_err(|()| error("NoBody"))?;
    let coming = handle(request, None).map_err(error)?;
    let sending = outgoing.write().map_err(|()| error("NoStream"))?;
    let mut lines = Vec::new();
    let mut receiving = None;
    for piece in pieces.split(' ') {
        sending.blocking_write_and_flush(piece.as_bytes()).map_err(|_| error("WriteFailed"))?;
        if receiving.is_none() {
            let response = response(&coming)?;
            let incoming = response.consume().map_err(|()| error("NoBody"))?;
            let stream = incoming.stream().map_err(|()| error("NoStream"))?;
            receiving = Some((stream, incoming, response));
        }
        let Some((stream, ..)) = &receiving else { break };
        let mut back = Vec::new();
        while back.len() < piece.len()
            && let Some(bytes) = read(stream)?
        {
            back.extend(bytes);
        }
        lines.push(String::from_utf8_lossy(&back).into_owned());
    }
    drop(sending);
    OutgoingBody::finish(outgoing, None).map_err(error)?;
    let mut rest = 0;
    while let Some((stream, ..)) = &receiving
        && let Some(bytes) = read(stream)?
    {
        rest += bytes.len();
    }
    Ok(format!("{} rest {rest}", lines.join(" ")))
}

pub(crate) fn size(url: &str) -> ActResult<String> {
    let coming = handle(request(url, "GET")?, None).map_err(error)?;
    let response = response(&coming)?;
    let incoming = response.consume().map_err(|()| error("NoBody"))?;
    let stream = incoming.stream().map_err(|()| error("NoStream"))?;
    let mut size = 0;
    while let Some(bytes) = read(&stream)? {
        size += bytes.len();
    }
    Ok(size.to_string())
}
