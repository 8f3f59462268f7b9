//! Running calls on the current instance, and replacing it after a trap.

use crate::outbox::Outbox;
use crate::ticker::{Busy, Ticker};
use act_host::{Component, Events, Prepared, State, Tools};
use act_wire::{CallId, GuestError, ToSupervisor, ToolEvent};
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
}

impl Command {
    fn call(&self) -> (CallId, Kind) {
        match self {
            Self::List { call, .. } => (*call, Kind::List),
            Self::Call { call, .. } => (*call, Kind::Call),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    List,
    Call,
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
                    running.lose(&error);
                    first = commands.recv().await;
                    continue;
                }
            };
            let tools = instance.tools.clone();
            let (ticker, calls, inbox) = (&self.ticker, &running, &mut commands);
            let served = instance
                .store
                .run_concurrent(async move |store| {
                    let mut command = command;
                    loop {
                        store.spawn(Task { command, tools: tools.clone(), running: calls.clone() })?;
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
        match (kind, result) {
            (Kind::List, Ok(Answer::Tools(tools))) => {
                self.outbox.send(&ToSupervisor::Tools { call, result: Ok(tools) })
            }
            (Kind::List, Ok(Answer::Events)) => {}
            (Kind::List, Err(error)) => self.outbox.send(&ToSupervisor::Tools { call, result: Err(error) }),
            (Kind::Call, result) => {
                if let Err(error) = result {
                    self.outbox.send(&ToSupervisor::Event { call, event: ToolEvent::Error(error) });
                }
                self.outbox.send(&ToSupervisor::Done { call });
            }
        }
    }

    fn lose(&self, error: &wasmtime::Error) {
        let calls: Vec<_> = self.calls().keys().copied().collect();
        for call in calls {
            self.end(call, Err(trap(error)));
        }
    }
}

enum Answer {
    Tools(Vec<act_wire::Tool>),
    Events,
}

/// One call inside the store.
struct Task {
    command: Command,
    tools: Tools,
    running: Arc<Running>,
}

impl AccessorTask<State> for Task {
    async fn run(self, store: &Accessor<State>) -> wasmtime::Result<()> {
        let Self { command, tools, running } = self;
        let (call, _) = command.call();
        let result = match command {
            Command::List { metadata, .. } => tools.list(store, metadata).await.map(|answer| answer.map(Answer::Tools)),
            Command::Call { name, arguments, metadata, .. } => {
                let events = Arc::new(Sink { call, outbox: running.outbox.clone() });
                tools.call(store, name, arguments, metadata, events).await.map(|()| Ok(Answer::Events))
            }
        };
        match result {
            Ok(answer) => running.end(call, answer),
            Err(error) => {
                running.end(call, Err(trap(&error)));
                running.lost.notify_one();
            }
        }
        Ok(())
    }
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
    let message = match error.downcast_ref::<wasmtime::Trap>() {
        Some(trap) => format!("the component trapped: {trap}"),
        None => format!("the component failed: {}", error.root_cause()),
    };
    GuestError { kind: "std:internal".into(), message: message.replace(['\n', '\r'], " ") }
}
