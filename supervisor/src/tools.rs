//! Tools of a component and calls to them: what the command line and the MCP server share.

use crate::audit::{CallEnd, Trail};
use crate::component::hex;
use crate::consent::Desk;
use crate::schema;
use crate::session::{Output, Session, SessionError};
use crate::signals::Signals;
use crate::values::{self, ValueError};
use act_policy::{Decision, Engine, Request, escape};
use act_wire::{GuestError, LIMIT, NOT_STARTED, Tool};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::{Duration, Instant};

/// Longest truth value in CBOR, in bytes.
const MAX_HINT: usize = 16;
/// Longest text of arguments that `--audit-args` prints, in characters.
const LONGEST_ARGUMENTS: usize = 8192;
/// Most tools that are named when one is not found.
const MAX_NAMED: usize = 20;

/// A truth value of a tool's metadata, for example `std:read-only`.
pub fn hint(tool: &Tool, key: &str) -> Option<bool> {
    let (_, value) = tool.metadata.iter().find(|(k, value)| k == key && value.len() <= MAX_HINT)?;
    values::from_cbor(value).ok()?.as_bool()
}

/// Whether the policy lets a tool be called at all: others are not listed.
pub fn listed(engine: &Engine, tool: &str) -> bool {
    engine.decide(&tool_request(engine, tool)).decision != Decision::Deny
}

fn tool_request(engine: &Engine, tool: &str) -> Request {
    let component = engine.policy().component.clone().unwrap_or_default();
    Request::Tool { component, tool: tool.to_owned() }
}

/// Judge the call of a tool itself; `shown` is what the trail shows of its arguments. A refusal has its line in the trail,
/// and tells whoever called no more than that.
pub fn judge(
    engine: &Engine,
    trail: &mut Trail,
    tool: &str,
    shown: &str,
    asker: Option<(&Desk, &Signals)>,
) -> Result<(), Refused> {
    let policy = engine.policy();
    let request = tool_request(engine, tool);
    let verdict = engine.decide(&request);
    if policy.passes(&verdict) {
        return Ok(());
    }
    match (verdict.decision, asker.filter(|_| policy.may_ask())) {
        (Decision::Ask, Some((desk, signals))) => match desk.ask_and_wait(policy, &request, &verdict, signals) {
            Ok(Some(outcome)) => {
                trail.answered(policy, &request, "", outcome);
                if outcome.allow {
                    return Ok(());
                }
            }
            Ok(None) => return Err(Refused::Interrupted),
            Err(error) => {
                trail.warn(&format!("nobody can be asked: {error}"));
                trail.unanswered(policy, &request);
            }
        },
        (Decision::Ask, None) => trail.unanswered(policy, &request),
        (Decision::Allow | Decision::Deny, _) => trail.judged(policy, &request, &verdict),
    }
    trail.call(tool, CallEnd::Refused, Duration::ZERO, shown, 0);
    let message = format!("the policy does not let the tool `{}` be called; another tool may do", escape(tool));
    Err(Refused::Denied(GuestError { kind: "std:capability-denied".into(), message }))
}

/// Why a call does not begin.
#[derive(Debug)]
pub enum Refused {
    /// By the policy, or by whoever was asked.
    Denied(GuestError),
    /// A signal ended the program while somebody was asked.
    Interrupted,
}

/// A call that is ready to be made.
#[derive(Debug)]
pub struct Call {
    /// The tool's name, as it was asked for.
    pub tool: String,
    arguments: Value,
    encoded: Vec<u8>,
    shown: String,
}

impl Call {
    /// Encode the arguments, a JSON object. The audit trail shows six digits of their SHA-256, or all of them `in_full`.
    pub fn new(tool: String, arguments: Value, in_full: bool) -> Result<Self, ValueError> {
        let encoded = values::to_cbor(&arguments)?;
        let shown = if in_full {
            escape(&arguments.to_string()).chars().take(LONGEST_ARGUMENTS).collect()
        } else {
            digest(&encoded)
        };
        Ok(Self { tool, arguments, encoded, shown })
    }

    /// Judge the call itself.
    pub fn judge(&self, engine: &Engine, trail: &mut Trail, asker: Option<(&Desk, &Signals)>) -> Result<(), Refused> {
        judge(engine, trail, &self.tool, &self.shown, asker)
    }

    /// Find the tool, check the arguments, make the call, and write its line of the trail.
    pub fn perform(
        self,
        session: &mut Session<'_>,
        metadata: Vec<(String, Vec<u8>)>,
        timeout: Option<Duration>,
    ) -> Completed {
        let started = Instant::now();
        let checked = match session.reopen(timeout) {
            Ok(Ok(())) => check(session, &self.tool, &self.arguments, timeout),
            Ok(Err(error)) => Ok(Some(Refusal { unknown: false, error: error.into() })),
            Err(error) => Err(error),
        };
        let (unknown, mut result) = match checked {
            Ok(None) => (false, session.call_tool(&self.tool, self.encoded, metadata, timeout)),
            Ok(Some(Refusal { unknown, error })) => (unknown, Ok(Output { parts: Vec::new(), error: Some(error) })),
            Err(error) => (false, Err(error)),
        };
        let end = match &result {
            Ok(Output { error: None, .. }) => CallEnd::Ok,
            Ok(Output { error: Some(_), .. }) => CallEnd::ToolError,
            Err(error) => error.end(),
        };
        let number = session.last_call();
        let denials = session.trail.call(&self.tool, end, started.elapsed(), &self.shown, number);
        let limit = matches!(&result, Ok(Output { error: Some(error), .. }) if error.kind == LIMIT);
        if let (true, Ok(Output { error: Some(error), .. })) = (limit, &mut result) {
            // The word is between the guest program and this one.
            error.kind = "std:internal".into();
        }
        // A tool that recovered from a denial was not denied.
        Completed { denied: denials > 0 && end != CallEnd::Ok, unknown, limit, result }
    }
}

/// The start of the SHA-256 of arguments, as the audit trail shows it.
pub fn digest(encoded: &[u8]) -> String {
    let digest = hex(&Sha256::digest(encoded));
    digest.get(..6).unwrap_or_default().to_owned()
}

/// How a call ended.
#[derive(Debug)]
pub struct Completed {
    /// Whether it failed after the policy or a kernel layer had refused one of its operations.
    pub denied: bool,
    /// Whether there is no such tool; the result's error names those that there are.
    pub unknown: bool,
    /// Whether it hit a limit that the guest program holds.
    pub limit: bool,
    /// What it brought, or why the guest gave no answer.
    pub result: Result<Output, SessionError>,
}

/// Why a call ends before the guest is entered.
struct Refusal {
    unknown: bool,
    error: GuestError,
}

/// Refuse an unknown tool, and arguments that miss the tool's schema.
fn check(
    session: &mut Session<'_>,
    name: &str,
    arguments: &Value,
    timeout: Option<Duration>,
) -> Result<Option<Refusal>, SessionError> {
    let tools = match session.list_tools(timeout)? {
        Ok(tools) => tools,
        Err(error) if error.kind == NOT_STARTED => {
            let raise = if error.message.contains("memory minimum size") { " (raise --max-memory)" } else { "" };
            return Err(SessionError::NotStarted(format!("{}{raise}", escape(&error.message))));
        }
        Err(error) => return Ok(Some(Refusal { unknown: false, error })),
    };
    let Some(tool) = tools.iter().find(|t| t.name == name) else {
        let mut names: Vec<&str> = tools.iter().take(MAX_NAMED).map(|t| t.name.as_str()).collect();
        names.sort_unstable();
        let message = format!("no tool `{name}` (tools: {})", names.join(", "));
        return Ok(Some(Refusal { unknown: true, error: GuestError { kind: "std:not-found".into(), message } }));
    };
    let checked = schema::validate(&tool.parameters_schema, arguments);
    let error = checked.err().map(|message| GuestError { kind: "std:invalid-args".into(), message });
    Ok(error.map(|error| Refusal { unknown: false, error }))
}

/// An error of a tool in one line.
pub fn error_line(kind: &str, message: &str) -> String {
    /// Longest message that is shown, in characters.
    const LONGEST: usize = 4096;
    let message: String = message.trim_end().chars().take(LONGEST).collect();
    format!("{}: {}", escape(kind), escape(&message))
}
