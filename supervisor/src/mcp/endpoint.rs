//! The protocol's side, on a thread of its own: requests become commands, answers become messages.

use super::http::Http;
use super::queue::{Command, Sender};
use super::{elicit, result, sessions};
use crate::consent::Desk;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What the server calls itself: the component's manifest says it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// Description.
    pub description: Option<String>,
}

/// How clients come.
#[derive(Debug)]
pub enum Transport {
    /// One client on standard input and output.
    Stdio,
    /// Any number of them over HTTP.
    Http(Box<Http>),
}

/// Answers the requests of a client; the last one that is dropped closes the queue.
#[derive(Debug)]
pub(super) struct Endpoint {
    identity: Arc<Identity>,
    commands: Arc<Sender>,
    /// What the client's user answered.
    desk: Arc<Desk>,
    consent_timeout: Duration,
}

/// Serve until standard input is closed or `stop` is told; the error is one line.
pub(super) fn serve(
    identity: Identity,
    consent_timeout: Duration,
    commands: Sender,
    transport: Transport,
    stop: oneshot::Receiver<()>,
) -> Result<(), String> {
    let (identity, commands) = (Arc::new(identity), Arc::new(commands));
    let endpoint = Endpoint { identity, commands, desk: Arc::new(Desk::new(consent_timeout)), consent_timeout };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("the MCP server: {e}"))?;
    let result = match transport {
        Transport::Stdio => runtime.block_on(connection(endpoint, stop)),
        Transport::Http(http) => runtime.block_on(http.serve(endpoint, stop)),
    };
    // A read of standard input that blocks must not hold up the end.
    runtime.shutdown_background();
    result
}

async fn connection(endpoint: Endpoint, stop: oneshot::Receiver<()>) -> Result<(), String> {
    let service = match endpoint.serve(stdio_pipes()).await {
        Ok(service) => service,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
            return Err("the MCP client did not begin with `initialize`".into());
        }
        Err(e) => return Err(format!("the MCP client: {}", act_policy::escape(&e.to_string()))),
    };
    let cancel = service.cancellation_token();
    let mut end = std::pin::pin!(service.waiting());
    let ended = tokio::select! {
        ended = &mut end => ended,
        _ = stop => {
            cancel.cancel();
            end.await
        }
    };
    ended.map(|_| ()).map_err(|e| format!("the MCP server: {e}"))
}

/// Somebody waits for a call.
struct Wanted(Arc<OwnedFd>);

impl Wanted {
    fn new() -> Result<Self, Errno> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        // A call that is over looks no more.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

impl Endpoint {
    /// The same for another client: what one user answered is nothing to another.
    pub(super) fn for_client(&self) -> Self {
        Self {
            identity: Arc::clone(&self.identity),
            commands: Arc::clone(&self.commands),
            desk: Arc::new(Desk::new(self.consent_timeout)),
            consent_timeout: self.consent_timeout,
        }
    }

    /// Hand a command over and wait for its answer; a client that cancels stops the wait.
    async fn ask<T>(
        &self,
        context: &RequestContext<RoleServer>,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ErrorData> {
        let (reply, answer) = oneshot::channel();
        if !self.commands.send(command(reply)) {
            return Err(ErrorData::internal_error("too many requests are waiting", None));
        }
        tokio::select! {
            // An answer that has come counts, also when the server is being ended.
            biased;
            answer = answer => answer.map_err(|_| ErrorData::internal_error("the server is ending", None)),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

impl ServerHandler for Endpoint {
    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new(&self.identity.name, &self.identity.version);
        server.description.clone_from(&self.identity.description);
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(server)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.ask(&context, |reply| Command::List { reply }).await?;
        let tools = tools.map_err(|message| ErrorData::internal_error(message, None))?;
        Ok(ListToolsResult::with_all_items(tools.iter().map(result::tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.into_owned();
        let mut arguments = request.arguments.unwrap_or_default();
        let session = sessions::named(Some(&context.meta.0.0), &mut arguments);
        let arguments = Value::Object(arguments);
        let desk = Arc::clone(&self.desk);
        let (channel, prompts) = elicit::channel(&context).unzip();
        // Dropped, this says that nobody wants the call any more.
        let wanted = Wanted::new().map_err(|e| ErrorData::internal_error(format!("eventfd: {e}"), None))?;
        let cancel = Arc::clone(&wanted.0);
        let command = |reply| Command::Call { tool, arguments, session, desk, channel, cancel, reply };
        let answer = self.ask(&context, command);
        let questions = async {
            match prompts {
                Some(prompts) => elicit::ask_all(prompts, &self.desk, &context).await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            answer = answer => answer?,
            () = questions => return Err(ErrorData::internal_error("nobody can be asked any more", None)),
        };
        result::call(answer).map(CallToolResponse::from)
    }

    /// What `rmcp` knows no type for: another method, or one of ours with parameters that do not fit it.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(match request.method.as_str() {
            method @ ("tools/call" | "tools/list") => {
                ErrorData::invalid_params(format!("malformed parameters of {method}"), None)
            }
            method => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None),
        })
    }
}
