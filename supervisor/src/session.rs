//! A confined guest and the calls made to it: one loop over its messages, the kernel's events, signals and time.
//!
//! Every byte from the guest is hostile: messages are bounded by the channel, what they mean is checked against what
//! was asked, and a guest that breaks the protocol is killed.

mod asks;
mod bounds;
mod grounds;
mod lookups;
mod open;
mod secrets;

pub use asks::Asker;
pub use open::{OpenArguments, OpenError, SESSION_ID};

use crate::audit::{CallEnd, Detail, Trail};
use crate::broker::credentials::Credentials;
use crate::broker::files::Refusal;
use crate::broker::resolve::Resolver;
use crate::broker::roots;
use crate::consent::Passes;
use crate::exit::Failure;
use crate::sandbox::spawn::Ended;
use crate::sandbox::{Layer, Sandbox, SandboxError};
use crate::signals::Signals;
use act_policy::{Access, Decision, Engine, KernelPlan, Reason, Request, Verdict};
use act_wire::{
    Bounded, ChannelError, ContentPart, GuestError, Observed, Record, ToGuest, ToSupervisor, Tool, ToolEvent,
};
use asks::Kind;
use grounds::Grounds;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most messages that are handled before the other sources are looked at again.
const BURST: usize = 64;
/// What an error counts for besides its text.
const EVENT: u64 = 64;
/// Most time that one call may spend waiting for answers without its own time going on.
const MOST_THINKING: Duration = Duration::from_mins(10);

/// A guest ready for calls.
#[derive(Debug)]
pub struct Session<'a> {
    sandbox: Sandbox,
    engine: &'a Engine,
    plan: &'a KernelPlan,
    grounds: Grounds,
    /// The audit trail.
    pub trail: Trail,
    resolver: Resolver,
    /// Whether the guest has the certificates of the system.
    roots_given: bool,
    credentials: Credentials,
    asker: Option<Asker>,
    /// Can be read when the client does not want the call any more.
    cancel: Option<Arc<OwnedFd>>,
    /// What waits for a human, and the number of the last question.
    waiting: Vec<asks::Waiting>,
    last_token: u64,
    /// What answers let pass until the call ends.
    passes: Passes,
    opened: asks::Opened,
    /// The component's sessions that are open.
    open: BTreeSet<String>,
    hidden: Option<open::Hidden>,
    signals: &'a Signals,
    next_call: u32,
    /// Bytes of output that one call may bring, as they are counted here.
    most_output: u64,
    /// False once the guest was killed or has ended.
    alive: bool,
}

/// What a call brought.
#[derive(Debug, Default)]
pub struct Output {
    /// Content, in order.
    pub parts: Vec<ContentPart>,
    /// The error that ended the call, if one did.
    pub error: Option<GuestError>,
}

/// Why the guest gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A signal asked the program to end.
    #[error("interrupted")]
    Interrupted,
    /// The client did not want the call any more; the guest was killed.
    #[error("cancelled")]
    Cancelled,
    /// The call ran out of time; the guest was killed.
    #[error("the call ran out of time ({0:?}); the guest was killed")]
    TimedOut(Duration),
    /// A limit or a kernel layer killed the guest.
    #[error("the guest was killed: {0}")]
    Killed(String),
    /// The guest crashed.
    #[error("the guest crashed: {0}")]
    Crashed(String),
    /// No instance of the component could be made.
    #[error("the component could not be started: {0}")]
    NotStarted(String),
    /// The guest broke the protocol; it was killed.
    #[error("the guest broke the protocol: {0}")]
    Protocol(String),
}

impl SessionError {
    /// How the audit trail names it as the end of a call.
    pub fn end(&self) -> CallEnd {
        match self {
            Self::Interrupted => CallEnd::Interrupted,
            Self::Cancelled => CallEnd::Cancelled,
            Self::TimedOut(_) => CallEnd::TimedOut,
            Self::NotStarted(_) => CallEnd::NotStarted,
            Self::Killed(_) | Self::Crashed(_) | Self::Protocol(_) => CallEnd::Killed,
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Interrupted => Self::interrupted(),
            SessionError::TimedOut(_) | SessionError::Killed(_) | SessionError::Cancelled => Self::killed(error),
            SessionError::Crashed(_) | SessionError::Protocol(_) | SessionError::NotStarted(_) => Self::failed(error),
        }
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Missing { .. } => Self::isolation(error),
            other => Self::failed(other),
        }
    }
}

impl<'a> Session<'a> {
    /// Take over a started sandbox.
    pub fn new(
        sandbox: Sandbox,
        (engine, plan): (&'a Engine, &'a KernelPlan),
        trail: Trail,
        credentials: Credentials,
        passes: Passes,
        signals: &'a Signals,
        most_output: u64,
    ) -> Result<Self, SandboxError> {
        let resolver = Resolver::new().map_err(|e| SandboxError::System { call: "eventfd", source: e.into() })?;
        let (open, hidden) = (BTreeSet::new(), None);
        Ok(Self {
            sandbox,
            engine,
            plan,
            grounds: Grounds::new(plan),
            trail,
            resolver,
            roots_given: false,
            credentials,
            asker: None,
            cancel: None,
            waiting: Vec::new(),
            last_token: 0,
            passes,
            opened: asks::Opened::new(),
            open,
            hidden,
            signals,
            next_call: 1,
            most_output,
            alive: true,
        })
    }

    /// The compiled policy.
    pub fn engine(&self) -> &'a Engine {
        self.engine
    }

    /// The signals that end a run.
    pub fn signals(&self) -> &'a Signals {
        self.signals
    }

    /// How the next calls are cancelled: by a descriptor that can be read then. `None`: not at all.
    pub fn set_cancel(&mut self, cancel: Option<Arc<OwnedFd>>) {
        self.cancel = cancel;
    }

    /// The sandbox.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The component's tools, or its error.
    pub fn list_tools(&mut self, timeout: Option<Duration>) -> Result<Result<Vec<Tool>, GuestError>, SessionError> {
        let call = self.begin_call();
        let metadata = self.with_hidden(Vec::new());
        self.send(&ToGuest::ListTools { call, metadata })?;
        self.run(timeout, |message| match message {
            ToSupervisor::Tools { call: n, result } if n == call => Step::Finished(result.map(|tools| tools.0)),
            _ => Step::Unexpected,
        })
    }

    /// Call a tool.
    pub fn call_tool(
        &mut self,
        name: &str,
        arguments: Vec<u8>,
        metadata: Vec<(String, Vec<u8>)>,
        timeout: Option<Duration>,
    ) -> Result<Output, SessionError> {
        let call = self.begin_call();
        let metadata = self.with_hidden(metadata);
        self.send(&ToGuest::CallTool { call, name: name.to_owned(), arguments, metadata })?;
        let mut output = Output::default();
        let mut bytes = 0u64;
        let limit = self.most_output;
        self.run(timeout, move |message| match message {
            ToSupervisor::Event { call: n, event: ToolEvent::Content(part) } if n == call => {
                bytes += bounds::weight(&part) as u64;
                if bytes > limit {
                    return Step::Broken(format!("more than {limit} bytes of output"));
                }
                output.parts.push(part);
                Step::Continue
            }
            ToSupervisor::Event { call: n, event: ToolEvent::Error(error) } if n == call => {
                bytes += (error.kind.len() + error.message.len()) as u64 + EVENT;
                if bytes > limit {
                    return Step::Broken(format!("more than {limit} bytes of output"));
                }
                output.error.get_or_insert(error);
                Step::Continue
            }
            ToSupervisor::Done { call: n } if n == call => Step::Finished(std::mem::take(&mut output)),
            _ => Step::Unexpected,
        })
    }

    /// Number of the last call.
    pub fn last_call(&self) -> u32 {
        self.next_call - 1
    }

    /// Begin a call: its number, and its CPU time.
    fn begin_call(&mut self) -> u32 {
        self.sandbox.begin_call();
        let number = self.next_call;
        self.next_call += 1;
        number
    }

    fn send(&mut self, message: &ToGuest) -> Result<(), SessionError> {
        match self.sandbox.channel.send(message) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Handle whatever comes until `answer` has what it waits for.
    fn run<T>(
        &mut self,
        timeout: Option<Duration>,
        answer: impl FnMut(ToSupervisor) -> Step<T>,
    ) -> Result<T, SessionError> {
        let result = self.run_until(timeout, answer);
        self.end_of_call();
        result
    }

    fn run_until<T>(
        &mut self,
        timeout: Option<Duration>,
        mut answer: impl FnMut(ToSupervisor) -> Step<T>,
    ) -> Result<T, SessionError> {
        let mut last = Instant::now();
        let mut deadline = timeout.map(|t| last + t);
        let mut thinking = Duration::ZERO;
        loop {
            self.wait(deadline)?;
            // While a human thinks, the call's time stands still.
            let now = Instant::now();
            let passed = now - std::mem::replace(&mut last, now);
            if !self.waiting.is_empty() && thinking < MOST_THINKING {
                thinking += passed;
                deadline = deadline.map(|deadline| deadline + passed);
            }
            self.may_go_on(timeout, deadline)?;
            self.outcomes()?;
            self.resolved()?;
            self.refused_files()?;
            for _ in 0..BURST {
                // An answer can take as long as a guest that does not read it.
                self.may_go_on(timeout, deadline)?;
                let message = match self.sandbox.channel.try_receive::<ToSupervisor>() {
                    Ok(Some((message, _))) => message,
                    Ok(None) => break,
                    Err(error) => return Err(self.broken(error)),
                };
                let step = match message {
                    ToSupervisor::Records(Bounded(records)) => {
                        if !records.iter().all(|record| bounds::fits(&record.request)) {
                            return Err(self.refuse("a request out of bounds".into()));
                        }
                        self.records(&records);
                        continue;
                    }
                    ToSupervisor::Resolve { ask, host, purpose } => {
                        self.resolve(ask, host, purpose)?;
                        continue;
                    }
                    ToSupervisor::Roots { ask } => {
                        self.send_roots(ask)?;
                        continue;
                    }
                    ToSupervisor::Secret { ask, session, key, words } => {
                        self.secret(ask, &session, key, words)?;
                        continue;
                    }
                    ToSupervisor::Secrets { ask } => {
                        self.secrets(ask)?;
                        continue;
                    }
                    ToSupervisor::Lost => {
                        self.open.clear();
                        continue;
                    }
                    ToSupervisor::Ask { ask, request, words } => {
                        if !bounds::fits(&request) {
                            return Err(self.refuse("a request out of bounds".into()));
                        }
                        self.answer(ask, request, words)?;
                        continue;
                    }
                    other => answer(other),
                };
                match step {
                    Step::Continue => {}
                    Step::Finished(value) => {
                        self.refused_files()?;
                        self.kernel_events();
                        return Ok(value);
                    }
                    Step::Unexpected => return Err(self.refuse("a message that nobody asked for".into())),
                    Step::Broken(what) => return Err(self.refuse(what)),
                }
            }
            self.kernel_events();
        }
    }

    /// End the guest if a signal asks for it, or if the call has had its time.
    fn may_go_on(&mut self, timeout: Option<Duration>, deadline: Option<Instant>) -> Result<(), SessionError> {
        if self.signals.pending() {
            self.kill();
            return Err(SessionError::Interrupted);
        }
        if self.cancel.as_ref().is_some_and(|cancel| is_readable(cancel)) {
            self.kill();
            self.kernel_events();
            return Err(SessionError::Cancelled);
        }
        if let (Some(timeout), Some(deadline)) = (timeout, deadline)
            && Instant::now() >= deadline
        {
            self.kill();
            self.kernel_events();
            return Err(SessionError::TimedOut(timeout));
        }
        Ok(())
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<(), SessionError> {
        let mut fds = vec![
            PollFd::new(&self.sandbox.channel, PollFlags::IN),
            PollFd::new(self.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(self.resolver.as_fd(), PollFlags::IN),
        ];
        if let Some(files) = &self.sandbox.files {
            fds.push(PollFd::from_borrowed_fd(files.as_fd(), PollFlags::IN));
        }
        if let Some(guard) = &self.sandbox.guard {
            fds.push(PollFd::from_borrowed_fd(guard.poll_fd(), PollFlags::IN));
        }
        if let Some(cancel) = &self.cancel {
            fds.push(PollFd::new(cancel, PollFlags::IN));
        }
        let mut until = deadline;
        if let Some(asker) = self.asker.as_ref().filter(|_| !self.waiting.is_empty()) {
            fds.push(PollFd::from_borrowed_fd(asker.inbox.as_fd(), PollFlags::IN));
            until = asker.desk.next_deadline().into_iter().chain(until).min();
        }
        let timeout = until.map(|d| d.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|d| Timespec::try_from(d).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(SessionError::Protocol(format!("poll: {e}"))),
        }
    }

    /// What the guest says it judged, held against our own decision about the same request: a refusal is explained by
    /// our reason, and what the guest let pass against the policy is told. (What it does not tell is left to the kernel.)
    fn records(&mut self, records: &[Record]) {
        let policy = self.engine.policy();
        for Record { request, outcome } in records {
            match outcome {
                Observed::Judged(verdict) if verdict.decision != Decision::Ask => {
                    let own = self.engine.decide(&self.resolver.with_own_names(request));
                    match (verdict.allowed(), own.decision) {
                        // Where the policy asks, a guest that says "allowed" has asked nobody.
                        (true, Decision::Deny | Decision::Ask) => self.trail.bypassed(policy, request, &own),
                        // The read itself is judged and told when it comes.
                        (true, Decision::Allow) if matches!(request, Request::Credential { .. }) => {}
                        (false, Decision::Deny) | (true, Decision::Allow) => self.trail.judged(policy, request, &own),
                        // By a check of the guest's own. Its word on rules counts for nothing.
                        (false, Decision::Allow | Decision::Ask) => {
                            let reason = match verdict.reason {
                                own @ (Reason::SpecialFile | Reason::Malformed | Reason::NotGranted) => own,
                                _ => Reason::Unsupported,
                            };
                            self.trail.judged(policy, request, &Verdict::deny(reason));
                        }
                    }
                }
                // The question is what counts, and it was shown when it came.
                Observed::Judged(_) | Observed::Answered(_) => {}
                Observed::KernelRefused(_) => {
                    if self.outside_landlock(request) {
                        self.trail.landlock(request);
                    } else if let Request::File { path, .. } = request
                        && let Some(folder) = self.grounds.replaced(path)
                    {
                        self.trail.stale(request, folder);
                    }
                }
            }
        }
    }

    /// Answer a question of the guest. Whether there is something to ask about is our own decision.
    fn answer(&mut self, ask: u32, request: Request, words: String) -> Result<(), SessionError> {
        let policy = self.engine.policy();
        let request = self.resolver.with_own_names(&request);
        let own = self.engine.decide(&request);
        if own.decision == Decision::Ask {
            return self.put(Kind::Ask(ask), request, &own, words);
        }
        self.trail.judged(policy, &request, &own);
        self.send(&ToGuest::Answer { ask, allow: own.allowed() })
    }

    /// Whether it is Landlock that refuses a request: it has to be there. What its subtrees cover and the kernel refused all the same was refused by
    /// the permissions of the file, which is the component's own business.
    fn outside_landlock(&self, request: &Request) -> bool {
        let Request::File { access, path } = request else { return false };
        // It does not see who looks at metadata.
        if *access == Access::Stat || matches!(self.sandbox.isolation.landlock, Layer::Missing(_)) {
            return false;
        }
        let write = *access == Access::Write;
        let covers = |subtree: &act_policy::Subtree| {
            (subtree.write || !write)
                && path.strip_prefix(subtree.path.as_slice()).is_some_and(|r| r.is_empty() || r.starts_with(b"/"))
        };
        !self.plan.files.iter().any(covers)
    }

    /// Hand over the certificates of the system, once: it is a large answer to a small question.
    fn send_roots(&mut self, ask: u32) -> Result<(), SessionError> {
        if std::mem::replace(&mut self.roots_given, true) {
            return Err(self.refuse("the certificates were asked for twice".into()));
        }
        let (certificates, problem) = if roots::needed(self.engine) { roots::read() } else { (Vec::new(), None) };
        if let Some(problem) = problem {
            self.trail.warn(&problem);
        }
        self.send(&ToGuest::Roots { ask, certificates })
    }

    /// What the broker for files refused: the guest's own check let it pass.
    fn refused_files(&mut self) -> Result<(), SessionError> {
        let Some(files) = &self.sandbox.files else { return Ok(()) };
        let policy = self.engine.policy();
        let (refusals, lost) = files.refusals();
        self.trail.lost_refusals(lost);
        for refusal in refusals {
            match refusal {
                Refusal::Denied(request, verdict) => self.trail.broker(policy, &request, &verdict),
                Refusal::Broken(what) => return Err(self.refuse(what)),
            }
        }
        Ok(())
    }

    fn kernel_events(&mut self) {
        let Some(guard) = &self.sandbox.guard else { return };
        let own = self.sandbox.attached.as_ref().map(act_bpf::Attached::cgroup);
        let (trail, policy) = (&mut self.trail, self.engine.policy());
        guard.drain(&mut |event| {
            if own == Some(event.cgroup) {
                trail.kernel(policy, &event);
            }
        });
    }

    fn kill(&mut self) {
        self.alive = false;
        self.sandbox.kill();
    }

    /// The guest broke the protocol: kill it.
    fn refuse(&mut self, what: String) -> SessionError {
        self.kill();
        SessionError::Protocol(what)
    }

    /// The channel failed: find out how the guest ended.
    fn broken(&mut self, error: ChannelError) -> SessionError {
        if !matches!(error, ChannelError::Closed) {
            return self.refuse(error.to_string());
        }
        self.alive = false;
        self.kernel_events();
        match self.sandbox.reap() {
            Ok(Ended::Signal(libc::SIGSYS)) => SessionError::Killed("seccomp refused a system call".into()),
            Ok(Ended::Signal(libc::SIGXCPU)) => SessionError::Killed("it used up its CPU time".into()),
            Ok(Ended::Signal(libc::SIGXFSZ)) => SessionError::Killed("it wrote a file larger than the limit".into()),
            Ok(Ended::Signal(libc::SIGKILL)) => {
                let memory = self.sandbox.cgroup.as_ref().is_some_and(crate::sandbox::cgroup::Cgroup::out_of_memory);
                SessionError::Killed(if memory { "out of memory".into() } else { "SIGKILL".into() })
            }
            Ok(Ended::Signal(signal)) => SessionError::Crashed(format!("signal {signal}")),
            Ok(Ended::Exit(code)) => SessionError::Crashed(format!("exit code {code}")),
            Ok(Ended::Hung) => SessionError::Protocol("it closed the channel and did not end".into()),
            Err(e) => SessionError::Crashed(e.to_string()),
        }
    }

    /// Close what is open, end the guest, and report events that were lost.
    pub fn finish(mut self) {
        self.close_sessions();
        self.kill();
        self.kernel_events();
        let lost = self.sandbox.guard.as_ref().and_then(|g| g.dropped().ok()).unwrap_or(0);
        self.trail.lost(lost);
    }
}

fn is_readable(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// What a message means to the one who waits.
enum Step<T> {
    Continue,
    Finished(T),
    Unexpected,
    Broken(String),
}

/// The detail of a trail, from the flags.
pub fn detail(no_audit: bool, full: bool) -> Detail {
    match (no_audit, full) {
        (true, _) => Detail::Off,
        (false, true) => Detail::Full,
        (false, false) => Detail::Summary,
    }
}
