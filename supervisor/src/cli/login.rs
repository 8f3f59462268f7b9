//! `act login REF`: type in what a component declares.

use super::secret::{keep, told};
use crate::component::Component;
use crate::config::dirs;
use crate::exit::{Exit, Failure};
use crate::secrets::{Store, Value};
use crate::signals::Signals;
use crate::terminal::Terminal;
use crate::values;
use act_policy::{Credential, Field, escape};
use zeroize::Zeroizing;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    /// Only this credential
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let signals = Signals::take().map_err(|e| Failure::failed(format!("signalfd: {e}")))?;
    let home = dirs::variable("HOME").filter(|h| h.starts_with('/'));
    let component = Component::load(&args.component, home.as_deref())?;
    let wanted: Vec<&Credential> = match &args.key {
        Some(key) => vec![super::secret::declared(&component, key)?],
        None => component.manifest.credentials.iter().collect(),
    };
    if wanted.is_empty() {
        let (reference, name) = (&component.reference, escape(&component.manifest.name));
        return Err(Failure::usage(format!("{reference} ({name}) declares no credentials")));
    }
    let mut terminal = Terminal::open(&signals);
    if !terminal.is_there() {
        return Err(Failure::usage("no terminal to type on: use act secret set with --fields-stdin or --from-command"));
    }
    let mut typed = Vec::new();
    for credential in wanted {
        if credential.fields.is_empty() {
            let key = escape(&credential.key);
            let text = format!("credential {key} declares no fields: use act secret set --key {key} --field NAME");
            return Err(Failure::usage(text));
        }
        let description = credential.description.as_deref().map(|d| format!(": {}", escape(d))).unwrap_or_default();
        crate::secrets::Ask::tell(&mut terminal, &format!("{}{description}", escape(&credential.key)));
        for field in &credential.fields {
            if let Some(value) = ask(&mut terminal, credential, field)? {
                typed.push((credential.key.clone(), field.key.clone(), value));
            }
        }
    }
    let mut store = Store::of_user()?;
    let kept = keep(&mut store, &mut terminal, &component.manifest.name, typed)?;
    told(&component.manifest.name, &kept);
    Ok(Exit::Ok)
}

/// Ask for a field; `None`: it is left as it is, which an empty line says of an optional one.
pub(super) fn ask(
    terminal: &mut Terminal<'_>,
    credential: &Credential,
    field: &Field,
) -> Result<Option<Value>, Failure> {
    let place = format!("{} {}", escape(&credential.key), escape(&field.key));
    if field.kind != "std:string" {
        let kind = escape(&field.kind);
        let text = format!("{place}: a field of type {kind} cannot be typed: use act secret set --fields-stdin");
        return Err(Failure::usage(text));
    }
    let label = if field.label.is_empty() { escape(&field.key) } else { escape(&field.label) };
    let optional = if field.required { "" } else { " (optional)" };
    let line = terminal.line(&format!("{label}{optional}: "), field.secret)?;
    let text = line.ok_or_else(|| Failure::usage(format!("{place}: the terminal was closed")))?;
    match (text.is_empty(), field.required) {
        (true, false) => Ok(None),
        (true, true) => Err(Failure::usage(format!("{place}: nothing was typed; nothing was changed"))),
        (false, _) => string(text).map(Some),
    }
}

/// Text as a value.
pub(super) fn string(text: Zeroizing<String>) -> Result<Value, Failure> {
    let json = serde_json::Value::String(text.as_str().to_owned());
    let cbor = values::to_cbor(&json).map_err(Failure::failed)?;
    if let serde_json::Value::String(copy) = json {
        drop(Zeroizing::new(copy));
    }
    Ok(Value::new(cbor))
}
