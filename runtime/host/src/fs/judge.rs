//! The gate as the judge of operations on files.

use crate::gate::{self, Gate};
use act_files::Judge;
use act_policy::{Reason, Request, Verdict};
use std::sync::Arc;

/// The gate of the process.
pub(crate) struct GateJudge(pub(crate) Arc<dyn Gate>);

/// Operations on files, judged by the gate. Shared by all stores of the process.
pub(crate) type Files = act_files::Files<GateJudge>;

impl Judge for GateJudge {
    async fn permit(&self, request: Request) -> bool {
        gate::permit(&*self.0, request).await
    }

    fn judge(&self, request: Request) -> Verdict {
        self.0.judge(request)
    }

    fn peek(&self, request: &Request) -> Verdict {
        self.0.peek(request)
    }

    fn refused(&self, request: Request, reason: Reason) {
        self.0.refused(request, reason);
    }

    fn kernel_refused(&self, request: Request, errno: i32) {
        self.0.kernel_refused(request, errno);
    }

    fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        self.0.whole_subtree_writable(path)
    }
}
