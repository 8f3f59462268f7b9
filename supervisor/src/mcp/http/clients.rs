//! Sessions of clients before 2026-07-28, which `initialize` opens: counted, and ended when nobody uses them.
//!
//! `rmcp` bounds neither their number nor, in the way that is needed here, their idle time: it would end a session in
//! which a long call is under way. A session is in use while an answer or a stream of it is open.

use super::front::refuse_with;
use http::StatusCode;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{EventStream, SessionId, SessionManager};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most sessions at once.
const MAX: usize = 64;

/// The sessions.
#[derive(Debug)]
pub(super) struct Clients {
    inner: LocalSessionManager,
    /// One for each session that may still be opened.
    slots: Arc<Semaphore>,
    open: Mutex<HashMap<SessionId, Use>>,
}

/// What is known of a session.
#[derive(Debug)]
struct Use {
    /// Requests and streams of it that are open.
    held: usize,
    /// When that last changed.
    since: Instant,
    _slot: OwnedSemaphorePermit,
}

/// Keeps a session in use.
#[derive(Debug)]
pub(super) struct Hold {
    clients: Arc<Clients>,
    id: SessionId,
}

/// Why a session cannot be opened or used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientsError {
    /// There are as many as there may be.
    #[error("too many sessions are open")]
    Full,
    /// The session's own.
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

impl Clients {
    pub(super) fn new() -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = None;
        Self { inner, slots: Arc::new(Semaphore::new(MAX)), open: Mutex::default() }
    }

    /// Keep a session in use, if there is one of this id.
    pub(super) fn hold(self: &Arc<Self>, id: &str) -> Option<Hold> {
        let mut open = self.open();
        let id = open.get_key_value(id)?.0.clone();
        let used = open.get_mut(&id)?;
        used.held += 1;
        used.since = Instant::now();
        Some(Hold { clients: Arc::clone(self), id })
    }

    /// End the sessions that nobody has used for so long.
    pub(super) async fn end_idle(&self, idle: Duration) {
        let ended: Vec<SessionId> = {
            let open = self.open();
            let unused = open.iter().filter(|(_, used)| used.held == 0 && used.since.elapsed() >= idle);
            unused.map(|(id, _)| id.clone()).collect()
        };
        for id in ended {
            // One that has ended by itself is as good.
            let _ = self.close_session(&id).await;
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Use>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(used) = self.clients.open().get_mut(&self.id) {
            used.held = used.held.saturating_sub(1);
            used.since = Instant::now();
        }
    }
}

#[expect(refining_impl_trait_internal, reason = "the trait of streams has a name in no crate that is used here")]
impl SessionManager for Clients {
    type Error = ClientsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), ClientsError> {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            refuse_with(StatusCode::SERVICE_UNAVAILABLE);
            return Err(ClientsError::Full);
        };
        let (id, transport) = self.inner.create_session().await?;
        self.open().insert(id.clone(), Use { held: 0, since: Instant::now(), _slot: slot });
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, ClientsError> {
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, ClientsError> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), ClientsError> {
        self.open().remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<EventStream, ClientsError> {
        Ok(Box::pin(self.inner.create_stream(id, message).await?))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), ClientsError> {
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(&self, id: &SessionId) -> Result<EventStream, ClientsError> {
        Ok(Box::pin(self.inner.create_standalone_stream(id).await?))
    }

    async fn resume(&self, id: &SessionId, last_event_id: String) -> Result<EventStream, ClientsError> {
        Ok(Box::pin(self.inner.resume(id, last_event_id).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_are_counted_and_end_when_they_are_not_used() {
        let clients = Arc::new(Clients::new());
        let mut ids = Vec::new();
        let mut transports = Vec::new();
        for _ in 0..MAX {
            let (id, transport) = clients.create_session().await.unwrap();
            ids.push(id);
            transports.push(transport);
        }
        assert!(matches!(clients.create_session().await, Err(ClientsError::Full)));
        assert!(clients.hold("another").is_none());

        clients.close_session(&ids[0]).await.unwrap();
        clients.close_session(&ids[0]).await.unwrap();
        let (id, _transport) = clients.create_session().await.unwrap();
        assert!(clients.create_session().await.is_err());

        let (held, again) = (clients.hold(&id).unwrap(), clients.hold(&id).unwrap());
        clients.end_idle(Duration::from_mins(1)).await;
        assert_eq!(clients.slots.available_permits(), 0);
        drop(again);
        clients.end_idle(Duration::ZERO).await;
        assert_eq!(clients.slots.available_permits(), MAX - 1);
        assert!(clients.has_session(&id).await.unwrap());
        assert!(!clients.has_session(&ids[1]).await.unwrap());
        drop(held);
        clients.end_idle(Duration::ZERO).await;
        assert!(!clients.has_session(&id).await.unwrap());
        assert_eq!(clients.slots.available_permits(), MAX);
    }
}
