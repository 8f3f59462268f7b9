//! Requests over `wasi:http` 0.3.

use crate::error;
use wasip3::http::client;
use wasip3::http::types::{ErrorCode, Fields, Method, Request, RequestOptions, Response, Scheme};
use wasip3::wit_bindgen::rt::async_support::{FutureReader, StreamReader};
use wasip3::{wit_future, wit_stream};

/// Most bytes of a body that are shown.
const SHOWN: usize = 64 * 1024;

fn name(code: ErrorCode) -> String {
    let name = error(code);
    name.split(['(', '{', ' ']).next().unwrap_or_default().to_owned()
}

type Sent = FutureReader<Result<(), ErrorCode>>;

fn request(url: &str, method: &str, body: Option<StreamReader<u8>>, times: &str) -> Result<(Request, Sent), String> {
    let bad = || format!("`{url}` is no URL");
    let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let method = match method {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "CONNECT" => Method::Connect,
        other => Method::Other(other.to_owned()),
    };
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    // Dropped unwritten, it gives what the closure gives: no trailers.
    let (_, trailers) = wit_future::new(|| Ok(None));
    let (request, sent) = Request::new(Fields::new(), body, trailers, options(times));
    let set = request.set_method(&method).and_then(|()| request.set_scheme(Some(&scheme)));
    let set = set.and_then(|()| request.set_authority(Some(authority)));
    set.and_then(|()| request.set_path_with_query(Some(if path.is_empty() { "/" } else { path })))
        .map_err(|()| bad())?;
    Ok((request, sent))
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

/// The body, and the future that tells how it ended.
struct Body {
    stream: StreamReader<u8>,
    end: FutureReader<Result<Option<Fields>, ErrorCode>>,
}

impl Body {
    fn of(response: Response) -> Self {
        let (_, read) = wit_future::new(|| Ok(()));
        let (stream, end) = Response::consume_body(response, read);
        Self { stream, end }
    }

    /// The next bytes; empty at the end.
    async fn read(&mut self) -> Vec<u8> {
        self.stream.read(Vec::with_capacity(16 * 1024)).await.1
    }

    async fn end(self) -> Result<(), String> {
        drop(self.stream);
        self.end.await.map(drop).map_err(name)
    }
}

async fn one(url: &str, method: &str, body: &str, times: &str) -> Result<Response, String> {
    if body.is_empty() {
        let (request, _sent) = request(url, method, None, times)?;
        return client::send(request).await.map_err(name);
    }
    let (mut sender, stream) = wit_stream::new();
    let (request, _sent) = request(url, method, Some(stream), times)?;
    let sending = async move {
        sender.write_all(body.as_bytes().to_vec()).await;
    };
    let (response, ()) = futures::join!(client::send(request), sending);
    response.map_err(name)
}

pub(crate) async fn fetch(url: &str, method: &str, body: &str, follow: &str, times: &str) -> Result<String, String> {
    let (mut url, mut hops, mut lines) = (url.to_owned(), follow.parse().unwrap_or(0u32), String::new());
    loop {
        let response = one(&url, method, body, times).await?;
        let status = response.get_status_code();
        let location = response.get_headers().get("location").into_iter().next();
        if let Some(next) = location.filter(|_| hops > 0) {
            let next = String::from_utf8_lossy(&next).into_owned();
            lines.push_str(&format!("{status} {next}\n"));
            (url, hops) = (next, hops - 1);
            continue;
        }
        let mut body = Body::of(response);
        let mut shown = Vec::new();
        while shown.len() < SHOWN {
            let bytes = body.read().await;
            if bytes.is_empty() {
                body.end().await?;
                break;
            }
            shown.extend(bytes);
        }
        return Ok(format!("{lines}{status} {}", String::from_utf8_lossy(&shown)));
    }
}

pub(crate) async fn duplex(url: &str, pieces: &str) -> Result<String, String> {
    let (mut sender, stream) = wit_stream::new();
    let (request, _sent) = request(url, "POST", Some(stream), "")?;
    let mut pieces = pieces.split(' ');
    let first = pieces.next().unwrap_or_default();
    let (response, _) = futures::join!(client::send(request), sender.write_all(first.as_bytes().to_vec()));
    let mut body = Body::of(response.map_err(name)?);
    let mut lines = Vec::new();
    let mut piece = Some(first);
    while let Some(sent) = piece {
        let mut back = Vec::new();
        while back.len() < sent.len() {
            let bytes = body.read().await;
            if bytes.is_empty() {
                break;
            }
            back.extend(bytes);
        }
        lines.push(String::from_utf8_lossy(&back).into_owned());
        piece = pieces.next();
        if let Some(next) = piece {
            sender.write_all(next.as_bytes().to_vec()).await;
        }
    }
    drop(sender);
    let mut rest = 0;
    loop {
        let bytes = body.read().await;
        if bytes.is_empty() {
            break;
        }
        rest += bytes.len();
    }
    body.end().await?;
    Ok(format!("{} rest {rest}", lines.join(" ")))
}

pub(crate) async fn size(url: &str) -> Result<String, String> {
    let mut body = Body::of(one(url, "GET", "", "").await?);
    let mut size = 0;
    loop {
        let bytes = body.read().await;
        if bytes.is_empty() {
            break;
        }
        size += bytes.len();
    }
    body.end().await?;
    Ok(size.to_string())
}

/// Requests at the same time; how many were answered with 200.
pub(crate) async fn many(url: &str, count: &str) -> Result<String, String> {
    let count = count.parse::<usize>().unwrap_or(0);
    let answers = futures::future::join_all((0..count).map(|_| fetch(url, "GET", "", "", ""))).await;
    let good = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|text| text.starts_with("200 "))).count();
    let bad = answers.into_iter().find_map(Result::err).unwrap_or_default();
    Ok(format!("{good} {bad}"))
}
