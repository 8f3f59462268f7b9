//! Bounds on a guest, and which kernel mechanism holds each.

use super::cgroup::{CgroupLimits, Controllers};
use super::spawn::Rlimits;
use std::time::Duration;

/// Linear memory of a component where nobody said otherwise, in bytes.
pub const DEFAULT_MEMORY: u64 = 1 << 30;
/// What the guest process needs beside the linear memory: stacks, tables, buffers, the component's initial data.
const OVERHEAD: u64 = 192 << 20;
/// Open descriptors of the child.
const DESCRIPTORS: u64 = 1024;
/// Entries of the component's resource table.
const HANDLES: u32 = 4096;
/// Largest file that a component may write, in bytes.
const FILE_SIZE: u64 = 16 << 30;
/// Bytes that one call may return.
pub const OUTPUT: u64 = 64 << 20;
/// CPU time that one call may use where it has no time limit.
const CALL_CPU: Duration = Duration::from_hours(1);
/// Threads of the guest process: main, clock and one for blocking file calls, with room for none besides.
const TASKS: u32 = 4;

/// Bounds on a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// How long one call may take; `None`: as long as it likes.
    pub timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: DEFAULT_MEMORY, timeout: None }
    }
}

impl Limits {
    /// Resource limits of the child.
    pub fn rlimits(&self) -> Rlimits {
        // Where it cannot be renewed, it has to last for all calls.
        let cpu = self.call_cpu().max(CALL_CPU.as_secs());
        Rlimits { data: self.memory.saturating_add(OVERHEAD), files: DESCRIPTORS, file_size: FILE_SIZE, cpu }
    }

    /// Seconds of CPU time for one call: more than it may take, so that the supervisor's own clock comes first.
    pub fn call_cpu(&self) -> u64 {
        self.timeout.unwrap_or(CALL_CPU).as_secs().saturating_add(2)
    }

    /// Limits of the cgroup.
    pub fn cgroup(&self) -> CgroupLimits {
        CgroupLimits { memory: self.memory.saturating_add(OVERHEAD), pids: TASKS, cpu_percent: Some(100) }
    }

    /// Bounds that the guest process itself enforces.
    pub fn guest(&self) -> act_wire::GuestLimits {
        act_wire::GuestLimits { memory: self.memory, output: OUTPUT, handles: HANDLES }
    }

    /// Which mechanism holds which limit, for the isolation line.
    pub fn held_by(&self, controllers: Option<Controllers>) -> String {
        let c = controllers.unwrap_or_default();
        let cpu = if c.cpu { "cgroup+rlimit" } else { "rlimit" };
        let memory = if c.memory { "cgroup+rlimit" } else { "rlimit" };
        // The seccomp program lets the child make no task at all.
        let pids = if c.pids { "cgroup+seccomp" } else { "seccomp" };
        format!("memory={memory} pids={pids} cpu={cpu}")
    }
}
