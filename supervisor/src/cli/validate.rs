//! `act validate FILE`

use super::print;
use crate::component::Component;
use crate::config::dirs;
use crate::exit::{Exit, Failure};
use act_policy::escape;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Component file
    #[arg(value_name = "FILE")]
    file: String,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let home = dirs::variable("HOME").filter(|h| h.starts_with('/'));
    let component = Component::load(&args.file, home.as_deref())?;
    let manifest = &component.manifest;
    let line = format!("{}: ok, {} {}\n", component.reference, escape(&manifest.name), escape(&manifest.version));
    print(line.as_bytes())?;
    Ok(Exit::Ok)
}
