//! `act:sessions`: state that a component keeps between calls, under ids that it chooses.

use crate::bindings::component::act::core::types::Metadata;
use crate::bindings::sessions::{Sessions as Bindings, SessionsIndices};
use crate::state::State;
use crate::tools::error;
use act_wire::GuestError;
use std::sync::Arc;
use wasmtime::component::{Accessor, Component, InstancePre};

/// What a component with sessions exports.
const EXPORT: &str = "act:sessions/session-provider@0.2.0";
/// Longest session id in bytes.
const MAX_ID: usize = 1024;
/// Most sessions that one instance keeps open.
const MAX_OPEN: usize = 1024;
/// Largest schema in bytes.
const MAX_SCHEMA: usize = 1 << 20;

/// Where the exports are; `None`: the component has no sessions. One that exports them in another form is refused.
pub(crate) fn indices(component: &Component, pre: &InstancePre<State>) -> wasmtime::Result<Option<SessionsIndices>> {
    match component.get_export_index(None, EXPORT) {
        Some(_) => SessionsIndices::new(pre).map(Some),
        None => Ok(None),
    }
}

/// The sessions of an instance.
#[derive(Clone)]
pub struct Sessions {
    bindings: Arc<Bindings>,
}

impl Sessions {
    pub(crate) fn new(bindings: Bindings) -> Self {
        Self { bindings: Arc::new(bindings) }
    }

    /// The JSON Schema of the arguments of [`Sessions::open`]. The outer error is a trap: the instance is lost.
    pub async fn schema(
        &self,
        store: &Accessor<State>,
        metadata: Metadata,
    ) -> wasmtime::Result<Result<String, GuestError>> {
        let provider = self.bindings.act_sessions_session_provider();
        let answer = provider.call_get_open_session_args_schema(store, metadata).await?;
        Ok(answer.map_err(error).and_then(|schema| match schema.len() {
            0..=MAX_SCHEMA => Ok(schema),
            _ => Err(internal(format!("a schema of more than {MAX_SCHEMA} bytes"))),
        }))
    }

    /// Open a session and return its id. The outer error is a trap.
    pub async fn open(
        &self,
        store: &Accessor<State>,
        arguments: Metadata,
        metadata: Metadata,
    ) -> wasmtime::Result<Result<String, GuestError>> {
        let provider = self.bindings.act_sessions_session_provider();
        let id = match provider.call_open_session(store, arguments, metadata).await? {
            Ok(session) => session.id,
            Err(e) => return Ok(Err(error(e))),
        };
        if id.is_empty() || id.len() > MAX_ID {
            return Ok(Err(internal(format!("a session id of {} bytes, not 1 to {MAX_ID}", id.len()))));
        }
        let kept = store.with(|mut access| {
            let open = &mut access.get().sessions;
            open.len() < MAX_OPEN && open.insert(id.clone())
        });
        Ok(if kept { Ok(id) } else { Err(internal("a session id that is in use, or too many sessions".into())) })
    }

    /// Close a session. What is asked under its id from now on is refused, whatever the component does with it.
    pub async fn close(&self, store: &Accessor<State>, id: String) -> wasmtime::Result<()> {
        store.with(|mut access| access.get().sessions.remove(&id));
        self.bindings.act_sessions_session_provider().call_close_session(store, id).await
    }
}

fn internal(message: String) -> GuestError {
    GuestError { kind: "std:internal".into(), message }
}
