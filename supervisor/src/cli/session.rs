//! `act session open-args-schema REF`

use super::metadata::MetadataArgs;
use super::print_text;
use super::run_args::RunArgs;
use crate::exit::{Exit, Failure};
use crate::tools::error_line;
use act_policy::escape;
use serde_json::Value;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the JSON Schema of the arguments that `--session-args` takes; this runs the component under the given policy
    OpenArgsSchema(SchemaArgs),
}

#[derive(clap::Args, Debug)]
struct SchemaArgs {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::OpenArgsSchema(args) => schema(args),
    }
}

fn schema(args: &SchemaArgs) -> Result<Exit, Failure> {
    let mut prepared = args.run.prepare(&args.component, false)?;
    let metadata = args.metadata.encode(prepared.operator.metadata())?;
    let component = &prepared.component;
    if !component.has_sessions {
        let (reference, name) = (&component.reference, escape(&component.manifest.name));
        return Err(Failure::usage(format!("{reference} ({name}) has no sessions")));
    }
    let trail = prepared.trail(&args.run);
    let mut session = prepared.start(&args.run, trail)?;
    let schema = session.session_schema(metadata, args.run.timeout);
    session.finish();
    let schema = schema?.map_err(|e| Failure::failed(error_line(&e.kind, &e.message)))?;
    let schema: Value = serde_json::from_str(&schema)
        .map_err(|e| Failure::failed(format!("{}: its schema is not JSON: {e}", prepared.component.reference)))?;
    let mut text = serde_json::to_string_pretty(&schema).map_err(Failure::failed)?;
    text.push('\n');
    print_text(&text)?;
    Ok(Exit::Ok)
}
