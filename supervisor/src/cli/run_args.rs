//! Flags shared by the commands that run a component, and the start that they share.

use super::{duration, size};
use crate::audit::Trail;
use crate::broker::credentials::Credentials;
use crate::cache::Cache;
use crate::component::Component;
use crate::config::{Effective, Operator, PolicyArgs, resolve};
use crate::consent::Passes;
use crate::exit::Failure;
use crate::sandbox::limits;
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
    /// CPUs that the component may use, in hundredths (0.5, 1); 1 where not given. Needs the cpu controller of cgroup v2
    #[arg(long, value_name = "N", value_parser = cpus)]
    pub(super) cpus: Option<u32>,
    /// Processes and threads of the guest; it needs 3 and can make none besides
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(limits::TASKS)..=4096))]
    pub(super) pids: Option<u32>,
    /// What one call may return; 64MiB where not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) max_output: Option<u64>,
    /// Files, sockets, streams and other handles that may be open at once; 4096 where not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    pub(super) max_handles: Option<u32>,
    /// The largest file that may be written; 16GiB where not given
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) max_file: Option<u64>,
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
    passes: Passes,
}

impl RunArgs {
    /// Read policy and component. `attended`: somebody may be there to be asked.
    pub(super) fn prepare(&self, reference: &str, attended: bool) -> Result<Prepared, Failure> {
        let mut timing = Timing::begin();
        let signals = Signals::take().map_err(|e| Failure::failed(format!("signalfd: {e}")))?;
        let operator = self.policy.read()?;
        let component = Component::load_by(reference, operator.home(), Cache::existing().as_ref())?;
        let effective =
            if attended { operator.effective_attended(&component)? } else { operator.effective(&component)? };
        timing.phase("policy and component read");
        Ok(Prepared { operator, component, effective, signals, timing, passes: Passes::default() })
    }

    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            memory: self.max_memory.unwrap_or(usual.memory),
            timeout: self.timeout,
            cpu_percent: self.cpus.unwrap_or(usual.cpu_percent),
            pids: self.pids.unwrap_or(usual.pids),
            output: self.max_output.unwrap_or(usual.output),
            handles: self.max_handles.unwrap_or(usual.handles),
            file: self.max_file.unwrap_or(usual.file),
        }
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
        if args.cpus.is_some() && !sandbox.isolation.holds_cpus() {
            trail.warn("degraded: --cpus is not held: there is no cpu controller of cgroup v2 (CPU time is bounded)");
        }
        let Effective { engine, plan, .. } = &self.effective;
        let output = args.limits().output_taken();
        Ok(Session::new(sandbox, (&**engine, plan), trail, credentials, self.passes.clone(), &self.signals, output)?)
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
            passes: self.passes.clone(),
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

/// A number of CPUs, in hundredths.
fn cpus(text: &str) -> Result<u32, String> {
    let wrong = || "expected a number of CPUs from 0.01 to 1024, as in 0.5".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return Err(wrong());
    }
    let whole: u32 = whole.parse().map_err(|_| wrong())?;
    let part: u32 = format!("{part:0<2}").parse().map_err(|_| wrong())?;
    let percent = whole.checked_mul(100).and_then(|whole| whole.checked_add(part));
    percent.filter(|percent| (1..=102_400).contains(percent)).ok_or_else(wrong)
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

#[cfg(test)]
mod tests {
    use super::cpus;

    #[test]
    fn hundredths_of_a_cpu() {
        for (text, percent) in [("1", 100), ("0.5", 50), ("0.05", 5), ("2.25", 225), ("1024", 102_400)] {
            assert_eq!(cpus(text), Ok(percent), "{text}");
        }
        for text in ["", "0", ".5", "1.", "0.001", "-1", "1e2", "1025", "one", "99999999999"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }
}
