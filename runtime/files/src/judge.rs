//! Who judges.

use act_policy::{Access, Decision, Reason, Request, Verdict};
use std::future::Future;

/// Judges and records operations.
pub trait Judge: Send + Sync {
    /// Decide and record, and ask where the policy says so: whether the operation may go on.
    fn permit(&self, request: Request) -> impl Future<Output = bool> + Send;

    /// Decide and record, without asking.
    fn judge(&self, request: Request) -> Verdict;

    /// Decide without recording: for entries of a listing, and to learn which refusal to record.
    fn peek(&self, request: &Request) -> Verdict;

    /// Record a refusal that no rule gave.
    fn refused(&self, request: Request, reason: Reason);

    /// Record that the kernel refused what was permitted.
    fn kernel_refused(&self, request: Request, errno: i32);

    /// Whether everything below the directory `path` may be written, as itself: no deny, narrower allow or question
    /// lies in it. Only such a directory is renamed; the content of another would change its rules.
    fn whole_subtree_writable(&self, path: &[u8]) -> bool;

    /// Record a refusal by this host, unless the policy refuses anyway: then that is the reason on record.
    fn refuse(&self, request: Request, reason: Reason) {
        if self.peek(&request).decision == Decision::Deny {
            self.judge(request);
        } else {
            self.refused(request, reason);
        }
    }
}

/// A request on a file.
pub fn file(access: Access, path: &[u8]) -> Request {
    Request::File { access, path: path.to_vec() }
}
