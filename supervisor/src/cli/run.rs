//! `act run REF --mcp`

use super::metadata::MetadataArgs;
use super::run_args::RunArgs;
use super::session_args::SessionArgs;
use super::tell;
use crate::exit::{Exit, Failure};
use crate::mcp::{Identity, Server, Settings};
use act_policy::escape;
use rustix::fd::AsFd as _;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    /// Serve the tools over MCP on standard input and output
    #[arg(long)]
    mcp: bool,
    /// Not supported by this version
    #[arg(long, hide = true)]
    http: bool,
    /// Not supported by this version
    #[arg(short, long, value_name = "ADDRESS", hide = true)]
    listen: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    transport(args)?;
    let opening = args.session.parse()?;
    let mut prepared = args.run.prepare(&args.component, true)?;
    let metadata = args.metadata.encode(prepared.operator.metadata())?;
    let opening = opening.check(&prepared.component, &metadata)?;
    let manifest = &prepared.component.manifest;
    let identity = Identity {
        name: manifest.name.clone(),
        version: manifest.version.clone(),
        description: manifest.description.clone(),
    };
    let settings = Settings {
        metadata,
        timeout: args.run.timeout,
        arguments_in_full: args.run.audit_args,
        // With a session that all calls share, the client has none to open.
        sessions: prepared.component.has_sessions && !opening.is_wanted(),
        consent_timeout: prepared.operator.consent_timeout(),
    };
    // The same signals by a second descriptor: a guest borrows the first, and between guests there is a wait too.
    let interrupt = prepared.signals.as_fd().try_clone_to_owned().map_err(|e| Failure::failed(format!("dup: {e}")))?;
    let mut server = Server::start(identity, settings, interrupt)?;
    loop {
        let trail = prepared.trail(&args.run);
        let started = prepared.start(&args.run, trail).and_then(|mut session| {
            match opening.open(&mut session, &server.settings().metadata, args.run.timeout) {
                Ok(()) => Ok(session),
                Err(failure) => {
                    session.finish();
                    Err(failure)
                }
            }
        });
        let end = match started {
            Ok(session) => server.serve(session)?,
            Err(failure) => {
                let line = format!("Error: {failure}");
                server.start_failed(failure)?;
                tell(&line);
                None
            }
        };
        if let Some(exit) = end {
            return Ok(exit);
        }
        if let Some(exit) = server.await_request()? {
            return Ok(exit);
        }
    }
}

/// Refuse what is not served.
fn transport(args: &Args) -> Result<(), Failure> {
    let refuse = |message: String| Err(Failure::usage(message));
    match (&args.listen, args.http) {
        (Some(address), false) => refuse(format!("--listen {}: it needs --http", escape(address))),
        (Some(address), true) => {
            refuse(format!("--http --listen {}: --http is not supported by this version", escape(address)))
        }
        (None, true) => refuse("--http is not supported by this version (use --mcp alone)".into()),
        (None, false) if !args.mcp => refuse("run: no transport: add --mcp to serve the tools over MCP".into()),
        (None, false) => Ok(()),
    }
}
