//! Questions to the supervisor that wait for their answers.

use crate::outbox::Outbox;
use act_host::Certificates;
use act_policy::Request;
use act_wire::{AskId, Purpose, Secret, SecretInfo, SecretRefusal, ToSupervisor};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Most questions that wait at once; one more is answered with no.
const WAITING: usize = 1024;

pub(crate) struct Questions {
    outbox: Arc<Outbox>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: AskId,
    asks: HashMap<AskId, oneshot::Sender<bool>>,
    lookups: HashMap<AskId, oneshot::Sender<Vec<IpAddr>>>,
    secrets: HashMap<AskId, oneshot::Sender<Result<Secret, SecretRefusal>>>,
    listings: HashMap<AskId, oneshot::Sender<Result<Vec<SecretInfo>, SecretRefusal>>>,
    roots: Roots,
}

/// The certificates of the system, which the supervisor hands over once.
#[derive(Default)]
enum Roots {
    #[default]
    Unasked,
    Asked(Vec<oneshot::Sender<Certificates>>),
    Here(Certificates),
}

impl Questions {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: too many wait.
    pub(crate) fn ask(&self, request: Request, words: String) -> Option<oneshot::Receiver<bool>> {
        let (sender, receiver) = oneshot::channel();
        let ask = {
            let mut inner = self.inner();
            let ask = inner.number()?;
            inner.asks.insert(ask, sender);
            ask
        };
        self.outbox.send(&ToSupervisor::Ask { ask, request, words });
        Some(receiver)
    }

    /// `None`: too many wait.
    pub(crate) fn resolve(&self, host: String, purpose: Purpose) -> Option<oneshot::Receiver<Vec<IpAddr>>> {
        let (sender, receiver) = oneshot::channel();
        let ask = {
            let mut inner = self.inner();
            let ask = inner.number()?;
            inner.lookups.insert(ask, sender);
            ask
        };
        self.outbox.send(&ToSupervisor::Resolve { ask, host, purpose });
        Some(receiver)
    }

    /// Asked once, whoever waits for it and however often.
    pub(crate) fn roots(&self) -> oneshot::Receiver<Certificates> {
        let (sender, receiver) = oneshot::channel();
        let ask = {
            let mut inner = self.inner();
            match &mut inner.roots {
                Roots::Here(certificates) => {
                    _ = sender.send(certificates.clone());
                    return receiver;
                }
                Roots::Asked(waiting) => {
                    waiting.push(sender);
                    return receiver;
                }
                Roots::Unasked => inner.roots = Roots::Asked(vec![sender]),
            }
            inner.count()
        };
        self.outbox.send(&ToSupervisor::Roots { ask });
        receiver
    }

    pub(crate) fn roots_given(&self, certificates: Vec<Vec<u8>>) {
        let certificates = Certificates::from(certificates);
        let before = std::mem::replace(&mut self.inner().roots, Roots::Here(certificates.clone()));
        if let Roots::Asked(waiting) = before {
            for sender in waiting {
                _ = sender.send(certificates.clone());
            }
        }
    }

    /// `None`: too many wait.
    pub(crate) fn ask_secret(
        &self,
        session: String,
        key: String,
        words: String,
    ) -> Option<oneshot::Receiver<Result<Secret, SecretRefusal>>> {
        let (sender, receiver) = oneshot::channel();
        let ask = {
            let mut inner = self.inner();
            let ask = inner.number()?;
            inner.secrets.insert(ask, sender);
            ask
        };
        self.outbox.send(&ToSupervisor::Secret { ask, session, key, words });
        Some(receiver)
    }

    /// `None`: too many wait.
    pub(crate) fn ask_secrets(&self) -> Option<oneshot::Receiver<Result<Vec<SecretInfo>, SecretRefusal>>> {
        let (sender, receiver) = oneshot::channel();
        let ask = {
            let mut inner = self.inner();
            let ask = inner.number()?;
            inner.listings.insert(ask, sender);
            ask
        };
        self.outbox.send(&ToSupervisor::Secrets { ask });
        Some(receiver)
    }

    /// The one who asked may be gone: nobody waits then.
    pub(crate) fn answer(&self, ask: AskId, allow: bool) {
        if let Some(sender) = self.inner().asks.remove(&ask) {
            _ = sender.send(allow);
        }
    }

    pub(crate) fn resolved(&self, ask: AskId, addresses: Vec<IpAddr>) {
        if let Some(sender) = self.inner().lookups.remove(&ask) {
            _ = sender.send(addresses);
        }
    }

    pub(crate) fn secret(&self, ask: AskId, result: Result<Secret, SecretRefusal>) {
        if let Some(sender) = self.inner().secrets.remove(&ask) {
            _ = sender.send(result);
        }
    }

    pub(crate) fn secrets(&self, ask: AskId, result: Result<Vec<SecretInfo>, SecretRefusal>) {
        if let Some(sender) = self.inner().listings.remove(&ask) {
            _ = sender.send(result);
        }
    }
}

impl Inner {
    fn number(&mut self) -> Option<AskId> {
        if self.asks.len() + self.lookups.len() + self.secrets.len() + self.listings.len() >= WAITING {
            return None;
        }
        Some(self.count())
    }

    fn count(&mut self) -> AskId {
        self.next = self.next.wrapping_add(1);
        self.next
    }
}
