//! The gates: the one of the program, and one for tests that lets everything pass.

use crate::outbox::Outbox;
use crate::questions::Questions;
use act_host::{Answer, Certificates, Gate};
use act_policy::{Decision, Engine, Reason, Request, Verdict};
use act_wire::{Observed, Purpose, Record, Secret, SecretInfo, SecretRefusal};
use std::net::IpAddr;
use std::sync::Arc;

/// Judges by the compiled policy and tells the supervisor.
pub struct PolicyGate {
    engine: Engine,
    outbox: Arc<Outbox>,
    questions: Arc<Questions>,
}

impl PolicyGate {
    pub(crate) fn new(engine: Engine, outbox: Arc<Outbox>, questions: Arc<Questions>) -> Self {
        Self { engine, outbox, questions }
    }

    fn record(&self, request: Request, outcome: Observed) {
        let denied = !matches!(
            outcome,
            Observed::Judged(Verdict { decision: Decision::Allow | Decision::Ask, .. }) | Observed::Answered(true)
        );
        self.outbox.record(Record { request, outcome }, denied);
    }
}

impl Gate for PolicyGate {
    fn judge(&self, request: Request) -> Verdict {
        // What cannot be recorded must not happen.
        if self.outbox.failed() {
            return Verdict::deny(Reason::Unsupported);
        }
        let verdict = self.engine.decide(&request);
        self.record(request, Observed::Judged(verdict));
        verdict
    }

    fn peek(&self, request: &Request) -> Verdict {
        self.engine.decide(request)
    }

    fn refused(&self, request: Request, reason: Reason) {
        self.record(request, Observed::Judged(Verdict::deny(reason)));
    }

    fn kernel_refused(&self, request: Request, errno: i32) {
        self.record(request, Observed::KernelRefused(errno));
    }

    fn ask(&self, request: Request) -> Answer<bool> {
        self.ask_about(request, String::new())
    }

    fn ask_about(&self, request: Request, words: String) -> Answer<bool> {
        let outbox = self.outbox.clone();
        let answer = self.questions.ask(request.clone(), words);
        Box::pin(async move {
            let allow = match answer {
                Some(answer) => answer.await.unwrap_or(false),
                None => false,
            };
            outbox.record(Record { request, outcome: Observed::Answered(allow) }, !allow);
            allow
        })
    }

    fn secret(&self, session: String, key: String, words: String) -> Answer<Result<Secret, SecretRefusal>> {
        let answer = self.questions.ask_secret(session, key, words);
        Box::pin(async move {
            match answer {
                Some(answer) => answer.await.unwrap_or(Err(SecretRefusal::Unavailable)),
                None => Err(SecretRefusal::Unavailable),
            }
        })
    }

    fn secrets(&self) -> Answer<Result<Vec<SecretInfo>, SecretRefusal>> {
        let answer = self.questions.ask_secrets();
        Box::pin(async move {
            match answer {
                Some(answer) => answer.await.unwrap_or(Err(SecretRefusal::Unavailable)),
                None => Err(SecretRefusal::Unavailable),
            }
        })
    }

    fn resolve(&self, name: String, purpose: Purpose) -> Answer<Vec<IpAddr>> {
        let answer = self.questions.resolve(name, purpose);
        Box::pin(async move {
            match answer {
                Some(answer) => answer.await.unwrap_or_default(),
                None => Vec::new(),
            }
        })
    }

    fn roots(&self) -> Answer<Certificates> {
        let answer = self.questions.roots();
        Box::pin(async move { answer.await.unwrap_or_default() })
    }

    fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        self.engine.whole_subtree_writable(path)
    }
}

/// Lets everything pass at layer 1 and records that it did, to prove what the kernel's layers hold. For tests.
pub struct AllowAll(pub PolicyGate);

const ALLOWED: Verdict = Verdict { decision: Decision::Allow, reason: Reason::Allowed, rule: None };

impl Gate for AllowAll {
    fn judge(&self, request: Request) -> Verdict {
        self.0.record(request, Observed::Judged(ALLOWED));
        ALLOWED
    }

    fn peek(&self, _: &Request) -> Verdict {
        ALLOWED
    }

    fn refused(&self, request: Request, reason: Reason) {
        self.0.refused(request, reason);
    }

    fn kernel_refused(&self, request: Request, errno: i32) {
        self.0.kernel_refused(request, errno);
    }

    fn ask(&self, _: Request) -> Answer<bool> {
        Box::pin(std::future::ready(true))
    }

    fn ask_about(&self, _: Request, _: String) -> Answer<bool> {
        Box::pin(std::future::ready(true))
    }

    fn secret(&self, session: String, key: String, words: String) -> Answer<Result<Secret, SecretRefusal>> {
        self.0.secret(session, key, words)
    }

    fn secrets(&self) -> Answer<Result<Vec<SecretInfo>, SecretRefusal>> {
        self.0.secrets()
    }

    fn resolve(&self, name: String, purpose: Purpose) -> Answer<Vec<IpAddr>> {
        self.0.resolve(name, purpose)
    }

    fn roots(&self) -> Answer<Certificates> {
        self.0.roots()
    }

    fn whole_subtree_writable(&self, _: &[u8]) -> bool {
        true
    }
}
