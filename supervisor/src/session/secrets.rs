//! Questions of the guest about credentials. What the guest decided before it asked does not count.

use super::asks::Kind;
use super::{Session, SessionError};
use crate::broker::credentials::NoSecret;
use act_policy::{Decision, Request, escape};
use act_wire::{Secret, SecretRefusal, ToGuest};

impl Session<'_> {
    /// Answer a read.
    pub(super) fn secret(&mut self, ask: u32, session: &str, key: String, words: String) -> Result<(), SessionError> {
        if !self.open.contains(session) {
            return self.send(&ToGuest::Secret { ask, result: Err(SecretRefusal::InvalidSession) });
        }
        let request = Request::Credential { key: key.clone() };
        let verdict = self.engine.decide(&request);
        match verdict.decision {
            Decision::Ask => self.put(Kind::Secret { ask, key }, request, &verdict, words),
            Decision::Allow | Decision::Deny => {
                self.trail.judged(self.engine.policy(), &request, &verdict);
                self.send_secret(ask, verdict.allowed().then_some(key))
            }
        }
    }

    /// Send what was read; `None`: it may not be.
    pub(super) fn send_secret(&mut self, ask: u32, key: Option<String>) -> Result<(), SessionError> {
        let result = key.ok_or(SecretRefusal::Denied).and_then(|key| self.read_secret(&key));
        self.send(&ToGuest::Secret { ask, result })
    }

    fn read_secret(&mut self, key: &str) -> Result<Secret, SecretRefusal> {
        let shown = escape(key);
        self.credentials.get(key).map_err(|reason| match reason {
            NoSecret::Undeclared => {
                self.trail.warn_once(&format!("credential {shown}: the component does not declare it"));
                SecretRefusal::NotFound
            }
            NoSecret::NotStored => {
                self.trail.warn_once(&format!("credential {shown}: nothing is stored (act login, or act secret set)"));
                SecretRefusal::NotFound
            }
            NoSecret::Store(error) => {
                self.trail.warn_once(&format!("credential {shown}: {error}"));
                SecretRefusal::Unavailable
            }
        })
    }

    /// Answer a listing: names only, and none that the policy refuses anyway.
    pub(super) fn secrets(&mut self, ask: u32) -> Result<(), SessionError> {
        let engine = self.engine;
        let visible = |key: &str| {
            let request = Request::Credential { key: key.to_owned() };
            engine.decide(&request).decision != Decision::Deny
        };
        let result = self.credentials.list(visible).map_err(|error| {
            self.trail.warn_once(&format!("credentials: {error}"));
            SecretRefusal::Unavailable
        });
        self.send(&ToGuest::Secrets { ask, result })
    }
}
