//! `act secret list`: names, never values.

use crate::cli::print;
use crate::exit::{Exit, Failure};
use crate::secrets::Store;
use crate::signals::Signals;
use crate::terminal::Terminal;
use serde_json::{Map, Value, json};

#[derive(clap::Args, Debug)]
pub(in crate::cli) struct Args {}

pub(super) fn run(_: &Args) -> Result<Exit, Failure> {
    let signals = Signals::take().map_err(|e| Failure::failed(format!("signalfd: {e}")))?;
    let content = Store::of_user()?.read(&mut Terminal::open(&signals))?;
    let mut components = Map::new();
    for (component, key, fields) in content.names() {
        let entry = components.entry(component).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(credentials) = entry {
            credentials.insert(key.to_owned(), json!(fields));
        }
    }
    let mut text = serde_json::to_string_pretty(&Value::Object(components)).map_err(Failure::failed)?;
    text.push('\n');
    print(text.as_bytes())?;
    Ok(Exit::Ok)
}
