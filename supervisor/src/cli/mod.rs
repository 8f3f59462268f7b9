//! Command line: one file per command, each with its arguments and one function.

mod call;
mod doctor;
pub(crate) mod duration;
mod info;
mod inspect;
mod listen;
mod login;
mod metadata;
mod permissions;
mod run;
mod run_args;
mod secret;
mod session;
mod session_args;
mod size;
mod validate;

use crate::exit::{Exit, Failure};
use act_policy::{CLASSES, escape};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

/// Run ACT agent components, each in a child that the kernel holds to your policy
#[derive(Debug, Parser)]
#[command(name = "act", version, disable_help_subcommand = true, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Call a tool of a component and print its result
    Call(call::Args),
    /// Serve a component's tools to an agent
    Run(run::Args),
    /// Show a component: its manifest and, with `-t`, its tools
    Info(info::Args),
    /// Check a component's manifest without running it
    Validate(validate::Args),
    /// Explain and test permission rules
    Permissions(permissions::Args),
    /// Look into a component file without running it
    Inspect(inspect::Args),
    /// The sessions of a component
    Session(session::Args),
    /// The secrets that are kept for components
    Secret(secret::Args),
    /// Type in the secrets that a component declares
    Login(login::Args),
    /// Try every isolation layer on this machine, and say what adds the missing ones
    Doctor(doctor::Args),
}

/// Parse, dispatch, and map the end to an exit code.
pub fn main() -> ExitCode {
    // From here on this process may hold secrets, which must not land in a core file.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let command =
        ["call", "run", "info"].into_iter().fold(Cli::command(), |c, name| c.mut_subcommand(name, with_classes));
    let cli = match command.try_get_matches().and_then(|m| Cli::from_arg_matches(&m)) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            let _ = error.print();
            return exit.into();
        }
    };
    let result = match cli.command {
        Command::Call(args) => call::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Permissions(args) => permissions::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Session(args) => session::run(&args),
        Command::Secret(args) => secret::run(&args),
        Command::Login(args) => login::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(Failure { exit, message }) => {
            let _ = std::io::stderr().write_all(format!("Error: {message}\n").as_bytes());
            exit.into()
        }
    }
}

/// The table of classes that ends the help of every command which loads a component.
fn with_classes(command: clap::Command) -> clap::Command {
    let mut table = String::from("Capability classes (alias, full id, rule of --allow and --deny):\n");
    for (alias, id, rule) in CLASSES {
        table.push_str(&format!("  {alias:<8} {id:<16} {rule}\n"));
    }
    table.push_str("  <class>  as declared      <key glob>   (semantic classes, for example db:drop)\n");
    table.push_str("--grant takes JSON for everything else: several ports, protocols, methods, ranges.");
    command.after_help(table)
}

/// A line on standard error; nobody need be there to read it.
fn tell(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Text with what a component or a file says in it: on a terminal without anything that steers it.
fn print_text(text: &str) -> Result<(), Failure> {
    let terminal = std::io::stdout().is_terminal();
    print(if terminal { for_terminal(text) } else { text.to_owned() }.as_bytes())
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

/// Write to standard output; a reader that has gone away ends the program quietly.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed("standard output was closed before the result was written"))
        }
        Err(e) => Err(Failure::failed(format!("standard output: {e}"))),
    }
}
