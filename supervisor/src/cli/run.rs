//! `act run REF --mcp`, `act run REF --http`

use super::listen::ListenArgs;
use super::metadata::MetadataArgs;
use super::run_args::{Prepared, RunArgs};
use super::session_args::{Opening, SessionArgs};
use super::tell;
use crate::exit::{Exit, Failure};
use crate::mcp::{Identity, Server, Settings, Transport};
use act_policy::escape;
use rustix::fd::AsFd as _;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    /// Serve the tools over MCP on standard input and output, or over HTTP with --http
    #[arg(long)]
    mcp: bool,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let listen = args.listen.parse()?;
    if listen.is_none() && !args.mcp {
        return Err(Failure::usage("run: no transport: add --mcp to serve the tools over MCP, or --http"));
    }
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
    let (transport, serving) = match listen {
        None => (Transport::Stdio, None),
        Some(listen) => {
            let http = listen.open()?;
            let serving = format!("act: serving {} on {}", escape(&identity.name), http.url());
            (Transport::Http(Box::new(http)), Some(serving))
        }
    };
    let mut server = Server::start(identity, settings, transport, interrupt)?;
    if let Some(serving) = serving {
        tell(&serving);
    }
    let ended = serve(args, &mut prepared, &opening, &mut server);
    server.end();
    ended
}

/// Serve with one guest after another.
fn serve(args: &Args, prepared: &mut Prepared, opening: &Opening, server: &mut Server) -> Result<Exit, Failure> {
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
