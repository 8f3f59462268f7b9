//! `--session-args`: a session that the whole run belongs to.

use super::metadata::parse_object;
use crate::component::Component;
use crate::exit::Failure;
use crate::session::{OpenArguments, SESSION_ID, Session};
use act_policy::escape;
use std::time::Duration;

const FLAG: &str = "--session-args";

/// The flag.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct SessionArgs {
    /// Open a session with these arguments, a JSON object, and close it in the end (see `act session open-args-schema`)
    #[arg(long, value_name = "JSON")]
    session_args: Option<String>,
}

/// What the flag asks for.
#[derive(Debug)]
pub(super) struct Opening(Option<OpenArguments>);

impl SessionArgs {
    pub(super) fn parse(&self) -> Result<Opening, Failure> {
        let Some(text) = &self.session_args else { return Ok(Opening(None)) };
        let object = parse_object(FLAG, text)?;
        OpenArguments::new(object)
            .map(|arguments| Opening(Some(arguments)))
            .map_err(|e| Failure::usage(format!("{FLAG}: {e}")))
    }
}

impl Opening {
    pub(super) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Refuse what this component cannot do, before anything runs.
    pub(super) fn check(self, component: &Component, metadata: &[(String, Vec<u8>)]) -> Result<Self, Failure> {
        if !self.is_wanted() {
            return Ok(self);
        }
        let (reference, name) = (&component.reference, escape(&component.manifest.name));
        if !component.has_sessions {
            return Err(Failure::usage(format!("{FLAG}: {reference} ({name}) has no sessions: leave the flag out")));
        }
        if metadata.iter().any(|(key, _)| key == SESSION_ID) {
            let text = format!("{FLAG}: the metadata names a session already ({SESSION_ID}): give one of the two");
            return Err(Failure::usage(text));
        }
        Ok(self)
    }

    /// Open the session.
    pub(super) fn open(
        &self,
        session: &mut Session<'_>,
        metadata: &[(String, Vec<u8>)],
        timeout: Option<Duration>,
    ) -> Result<(), Failure> {
        match &self.0 {
            Some(arguments) => Ok(session.open_hidden(arguments.clone(), metadata.to_vec(), timeout)??),
            None => Ok(()),
        }
    }
}
