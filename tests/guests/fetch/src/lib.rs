//! Fixture: requests over `wasi:http` 0.2. What is asked for is handed to the host as it comes.

mod exchange;

use act_sdk::prelude::*;
use core::fmt::Debug;

/// The name of the host's error code as WIT spells it: `ErrorCode::DnsError(…)` → `dns-error`.
fn error(code: impl Debug) -> ActError {
    let text = format!("{code:?}");
    let text = text.strip_prefix("ErrorCode::").unwrap_or(&text);
    let text = text.split(['(', '{', ' ']).next().unwrap_or(text);
    let mut name = String::new();
    for letter in text.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    ActError::internal(name)
}

#[act_component]
mod component {
    use super::*;

    #[act_tool(
        description = "One request; status and body. `follow`: how many redirects to follow, each by a new request. \
                              `times`: a comma list of connect=, first= and between=, in milliseconds"
    )]
    fn fetch(
        url: String,
        method: Option<String>,
        body: Option<String>,
        follow: Option<String>,
        times: Option<String>,
    ) -> ActResult<String> {
        let body = body.unwrap_or_default();
        let (mut url, mut hops, mut lines) = (url, follow.and_then(|n| n.parse().ok()).unwrap_or(0u32), String::new());
        loop {
            let method = method.as_deref().unwrap_or("GET");
            let answer = exchange::fetch(&url, method, body.as_bytes(), times.as_deref().unwrap_or_default())?;
            match answer.location {
                Some(next) if hops > 0 => {
                    lines.push_str(&format!("{} {next}\n", answer.status));
                    (url, hops) = (next, hops - 1);
                }
                _ => return Ok(format!("{lines}{} {}", answer.status, answer.body)),
            }
        }
    }

    #[act_tool(description = "Send a body piece by piece, each one after the answer to the one before; what came back")]
    fn duplex(url: String, pieces: String) -> ActResult<String> {
        exchange::duplex(&url, &pieces)
    }

    #[act_tool(description = "How many bytes the body of a response has")]
    fn size(url: String) -> ActResult<String> {
        exchange::size(&url)
    }
}
