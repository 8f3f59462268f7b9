//! `act secret set|list|rm`

mod list;
mod remove;
mod set;

use super::tell;
use crate::component::Component;
use crate::exit::{Exit, Failure};
use crate::secrets::{Ask, Changed, Store, Value};
use act_policy::{Credential, escape};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Keep a secret that a component declares
    Set(set::Args),
    /// Print the names of all that is kept, as JSON
    List(list::Args),
    /// Remove what is kept for a component
    Rm(remove::Args),
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Set(args) => set::run(args),
        Command::List(args) => list::run(args),
        Command::Rm(args) => remove::run(args),
    }
}

/// The declaration of a key; the error lists those that there are.
pub(super) fn declared<'a>(component: &'a Component, key: &str) -> Result<&'a Credential, Failure> {
    let credentials = &component.manifest.credentials;
    credentials.iter().find(|c| c.key == key).ok_or_else(|| {
        let names: Vec<String> = credentials.iter().map(|c| escape(&c.key)).collect();
        let (reference, known) =
            (&component.reference, if names.is_empty() { "none".into() } else { names.join(", ") });
        Failure::usage(format!("--key {}: {reference} declares no such credential (declared: {known})", escape(key)))
    })
}

/// Keep fields, all or none: credential, field, value.
pub(super) fn keep(
    store: &mut Store,
    ask: &mut dyn Ask,
    component: &str,
    fields: Vec<(String, String, Value)>,
) -> Result<Changed<usize>, Failure> {
    let changed = store.update(ask, |content| {
        let count = fields.len();
        for (key, field, value) in fields {
            content.set(component, &key, &field, value);
        }
        count
    })?;
    Ok(changed)
}

/// Say what was kept, and for how long. On standard error: there is no result.
pub(super) fn told(component: &str, kept: &Changed<usize>) {
    let fields = if kept.value == 1 { "field" } else { "fields" };
    tell(&format!("act: {} {fields} kept for {}", kept.value, escape(component)));
    if !kept.has_passphrase {
        tell(
            "act: the key lies in the kernel's keyring alone, until a restart: with ACT_PASSPHRASE_FILE secrets outlast it",
        );
    }
}
