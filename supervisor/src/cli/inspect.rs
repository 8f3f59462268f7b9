//! `act inspect component-manifest FILE`

use super::print_text;
use crate::component::Component;
use crate::config::dirs;
use crate::exit::{Exit, Failure};
use crate::values;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the manifest in a component file as JSON, as it stands there
    ComponentManifest(FileArgs),
}

#[derive(clap::Args, Debug)]
struct FileArgs {
    /// Component file
    #[arg(value_name = "FILE")]
    file: String,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::ComponentManifest(args) => manifest(args),
    }
}

fn manifest(args: &FileArgs) -> Result<Exit, Failure> {
    let home = dirs::variable("HOME").filter(|h| h.starts_with('/'));
    let component = Component::load(&args.file, home.as_deref())?;
    let fail = |e: &dyn std::fmt::Display| Failure::failed(format!("{}: {e}", component.reference));
    let value = values::from_cbor(&component.section).map_err(|e| fail(&e))?;
    let mut text = serde_json::to_string_pretty(&value).map_err(|e| fail(&e))?;
    text.push('\n');
    print_text(&text)?;
    Ok(Exit::Ok)
}
