//! Asking the client's user, by `elicitation/create` in the middle of a call: a form with one choice.
//!
//! What comes back is checked against the form again; what does not fit it is no. While a human thinks, the client is told
//! that the call goes on, where it asked to be told.

use crate::consent::{Answer, Channel, Desk, Outcome, Question, Reason, Ticket};
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitationAction, ElicitationSchema, ProgressNotificationParam,
    ProgressToken, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, ServiceError};
use rmcp::{Peer, RoleServer};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The only property of the form.
const PROPERTY: &str = "answer";
/// How often a client that wants to know is told that the call still waits.
const PROGRESS: Duration = Duration::from_secs(5);

/// What the desk tells the call that asks. There are at most as many as the desk lets wait.
#[derive(Debug)]
pub(super) enum Prompt {
    Asked(Arc<Question>),
    Settled(Ticket),
}

/// The desk's end.
#[derive(Debug)]
struct ClientChannel(UnboundedSender<Prompt>);

impl Channel for ClientChannel {
    fn asked(&self, question: &Arc<Question>) {
        let _ = self.0.send(Prompt::Asked(Arc::clone(question)));
    }

    fn settled(&self, ticket: Ticket, _: Outcome) {
        let _ = self.0.send(Prompt::Settled(ticket));
    }
}

/// A channel to the client of a call, if it says that it can show forms.
pub(super) fn channel(context: &RequestContext<RoleServer>) -> Option<(Box<dyn Channel>, UnboundedReceiver<Prompt>)> {
    let version = context.protocol_version()?;
    // From that era on a server sends no requests.
    if version.as_str() >= "2026-07-28" {
        return None;
    }
    let capabilities = context.client_capabilities()?;
    let forms = capabilities.elicitation.as_ref().is_some_and(|e| e.form.is_some() || e.url.is_none());
    forms.then(|| {
        let (sender, receiver) = unbounded_channel();
        let channel: Box<dyn Channel> = Box::new(ClientChannel(sender));
        (channel, receiver)
    })
}

/// Ask whatever comes, one question after another, until the call is over.
pub(super) async fn ask_all(mut prompts: UnboundedReceiver<Prompt>, desk: &Desk, context: &RequestContext<RoleServer>) {
    let mut queue: Vec<Arc<Question>> = Vec::new();
    loop {
        let Some(question) = queue.first().cloned() else {
            match prompts.recv().await {
                Some(prompt) => note(&mut queue, prompt),
                None => return std::future::pending().await,
            }
            continue;
        };
        queue.remove(0);
        ask(&question, &mut queue, &mut prompts, desk, context).await;
    }
}

fn note(queue: &mut Vec<Arc<Question>>, prompt: Prompt) {
    match prompt {
        Prompt::Asked(question) => queue.push(question),
        Prompt::Settled(ticket) => queue.retain(|question| question.ticket != ticket),
    }
}

/// Ask one question, until it is answered by the client or settled by others.
async fn ask(
    question: &Question,
    queue: &mut Vec<Arc<Question>>,
    prompts: &mut UnboundedReceiver<Prompt>,
    desk: &Desk,
    context: &RequestContext<RoleServer>,
) {
    let failed = || _ = desk.refuse(question.ticket, Reason::ClientFailed);
    let Ok(schema) = ElicitationSchema::from_json_schema(form()) else { return failed() };
    let message = format!("{}\n  a lasting answer covers: {}", question.full.join("\n"), question.covers);
    let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema: schema };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let sent = context.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
    let Ok(mut handle) = sent else { return failed() };
    let token = context.meta.get_progress_token();
    let mut ticks = tokio::time::interval(PROGRESS);
    let mut told = 0u32;
    loop {
        tokio::select! {
            reply = &mut handle.rx => {
                match reply {
                    Ok(Ok(ClientResult::ElicitResult(result))) => match result.action {
                        ElicitationAction::Accept => match chosen(result.content.as_ref()) {
                            Some(answer) => _ = desk.answer(question.ticket, answer),
                            // What does not fit the form is no.
                            None => failed(),
                        },
                        ElicitationAction::Decline => _ = desk.answer(question.ticket, Answer::Deny),
                        ElicitationAction::Cancel => _ = desk.refuse(question.ticket, Reason::Dismissed),
                        _ => failed(),
                    },
                    Ok(Ok(_) | Err(ServiceError::McpError(_) | _)) | Err(_) => failed(),
                }
                return;
            }
            prompt = prompts.recv() => match prompt {
                Some(Prompt::Settled(ticket)) if ticket == question.ticket => {
                    let _ = handle.cancel(Some("answered elsewhere, or too late".to_owned())).await;
                    return;
                }
                Some(prompt) => note(queue, prompt),
                None => return,
            },
            _ = ticks.tick() => {
                desk.expire();
                if let Some(token) = &token {
                    told += 1;
                    tell(&context.peer, token, told).await;
                }
            }
        }
    }
}

async fn tell(peer: &Peer<RoleServer>, token: &ProgressToken, told: u32) {
    let progress = ProgressNotificationParam::new(token.clone(), f64::from(told));
    let _ = peer.notify_progress(progress.with_message("waiting for an answer of the user")).await;
}

fn form() -> Map<String, Value> {
    let choice = |answer: &str, title: &str| json!({ "const": answer, "title": title });
    let choices = [
        choice("once", "Allow once"),
        choice("session", "Allow for this session"),
        choice("deny", "Deny"),
        choice("deny-session", "Deny for this session"),
    ];
    let property = json!({ "type": "string", "title": "Answer", "oneOf": choices });
    let form = json!({ "type": "object", "properties": { PROPERTY: property }, "required": [PROPERTY] });
    form.as_object().cloned().unwrap_or_default()
}

/// The choice, if the reply is what the form asks for and nothing else.
fn chosen(content: Option<&Value>) -> Option<Answer> {
    let content = content?.as_object()?;
    if content.len() != 1 {
        return None;
    }
    match content.get(PROPERTY)?.as_str()? {
        "once" => Some(Answer::Once),
        "session" => Some(Answer::Session),
        "deny" => Some(Answer::Deny),
        "deny-session" => Some(Answer::DenySession),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_one_that_clients_know() {
        assert!(ElicitationSchema::from_json_schema(form()).is_ok());
    }

    #[test]
    fn replies_that_miss_the_form_are_none() {
        assert_eq!(chosen(Some(&json!({ "answer": "once" }))), Some(Answer::Once));
        assert_eq!(chosen(Some(&json!({ "answer": "deny-session" }))), Some(Answer::DenySession));
        for reply in [
            json!({}),
            json!({ "answer": "yes" }),
            json!({ "answer": true }),
            json!({ "answer": ["once"] }),
            json!({ "answer": "once", "more": 1 }),
            json!({ "Answer": "once" }),
            json!("once"),
            json!(null),
        ] {
            assert_eq!(chosen(Some(&reply)), None, "{reply}");
        }
        assert_eq!(chosen(None), None);
    }
}
