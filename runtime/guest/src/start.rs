//! From `main` to `Ready`: everything that needs rights, then giving them up.

use crate::broker::Broker;
use crate::calls::Runner;
use crate::error::GuestError;
use crate::gate::PolicyGate;
use crate::outbox::Outbox;
use crate::questions::Questions;
use crate::ticker::Ticker;
use act_files::{Direct, Remote};
use act_host::{Component, Gate, Limits, Prepared};
use act_policy::Engine as Policy;
use act_wire::{Channel, Confinement, Report, Start, ToGuest};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A child that is locked down.
pub(crate) struct Ready {
    pub(crate) runtime: Runtime,
    pub(crate) runner: Runner,
    pub(crate) report: Report,
}

/// Microseconds since `main`, at the four points of [`Report::phases`].
struct Phases {
    since: Instant,
    marks: [u32; 4],
}

impl Phases {
    fn mark(&mut self, phase: usize) {
        if let Some(mark) = self.marks.get_mut(phase) {
            *mark = u32::try_from(self.since.elapsed().as_micros()).unwrap_or(u32::MAX);
        }
    }
}

pub(crate) fn prepare(
    since: Instant,
    channel: &mut Channel,
    outbox: &Arc<Outbox>,
    questions: &Arc<Questions>,
    make: impl FnOnce(PolicyGate) -> Arc<dyn Gate>,
) -> Result<Ready, GuestError> {
    let (start, compiled, broker) = receive(channel)?;
    let start = *start;
    let mut phases = Phases { since, marks: [0; 4] };
    phases.mark(0);

    let engine = act_engine::engine().map_err(GuestError::Component)?;
    let component = map(&engine, &compiled)?;
    drop(compiled);
    phases.mark(1);

    let policy = Policy::compile(start.policy).map_err(|error| GuestError::Policy(error.to_string()))?;
    let gate = make(PolicyGate::new(policy, outbox.clone(), questions.clone()));
    let linker = act_host::linker(&engine).map_err(GuestError::Component)?;
    let component = Component::new(&linker, &component).map_err(GuestError::Component)?;
    let preopens = start.preopens.iter().map(|shown| (shown.guest.as_str(), shown.host.as_slice()));
    let limits = Limits { memory: start.limits.memory, output: start.limits.output, handles: start.limits.handles };
    let direct = start.direct.iter().map(|grant| Direct { path: grant.path.clone(), write: grant.write }).collect();
    let remote = broker.map(|socket| (Box::new(Broker::new(socket)) as Box<dyn Remote>, direct));
    let prepared = Prepared::new(gate, preopens, remote, limits)?;
    // No thread yet: the runtime is of one thread, and its blocking pool starts empty.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_keep_alive(Duration::from_secs(u64::from(u32::MAX)))
        .build()
        .map_err(GuestError::Runtime)?;
    phases.mark(2);

    let (ToGuest::Lock(lockdown), _) = channel.receive::<ToGuest>(None)? else {
        return Err(GuestError::Protocol("a lock-down expected"));
    };
    let (landlock_abi, landlock_full) = act_lockdown::landlock(&lockdown).map_err(GuestError::Landlock)?;
    let ticker = Ticker::start(engine.clone()).map_err(GuestError::Runtime)?;
    // wasmtime-wasi starts a blocking thread at the first file write; it must be there before threads are refused.
    runtime
        .block_on(async { tokio::task::spawn_blocking(|| ()).await })
        .map_err(|error| GuestError::Runtime(std::io::Error::other(error)))?;
    act_lockdown::seccomp(&lockdown.seccomp).map_err(GuestError::Seccomp)?;
    phases.mark(3);

    let confinement = Confinement { landlock_abi, landlock_full, seccomp: true };
    let runner = Runner { engine, component, prepared, outbox: outbox.clone(), ticker };
    Ok(Ready { runtime, runner, report: Report { confinement, phases: phases.marks } })
}

/// The start, the compiled component, and the socket to the broker if there is one.
fn receive(channel: &mut Channel) -> Result<(Box<Start>, OwnedFd, Option<OwnedFd>), GuestError> {
    let (message, descriptors) = channel.receive::<ToGuest>(None)?;
    let mut descriptors = descriptors.into_iter();
    match (message, descriptors.next(), descriptors.next(), descriptors.next()) {
        (ToGuest::Start(start), Some(compiled), broker, None) => Ok((start, compiled, broker)),
        _ => Err(GuestError::Protocol("the first message must be a start with one or two descriptors")),
    }
}

fn map(engine: &wasmtime::Engine, compiled: &OwnedFd) -> Result<wasmtime::component::Component, GuestError> {
    let path = format!("/proc/self/fd/{}", compiled.as_raw_fd());
    // SAFETY: the file must be an unmodified output of `Engine::precompile_component`, and must not change while it is
    // mapped. It comes over the channel from the supervisor, which got it from its own compile worker or from its
    // private cache by a key over the component's bytes and our settings, never from elsewhere; it is a memfd sealed
    // against writing, growing and shrinking, so nobody can change it after that. Wasmtime itself refuses another
    // version or other settings.
    unsafe { wasmtime::component::Component::deserialize_file(engine, path) }.map_err(GuestError::Component)
}
