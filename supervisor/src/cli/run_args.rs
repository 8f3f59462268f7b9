//! Flags shared by the commands that run a component, and the start that they share.

use super::{duration, size};
use crate::audit::Trail;
use crate::broker::credentials::Credentials;
use crate::component::Component;
use crate::config::{Effective, Operator, PolicyArgs, resolve};
use crate::exit::Failure;
use crate::sandbox::{Launch, Limits, Sandbox, SandboxError, Setup};
use crate::schema;
use crate::secrets::SecretsError;
use crate::session::{Session, detail};
use crate::signals::Signals;
use crate::store;
use crate::terminal::Terminal;
use crate::timing::Timing;
use act_policy::{Class, Mode};
use act_wire::Preopen;
use std::time::Duration;

/// How a component is confined, limited and audited.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Confinement and audit")]
#[expect(clippy::struct_excessive_bools, reason = "flags")]
pub(super) struct RunArgs {
    #[command(flatten, next_help_heading = "Policy")]
    pub(super) policy: PolicyArgs,
    /// Require every isolation layer: Landlock, seccomp, eBPF and the cgroup, or exit with 3
    #[arg(long)]
    pub(super) hardened: bool,
    /// `required` is `--hardened`; `auto` goes on without a missing layer and says so
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = ["auto", "required"])]
    pub(super) isolation: String,
    /// Linear memory of the component, in bytes or with a unit (512MiB, 1GB); 1 GiB where not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) max_memory: Option<u64>,
    /// How long a call may take (500ms, 2s, 1m); no limit where not given. The guest is killed and the exit code is 6
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(super) timeout: Option<Duration>,
    /// Print no audit trail; nothing else can silence it
    #[arg(long)]
    pub(super) no_audit: bool,
    /// Record the arguments of calls in full instead of as a digest; they may hold secrets
    #[arg(long)]
    pub(super) audit_args: bool,
    /// Print every allowed operation too
    #[arg(short, long)]
    pub(super) verbose: bool,
}

/// What is read and checked before a guest is started.
pub(super) struct Prepared {
    pub(super) operator: Operator,
    pub(super) component: Component,
    pub(super) effective: Effective,
    pub(super) signals: Signals,
    pub(super) timing: Timing,
}

impl RunArgs {
    /// Read policy and component.
    pub(super) fn prepare(&self, reference: &str) -> Result<Prepared, Failure> {
        let mut timing = Timing::begin();
        let signals = Signals::take().map_err(|e| Failure::failed(format!("signalfd: {e}")))?;
        let operator = self.policy.read()?;
        let component = Component::load(reference, operator.home())?;
        let effective = operator.effective(&component)?;
        timing.phase("policy and component read");
        Ok(Prepared { operator, component, effective, signals, timing })
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits { timeout: self.timeout, ..Limits::default() };
        if let Some(memory) = self.max_memory {
            limits.memory = memory;
        }
        limits
    }
}

impl Prepared {
    /// The audit trail, with who runs under what policy.
    pub(super) fn trail(&self, args: &RunArgs) -> Trail {
        let trail = Trail::new(detail(args.no_audit, args.verbose || self.operator.audit_full));
        trail.header(&self.component, self.effective.engine.policy(), &self.effective.warnings);
        if args.audit_args {
            trail.warn("--audit-args: arguments of calls are recorded in full, secrets among them too");
        }
        trail
    }

    /// Compile (or take from the cache), start and confine the guest.
    pub(super) fn start(&mut self, args: &RunArgs, trail: Trail) -> Result<Session<'_>, Failure> {
        let credentials = self.credentials(&trail)?;
        let sandbox = match self.confine(args, &trail, false) {
            // Cached code that the guest refuses may have been compiled for another processor: compile it here.
            Err(Refused::CachedCode(reason)) => {
                trail.warn(&format!("cached code is not used: {reason}"));
                self.confine(args, &trail, true)?
            }
            started => started?,
        };
        self.timing.child(sandbox.phases);
        trail.isolation(&sandbox.isolation);
        let Effective { engine, plan, .. } = &self.effective;
        Ok(Session::new(sandbox, engine, plan, trail, credentials, &self.signals)?)
    }

    /// What the component may ask the broker for. The store is unlocked now, before anything runs, if it may be needed.
    fn credentials(&self, trail: &Trail) -> Result<Credentials, Failure> {
        let mut credentials = Credentials::new(&self.component.manifest);
        let class = self.effective.engine.policy().class(&Class::credentials());
        if class.is_some_and(|class| class.declared.is_some() && class.mode != Mode::Deny) {
            match credentials.unlock(&mut Terminal::open(&self.signals)) {
                Ok(()) => {}
                Err(SecretsError::Interrupted) => return Err(Failure::interrupted()),
                // Reads will fail; the rest of the component may be of use without them.
                Err(error) => trail.warn(&format!("credentials cannot be read: {error}")),
            }
        }
        Ok(credentials)
    }

    fn confine(&mut self, args: &RunArgs, trail: &Trail, fresh: bool) -> Result<Sandbox, Refused> {
        let Effective { engine, plan, .. } = &self.effective;
        let launch = Launch::begin(plan, &args.limits())?;
        let artifact = store::artifact(&self.component, fresh, &self.signals, &mut |text| trail.warn(text))?;
        self.timing.phase("compiled component at hand");
        let cached = artifact.cached;
        // From here on this process mostly waits for the child: time for what the first call needs.
        std::thread::spawn(schema::warm_up);
        let setup = Setup {
            engine,
            plan,
            artifact: artifact.code,
            preopens: preopens(&self.component),
            limits: args.limits(),
            required: args.hardened || args.isolation == "required",
        };
        let sandbox = Sandbox::start(setup, launch).map_err(|error| match error {
            SandboxError::Guest { step, message } if cached && step == "component" => Refused::CachedCode(message),
            other => other.into(),
        })?;
        self.timing.phase("guest started and confined");
        Ok(sandbox)
    }
}

/// Why no guest was started.
enum Refused {
    /// It could not use code that came from the cache.
    CachedCode(String),
    /// Anything else.
    Failure(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<SandboxError> for Refused {
    fn from(error: SandboxError) -> Self {
        Self::Failure(error.into())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::CachedCode(reason) => Self::failed(reason),
            Refused::Failure(failure) => failure,
        }
    }
}

/// What the component sees of the file system: the declared mounts, or the host's root.
///
/// A preopen shows names only as far as the policy lets them be seen; a component that declares no files gets none.
fn preopens(component: &Component) -> Vec<Preopen> {
    let resolved = |host: &str| match resolve(host.as_bytes()) {
        root if root.is_empty() => b"/".to_vec(),
        path => path,
    };
    let views = component.manifest.views().into_iter();
    views.map(|(guest, host)| Preopen { guest: guest.to_owned(), host: resolved(host) }).collect()
}
