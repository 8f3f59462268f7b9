//! The gate: the one place that every operation of a component passes.

use act_policy::{Decision, Reason, Request, Verdict};
use act_wire::{Purpose, Secret, SecretInfo, SecretRefusal};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

/// An answer that comes later, from outside this process. `Sync`, because wasmtime-wasi's address check demands it.
pub type Answer<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

/// Certificates in DER.
pub type Certificates = Arc<[Vec<u8>]>;

/// Judges operations. Dispatched at run time, so that a test program can pass a gate that allows everything and so
/// prove what the kernel holds without this layer.
pub trait Gate: Send + Sync {
    /// Decide and record.
    fn judge(&self, request: Request) -> Verdict;

    /// Decide without recording: for entries of a listing, and to learn which refusal to record.
    fn peek(&self, request: &Request) -> Verdict;

    /// Record a refusal that no rule gave.
    fn refused(&self, request: Request, reason: Reason);

    /// Record that the kernel refused what [`Gate::judge`] had let pass.
    fn kernel_refused(&self, request: Request, errno: i32);

    /// Ask a human through the supervisor, and record the answer. Anything but a clear yes is a no.
    fn ask(&self, request: Request) -> Answer<bool>;

    /// The same for an action that the component describes in words of its own; they are shown as such.
    fn ask_about(&self, request: Request, words: String) -> Answer<bool>;

    /// Read a credential through the supervisor, which has the store, judges and records the read, and asks where the
    /// policy says so.
    fn secret(&self, session: String, key: String, words: String) -> Answer<Result<Secret, SecretRefusal>>;

    /// What the component may know of its stored credentials.
    fn secrets(&self) -> Answer<Result<Vec<SecretInfo>, SecretRefusal>>;

    /// Resolve a canonical name through the supervisor, which judges and records the lookup. Empty: no address that the
    /// policy admits for this purpose.
    fn resolve(&self, name: String, purpose: Purpose) -> Answer<Vec<IpAddr>>;

    /// The certificates that servers are checked against, in DER. Empty: none can be trusted.
    fn roots(&self) -> Answer<Certificates>;

    /// Whether everything below the directory `path` may be written, as itself: no deny, narrower allow or question
    /// lies in it. Only such a directory is renamed; the content of another would change its rules.
    fn whole_subtree_writable(&self, path: &[u8]) -> bool;
}

/// Judge, and ask where the policy says so.
pub(crate) async fn permit(gate: &dyn Gate, request: Request) -> bool {
    match gate.judge(request.clone()).decision {
        Decision::Allow => true,
        Decision::Ask => gate.ask(request).await,
        Decision::Deny => false,
    }
}

/// Record a refusal by this host, unless the policy refuses anyway: then that is the reason on record.
pub(crate) fn refuse(gate: &dyn Gate, request: Request, reason: Reason) {
    if gate.peek(&request).decision == Decision::Deny {
        gate.judge(request);
    } else {
        gate.refused(request, reason);
    }
}
