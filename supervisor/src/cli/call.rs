//! `act call REF TOOL --args JSON`

use super::run_args::RunArgs;
use super::{print, tool_error};
use crate::audit::CallEnd;
use crate::component::hex;
use crate::exit::{Exit, Failure};
use crate::schema;
use crate::session::{Output, Session, SessionError};
use crate::values;
use act_policy::escape;
use act_wire::{ContentPart, GuestError};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Instant;

/// Longest text of arguments that `--audit-args` prints, in characters.
const LONGEST_ARGUMENTS: usize = 8192;
/// Most bytes of a metadata file.
const MAX_METADATA: u64 = 1 << 20;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    /// Tool name
    #[arg(value_name = "TOOL")]
    tool: String,
    /// Arguments as a JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// Metadata for the call, as text. Repeatable
    #[arg(short = 'm', long, value_name = "KEY=VALUE")]
    metadata: Vec<String>,
    /// Metadata for the call, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata_json: Option<String>,
    /// Metadata for the call, from a file with a JSON object
    #[arg(long, value_name = "FILE")]
    metadata_file: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let arguments = parse_object("--args", &args.args)?;
    let encoded = values::to_cbor(&arguments).map_err(|e| Failure::usage(format!("--args: {e}")))?;
    let metadata = metadata(args)?;
    let mut prepared = args.run.prepare(&args.component)?;
    let mut session = prepared.start(&args.run)?;
    let shown = if args.run.audit_args {
        escape(&arguments.to_string()).chars().take(LONGEST_ARGUMENTS).collect()
    } else {
        let digest = hex(&Sha256::digest(&encoded));
        digest.get(..6).unwrap_or_default().to_owned()
    };
    let started = Instant::now();
    let (ended, denials, result) = call(&mut session, args, &arguments, encoded, metadata, &shown, started);
    session.finish();
    prepared.timing.phase("call, and guest removed");
    let output = result?;
    for part in &output.parts {
        print(&render(part, std::io::stdout().is_terminal()))?;
    }
    Ok(match (output.error, ended) {
        (Some(error), _) => {
            eprintln!("Error: {}", tool_error(&error.kind, &error.message));
            if denials > 0 { Exit::Denied } else { Exit::Failed }
        }
        (None, _) => Exit::Ok,
    })
}

/// Find the tool, check the arguments, make the call, and write its line of the trail.
fn call(
    session: &mut Session<'_>,
    args: &Args,
    arguments: &Value,
    encoded: Vec<u8>,
    metadata: Vec<(String, Vec<u8>)>,
    shown: &str,
    started: Instant,
) -> (CallEnd, u64, Result<Output, Failure>) {
    let timeout = args.run.timeout;
    let result = match find_tool(session, args, arguments) {
        Ok(None) => session.call_tool(&args.tool, encoded, metadata, timeout),
        Ok(Some(error)) => Ok(Output { parts: Vec::new(), error: Some(error) }),
        Err(error) => Err(error),
    };
    let ended = match &result {
        Ok(Output { error: None, .. }) => CallEnd::Ok,
        Ok(Output { error: Some(_), .. }) => CallEnd::ToolError,
        Err(SessionError::Interrupted) => CallEnd::Interrupted,
        Err(SessionError::TimedOut(_)) => CallEnd::TimedOut,
        Err(_) => CallEnd::Killed,
    };
    let number = session.last_call();
    let denials = session.trail.call(&args.tool, ended, started.elapsed(), shown, number);
    (ended, denials, result.map_err(Failure::from))
}

/// The error that ends the call before the guest is entered: an unknown tool, or arguments that miss its schema.
fn find_tool(session: &mut Session<'_>, args: &Args, arguments: &Value) -> Result<Option<GuestError>, SessionError> {
    let tools = match session.list_tools(args.run.timeout)? {
        Ok(tools) => tools,
        Err(error) => return Ok(Some(error)),
    };
    let Some(tool) = tools.iter().find(|t| t.name == args.tool) else {
        let mut names: Vec<String> = tools.iter().take(20).map(|t| t.name.clone()).collect();
        names.sort();
        let message = format!("no tool `{}` (tools: {})", args.tool, names.join(", "));
        return Ok(Some(GuestError { kind: "std:not-found".into(), message }));
    };
    let checked = schema::validate(&tool.parameters_schema, arguments);
    Ok(checked.err().map(|message| GuestError { kind: "std:invalid-args".into(), message }))
}

fn parse_object(flag: &str, text: &str) -> Result<Value, Failure> {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Failure::usage(format!("{flag}: expected a JSON object such as {{\"path\": \"/data\"}}"))),
        Err(e) => Err(Failure::usage(format!("{flag}: not JSON: {e}"))),
    }
}

/// Metadata of the call: from a file, then from JSON, then from single pairs; a later one replaces an earlier key.
fn metadata(args: &Args) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut all = serde_json::Map::new();
    if let Some(path) = &args.metadata_file {
        use std::io::Read as _;
        let shown = escape(&path.display().to_string());
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_METADATA).read_to_string(&mut text))
            .map_err(|e| Failure::usage(format!("--metadata-file {shown}: {e}")))?;
        if let Value::Object(map) = parse_object(&format!("--metadata-file {shown}"), &text)? {
            all.extend(map);
        }
    }
    if let Some(text) = &args.metadata_json
        && let Value::Object(map) = parse_object("--metadata-json", text)?
    {
        all.extend(map);
    }
    for pair in &args.metadata {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| Failure::usage(format!("--metadata '{}': expected KEY=VALUE", escape(pair))))?;
        all.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    all.into_iter()
        .map(|(key, value)| {
            let cbor = values::to_cbor(&value).map_err(|e| Failure::usage(format!("metadata `{}`: {e}", escape(&key))))?;
            Ok((key, cbor))
        })
        .collect()
}

/// A content part as bytes for standard output.
fn render(part: &ContentPart, terminal: bool) -> Vec<u8> {
    let mime = part.mime_type.as_deref().unwrap_or("application/cbor");
    let essence = mime.split(';').next().unwrap_or(mime).trim().to_ascii_lowercase();
    let textual = essence.starts_with("text/")
        || ["application/json", "application/xml"].contains(&essence.as_str())
        || essence.ends_with("+json")
        || essence.ends_with("+xml");
    let text = if essence == "application/cbor" {
        match values::from_cbor(&part.data) {
            Ok(Value::String(text)) => text,
            Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_default(),
            Err(_) => return binary(part, mime, terminal),
        }
    } else if textual {
        String::from_utf8_lossy(&part.data).into_owned()
    } else {
        return binary(part, mime, terminal);
    };
    let mut bytes = if terminal { for_terminal(&text) } else { text }.into_bytes();
    bytes.push(b'\n');
    bytes
}

fn binary(part: &ContentPart, mime: &str, terminal: bool) -> Vec<u8> {
    if terminal { format!("[binary: {}, {} bytes]\n", escape(mime), part.data.len()).into_bytes() } else { part.data.clone() }
}

/// Text of a component on a terminal: line breaks and tabs stay, what could steer the terminal is shown as escapes.
fn for_terminal(text: &str) -> String {
    text.split_inclusive(['\n', '\t'])
        .map(|piece| match piece.char_indices().next_back() {
            Some((end, c @ ('\n' | '\t'))) => format!("{}{c}", escape(piece.get(..end).unwrap_or_default())),
            _ => escape(piece),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(data: &[u8], mime: Option<&str>) -> ContentPart {
        ContentPart { data: data.to_vec(), mime_type: mime.map(str::to_owned), metadata: Vec::new() }
    }

    #[test]
    fn parts_are_rendered_by_type() {
        let text = |p: &ContentPart, terminal| String::from_utf8(render(p, terminal)).unwrap();
        assert_eq!(text(&part(b"hi", Some("text/plain; charset=utf-8")), false), "hi\n");
        assert_eq!(text(&part(b"\x62hi", None), false), "hi\n");
        assert_eq!(text(&part(b"\x81\x01", None), false), "[\n  1\n]\n");
        assert_eq!(render(&part(b"\xff\xfe", Some("image/png")), false), b"\xff\xfe");
        assert_eq!(text(&part(b"\xff\xfe", Some("image/png")), true), "[binary: image/png, 2 bytes]\n");
        assert_eq!(text(&part(b"a\x1b[2J\tb\nc\r", Some("text/plain")), true), "a\\u{1b}[2J\tb\nc\\r\n");
        assert_eq!(text(&part(b"a\x1b[2J", Some("text/plain")), false), "a\x1b[2J\n");
    }
}
