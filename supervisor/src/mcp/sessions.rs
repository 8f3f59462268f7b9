//! Sessions of the component as two more tools: `open_session` and `close_session`.
//!
//! A client names a session by `std:session-id` in the `_meta` of a call (or of its arguments, where the client has no
//! way to the former). They are not there when `--session-args` gives every call the same session.

use crate::audit::CallEnd;
use crate::session::{OpenArguments, Output, SESSION_ID, Session, SessionError};
use crate::tools::Completed;
use act_wire::{ContentPart, GuestError, Tool};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

const OPEN: &str = "open_session";
const CLOSE: &str = "close_session";
/// What a session's id is called in the arguments of [`CLOSE`] and the result of [`OPEN`].
const CLOSE_ID: &str = "session_id";
const OPEN_ID: &str = "id";
/// Longest id that is passed on.
const MAX_ID: usize = 1024;

/// Whether a tool is one of these.
pub(super) fn has(tool: &str) -> bool {
    tool == OPEN || tool == CLOSE
}

/// Add the two to the component's tools; they go before tools of the same name.
pub(super) fn add(
    session: &mut Session<'_>,
    tools: &mut Vec<Tool>,
    timeout: Option<Duration>,
) -> Result<(), SessionError> {
    // A component that cannot tell its schema now says why when a session is opened; its other tools are of use still.
    let schema = session.session_schema(Vec::new(), timeout)?.unwrap_or_else(|_| "{}".to_owned());
    let id = json!({ "type": "object", "properties": { CLOSE_ID: { "type": "string" } }, "required": [CLOSE_ID] });
    tools.retain(|tool| !has(&tool.name));
    for (name, description, parameters_schema) in [
        (OPEN, "Open a session; the result names it. Send its id as std:session-id in _meta of further calls", schema),
        (CLOSE, "Close a session", id.to_string()),
    ] {
        let (name, description) = (name.to_owned(), description.to_owned());
        tools.push(Tool { name, description, parameters_schema, metadata: Vec::new() });
    }
    Ok(())
}

/// Call one of them.
pub(super) fn call(
    session: &mut Session<'_>,
    tool: &str,
    arguments: &Value,
    metadata: Vec<(String, Vec<u8>)>,
    timeout: Option<Duration>,
) -> Completed {
    if tool == OPEN { open(session, arguments, metadata, timeout) } else { close(session, arguments, timeout) }
}

fn open(
    session: &mut Session<'_>,
    arguments: &Value,
    metadata: Vec<(String, Vec<u8>)>,
    timeout: Option<Duration>,
) -> Completed {
    let object = arguments.as_object().cloned().unwrap_or_default();
    let arguments = match OpenArguments::new(object) {
        Ok(arguments) => arguments,
        Err(e) => return refused(e.to_string()),
    };
    let (denied, result) = match session.open_session(&arguments, metadata, timeout) {
        Ok(Ok(id)) => (false, Ok(text(&json!({ OPEN_ID: id })))),
        Ok(Err(error)) => {
            let denied = error.is_denied();
            (denied, Ok(Output { parts: Vec::new(), error: Some(error.into()) }))
        }
        Err(error) => (false, Err(error)),
    };
    Completed { denied, unknown: false, limit: false, result }
}

fn close(session: &mut Session<'_>, arguments: &Value, timeout: Option<Duration>) -> Completed {
    let Some(id) = arguments.get(CLOSE_ID).and_then(Value::as_str) else {
        return refused(format!("`{CLOSE_ID}` is missing or no string"));
    };
    let started = Instant::now();
    let closed = session.close_session(id, timeout);
    let end = match &closed {
        Ok(true) => CallEnd::Ok,
        Ok(false) => CallEnd::ToolError,
        Err(error) => error.end(),
    };
    let shown = crate::tools::digest(id.as_bytes());
    let denials = session.trail.call(CLOSE, end, started.elapsed(), &shown, session.last_call());
    let result = closed.map(|closed| {
        if closed {
            return text(&json!({ "closed": true }));
        }
        let message = "no open session of that id".to_owned();
        Output { parts: Vec::new(), error: Some(GuestError { kind: "std:session-not-found".into(), message }) }
    });
    Completed { denied: denials > 0 && end != CallEnd::Ok, unknown: false, limit: false, result }
}

fn refused(message: String) -> Completed {
    let error = Some(GuestError { kind: "std:invalid-args".into(), message });
    Completed { denied: false, unknown: false, limit: false, result: Ok(Output { parts: Vec::new(), error }) }
}

fn text(value: &Value) -> Output {
    let data = value.to_string().into_bytes();
    let part = ContentPart { data, mime_type: Some("application/json".into()), metadata: Vec::new() };
    Output { parts: vec![part], error: None }
}

/// Take the session's id out of a call: from its `_meta`, or from that of its arguments, where no schema has it.
pub(super) fn named(meta: Option<&Map<String, Value>>, arguments: &mut Map<String, Value>) -> Option<String> {
    let id = |meta: &Map<String, Value>| {
        let id = meta.get(SESSION_ID)?.as_str()?;
        (id.len() <= MAX_ID).then(|| id.to_owned())
    };
    let inner = match arguments.get("_meta") {
        Some(Value::Object(inner)) if inner.contains_key(SESSION_ID) => id(inner),
        _ => return meta.and_then(id),
    };
    arguments.remove("_meta");
    meta.and_then(id).or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_either_meta() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        for (meta, arguments, id, left) in [
            (json!({}), json!({"a": 1}), None, json!({"a": 1})),
            (json!({SESSION_ID: "s"}), json!({"a": 1}), Some("s"), json!({"a": 1})),
            (json!({}), json!({"a": 1, "_meta": {SESSION_ID: "t"}}), Some("t"), json!({"a": 1})),
            (json!({SESSION_ID: "s"}), json!({"_meta": {SESSION_ID: "t"}}), Some("s"), json!({})),
            (json!({SESSION_ID: 5}), json!({"_meta": {"other": 1}}), None, json!({"_meta": {"other": 1}})),
            (json!({SESSION_ID: "x".repeat(MAX_ID + 1)}), json!({}), None, json!({})),
        ] {
            let mut arguments = object(arguments);
            assert_eq!(named(Some(&object(meta)), &mut arguments).as_deref(), id);
            assert_eq!(Value::Object(arguments), left);
        }
    }
}
