//! Starting a guest child: see the order in [`super`].

use super::cgroup::Cgroup;
use super::limits::Limits;
use super::spawn::{Birth, Child, Ended, Newborn, open_sibling};
use super::verify::{Expected, verify};
use super::{SandboxError, bpf};
use crate::broker::files::{FileBroker, opens_directly};
use crate::consent::Passes;
use act_bpf::{Attached, BpfError, Guard, NetTable, Reach};
use act_lockdown::profile::Profile;
use act_policy::{Engine, KernelPlan, escape};
use act_wire::{
    Channel, ChannelError, Confinement, FileGrant, Lockdown, Preopen, Report, Start, ToGuest, ToSupervisor,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most bytes of one message from the child: the output of a call and its wrapping.
const MAX_MESSAGE: usize = 80 << 20;
/// How long the child may take until it is confined.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// How long the child may leave a message unread before it counts as hanging.
const SEND_DEADLINE: Duration = Duration::from_secs(10);
/// Lowest Landlock ABI that counts as the whole layer: before it, `truncate(2)` is not seen (Linux 6.2).
const LANDLOCK_MINIMUM: u32 = 3;
/// First Landlock ABI that holds TCP ports (Linux 6.7).
const LANDLOCK_PORTS: u32 = 4;
/// An unprivileged user that owns nothing (`/proc/sys/kernel/overflowuid`): for guests that touch no files.
const NOBODY: u32 = 65534;

/// The first steps of a start, which need no more than the plan: the cgroup, the child inside it, and on a thread of its
/// own the programs, loaded, attached and configured. The compiled component is looked up meanwhile.
#[derive(Debug)]
pub struct Launch {
    cgroup: Result<Cgroup, String>,
    guarding: Option<Guarding>,
    newborn: Newborn,
    channel: OwnedFd,
}

type Guarding = JoinHandle<Result<(Guard, Attached), GuardError>>;

/// Why the programs do not guard the cgroup.
#[derive(Debug)]
enum GuardError {
    /// They cannot be loaded or attached.
    Missing(String),
    /// They are attached, and what the rules say could not be told to them. They deny everything.
    Configure(String),
}

impl Launch {
    /// Begin.
    pub fn begin(plan: &KernelPlan, limits: &Limits) -> Result<Self, SandboxError> {
        let program = open_sibling("act-guest")?;
        let (channel, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|e| SandboxError::System { call: "socketpair", source: e.into() })?;
        let cgroup = Cgroup::create().map_err(|e| match e {
            SandboxError::Cgroup { reason } => reason,
            other => other.to_string(),
        });
        if let Ok(cgroup) = &cgroup {
            cgroup.limit(&limits.cgroup())?;
        }
        let touches_files = !plan.files.is_empty();
        let birth = Birth {
            program: program.as_fd(),
            name: c"act-guest",
            channel: theirs.as_fd(),
            output: None,
            cgroup: cgroup.as_ref().ok().map(AsFd::as_fd),
            uid: (rustix::process::geteuid().is_root() && !touches_files && may_change_user()).then_some(NOBODY),
            limits: limits.rlimits(),
        };
        let newborn = birth.begin()?;
        let guarding = cgroup.as_ref().ok().and_then(|cgroup| {
            let directory = cgroup.as_fd().try_clone_to_owned().ok()?;
            let table = bpf::table(&plan.net);
            Some(std::thread::spawn(move || guard(directory.as_fd(), &table)))
        });
        Ok(Self { cgroup, guarding, newborn, channel })
    }
}

fn guard(cgroup: BorrowedFd<'_>, table: &NetTable) -> Result<(Guard, Attached), GuardError> {
    let missing = |e: BpfError| GuardError::Missing(with_sources(&e));
    // Without a reachable address no rules are needed, and rules are what takes the verifier its milliseconds.
    let reach = if table.entries.is_empty() { Reach::Nothing } else { Reach::Rules };
    let guard = Guard::load(reach).map_err(missing)?;
    let mut attached = guard.attach(cgroup).map_err(missing)?;
    attached.configure(table).map_err(|e| GuardError::Configure(with_sources(&e)))?;
    Ok((guard, attached))
}

/// An error and what caused it, in one line.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

/// One layer: what holds, or why it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// It holds; a word for the isolation line.
    On(String),
    /// It is missing.
    Missing(String),
}

/// What holds of each layer below the host checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// File and port rules.
    pub landlock: Layer,
    /// System calls.
    pub seccomp: Layer,
    /// Addresses.
    pub ebpf: Layer,
    /// Birth place, kill switch and hook of the rest.
    pub cgroup: Layer,
    /// Which mechanism holds which limit.
    pub limits: String,
}

impl Isolation {
    /// The layers by name.
    pub fn layers(&self) -> [(&'static str, &Layer); 4] {
        [("landlock", &self.landlock), ("seccomp", &self.seccomp), ("ebpf", &self.ebpf), ("cgroup", &self.cgroup)]
    }

    /// Whether a share of the CPUs is held.
    pub fn holds_cpus(&self) -> bool {
        self.limits.contains("cpu=cgroup")
    }

    /// The first layer that is missing.
    fn missing(&self) -> Option<SandboxError> {
        self.layers().into_iter().find_map(|(layer, state)| match state {
            Layer::Missing(reason) => Some(SandboxError::Missing { layer, reason: reason.clone() }),
            Layer::On(_) => None,
        })
    }
}

/// What to start.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The compiled policy.
    pub engine: &'a Arc<Engine>,
    /// Its lowered form.
    pub plan: &'a KernelPlan,
    /// The compiled component, in a sealed memfd.
    pub artifact: OwnedFd,
    /// What answers let pass, for the broker.
    pub passes: Passes,
    /// Directories shown to the component.
    pub preopens: Vec<Preopen>,
    /// Bounds.
    pub limits: Limits,
    /// Whether every layer is required.
    pub required: bool,
}

/// A confined child, ready for calls. Dropped, it is killed and its traces are removed.
#[derive(Debug)]
pub struct Sandbox {
    /// Messages to and from the child.
    pub channel: Channel,
    /// The process.
    pub child: Child,
    /// The kernel programs.
    pub guard: Option<Guard>,
    /// Their rules for this child.
    pub attached: Option<Attached>,
    /// Its cgroup.
    pub cgroup: Option<Cgroup>,
    /// What opens files for it that Landlock does not.
    pub files: Option<FileBroker>,
    /// What holds.
    pub isolation: Isolation,
    /// Microseconds of the child's own start phases.
    pub phases: [u32; 4],
    /// Seconds of CPU time that one call may use.
    call_cpu: u64,
    reaped: bool,
}

impl Sandbox {
    /// Give the child its policy and its component, and confine it.
    pub fn start(setup: Setup<'_>, launch: Launch) -> Result<Self, SandboxError> {
        let Launch { cgroup, guarding, newborn, channel } = launch;
        let (cgroup, no_cgroup) = split(cgroup);
        if let (Some(reason), true) = (&no_cgroup, setup.required) {
            return Err(SandboxError::Missing { layer: "cgroup", reason: reason.clone() });
        }
        let controllers = cgroup.as_ref().map(Cgroup::controllers);
        let mut sandbox = Self {
            channel: Channel::new(channel, MAX_MESSAGE).with_patience(SEND_DEADLINE),
            child: newborn.confirm()?,
            guard: None,
            attached: None,
            cgroup,
            files: None,
            isolation: Isolation {
                landlock: Layer::Missing("not reported".into()),
                seccomp: Layer::Missing("not reported".into()),
                ebpf: Layer::Missing("not loaded".into()),
                cgroup: no_cgroup.map_or_else(|| Layer::On("on".into()), Layer::Missing),
                limits: setup.limits.held_by(controllers),
            },
            phases: [0; 4],
            call_cpu: setup.limits.call_cpu(),
            reaped: false,
        };
        let shown: Vec<Vec<u8>> = setup.preopens.iter().map(|p| p.host.clone()).collect();
        let direct = direct(setup.plan);
        let broker = sandbox.start_broker(&setup, &direct)?;
        let start = ToGuest::Start(Box::new(Start {
            policy: setup.engine.policy().clone(),
            limits: setup.limits.guest(),
            preopens: setup.preopens,
            direct: direct.clone(),
        }));
        let sent: Vec<BorrowedFd<'_>> = std::iter::once(&setup.artifact).chain(&broker).map(AsFd::as_fd).collect();
        sandbox.channel.send_with(&start, &sent)?;
        drop(broker);
        sandbox.await_guard(guarding)?;
        let hooks = sandbox.attached.is_some();
        let lockdown = lockdown(setup.plan, direct, !shown.is_empty(), hooks, setup.required)?;
        sandbox.channel.send(&ToGuest::Lock(lockdown))?;
        let report = sandbox.await_report()?;
        sandbox.accept(&report, &shown, setup.required)?;
        sandbox.channel.send(&ToGuest::Go)?;
        Ok(sandbox)
    }

    /// Start the broker for files, if there is something that Landlock cannot say; returns the child's end of its socket.
    /// Who may write needs it in any case: times are set by nobody else.
    fn start_broker(&mut self, setup: &Setup<'_>, direct: &[FileGrant]) -> Result<Option<OwnedFd>, SandboxError> {
        let files = &setup.plan.files;
        if files.len() == direct.len() && !files.iter().any(|subtree| subtree.write) {
            return Ok(None);
        }
        let system = |call| move |source| SandboxError::System { call, source };
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(|e| system("socketpair")(e.into()))?;
        let broker = FileBroker::start(Arc::clone(setup.engine), setup.passes.clone(), ours)
            .map_err(system("start the broker"))?;
        self.files = Some(broker);
        Ok(Some(theirs))
    }

    /// Wait until the programs guard the cgroup. Unconfigured they deny everything, so a failure to configure them ends
    /// the run: it would not be what the rules say.
    fn await_guard(&mut self, guarding: Option<Guarding>) -> Result<(), SandboxError> {
        let Some(guarding) = guarding else {
            self.isolation.ebpf = Layer::Missing("needs a cgroup".into());
            return Ok(());
        };
        match guarding.join().unwrap_or_else(|_| Err(GuardError::Missing("the loader crashed".into()))) {
            Ok((guard, attached)) => {
                self.isolation.ebpf = Layer::On("connect,sendmsg,bind,sock,egress".into());
                self.guard = Some(guard);
                self.attached = Some(attached);
                Ok(())
            }
            Err(GuardError::Missing(reason)) => {
                self.isolation.ebpf = Layer::Missing(reason);
                Ok(())
            }
            Err(GuardError::Configure(message)) => Err(SandboxError::Guest { step: "ebpf".into(), message }),
        }
    }

    fn await_report(&mut self) -> Result<Report, SandboxError> {
        let failed = |step: &str, message: &str| SandboxError::Guest { step: escape(step), message: escape(message) };
        match self.channel.receive(Some(Instant::now() + START_DEADLINE)) {
            Ok((ToSupervisor::Ready(report), _)) => Ok(report),
            Ok((ToSupervisor::Failed { step, message }, _)) if step == "landlock" || step == "seccomp" => {
                Err(SandboxError::Missing {
                    layer: if step == "landlock" { "landlock" } else { "seccomp" },
                    reason: escape(&message),
                })
            }
            Ok((ToSupervisor::Failed { step, message }, _)) => Err(failed(&step, &message)),
            Ok(_) => Err(failed("protocol", "an unexpected message")),
            Err(ChannelError::Closed) => {
                self.reaped = true;
                let how = match self.child.end() {
                    Ok(Ended::Exit(code)) => format!("it ended with exit code {code}"),
                    Ok(Ended::Signal(signal)) => format!("signal {signal} killed it"),
                    Ok(Ended::Hung) => "it closed the channel and did not end".into(),
                    Err(e) => e.to_string(),
                };
                Err(failed("process", &how))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Judge the report: the child's word first, then the kernel's.
    fn accept(&mut self, report: &Report, shown: &[Vec<u8>], required: bool) -> Result<(), SandboxError> {
        let Confinement { landlock_abi: abi, landlock_full, seccomp } = report.confinement;
        self.isolation.landlock = match (abi, landlock_full) {
            (0, _) => {
                Layer::Missing("the kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK, lsm=landlock)".into())
            }
            (_, false) => Layer::Missing(format!("ABI {abi} was enforced only in part")),
            (abi, true) if abi < LANDLOCK_MINIMUM => {
                Layer::Missing(format!("ABI {abi}; {LANDLOCK_MINIMUM} is needed (Linux 6.2)"))
            }
            (abi, true) => Layer::On(format!("abi{abi}")),
        };
        self.isolation.seccomp =
            if seccomp { Layer::On("on".into()) } else { Layer::Missing("the filter was not installed".into()) };
        if let (true, Some(missing)) = (required, self.isolation.missing()) {
            return Err(missing);
        }
        let cgroup = self.cgroup.as_ref().map(Cgroup::name);
        let expected = Expected { cgroup, seccomp, shown, broker: self.files.is_some() };
        verify(&self.child, &expected).map_err(SandboxError::Unconfined)?;
        self.phases = report.phases;
        Ok(())
    }

    /// Give the child the CPU time of a new call.
    pub fn begin_call(&self) {
        self.child.renew_cpu(self.call_cpu);
    }

    /// Wait for a child that has closed its channel or was killed.
    pub fn reap(&mut self) -> Result<Ended, rustix::io::Errno> {
        self.reaped = true;
        self.child.end()
    }

    /// Kill the child, with everything that its cgroup holds.
    pub fn kill(&mut self) {
        if !self.reaped {
            self.child.kill();
            self.reaped = true;
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.kill();
        // Sockets outlive a cgroup: the record must deny before the rules go, and the rules before the cgroup.
        if let Some(attached) = self.attached.take() {
            let _ = attached.retire();
        }
    }
}

fn split<T, E>(result: Result<T, E>) -> (Option<T>, Option<E>) {
    match result {
        Ok(value) => (Some(value), None),
        Err(error) => (None, Some(error)),
    }
}

/// Whether this process holds the capabilities to change user and groups.
fn may_change_user() -> bool {
    use rustix::thread::CapabilitySet;
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID))
}

/// Where the child opens files itself.
fn direct(plan: &KernelPlan) -> Vec<FileGrant> {
    let root = |path: &[u8]| if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
    let subtrees = plan.files.iter().filter(|subtree| opens_directly(subtree));
    subtrees.map(|s| FileGrant { path: root(&s.path), write: s.write }).collect()
}

/// What the child enforces on itself.
fn lockdown(
    plan: &KernelPlan,
    direct: Vec<FileGrant>,
    files: bool,
    hooks: bool,
    required: bool,
) -> Result<Lockdown, SandboxError> {
    // With the hooks sockets can always be made, so that the host check sees and records which address was asked for: what
    // they may reach is held by the hooks. Without them Landlock holds TCP; nothing holds UDP but that none can be made.
    let profile = Profile {
        files,
        files_write: plan.files.iter().any(|s| s.write),
        tcp: hooks || plan.net.tcp || act_lockdown::kernel_abi() >= LANDLOCK_PORTS,
        udp: hooks || plan.net.udp,
        listen: false,
    };
    let seccomp =
        profile.program().map_err(|e| SandboxError::Guest { step: "seccomp".into(), message: with_sources(&e) })?;
    // Where the hooks judge addresses they come first: their denials have a record, Landlock's of a port have none.
    let ports = if plan.net.tcp { plan.net.tcp_ports.clone() } else { Some(Vec::new()) };
    Ok(Lockdown {
        files: direct,
        connect_tcp: if hooks { None } else { ports },
        bind_tcp: if hooks { None } else { Some(Vec::new()) },
        seccomp,
        required,
    })
}
