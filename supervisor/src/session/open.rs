//! Sessions of the component (`act:sessions`): opened by the operator or an MCP client, named by the component.

use super::{Session, SessionError, Step};
use crate::audit::CallEnd;
use crate::exit::Failure;
use crate::schema;
use crate::tools::{digest, error_line};
use crate::values::{self, ValueError};
use act_wire::{GuestError, ToGuest, ToSupervisor};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};

/// Key of the metadata that names a session.
pub const SESSION_ID: &str = "std:session-id";
/// Longest schema in bytes, and longest id. What is longer breaks the protocol: the guest checks, too.
const MAX_SCHEMA: usize = 1 << 20;
const MAX_ID: usize = 1024;
/// How long the component may take to close its sessions before it is ended anyway.
const CLOSING: Duration = Duration::from_secs(2);

type Metadata = Vec<(String, Vec<u8>)>;

/// Arguments that open a session. They may be secrets: neither the trail nor an error shows them.
#[derive(Clone)]
pub struct OpenArguments {
    json: Value,
    encoded: Metadata,
    digest: String,
}

impl std::fmt::Debug for OpenArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenArguments").field(&self.digest).finish()
    }
}

impl OpenArguments {
    /// Encode a JSON object.
    pub fn new(object: Map<String, Value>) -> Result<Self, ValueError> {
        let encode = |(name, value): (&String, &Value)| Ok((name.clone(), values::to_cbor(value)?));
        let encoded = object.iter().map(encode).collect::<Result<_, ValueError>>()?;
        let json = Value::Object(object);
        let digest = digest(&values::to_cbor(&json)?);
        Ok(Self { json, encoded, digest })
    }
}

/// Why no session was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The arguments do not fit the component's schema.
    #[error("std:invalid-args: the session's arguments: {0}")]
    Arguments(String),
    /// The component refused; whether one of its operations was denied before.
    #[error("{}", error_line(&.0.kind, &.0.message))]
    Component(GuestError, bool),
}

impl OpenError {
    /// Whether the component failed after the policy or a kernel layer had refused one of its operations.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Component(_, true))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match &error {
            OpenError::Arguments(_) => Self::usage(error),
            OpenError::Component(_, true) => Self::denied(error),
            OpenError::Component(_, false) => Self::failed(error),
        }
    }
}

impl From<OpenError> for GuestError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Arguments(message) => {
                Self { kind: "std:invalid-args".into(), message: format!("the session's arguments: {message}") }
            }
            OpenError::Component(error, _) => error,
        }
    }
}

/// A session that every call belongs to, without the caller naming it.
#[derive(Debug)]
pub(super) struct Hidden {
    arguments: OpenArguments,
    metadata: Metadata,
    id: String,
}

impl Session<'_> {
    /// The JSON Schema of the arguments that open a session, or the component's error.
    pub fn session_schema(
        &mut self,
        metadata: Metadata,
        timeout: Option<Duration>,
    ) -> Result<Result<String, GuestError>, SessionError> {
        let call = self.begin_call();
        self.send(&ToGuest::SessionSchema { call, metadata })?;
        self.run(timeout, |message| match message {
            ToSupervisor::SessionSchema { call: n, result } if n == call => match &result {
                Ok(schema) if schema.len() > MAX_SCHEMA => Step::Broken(format!("a schema of over {MAX_SCHEMA} bytes")),
                _ => Step::Finished(result),
            },
            _ => Step::Unexpected,
        })
    }

    /// Open a session and return its id. The arguments are checked before the component is entered with them.
    pub fn open_session(
        &mut self,
        arguments: &OpenArguments,
        metadata: Metadata,
        timeout: Option<Duration>,
    ) -> Result<Result<String, OpenError>, SessionError> {
        let started = Instant::now();
        let result = self.check_and_open(arguments, metadata, timeout);
        let end = match &result {
            Ok(Ok(_)) => CallEnd::Ok,
            Ok(Err(_)) => CallEnd::ToolError,
            Err(error) => error.end(),
        };
        let number = self.last_call();
        let denials = self.trail.call("open_session", end, started.elapsed(), &arguments.digest, number);
        Ok(match result? {
            Err(OpenError::Component(error, _)) => Err(OpenError::Component(error, denials > 0)),
            other => other,
        })
    }

    fn check_and_open(
        &mut self,
        arguments: &OpenArguments,
        metadata: Metadata,
        timeout: Option<Duration>,
    ) -> Result<Result<String, OpenError>, SessionError> {
        let schema = match self.session_schema(metadata.clone(), timeout)? {
            Ok(schema) => schema,
            Err(error) => return Ok(Err(OpenError::Component(error, false))),
        };
        if let Err(message) = schema::validate_secret(&schema, &arguments.json) {
            return Ok(Err(OpenError::Arguments(message)));
        }
        let call = self.begin_call();
        self.send(&ToGuest::OpenSession { call, arguments: arguments.encoded.clone(), metadata })?;
        let result = self.run(timeout, |message| match message {
            ToSupervisor::SessionOpened { call: n, result } if n == call => match &result {
                Ok(id) if id.is_empty() || id.len() > MAX_ID => Step::Broken("a session id out of bounds".into()),
                _ => Step::Finished(result),
            },
            _ => Step::Unexpected,
        })?;
        Ok(match result {
            Ok(id) => {
                self.open.insert(id.clone());
                Ok(id)
            }
            Err(error) => Err(OpenError::Component(error, false)),
        })
    }

    /// Close a session; false: there is none of that id.
    pub fn close_session(&mut self, id: &str, timeout: Option<Duration>) -> Result<bool, SessionError> {
        if !self.open.remove(id) {
            return Ok(false);
        }
        let call = self.begin_call();
        self.send(&ToGuest::CloseSession { call, session: id.to_owned() })?;
        self.run(timeout, |message| match message {
            ToSupervisor::Done { call: n } if n == call => Step::Finished(true),
            _ => Step::Unexpected,
        })
    }

    /// Open a session that all calls from now on belong to.
    pub fn open_hidden(
        &mut self,
        arguments: OpenArguments,
        metadata: Metadata,
        timeout: Option<Duration>,
    ) -> Result<Result<(), OpenError>, SessionError> {
        let opened = self.open_session(&arguments, metadata.clone(), timeout)?;
        Ok(opened.map(|id| self.hidden = Some(Hidden { arguments, metadata, id })))
    }

    /// Open that session again where it went with an instance that trapped.
    pub fn reopen(&mut self, timeout: Option<Duration>) -> Result<Result<(), OpenError>, SessionError> {
        match self.hidden.take() {
            Some(hidden) if !self.open.contains(&hidden.id) => {
                let Hidden { arguments, metadata, id } = hidden;
                let opened = self.open_session(&arguments, metadata.clone(), timeout)?;
                // Kept also where it failed, for the next call to try again.
                let (id, result) = match opened {
                    Ok(id) => (id, Ok(())),
                    Err(error) => (id, Err(error)),
                };
                self.hidden = Some(Hidden { arguments, metadata, id });
                Ok(result)
            }
            hidden => {
                self.hidden = hidden;
                Ok(Ok(()))
            }
        }
    }

    /// Metadata of a call, with the session that it belongs to.
    pub(super) fn with_hidden(&self, mut metadata: Metadata) -> Metadata {
        if let Some(hidden) = &self.hidden
            && let Ok(id) = values::to_cbor(&Value::String(hidden.id.clone()))
        {
            metadata.retain(|(key, _)| key != SESSION_ID);
            metadata.push((SESSION_ID.to_owned(), id));
        }
        metadata
    }

    /// Tell the component that its sessions end. It is advice: a component that does not listen is ended all the same.
    pub(super) fn close_sessions(&mut self) {
        let until = Instant::now() + CLOSING;
        for id in std::mem::take(&mut self.open) {
            let left = until.saturating_duration_since(Instant::now());
            if !self.alive || left.is_zero() {
                return;
            }
            self.open.insert(id.clone());
            if self.close_session(&id, Some(left)).is_err() {
                return;
            }
        }
    }
}
