//! What a call may do because somebody answered yes, for the layers below the host check.

use super::Key;
use act_policy::{Decision, Request, Verdict};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The answers of one call. They never outlive it. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Passes(Arc<Mutex<HashSet<Key>>>);

impl Passes {
    /// Somebody answered yes.
    pub fn add(&self, key: Key) {
        self.keys().insert(key);
    }

    /// Whether a request that the policy asks about was answered with yes.
    pub fn cover(&self, request: &Request, verdict: &Verdict) -> bool {
        verdict.decision == Decision::Ask && self.holds(&Key::of(request))
    }

    /// Whether this was answered with yes.
    pub fn holds(&self, key: &Key) -> bool {
        self.keys().contains(key)
    }

    /// The call is over.
    pub fn clear(&self) {
        self.keys().clear();
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
