//! The component's tools: instances, listing and calling.

use crate::bindings::component::act::core::types::{Error, LocalizedString, Metadata};
use crate::bindings::component::act::tools::types as wit;
use crate::bindings::component::exports::act::tools::tool_provider::ToolResult;
use crate::bindings::component::{Component as Bindings, ComponentIndices};
use crate::bindings::sessions::SessionsIndices;
use crate::sessions::{self, Sessions};
use crate::state::{Prepared, State};
use act_wire::{ContentPart, GuestError, LIMIT, RESERVED, Tool, ToolEvent};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;
use wasmtime::component::{Accessor, InstancePre, Linker, Source, StreamConsumer, StreamResult};
use wasmtime::{Engine, Store, StoreContextMut, UpdateDeadline};

/// Most bytes that one call of the component into the host may carry.
const HOST_CALL: usize = 64 << 20;
/// Events taken from a component's stream at once.
const BATCH: usize = 64;

/// Receives the events of one call, in order.
pub trait Events: Send + Sync + 'static {
    /// One event. After an error none follows.
    fn event(&self, event: ToolEvent);
}

/// A component that is linked and can be instantiated.
pub struct Component {
    pre: InstancePre<State>,
    tools: ComponentIndices,
    /// `None`: it has no sessions.
    sessions: Option<SessionsIndices>,
}

impl Component {
    /// Link a compiled component; fails where it imports what this host does not have, or exports no tools.
    pub fn new(linker: &Linker<State>, component: &wasmtime::component::Component) -> wasmtime::Result<Self> {
        let pre = linker.instantiate_pre(component)?;
        let tools = ComponentIndices::new(&pre)?;
        let sessions = sessions::indices(component, &pre)?;
        Ok(Self { pre, tools, sessions })
    }

    /// Make a store and an instance in it.
    pub async fn instantiate(&self, engine: &Engine, prepared: &Prepared) -> wasmtime::Result<Instance> {
        let mut store = Store::new(engine, State::new(prepared));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOST_CALL);
        // A component that spins gives way at every tick, so that the channel is served; the supervisor ends it.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Yield(1)));
        let instance = self.pre.instantiate_async(&mut store).await?;
        let tools = Tools { bindings: Arc::new(self.tools.load(&mut store, &instance)?) };
        let sessions = match &self.sessions {
            Some(indices) => Some(Sessions::new(indices.load(&mut store, &instance)?)),
            None => None,
        };
        Ok(Instance { store, tools, sessions })
    }
}

/// A running instance: its store, and the handle by which tasks call its tools.
pub struct Instance {
    /// The store; drive it with `run_concurrent`.
    pub store: Store<State>,
    /// The tools.
    pub tools: Tools,
    /// The sessions, where the component has any.
    pub sessions: Option<Sessions>,
}

/// The tools of an instance.
#[derive(Clone)]
pub struct Tools {
    bindings: Arc<Bindings>,
}

impl Tools {
    /// List the tools. The outer error is a trap: the instance is lost.
    pub async fn list(
        &self,
        store: &Accessor<State>,
        metadata: Metadata,
    ) -> wasmtime::Result<Result<Vec<Tool>, GuestError>> {
        let limit = store.with(|mut access| access.get().limits.output);
        let answer = self.bindings.act_tools_tool_provider().call_list_tools(store, metadata).await?;
        Ok(answer.map_err(error).and_then(|response| {
            let tools: Vec<_> = response.tools.into_iter().map(tool).collect();
            let size = tools.iter().map(tool_size).fold(0, u64::saturating_add);
            if size > limit { Err(too_much(limit)) } else { Ok(tools) }
        }))
    }

    /// Call a tool. Its events go to `events`; the outer error is a trap: the instance is lost.
    pub async fn call(
        &self,
        store: &Accessor<State>,
        name: String,
        arguments: Vec<u8>,
        metadata: Metadata,
        events: Arc<dyn Events>,
    ) -> wasmtime::Result<()> {
        let limit = store.with(|mut access| access.get().limits.output);
        let provider = self.bindings.act_tools_tool_provider();
        let mut output = Output { events, limit, left: limit, over: false };
        match provider.call_call_tool(store, name, arguments, metadata).await? {
            ToolResult::Immediate(events) => events.into_iter().for_each(|event| output.send(event)),
            ToolResult::Streaming(stream) => {
                let (done, end) = oneshot::channel();
                store.with(|access| stream.pipe(access, Drain { output, _done: done }))?;
                // The consumer is dropped at the end of the stream, and the sender with it.
                _ = end.await;
            }
        }
        Ok(())
    }
}

/// The bounded way of events out of a call.
struct Output {
    events: Arc<dyn Events>,
    limit: u64,
    left: u64,
    over: bool,
}

impl Output {
    fn send(&mut self, event: wit::ToolEvent) {
        if self.over {
            return;
        }
        let event = match event {
            wit::ToolEvent::Content(part) => {
                let metadata = part.metadata;
                ToolEvent::Content(ContentPart { data: part.data, mime_type: part.mime_type, metadata })
            }
            wit::ToolEvent::Error(e) => ToolEvent::Error(error(e)),
        };
        let size = event_size(&event);
        let event = match self.left.checked_sub(size) {
            Some(left) => {
                self.left = left;
                event
            }
            None => ToolEvent::Error(too_much(self.limit)),
        };
        self.over = matches!(event, ToolEvent::Error(_));
        self.events.event(event);
    }
}

/// Takes a component's stream of events.
struct Drain {
    output: Output,
    _done: oneshot::Sender<()>,
}

impl StreamConsumer<State> for Drain {
    type Item = wit::ToolEvent;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut store: StoreContextMut<State>,
        mut source: Source<'_, Self::Item>,
        _finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut batch = Vec::with_capacity(source.remaining(&mut store).clamp(1, BATCH));
        source.read(&mut store, &mut batch)?;
        for event in batch {
            self.output.send(event);
        }
        Poll::Ready(Ok(if self.output.over { StreamResult::Dropped } else { StreamResult::Completed }))
    }
}

fn too_much(limit: u64) -> GuestError {
    GuestError { kind: LIMIT.into(), message: format!("output of more than {limit} bytes (--max-output)") }
}

pub(crate) fn error(error: Error) -> GuestError {
    // Some kinds are the host's own words.
    let kind = if error.kind.starts_with(RESERVED) { "std:internal".into() } else { error.kind };
    GuestError { kind, message: text(error.message) }
}

fn tool(tool: wit::ToolDefinition) -> Tool {
    Tool {
        name: tool.name,
        description: text(tool.description),
        parameters_schema: tool.parameters_schema,
        metadata: tool.metadata,
    }
}

/// One language: English where there is a choice, else the first.
fn text(text: LocalizedString) -> String {
    match text {
        LocalizedString::Plain(text) => text,
        LocalizedString::Localized(mut choices) => {
            let english = choices.iter().position(|(tag, _)| tag == "en" || tag.starts_with("en-"));
            match english.or(if choices.is_empty() { None } else { Some(0) }) {
                Some(at) => choices.swap_remove(at).1,
                None => String::new(),
            }
        }
    }
}

fn metadata_size(metadata: &[(String, Vec<u8>)]) -> u64 {
    metadata.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

fn tool_size(tool: &Tool) -> u64 {
    (tool.name.len() + tool.description.len() + tool.parameters_schema.len()) as u64 + metadata_size(&tool.metadata)
}

/// Each event counts for a little more than its content, so that empty ones are bounded, too.
fn event_size(event: &ToolEvent) -> u64 {
    const OVERHEAD: u64 = 16;
    OVERHEAD
        + match event {
            ToolEvent::Content(part) => {
                part.data.len() as u64
                    + part.mime_type.as_ref().map_or(0, String::len) as u64
                    + metadata_size(&part.metadata)
            }
            ToolEvent::Error(error) => (error.kind.len() + error.message.len()) as u64,
        }
}
