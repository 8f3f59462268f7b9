//! Questions of the guest about credentials. What the guest decided before it asked does not count.

use super::{Session, SessionError};
use crate::broker::credentials::NoSecret;
use act_policy::{Decision, Request, escape};
use act_wire::{Secret, SecretRefusal, ToGuest};

impl Session<'_> {
    /// Answer a read.
    pub(super) fn secret(&mut self, ask: u32, session: &str, key: String, words: &str) -> Result<(), SessionError> {
        let result = self.read_secret(session, key, words);
        self.send(&ToGuest::Secret { ask, result })
    }

    fn read_secret(&mut self, session: &str, key: String, words: &str) -> Result<Secret, SecretRefusal> {
        if !self.open.contains(session) {
            return Err(SecretRefusal::InvalidSession);
        }
        let shown = escape(&key);
        let request = Request::Credential { key };
        let verdict = self.engine.decide(&request);
        let policy = self.engine.policy();
        match verdict.decision {
            Decision::Allow => self.trail.judged(policy, &request, &verdict),
            Decision::Deny => {
                self.trail.judged(policy, &request, &verdict);
                return Err(SecretRefusal::Denied);
            }
            Decision::Ask if policy.passes(&verdict) => self.trail.consented(policy, &request, &verdict),
            Decision::Ask => {
                // Nobody can be asked: refused at once.
                self.trail.unanswered_about(policy, &request, words);
                return Err(SecretRefusal::Denied);
            }
        }
        let Request::Credential { key } = request else { return Err(SecretRefusal::NotFound) };
        self.credentials.get(&key).map_err(|reason| match reason {
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
