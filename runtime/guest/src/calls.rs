//! Running calls on the current instance, and replacing it after a trap.

use crate::outbox::Outbox;
use crate::ticker::{Busy, Ticker};
use act_host::{Component, Events, Prepared, Sessions, State, Tools};
use act_wire::{Bounded, CallId, GuestError, LIMIT, NOT_STARTED, ToSupervisor, ToolEvent};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use wasmtime::Engine;
use wasmtime::component::{Accessor, AccessorTask};

/// What the supervisor wants done.
pub(crate) enum Command {
    List { call: CallId, metadata: Vec<(String, Vec<u8>)> },
    Call { call: CallId, name: String, arguments: Vec<u8>, metadata: Vec<(String, Vec<u8>)> },
    Schema { call: CallId, metadata: Vec<(String, Vec<u8>)> },
    Open { call: CallId, arguments: Vec<(String, Vec<u8>)>, metadata: Vec<(String, Vec<u8>)> },
    Close { call: CallId, session: String },
}

impl Command {
    fn call(&self) -> (CallId, Kind) {
        match self {
            Self::List { call, .. } => (*call, Kind::List),
            Self::Call { call, .. } => (*call, Kind::Call),
            Self::Schema { call, .. } => (*call, Kind::Schema),
            Self::Open { call, .. } => (*call, Kind::Open),
            Self::Close { call, .. } => (*call, Kind::Close),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    List,
    Call,
    Schema,
    Open,
    Close,
}

/// Everything that calls share over the life of the process.
pub(crate) struct Runner {
    pub(crate) engine: Engine,
    pub(crate) component: Component,
    pub(crate) prepared: Prepared,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) ticker: Arc<Ticker>,
}

impl Runner {
    /// Serve until `commands` ends. Each round of the loop is one instance.
    pub(crate) async fn run(self, mut commands: UnboundedReceiver<Command>) {
        let mut first = commands.recv().await;
        while let Some(command) = first {
            let running = Arc::new(Running::new(self.outbox.clone()));
            let busy = self.ticker.busy();
            running.begin(&command, busy);
            let mut instance = match self.component.instantiate(&self.engine, &self.prepared).await {
                Ok(instance) => instance,
                Err(error) => {
                    running.not_started(&error);
                    first = commands.recv().await;
                    continue;
                }
            };
            let (tools, sessions) = (instance.tools.clone(), instance.sessions.clone());
            let (ticker, calls, inbox) = (&self.ticker, &running, &mut commands);
            let served = instance
                .store
                .run_concurrent(async move |store| {
                    let mut command = command;
                    loop {
                        let (tools, sessions) = (tools.clone(), sessions.clone());
                        store.spawn(Task { command, tools, sessions, running: calls.clone() })?;
                        command = tokio::select! {
                            command = inbox.recv() => match command {
                                Some(command) => command,
                                None => return wasmtime::Result::Ok(Ended::Supervisor),
                            },
                            () = calls.lost.notified() => return Ok(Ended::Instance),
                        };
                        calls.begin(&command, ticker.busy());
                    }
                })
                .await;
            match served {
                Ok(Ok(Ended::Supervisor)) => return,
                // A call has told that the instance is lost; others on it are lost with it.
                Ok(Ok(Ended::Instance)) => running.lose(&wasmtime::Error::msg("the instance was lost by another call")),
                Ok(Err(error)) | Err(error) => running.lose(&error),
            }
            first = commands.recv().await;
        }
    }
}

/// Why an instance is no longer served.
enum Ended {
    /// The channel was closed.
    Supervisor,
    /// It trapped.
    Instance,
}

/// Calls that run on one instance. Each ends exactly once, whatever happens to the instance.
struct Running {
    outbox: Arc<Outbox>,
    calls: Mutex<BTreeMap<CallId, (Kind, Busy)>>,
    lost: Notify,
}

impl Running {
    fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, calls: Mutex::default(), lost: Notify::new() }
    }

    fn calls(&self) -> MutexGuard<'_, BTreeMap<CallId, (Kind, Busy)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, command: &Command, busy: Busy) {
        let (call, kind) = command.call();
        self.calls().insert(call, (kind, busy));
    }

    fn end(&self, call: CallId, result: Result<Answer, GuestError>) {
        let Some((kind, _busy)) = self.calls().remove(&call) else { return };
        let message = match (kind, result) {
            (Kind::List, Ok(Answer::Tools(tools))) => ToSupervisor::Tools { call, result: Ok(Bounded(tools)) },
            (Kind::List, Err(error)) => ToSupervisor::Tools { call, result: Err(error) },
            (Kind::Schema, Ok(Answer::Text(schema))) => ToSupervisor::SessionSchema { call, result: Ok(schema) },
            (Kind::Schema, Err(error)) => ToSupervisor::SessionSchema { call, result: Err(error) },
            (Kind::Open, Ok(Answer::Text(id))) => ToSupervisor::SessionOpened { call, result: Ok(id) },
            (Kind::Open, Err(error)) => ToSupervisor::SessionOpened { call, result: Err(error) },
            (Kind::Call, result) => {
                if let Err(error) = result {
                    self.outbox.send(&ToSupervisor::Event { call, event: ToolEvent::Error(error) });
                }
                ToSupervisor::Done { call }
            }
            (Kind::Close, _) => ToSupervisor::Done { call },
            // Every kind has its own answer, made in `Task::run`.
            (Kind::List | Kind::Schema | Kind::Open, Ok(_)) => return,
        };
        self.outbox.send(&message);
    }

    /// The instance is gone, and its sessions with it.
    fn lose(&self, error: &wasmtime::Error) {
        self.lose_by(&trap(error));
    }

    /// There is no instance, so that the component was never entered.
    fn not_started(&self, error: &wasmtime::Error) {
        self.lose_by(&GuestError { kind: NOT_STARTED.into(), ..trap(error) });
    }

    fn lose_by(&self, error: &GuestError) {
        self.outbox.send(&ToSupervisor::Lost);
        let calls: Vec<_> = self.calls().keys().copied().collect();
        for call in calls {
            self.end(call, Err(error.clone()));
        }
    }
}

enum Answer {
    Tools(Vec<act_wire::Tool>),
    Text(String),
    Nothing,
}

/// One call inside the store.
struct Task {
    command: Command,
    tools: Tools,
    sessions: Option<Sessions>,
    running: Arc<Running>,
}

impl AccessorTask<State> for Task {
    async fn run(self, store: &Accessor<State>) -> wasmtime::Result<()> {
        let Self { command, tools, sessions, running } = self;
        let (call, _) = command.call();
        let result = match (command, sessions) {
            (Command::List { metadata, .. }, _) => {
                tools.list(store, metadata).await.map(|answer| answer.map(Answer::Tools))
            }
            (Command::Call { name, arguments, metadata, .. }, _) => {
                let events = Arc::new(Sink { call, outbox: running.outbox.clone() });
                tools.call(store, name, arguments, metadata, events).await.map(|()| Ok(Answer::Nothing))
            }
            (Command::Schema { metadata, .. }, Some(sessions)) => {
                sessions.schema(store, metadata).await.map(|answer| answer.map(Answer::Text))
            }
            (Command::Open { arguments, metadata, .. }, Some(sessions)) => {
                sessions.open(store, arguments, metadata).await.map(|answer| answer.map(Answer::Text))
            }
            (Command::Close { session, .. }, Some(sessions)) => {
                sessions.close(store, session).await.map(|()| Ok(Answer::Nothing))
            }
            (Command::Schema { .. } | Command::Open { .. } | Command::Close { .. }, None) => Ok(Err(no_sessions())),
        };
        match result {
            Ok(answer) => running.end(call, answer),
            Err(error) => {
                running.outbox.send(&ToSupervisor::Lost);
                running.end(call, Err(trap(&error)));
                running.lost.notify_one();
            }
        }
        Ok(())
    }
}

fn no_sessions() -> GuestError {
    GuestError { kind: "std:not-found".into(), message: "the component has no sessions".into() }
}

struct Sink {
    call: CallId,
    outbox: Arc<Outbox>,
}

impl Events for Sink {
    fn event(&self, event: ToolEvent) {
        self.outbox.send(&ToSupervisor::Event { call: self.call, event });
    }
}

/// One line that names the trap, without the backtrace.
fn trap(error: &wasmtime::Error) -> GuestError {
    if let Some(wasmtime::component::ResourceTableError::Full) = error.downcast_ref() {
        let message = "more open handles than it may have (--max-handles)".to_owned();
        return GuestError { kind: LIMIT.into(), message };
    }
    let message = match error.downcast_ref::<wasmtime::Trap>() {
        Some(trap) => format!("the component trapped: {trap}"),
        None => format!("the component failed: {}", error.root_cause()),
    };
    GuestError { kind: "std:internal".into(), message: message.replace(['\n', '\r'], " ") }
}
