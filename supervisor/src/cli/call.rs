//! `act call REF TOOL --args JSON`

use super::metadata::{MetadataArgs, parse_object};
use super::run_args::RunArgs;
use super::session_args::SessionArgs;
use super::{for_terminal, print, tell};
use crate::consent::{Desk, TerminalChannel};
use crate::content::{self, Content};
use crate::exit::{Exit, Failure};
use crate::session::Asker;
use crate::tools::{Call, Refused, error_line};
use act_policy::escape;
use act_wire::ContentPart;
use serde_json::Value;
use std::io::IsTerminal as _;
use std::sync::Arc;

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
    #[expect(clippy::struct_field_names, reason = "the flag's name")]
    args: String,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let arguments = Value::Object(parse_object("--args", &args.args)?);
    let call = Call::new(args.tool.clone(), arguments, args.run.audit_args)
        .map_err(|e| Failure::usage(format!("--args: {e}")))?;
    let opening = args.session.parse()?;
    let mut prepared = args.run.prepare(&args.component, TerminalChannel::is_there())?;
    let metadata = args.metadata.encode(prepared.operator.metadata())?;
    let opening = opening.check(&prepared.component, &metadata)?;
    let mut trail = prepared.trail(&args.run);
    // Whoever started the program answers, at the terminal.
    let desk = Arc::new(Desk::new(prepared.operator.consent_timeout()));
    let may_ask = prepared.effective.engine.policy().may_ask();
    let _terminal = may_ask.then(|| TerminalChannel::attach(&desk)).flatten();
    match call.judge(&prepared.effective.engine, &mut trail, Some((&desk, &prepared.signals))) {
        Ok(()) => {}
        Err(Refused::Denied(error)) => return Err(Failure::denied(error_line(&error.kind, &error.message))),
        Err(Refused::Interrupted) => return Err(Failure::interrupted()),
    }
    let mut session = prepared.start(&args.run, trail)?;
    session.set_asker(Some(Asker::new(desk).map_err(|e| Failure::failed(format!("eventfd: {e}")))?));
    if let Err(failure) = opening.open(&mut session, &metadata, args.run.timeout) {
        session.finish();
        return Err(failure);
    }
    let completed = call.perform(&mut session, metadata, args.run.timeout);
    session.finish();
    prepared.timing.phase("call, and guest removed");
    let output = completed.result?;
    for part in &output.parts {
        print(&render(part, std::io::stdout().is_terminal()))?;
    }
    Ok(match output.error {
        Some(error) => {
            tell(&format!("Error: {}", error_line(&error.kind, &error.message)));
            match (completed.limit, completed.denied) {
                (true, _) => Exit::Killed,
                (false, true) => Exit::Denied,
                (false, false) => Exit::Failed,
            }
        }
        None => Exit::Ok,
    })
}

/// A content part as bytes for standard output.
fn render(part: &ContentPart, terminal: bool) -> Vec<u8> {
    let text = match content::read(part) {
        Content::Text(text) => text,
        Content::Value(value) => serde_json::to_string_pretty(&value).unwrap_or_default(),
        Content::Binary => return binary(part, terminal),
    };
    let mut bytes = if terminal { for_terminal(&text) } else { text }.into_bytes();
    bytes.push(b'\n');
    bytes
}

fn binary(part: &ContentPart, terminal: bool) -> Vec<u8> {
    if !terminal {
        return part.data.clone();
    }
    format!("[binary: {}, {} bytes]\n", escape(content::mime_type(part)), part.data.len()).into_bytes()
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
