//! `act:credentials`: secrets, read through the supervisor one at a time.
//!
//! This process never holds the store. What it decides here only spares the question: the supervisor judges again, and
//! its answer is what counts.

use crate::bindings::component::act::credentials::store::{Host, HostWithStore};
use crate::bindings::component::act::credentials::types::{self, Secret, SecretError, SecretInfo, SecretRequest};
use crate::consent::{cut, words};
use crate::state::{ActImports, Imports};
use act_policy::{Decision, Request};
use act_wire::SecretRefusal;
use wasmtime::component::Accessor;

/// Longest key in bytes; there is none in a manifest that is longer.
const MAX_KEY: usize = 1024;

impl types::Host for Imports<'_> {}
impl Host for Imports<'_> {}

impl<T: Send> HostWithStore<T> for ActImports {
    async fn list_secrets(
        accessor: &Accessor<T, Self>,
        session: Option<String>,
    ) -> wasmtime::Result<Result<Vec<SecretInfo>, SecretError>> {
        let (gate, open) = accessor.with(|mut access| {
            let imports = access.get();
            (imports.gate.clone(), session.is_none_or(|id| imports.sessions.contains(&id)))
        });
        if !open {
            return Ok(Err(SecretError::InvalidSession));
        }
        let infos = match gate.secrets().await {
            Ok(infos) => infos,
            Err(refusal) => return Ok(Err(refused(refusal))),
        };
        let info = |info: act_wire::SecretInfo| SecretInfo {
            key: info.key,
            kind: info.kind,
            description: info.description,
            expires_at: None,
        };
        Ok(Ok(infos.into_iter().map(info).collect()))
    }

    async fn get_secret(
        accessor: &Accessor<T, Self>,
        session: String,
        want: SecretRequest,
    ) -> wasmtime::Result<Result<Secret, SecretError>> {
        let (gate, open) = accessor.with(|mut access| {
            let imports = access.get();
            (imports.gate.clone(), imports.sessions.contains(&session))
        });
        if !open {
            return Ok(Err(SecretError::InvalidSession));
        }
        let key = cut(want.key, MAX_KEY);
        // Where the policy asks, the supervisor does it when the read arrives.
        if gate.judge(Request::Credential { key: key.clone() }).decision == Decision::Deny {
            return Ok(Err(SecretError::Denied));
        }
        let answer = gate.secret(session, key, words(want.hint.unwrap_or_default())).await;
        Ok(match answer {
            Ok(secret) => Ok(Secret { kind: secret.kind, fields: secret.fields.into_pairs() }),
            Err(refusal) => Err(refused(refusal)),
        })
    }
}

fn refused(refusal: SecretRefusal) -> SecretError {
    match refusal {
        SecretRefusal::NotFound => SecretError::NotFound,
        SecretRefusal::Denied => SecretError::Denied,
        SecretRefusal::InvalidSession => SecretError::InvalidSession,
        // What is wrong with the store is the operator's business; the trail tells it.
        SecretRefusal::Unavailable => SecretError::Unavailable("the host cannot read its store of secrets".into()),
    }
}
