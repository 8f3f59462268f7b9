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
pub const DEFAULT_HANDLES: u32 = 4096;
/// Largest file that a component may write, in bytes.
pub const DEFAULT_FILE: u64 = 16 << 30;
/// Bytes that one call may return.
pub const DEFAULT_OUTPUT: u64 = 64 << 20;
/// CPU time that one call may use where it has no time limit.
const CALL_CPU: Duration = Duration::from_hours(1);
/// Threads of the guest process: main, clock and one for blocking file calls, with room for none besides.
pub const TASKS: u32 = 3;

/// Bounds on a run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// How long one call may take; `None`: as long as it likes.
    pub timeout: Option<Duration>,
    /// Hundredths of one CPU.
    pub cpu_percent: u32,
    /// Tasks of the guest process.
    pub pids: u32,
    /// Bytes that one call may return.
    pub output: u64,
    /// Open handles.
    pub handles: u32,
    /// Bytes of the largest file that may be written.
    pub file: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: DEFAULT_MEMORY,
            timeout: None,
            cpu_percent: 100,
            pids: TASKS,
            output: DEFAULT_OUTPUT,
            handles: DEFAULT_HANDLES,
            file: DEFAULT_FILE,
        }
    }
}

impl Limits {
    /// Resource limits of the child.
    pub fn rlimits(&self) -> Rlimits {
        // Where it cannot be renewed, it has to last for all calls.
        let cpu = self.call_cpu().max(CALL_CPU.as_secs());
        Rlimits { data: self.memory.saturating_add(OVERHEAD), files: DESCRIPTORS, file_size: self.file, cpu }
    }

    /// Seconds of CPU time for one call: more than it may take, so that the supervisor's own clock comes first.
    pub fn call_cpu(&self) -> u64 {
        self.timeout.unwrap_or(CALL_CPU).as_secs().saturating_add(2)
    }

    /// Limits of the cgroup.
    pub fn cgroup(&self) -> CgroupLimits {
        CgroupLimits {
            memory: self.memory.saturating_add(OVERHEAD),
            pids: self.pids,
            cpu_percent: Some(self.cpu_percent),
        }
    }

    /// Bounds that the guest process itself enforces.
    pub fn guest(&self) -> act_wire::GuestLimits {
        act_wire::GuestLimits { memory: self.memory, output: self.output, handles: self.handles }
    }

    /// The most that the supervisor takes in from one call: the guest program has kept its own bound before.
    pub fn output_taken(&self) -> u64 {
        self.output.saturating_mul(2).saturating_add(1 << 20)
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
