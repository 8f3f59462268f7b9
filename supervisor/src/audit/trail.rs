//! The lines of the trail.

use super::kernel::{KernelDenials, describe};
use super::rollup::Rollup;
use crate::component::Component;
use crate::consent::Outcome;
use crate::sandbox::{Isolation, Layer};
use act_bpf::Event;
use act_policy::{Class, Decision, Engine, Mode, Policy, Request, Verdict, Warning, escape};
use act_wire::Purpose;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing (`--no-audit`).
    Off,
    /// One roll-up per call, and every denial.
    Summary,
    /// Every allowed operation too.
    Full,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// It returned its output.
    Ok,
    /// The tool answered with an error.
    ToolError,
    /// The policy did not let it begin.
    Refused,
    /// The component could not be started.
    NotStarted,
    /// It ran out of time.
    TimedOut,
    /// The guest died.
    Killed,
    /// A signal ended the run.
    Interrupted,
    /// The client did not want it any more.
    Cancelled,
}

impl CallEnd {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool-error",
            Self::Refused => "denied",
            Self::NotStarted => "not-started",
            Self::TimedOut => "timeout",
            Self::Killed => "killed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The trail of one run, and the tally of the call that is under way.
#[derive(Debug)]
pub struct Trail {
    detail: Detail,
    rollup: Rollup,
    kernel: KernelDenials,
    denials: u64,
    /// What was told once in this call and is not told again.
    told: BTreeSet<String>,
    /// Lines of that kind for which there was no room.
    untold: u64,
    /// Credentials whose reading was told in this call.
    secrets: BTreeSet<String>,
}

/// What a human allowed, for the roll-up.
const ANSWERED: Verdict = Verdict { decision: Decision::Allow, reason: act_policy::Reason::AskMode, rule: None };
/// Most lines of that kind in one call.
const MAX_TOLD: usize = 64;
/// Longest words of a component that are shown, in characters.
const LONGEST_WORDS: usize = 200;

impl Trail {
    /// A trail with this detail.
    pub fn new(detail: Detail) -> Self {
        Self {
            detail,
            rollup: Rollup::default(),
            kernel: KernelDenials::default(),
            denials: 0,
            told: BTreeSet::new(),
            untold: 0,
            secrets: BTreeSet::new(),
        }
    }

    fn line(&self, text: &str) {
        if self.detail != Detail::Off {
            // One write, so that lines of several processes do not mix. A closed stderr must not stop the run.
            let _ = std::io::stderr().write_all(format!("audit: {text}\n").as_bytes());
        }
    }

    /// Who runs, under which modes, and what of it will surprise.
    pub fn header(&self, component: &Component, policy: &Policy, warnings: &[Warning]) {
        let modes: Vec<String> =
            policy.classes.iter().map(|c| format!("{}={}", escape(c.class.as_str()), c.shown_mode())).collect();
        let digest = component.digest_hex();
        let short = digest.get(..6).unwrap_or(&digest);
        self.line(&format!("{} sha256:{short} │ {}", component.reference, modes.join(" ")));
        for Warning(text) in warnings {
            self.line(&format!("⚠ {}", escape(text)));
        }
        let declared = |mode: Mode| -> Vec<&Class> {
            policy.classes.iter().filter(|c| c.declared.is_some() && c.mode == mode).map(|c| &c.class).collect()
        };
        let list = |classes: &[&Class]| classes.iter().map(|c| escape(c.as_str())).collect::<Vec<_>>().join(" ");
        let denied = declared(Mode::Deny);
        if !denied.is_empty() {
            self.line(&format!("⚠ declared but not granted: {}", list(&denied)));
            for class in &denied {
                let alias = escape(class.alias());
                let rule = match class.kind() {
                    act_policy::Kind::Filesystem => "<path>",
                    act_policy::Kind::Http | act_policy::Kind::Sockets => "<host>",
                    act_policy::Kind::Credentials | act_policy::Kind::Semantic => {
                        self.line(&format!("  hint: grant it with --allow {alias}"));
                        continue;
                    }
                };
                self.line(&format!(
                    "  hint: grant it with --allow {alias} (whole ceiling) or --allow '{alias}={rule}'"
                ));
            }
        }
        if policy.asks_pass() {
            self.line("⚠ consent always: what the policy asks about is allowed without asking");
        } else if !policy.may_ask() {
            self.unattended(policy);
        }
    }

    /// Which layers hold.
    pub fn isolation(&self, isolation: &Isolation) {
        let state = |layer: &Layer| match layer {
            Layer::On(word) => word.clone(),
            Layer::Missing(_) => "off".to_owned(),
        };
        let layers: Vec<String> =
            isolation.layers().iter().map(|(name, layer)| format!("{name}={}", state(layer))).collect();
        self.line(&format!("isolation │ {} {}", layers.join(" "), isolation.limits));
        for (name, layer) in isolation.layers() {
            if let Layer::Missing(reason) = layer {
                self.line(&format!("⚠ degraded: no {name}: {} (--hardened refuses this)", escape(reason)));
            }
        }
    }

    /// A warning of its own.
    pub fn warn(&self, text: &str) {
        self.line(&format!("⚠ {text}"));
    }

    /// A judged operation.
    pub fn judged(&mut self, policy: &Policy, request: &Request, verdict: &Verdict) {
        if verdict.allowed() {
            self.rollup.count(policy, request, verdict);
            // Who read which secret has to be on record by name; once for each in a call, however much else there is.
            let secret = matches!(request, Request::Credential { .. })
                && (self.secrets.len() >= MAX_TOLD || self.secrets.insert(request.describe()));
            if self.detail != Detail::Full && !secret {
                return;
            }
        } else {
            self.denials += 1;
        }
        let class = escape(Engine::class_of(request).as_str());
        let (mark, gap) = if verdict.allowed() { ("✓ allow", " ") } else { ("✗ deny", "  ") };
        let (what, why) = (request.describe(), escape(&policy.reason(verdict)));
        let mode = policy.mode_of(request).map(|mode| format!("  mode:{mode}")).unwrap_or_default();
        let text = if verdict.allowed() {
            format!("{mark}  {class}  {what}{mode} {why}")
        } else {
            format!("{mark}  {class}  {what} {gap}{why}{mode}")
        };
        self.line(&text);
    }

    /// An operation that the guest let pass against the policy: its host check does not work, or was taken over.
    pub fn bypassed(&self, policy: &Policy, request: &Request, own: &Verdict) {
        let class = escape(Engine::class_of(request).as_str());
        let (what, why) = (request.describe(), escape(&policy.reason(own)));
        self.line(&format!("⚠ host check bypassed  {class}  {what}   {why}"));
    }

    /// An operation that needed an answer which nobody could give.
    pub fn unanswered(&mut self, policy: &Policy, request: &Request) {
        self.unanswered_about(policy, request, "");
    }

    /// The same with what the component says about it.
    pub fn unanswered_about(&mut self, policy: &Policy, request: &Request, words: &str) {
        self.denials += 1;
        let class = escape(Engine::class_of(request).as_str());
        let mode = policy.mode_of(request).map(|mode| format!("  mode:{mode}")).unwrap_or_default();
        let why = if policy.never_asks() { "consent never" } else { "no prompt channel" };
        let words = match shorten(words) {
            words if words.is_empty() => words,
            words => format!("  the component says: “{words}”"),
        };
        self.line(&format!("? ask-deny  {class}  {}   {why}{mode}{words}", request.describe()));
    }

    /// An operation that needed an answer and passes without one, because the operator said so.
    pub fn consented(&mut self, policy: &Policy, request: &Request, verdict: &Verdict) {
        self.rollup.count(policy, request, verdict);
        if self.detail == Detail::Full {
            let class = escape(Engine::class_of(request).as_str());
            let mode = policy.mode_of(request).map(|mode| format!("  mode:{mode}")).unwrap_or_default();
            self.line(&format!("✓ allow  {class}  {}{mode} consent always", request.describe()));
        }
    }

    /// How a question ended. What was remembered and allowed counts in the roll-up; all else has its line.
    pub fn answered(&mut self, policy: &Policy, request: &Request, words: &str, outcome: Outcome) {
        self.denials += u64::from(!outcome.allow);
        if outcome.allow {
            self.rollup.count(policy, request, &ANSWERED);
            if outcome.reason == crate::consent::Reason::Remembered && self.detail != Detail::Full {
                return;
            }
        }
        let class = escape(Engine::class_of(request).as_str());
        let mode = policy.mode_of(request).map(|mode| format!("  mode:{mode}")).unwrap_or_default();
        let words = match shorten(words) {
            words if words.is_empty() => words,
            words => format!("  the component says: “{words}”"),
        };
        let mark = if outcome.allow { "? ask-allow" } else { "? ask-deny" };
        let line = format!("{mark}  {class}  {}   {}{mode}{words}", request.describe(), outcome.text());
        // A component can ask as often as it likes.
        if outcome.allow || self.first_or_counted(&line) {
            self.line(&line);
        }
    }

    /// A part of an operation that was answered for.
    pub fn answered_before(&mut self, policy: &Policy, request: &Request, verdict: &Verdict) {
        self.rollup.count(policy, request, verdict);
    }

    /// Nobody can be asked what the policy asks about.
    pub fn unattended(&self, policy: &Policy) {
        let asked = policy.classes.iter().filter(|c| c.declared.is_some() && c.mode == Mode::Ask);
        let asked: Vec<String> = asked.map(|c| escape(c.class.as_str())).collect();
        if !asked.is_empty() {
            let text = "⚠ declared ask, no prompt channel — every access will be denied:";
            self.line(&format!("{text} {}", asked.join(" ")));
        }
    }

    /// A warning that a component can cause as often as it likes: told once in a call.
    pub fn warn_once(&mut self, text: &str) {
        if self.first(text) {
            self.warn(text);
        }
    }

    /// Whether a line is the first of its kind in this call; one that repeats is counted.
    fn first_or_counted(&mut self, text: &str) -> bool {
        let repeats = self.told.contains(text);
        self.untold += u64::from(repeats);
        !repeats && self.first(text)
    }

    fn first(&mut self, text: &str) -> bool {
        if self.told.contains(text) {
            return false;
        }
        if self.told.len() >= MAX_TOLD {
            self.untold += 1;
            return false;
        }
        self.told.insert(text.to_owned())
    }

    /// An operation that the host check let pass and Landlock refused.
    pub fn landlock(&mut self, request: &Request) {
        self.denials += 1;
        let class = escape(Engine::class_of(request).as_str());
        self.line(&format!("✗ deny  {class}  {}   kernel: landlock", request.describe()));
    }

    /// An operation that Landlock refused because another folder has taken the place of the one that was granted.
    pub fn stale(&mut self, request: &Request, folder: &[u8]) {
        self.denials += 1;
        let class = escape(Engine::class_of(request).as_str());
        let folder = escape(&String::from_utf8_lossy(folder));
        let why =
            format!("kernel: landlock, the grant of {folder} is stale: another folder took its place after the start");
        self.line(&format!("✗ deny  {class}  {}   {why}", request.describe()));
    }

    /// An operation that the host check let pass and the broker refused.
    pub fn broker(&mut self, policy: &Policy, request: &Request, verdict: &Verdict) {
        self.denials += 1;
        let class = escape(Engine::class_of(request).as_str());
        let (what, why) = (request.describe(), escape(&policy.reason(verdict)));
        let line = format!("✗ deny  {class}  {what}   broker: {why}");
        if self.first_or_counted(&line) {
            self.line(&line);
        }
    }

    /// Refusals of the broker that came faster than they could be told.
    pub fn lost_refusals(&mut self, count: u64) {
        self.denials += count;
        self.untold += count;
    }

    /// An address of a name that was dropped.
    pub fn address(&mut self, policy: &Policy, purpose: &Purpose, name: &str, address: IpAddr, verdict: &Verdict) {
        self.denials += 1;
        let class = match purpose {
            Purpose::Sockets => Class::sockets(),
            Purpose::Http { .. } => Class::http(),
        };
        let (class, name, why) = (escape(class.as_str()), escape(name), escape(&policy.reason(verdict)));
        self.line(&format!("✗ deny  {class}  lookup {name} to {address}   {why}"));
    }

    /// End the tally of what was no call of a tool, with a line where anything was refused in it.
    pub fn settle(&mut self, what: &str) {
        if self.denials > 0 || self.untold > 0 {
            self.call(what, CallEnd::Ok, Duration::ZERO, "-", 0);
        }
        self.rollup = Rollup::default();
    }

    /// A denial of a kernel hook.
    pub fn kernel(&mut self, policy: &Policy, event: &Event) {
        self.denials += 1;
        let text = describe(event, policy);
        if self.kernel.first(&text, event.timestamp) {
            self.line(&format!("✗ deny  {text}"));
        }
    }

    /// Events that the kernel could not hand over; the denials themselves happened.
    pub fn lost(&self, count: u64) {
        if count > 0 {
            self.line(&format!("⚠ {count} kernel denials could not be recorded: the event buffer was full"));
        }
    }

    /// The roll-up of a call; starts the next tally. Returns how many operations were denied.
    pub fn call(&mut self, tool: &str, end: CallEnd, took: Duration, arguments: &str, number: u32) -> u64 {
        for line in self.kernel.repetitions() {
            self.line(&format!("✗ deny  {line}"));
        }
        if self.untold > 0 {
            self.line(&format!("⚠ {} more lines of this call were left out", self.untold));
        }
        self.told.clear();
        self.untold = 0;
        self.secrets.clear();
        let rollup = std::mem::take(&mut self.rollup).text();
        let took = took.as_millis();
        let (tool, end) = (escape(tool), end.as_str());
        self.line(&format!("● {tool}  {end} {took}ms  args:{arguments}  req:{number}{rollup}"));
        std::mem::take(&mut self.denials)
    }
}

/// The component's words, for one line.
fn shorten(words: &str) -> String {
    let shown: String = escape(words.trim()).chars().take(LONGEST_WORDS + 1).collect();
    match shown.char_indices().nth(LONGEST_WORDS) {
        Some((end, _)) => format!("{}…", shown.get(..end).unwrap_or_default()),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_component_stay_on_their_line() {
        assert_eq!(shorten(" do\nit\u{202e}\u{1b}[2J "), "do\\nit\\u{202e}\\u{1b}[2J");
        let long = shorten(&"x".repeat(1_000_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (LONGEST_WORDS + 1, true));
        assert_eq!(shorten("  "), "");
    }
}
