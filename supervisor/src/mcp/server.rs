//! The guest's side, on the thread that starts guests: commands are served one after another.

use super::endpoint::{self, Identity, Transport};
use super::queue::{Answer, Command, Receiver, Wake, queue};
use super::sessions;
use crate::consent::Desk;
use crate::exit::{Exit, Failure};
use crate::session::{Asker, Output, SESSION_ID, Session, SessionError};
use crate::tools::{self, Call, Completed, Refused};
use crate::values;
use act_policy::escape;
use act_wire::{GuestError, Tool};
use rustix::fd::{AsFd as _, OwnedFd};
use serde_json::Value;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How calls are made.
#[derive(Debug)]
pub struct Settings {
    /// Metadata of every call: key and CBOR value.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// Whether the audit trail shows arguments in full.
    pub arguments_in_full: bool,
    /// Whether the client opens and closes sessions of the component itself.
    pub sessions: bool,
    /// How long a question waits for an answer.
    pub consent_timeout: Duration,
}

/// A server; the guest comes and goes.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what was told, and how the last call and the last start went")]
pub struct Server {
    settings: Settings,
    commands: Receiver,
    /// Can be read when a signal asks the program to end.
    interrupt: OwnedFd,
    /// The request that a guest is started for.
    waiting: Option<Command>,
    last_denied: bool,
    /// Whether the last start of a guest failed.
    failed_before: bool,
    /// Whether it was told that nobody can be asked.
    unattended_told: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), String>>>,
    /// Whether the protocol thread has clients that are told of the end.
    many: bool,
}

/// What became of a guest.
enum Served {
    Alive,
    Gone,
    Interrupted,
}

impl Server {
    /// Begin to answer clients. `interrupt` is a descriptor that can be read when the program is asked to end.
    pub fn start(
        identity: Identity,
        settings: Settings,
        transport: Transport,
        interrupt: OwnedFd,
    ) -> Result<Self, Failure> {
        let fail = |call: &str, e: std::io::Error| Failure::failed(format!("the MCP server: {call}: {e}"));
        let (sender, commands) = queue().map_err(|e| fail("eventfd", e.into()))?;
        let (stop, stopped) = oneshot::channel();
        let many = matches!(transport, Transport::Http(_));
        let thread = std::thread::Builder::new()
            .name("mcp".into())
            .spawn({
                let consent_timeout = settings.consent_timeout;
                move || endpoint::serve(identity, consent_timeout, sender, transport, stopped)
            })
            .map_err(|e| fail("thread", e))?;
        Ok(Self {
            settings,
            commands,
            interrupt,
            waiting: None,
            last_denied: false,
            failed_before: false,
            unattended_told: false,
            stop: Some(stop),
            thread: Some(thread),
            many,
        })
    }

    /// How calls are made.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Serve requests with a guest. `None`: the guest is gone and the server goes on.
    pub fn serve(&mut self, mut session: Session<'_>) -> Result<Option<Exit>, Failure> {
        self.failed_before = false;
        let end = loop {
            match self.await_request() {
                Ok(None) => {}
                end => break end,
            }
            let Some(command) = self.waiting.take() else { continue };
            match self.answer(&mut session, command) {
                Served::Alive => {}
                Served::Gone => break Ok(None),
                Served::Interrupted => break Ok(Some(Exit::Interrupted)),
            }
        };
        session.finish();
        end
    }

    /// Wait until a request needs a guest, and keep it; the exit code when there will be none.
    pub fn await_request(&mut self) -> Result<Option<Exit>, Failure> {
        if self.waiting.is_some() {
            return Ok(None);
        }
        match self.commands.wait(self.interrupt.as_fd()) {
            Ok(Wake::Command(command)) => {
                self.waiting = Some(command);
                Ok(None)
            }
            Ok(Wake::Interrupted) => Ok(Some(Exit::Interrupted)),
            Ok(Wake::Closed) => {
                self.join()?;
                Ok(Some(if self.last_denied { Exit::Denied } else { Exit::Ok }))
            }
            Err(e) => Err(Failure::failed(format!("the MCP server: poll: {e}"))),
        }
    }

    /// No guest could be started: the request that waits for one is answered with an error. The failure comes back, to
    /// end the program, when nobody waits, when it is the second in a row, and for an interruption.
    pub fn start_failed(&mut self, failure: Failure) -> Result<(), Failure> {
        let Some(command) = self.waiting.take().filter(|_| failure.exit != Exit::Interrupted) else {
            return Err(failure);
        };
        let message = "the component could not be started".to_owned();
        match command {
            Command::List { reply } => drop(reply.send(Err(message))),
            Command::Call { reply, .. } => {
                self.last_denied = false;
                let error = Some(GuestError { kind: "std:internal".into(), message });
                let output = Output { parts: Vec::new(), error };
                drop(reply.send(Answer::Output { output, denied: false }));
            }
        }
        if std::mem::replace(&mut self.failed_before, true) {
            self.join()?;
            return Err(failure);
        }
        Ok(())
    }

    /// The end of the program: whoever waits over HTTP is told so. Standard input has nobody who would wait.
    pub fn end(self) {
        let Self { commands, waiting, stop, thread, many, .. } = self;
        drop((commands, waiting, stop));
        if many && let Some(thread) = thread {
            // It has a time limit of its own, and its failure would only hide the reason for the end.
            let _ = thread.join();
        }
    }

    /// Let the protocol thread send what is left (it has a time limit of its own) and end.
    fn join(&mut self) -> Result<(), Failure> {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(message))) => Err(Failure::failed(message)),
            Some(Err(_)) => Err(Failure::failed("the MCP server crashed")),
            Some(Ok(Ok(()))) | None => Ok(()),
        }
    }

    fn answer(&mut self, session: &mut Session<'_>, command: Command) -> Served {
        match command {
            // The client has cancelled it.
            Command::List { reply } if reply.is_closed() => Served::Alive,
            Command::Call { reply, .. } if reply.is_closed() => Served::Alive,
            Command::List { reply } => {
                let (served, tools) = match self.list(session) {
                    Ok(Ok(tools)) => (Served::Alive, Ok(tools)),
                    Ok(Err(error)) => (Served::Alive, Err(error.message)),
                    Err(error) => (after(&error), Err(error.to_string())),
                };
                drop(reply.send(tools));
                served
            }
            Command::Call { tool, arguments, session: id, desk, channel, cancel, reply } => {
                let alone = channel.is_none() && !desk.is_attended() && session.engine().policy().may_ask();
                if alone && !std::mem::replace(&mut self.unattended_told, true) {
                    session.trail.unattended(session.engine().policy());
                }
                let channel = channel.map(|channel| desk.attach(channel));
                let (served, answer) = match Asker::new(Arc::clone(&desk)) {
                    Ok(asker) => {
                        session.set_asker(Some(asker));
                        session.set_cancel(Some(cancel));
                        self.call(session, &desk, tool, arguments, id)
                    }
                    Err(error) => {
                        let output = failed("std:internal", format!("eventfd: {error}"));
                        (Served::Alive, Answer::Output { output, denied: false })
                    }
                };
                session.set_asker(None);
                session.set_cancel(None);
                if let Some(channel) = channel {
                    desk.detach(channel);
                }
                drop(reply.send(answer));
                served
            }
        }
    }

    fn list(&self, session: &mut Session<'_>) -> Result<Result<Vec<Tool>, GuestError>, SessionError> {
        let timeout = self.settings.timeout;
        let mut tools = match session.list_tools(timeout)? {
            Ok(tools) => tools,
            Err(error) => return Ok(Err(error)),
        };
        if self.settings.sessions {
            sessions::add(session, &mut tools, timeout)?;
        }
        tools.retain(|tool| tools::listed(session.engine(), &tool.name));
        session.trail.settle("tools/list");
        Ok(Ok(tools))
    }

    fn call(
        &mut self,
        session: &mut Session<'_>,
        desk: &Desk,
        tool: String,
        arguments: Value,
        id: Option<String>,
    ) -> (Served, Answer) {
        let shown = escape(&tool);
        let mut metadata = self.settings.metadata.clone();
        if let Some(id) = id
            && let Ok(id) = values::to_cbor(&Value::String(id))
        {
            metadata.retain(|(key, _)| key != SESSION_ID);
            metadata.push((SESSION_ID.to_owned(), id));
        }
        let engine = session.engine();
        if self.settings.sessions && sessions::has(&tool) {
            // What a session is opened with may be secret.
            let signals = session.signals();
            if let Err(refused) = tools::judge(engine, &mut session.trail, &tool, "-", Some((desk, signals))) {
                return self.refused(refused);
            }
            return self.finish(&shown, sessions::call(session, &tool, &arguments, metadata, self.settings.timeout));
        }
        let call = match Call::new(tool, arguments, self.settings.arguments_in_full) {
            Ok(call) => call,
            Err(e) => {
                self.last_denied = false;
                let output = failed("std:invalid-args", e.to_string());
                return (Served::Alive, Answer::Output { output, denied: false });
            }
        };
        let signals = session.signals();
        if let Err(refused) = call.judge(engine, &mut session.trail, Some((desk, signals))) {
            return self.refused(refused);
        }
        let completed = call.perform(session, metadata, self.settings.timeout);
        self.finish(&shown, completed)
    }

    fn refused(&mut self, refused: Refused) -> (Served, Answer) {
        let error = match refused {
            Refused::Denied(error) => error,
            Refused::Interrupted => {
                let output = failed("std:internal", "interrupted".into());
                return (Served::Interrupted, Answer::Output { output, denied: false });
            }
        };
        self.last_denied = true;
        let output = Output { parts: Vec::new(), error: Some(error) };
        (Served::Alive, Answer::Output { output, denied: true })
    }

    fn finish(&mut self, tool: &str, completed: Completed) -> (Served, Answer) {
        let Completed { denied, unknown, result, limit: _ } = completed;
        // A call that nobody wants any more says nothing of how the run went.
        if !matches!(result, Err(SessionError::Cancelled)) {
            self.last_denied = denied;
        }
        match result {
            Ok(_) if unknown => (Served::Alive, Answer::Unknown(format!("unknown tool: {tool}"))),
            Ok(output) => (Served::Alive, Answer::Output { output, denied }),
            Err(error) => {
                let kind = if matches!(error, SessionError::TimedOut(_)) { "std:timeout" } else { "std:internal" };
                (after(&error), Answer::Output { output: failed(kind, error.to_string()), denied })
            }
        }
    }
}

fn failed(kind: &str, message: String) -> Output {
    Output { parts: Vec::new(), error: Some(GuestError { kind: kind.into(), message }) }
}

/// Every failure of a session is the end of its guest.
fn after(error: &SessionError) -> Served {
    if matches!(error, SessionError::Interrupted) { Served::Interrupted } else { Served::Gone }
}
