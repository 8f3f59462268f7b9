//! Fixture: one small tool for each thing that a component asks the host for, and sessions with a name.

use act_sdk::prelude::*;
use std::cell::RefCell;

/// What opens a session. A name that begins with `fail` is refused.
#[derive(serde::Deserialize, act_sdk::__private::schemars::JsonSchema)]
#[schemars(crate = "act_sdk::__private::schemars")]
struct Open {
    name: String,
}

#[derive(serde::Deserialize)]
struct Metadata {
    #[serde(rename = "std:session-id")]
    session: Option<String>,
}

thread_local! {
    static SESSIONS: SessionRegistry<String> = SessionRegistry::new("v");
    static CLOSED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn refused(error: impl std::fmt::Debug) -> ActError {
    ActError::internal(format!("{error:?}"))
}

#[act_component]
mod component {
    use super::*;
    use act::consent::{consent_authority, types as consent};
    use act::credentials::{store, types as credentials};
    use serde_json::Value;

    #[session_open]
    fn open(args: Open) -> ActResult<String> {
        if args.name.starts_with("fail") {
            return Err(ActError::new("std:internal", "no such place"));
        }
        Ok(SESSIONS.with(|sessions| sessions.insert(args.name)))
    }

    #[session_close]
    fn close(session_id: String) {
        SESSIONS.with(|sessions| sessions.remove(&session_id));
        CLOSED.with(|closed| closed.borrow_mut().push(session_id));
    }

    #[act_tool(description = "The id and name of the session that the call belongs to", read_only)]
    fn session(ctx: &mut ActContext<Metadata>) -> ActResult<String> {
        let id = ctx.metadata().session.clone().unwrap_or_default();
        let name = SESSIONS.with(|sessions| sessions.with(&id, |name| name.clone()));
        Ok(format!("{id} {}", name.unwrap_or_else(|| "none".into())))
    }

    #[act_tool(description = "The ids of closed sessions, one a line", read_only)]
    fn closed() -> ActResult<String> {
        Ok(CLOSED.with(|closed| closed.borrow().join("\n")))
    }

    #[act_tool(description = "Ask for leave; `raw` is sent as the arguments byte by byte")]
    async fn consent(
        class: String,
        key: String,
        summary: Option<String>,
        args: Option<Value>,
        raw: Option<Vec<u8>>,
    ) -> ActResult<String> {
        let args = match (raw, args) {
            (Some(bytes), _) => bytes,
            (None, Some(value)) => act_sdk::cbor::to_cbor(&value),
            (None, None) => Vec::new(),
        };
        let summary = summary.unwrap_or_default();
        let request = consent::ConsentRequest { class, key, summary, args };
        Ok(match consent_authority::request(request, Vec::new()).await {
            consent::Decision::Allow => "allow".into(),
            consent::Decision::Deny => "deny".into(),
        })
    }

    #[act_tool(description = "Read a secret in a session: kind, then field=value")]
    async fn get(key: String, session: Option<String>, hint: Option<String>) -> ActResult<String> {
        let want = credentials::SecretRequest { key, kind: None, resource: None, scopes: Vec::new(), hint };
        let secret = store::get_secret(session.unwrap_or_else(|| "v_0".into()), want).await.map_err(refused)?;
        let mut out = secret.kind;
        for (name, value) in &secret.fields {
            let value: Value = act_sdk::cbor::from_cbor(value).map_err(refused)?;
            out.push_str(&format!(" {name}={value}"));
        }
        Ok(out)
    }

    #[act_tool(description = "The keys of the stored secrets with their descriptions", read_only)]
    async fn list(session: Option<String>) -> ActResult<String> {
        let infos = store::list_secrets(session).await.map_err(refused)?;
        let line = |info: &credentials::SecretInfo| format!("{}:{:?}", info.key, info.description);
        Ok(infos.iter().map(line).collect::<Vec<_>>().join(" "))
    }

    #[act_tool(description = "Trap")]
    fn trap() -> ActResult<String> {
        core::arch::wasm32::unreachable()
    }
}
