//! `act secret set REF --key KEY --field FIELD …`
//!
//! A value comes from the terminal, from standard input or from a command, never from the command line: that would show
//! it to every process of the machine.

use super::{declared, keep, told};
use crate::cli::login::{ask, string};
use crate::component::Component;
use crate::config::dirs;
use crate::exit::{Exit, Failure};
use crate::secrets::{Store, Value};
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::values;
use act_policy::{Credential, Field, escape};
use serde_json::Value as Json;
use std::io::Read as _;
use std::process::{Command, Stdio};
use zeroize::Zeroizing;

/// Most bytes of standard input, and of a command's output.
const MAX_INPUT: u64 = 1 << 20;

#[derive(clap::Args, Debug)]
pub(in crate::cli) struct Args {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    /// The credential, as the component declares it
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The field. Repeatable; all declared fields of the credential where not given
    #[arg(long, value_name = "FIELD")]
    field: Vec<String>,
    /// Read a JSON object of fields and values from standard input
    #[arg(long, conflicts_with = "from_command")]
    fields_stdin: bool,
    /// Take what this command prints as the value of the one field; the rest of the command line belongs to it
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    from_command: Option<Vec<String>>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let signals = Signals::take().map_err(|e| Failure::failed(format!("signalfd: {e}")))?;
    let home = dirs::variable("HOME").filter(|h| h.starts_with('/'));
    let component = Component::load(&args.component, home.as_deref())?;
    let credential = declared(&component, &args.key)?;
    let wanted = wanted(credential, &args.field)?;
    let mut terminal = Terminal::open(&signals);
    let values = if args.fields_stdin {
        from_stdin(credential, &args.field)?
    } else if let Some(command) = &args.from_command {
        let [field] = wanted.as_slice() else {
            return Err(Failure::usage("--from-command gives one value: name its field with --field"));
        };
        vec![(field.key.clone(), checked(credential, field, &Json::String(from_command(command)?))?)]
    } else {
        if !terminal.is_there() {
            return Err(Failure::usage("no terminal to type on: use --fields-stdin or --from-command"));
        }
        let mut values = Vec::new();
        for field in &wanted {
            if let Some(value) = ask(&mut terminal, credential, field)? {
                values.push((field.key.clone(), value));
            }
        }
        values
    };
    let fields = values.into_iter().map(|(field, value)| (args.key.clone(), field, value)).collect();
    let mut store = Store::of_user()?;
    let kept = keep(&mut store, &mut terminal, &component.manifest.name, fields)?;
    told(&component.manifest.name, &kept);
    Ok(Exit::Ok)
}

/// The fields that are asked for by name, or all that are declared. A credential that declares none takes any.
fn wanted(credential: &Credential, names: &[String]) -> Result<Vec<Field>, Failure> {
    if names.is_empty() {
        return Ok(credential.fields.clone());
    }
    names.iter().map(|name| field(credential, name)).collect()
}

fn field(credential: &Credential, name: &str) -> Result<Field, Failure> {
    if let Some(field) = credential.field(name) {
        return Ok(field.clone());
    }
    let (key, shown) = (escape(&credential.key), escape(name));
    if credential.fields.is_empty() && !name.is_empty() {
        let text = || "std:string".to_owned();
        return Ok(Field { key: name.to_owned(), label: String::new(), kind: text(), secret: true, required: true });
    }
    let known: Vec<String> = credential.fields.iter().map(|f| escape(&f.key)).collect();
    Err(Failure::usage(format!(
        "field `{shown}`: credential {key} declares no such field (declared: {})",
        known.join(", ")
    )))
}

/// The object on standard input. No message repeats what is in it, but for the names of its fields.
fn from_stdin(credential: &Credential, names: &[String]) -> Result<Vec<(String, Value)>, Failure> {
    let fail = |text: String| Failure::usage(format!("--fields-stdin: {text}"));
    let mut text = Zeroizing::new(String::new());
    let read = std::io::stdin().lock().take(MAX_INPUT + 1).read_to_string(&mut text);
    read.map_err(|e| fail(e.to_string()))?;
    if text.len() as u64 > MAX_INPUT {
        return Err(fail(format!("more than {MAX_INPUT} bytes")));
    }
    let json: Json = serde_json::from_str(&text).map_err(|e| {
        fail(format!("not JSON at line {} column {}: expected {{\"FIELD\": \"value\"}}", e.line(), e.column()))
    })?;
    let Json::Object(object) = json else {
        return Err(fail("expected a JSON object such as {\"FIELD\": \"value\"}".into()));
    };
    if object.is_empty() {
        return Err(fail("the object has no fields".into()));
    }
    if let Some(missing) = names.iter().find(|name| !object.contains_key(name.as_str())) {
        return Err(fail(format!("no field `{}` in the object", escape(missing))));
    }
    let mut values = Vec::new();
    for (name, value) in &object {
        if !names.is_empty() && !names.contains(name) {
            return Err(fail(format!("field `{}` was not named by --field", escape(name))));
        }
        values.push((name.clone(), checked(credential, &field(credential, name)?, value)?));
    }
    Ok(values)
}

fn checked(credential: &Credential, field: &Field, value: &Json) -> Result<Value, Failure> {
    let fail = |text: String| Failure::usage(format!("{} {}: {text}", escape(&credential.key), escape(&field.key)));
    if let Json::String(text) = value {
        if text.is_empty() {
            return Err(fail("the value is empty".into()));
        }
        return string(Zeroizing::new(text.clone()));
    }
    if field.kind == "std:string" {
        return Err(fail("expected a string".into()));
    }
    values::to_cbor(value).map(Value::new).map_err(|e| fail(e.to_string()))
}

/// What a command prints, without the line break at its end. It keeps the terminal, to ask for a password of its own.
fn from_command(command: &[String]) -> Result<String, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage("--from-command: no command"));
    };
    let fail = |text: String| Failure::failed(format!("--from-command {}: {text}", escape(program)));
    let mut started = Command::new(program);
    let mut child = started.args(arguments).stdout(Stdio::piped()).spawn().map_err(|e| fail(e.to_string()))?;
    let mut text = Zeroizing::new(String::new());
    let read = match child.stdout.take() {
        Some(out) => out.take(MAX_INPUT + 1).read_to_string(&mut text),
        None => Ok(0),
    };
    if text.len() as u64 > MAX_INPUT {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| fail(e.to_string()))?;
    read.map_err(|e| fail(format!("its output: {e}")))?;
    if text.len() as u64 > MAX_INPUT {
        return Err(fail(format!("more than {MAX_INPUT} bytes of output")));
    }
    if !status.success() {
        return Err(fail(format!("{status}; nothing was changed")));
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    if line.is_empty() {
        return Err(fail("it printed nothing; nothing was changed".into()));
    }
    Ok(line.to_owned())
}
