//! The lock-down of the compile worker.

use crate::{CPU_SECONDS, DATA};
use act_lockdown::{LockdownError, landlock, profile, seccomp};
use act_wire::Lockdown;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Why the process is not locked down.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error(transparent)]
    Layer(#[from] LockdownError),
    #[error("set a resource limit: {0}")]
    Limit(#[from] rustix::io::Errno),
    #[error("start the compiler's threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Landlock with no grant, then the compiler's threads, then seccomp on all of them.
///
/// Landlock is as much as the kernel has: the supervisor knows from its own probe whether that is enough. seccomp alone
/// leaves no way to a file, a socket or a process.
pub(crate) fn down() -> Result<(), LockError> {
    let nothing = Lockdown {
        files: Vec::new(),
        connect_tcp: Some(Vec::new()),
        bind_tcp: Some(Vec::new()),
        seccomp: profile::compile_worker()?,
        required: false,
    };
    landlock(&nothing)?;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, 1 << 32),
        (Resource::Data, DATA),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Memlock, 0),
    ] {
        // Whoever started this process may have set a lower one, which cannot be raised.
        let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    // Each thread has run a task when this returns, so its start is over.
    rayon::ThreadPoolBuilder::new().build_global()?;
    rayon::broadcast(|_| ());
    seccomp(&nothing.seccomp)?;
    Ok(())
}
