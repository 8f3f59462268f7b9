//! Where questions wait: who may answer, what was answered, and how much may be asked.

use super::Key;
use crate::signals::Signals;
use act_policy::{Access, Policy, Request, Verdict, escape};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most questions that wait at once, and most that may come new in [`SPELL`]; what is asked on top is refused.
const MOST_OPEN: usize = 64;
const MOST_NEW: usize = 10;
const SPELL: Duration = Duration::from_secs(10);
/// Most that wait for one answer: the guest program has at most as many questions under way.
const MOST_WAITING: usize = 1024;
/// Most answers that are remembered; beyond, an answer holds once.
const MOST_REMEMBERED: usize = 4096;
/// Longest words of a component beside a question, in characters.
const LONGEST_WORDS: usize = 200;

/// Number of a question.
pub type Ticket = u64;

/// What a human is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its number.
    pub ticket: Ticket,
    /// Who asks, what about, and why: each on one line, escaped.
    pub lines: Vec<String>,
    /// The same in full, with the component's own words as far as they came.
    pub full: Vec<String>,
    /// What an answer for the session would cover.
    pub covers: String,
    /// When it counts as unanswered.
    pub until: Instant,
}

/// What a human says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this time.
    Once,
    /// Yes, until the session ends.
    Session,
    /// No, this time.
    Deny,
    /// No, until the session ends.
    DenySession,
}

impl Answer {
    const fn allows(self) -> bool {
        matches!(self, Self::Once | Self::Session)
    }

    const fn lasts(self) -> bool {
        matches!(self, Self::Session | Self::DenySession)
    }
}

/// Why a question ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Somebody answered; whether for the session.
    User {
        /// Until the session ends.
        lasting: bool,
    },
    /// It was answered before, for the session.
    Remembered,
    /// Nobody answered in time.
    TimedOut,
    /// Nobody can be asked.
    NoChannel,
    /// Too much is asked.
    TooMany,
    /// The one who was asked closed the question without an answer.
    Dismissed,
    /// The client failed to ask.
    ClientFailed,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the operation may go on.
    pub allow: bool,
    /// Why.
    pub reason: Reason,
}

impl Outcome {
    const fn refused(reason: Reason) -> Self {
        Self { allow: false, reason }
    }

    /// For the audit trail.
    pub fn text(&self) -> &'static str {
        match (self.reason, self.allow) {
            (Reason::User { lasting: false }, true) => "allowed by user",
            (Reason::User { lasting: true }, true) => "allowed by user, for this session",
            (Reason::User { lasting: false }, false) => "denied by user",
            (Reason::User { lasting: true }, false) => "denied by user, for this session",
            (Reason::Remembered, true) => "allowed by user before",
            (Reason::Remembered, false) => "denied by user before",
            (Reason::TimedOut, _) => "timed out",
            (Reason::NoChannel, _) => "no prompt channel",
            (Reason::TooMany, _) => "too many prompts",
            (Reason::Dismissed, _) => "dismissed by user",
            (Reason::ClientFailed, _) => "the client could not ask",
        }
    }
}

/// Shows questions to somebody. It is told under the desk's lock and must not wait.
pub trait Channel: Send + std::fmt::Debug {
    /// A question came.
    fn asked(&self, question: &Arc<Question>);
    /// It is settled, by whomever.
    fn settled(&self, ticket: Ticket, outcome: Outcome);
}

/// Where outcomes are left for one who asked, with a descriptor to wait on.
#[derive(Debug)]
pub struct Inbox {
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    wake: OwnedFd,
}

impl Inbox {
    /// An empty one.
    pub fn new() -> Result<Arc<Self>, Errno> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { outcomes: Mutex::default(), wake }))
    }

    fn put(&self, token: u64, outcome: Outcome) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((token, outcome));
        // It fails only when the counter is at its maximum, and then the other side is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// What has come, with what was asked it for.
    pub fn take(&self) -> Vec<(u64, Outcome)> {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        std::mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Questions, answers and channels of one user.
#[derive(Debug)]
pub struct Desk {
    timeout: Duration,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    open: BTreeMap<Ticket, Open>,
    remembered: HashMap<Key, bool>,
    recent: VecDeque<Instant>,
    channels: BTreeMap<u64, Box<dyn Channel>>,
}

#[derive(Debug)]
struct Open {
    question: Arc<Question>,
    key: Key,
    waiting: Vec<(Arc<Inbox>, u64)>,
}

impl Desk {
    /// A desk at which a question waits for this long.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, inner: Mutex::default() }
    }

    /// Ask about a request that the policy asks about. `None`: the outcome will be in the inbox, with the token.
    pub fn ask(
        &self,
        policy: &Policy,
        request: &Request,
        verdict: &Verdict,
        words: &str,
        (inbox, token): (&Arc<Inbox>, u64),
    ) -> Option<Outcome> {
        let (now, key) = (Instant::now(), Key::of(request));
        let mut inner = self.inner();
        inner.expire(now);
        if let Some(allow) = inner.remembered.get(&key) {
            return Some(Outcome { allow: *allow, reason: Reason::Remembered });
        }
        if inner.channels.is_empty() {
            return Some(Outcome::refused(Reason::NoChannel));
        }
        if let Some(open) = inner.open.values_mut().find(|open| open.key == key) {
            if open.waiting.len() >= MOST_WAITING {
                return Some(Outcome::refused(Reason::TooMany));
            }
            open.waiting.push((Arc::clone(inbox), token));
            return None;
        }
        while inner.recent.front().is_some_and(|then| now.duration_since(*then) >= SPELL) {
            inner.recent.pop_front();
        }
        if inner.open.len() >= MOST_OPEN || inner.recent.len() >= MOST_NEW {
            return Some(Outcome::refused(Reason::TooMany));
        }
        inner.recent.push_back(now);
        inner.next += 1;
        let ticket = inner.next;
        let question = Arc::new(question(ticket, policy, request, verdict, words, &key, now + self.timeout));
        for channel in inner.channels.values() {
            channel.asked(&question);
        }
        let waiting = vec![(Arc::clone(inbox), token)];
        inner.open.insert(ticket, Open { question, key, waiting });
        None
    }

    /// Ask and wait for the outcome; `None`: a signal ended the wait.
    pub fn ask_and_wait(
        &self,
        policy: &Policy,
        request: &Request,
        verdict: &Verdict,
        signals: &Signals,
    ) -> Result<Option<Outcome>, Errno> {
        let inbox = Inbox::new()?;
        if let Some(outcome) = self.ask(policy, request, verdict, "", (&inbox, 0)) {
            return Ok(Some(outcome));
        }
        loop {
            self.expire();
            if let Some((_, outcome)) = inbox.take().pop() {
                return Ok(Some(outcome));
            }
            if signals.pending() {
                self.withdraw(&inbox);
                return Ok(None);
            }
            let left = self.next_deadline().map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&*inbox, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
            match poll(&mut fds, left.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    self.withdraw(&inbox);
                    return Err(error);
                }
            }
        }
    }

    /// Somebody answers. False: the question is not open any more, and the answer has no effect.
    pub fn answer(&self, ticket: Ticket, answer: Answer) -> bool {
        let mut inner = self.inner();
        inner.expire(Instant::now());
        let Some(open) = inner.open.get(&ticket) else { return false };
        let lasting = answer.lasts() && inner.remembered.len() < MOST_REMEMBERED;
        if lasting {
            let key = open.key.clone();
            inner.remembered.insert(key, answer.allows());
        }
        inner.settle(ticket, Outcome { allow: answer.allows(), reason: Reason::User { lasting } })
    }

    /// The one who was asked closed the question, or the client failed to ask: a refusal.
    pub fn refuse(&self, ticket: Ticket, reason: Reason) -> bool {
        let mut inner = self.inner();
        inner.expire(Instant::now());
        inner.settle(ticket, Outcome::refused(reason))
    }

    /// Nobody waits at this inbox any more.
    pub fn withdraw(&self, inbox: &Arc<Inbox>) {
        let mut inner = self.inner();
        for open in inner.open.values_mut() {
            open.waiting.retain(|(waiting, _)| !Arc::ptr_eq(waiting, inbox));
        }
        let left: Vec<Ticket> =
            inner.open.iter().filter(|(_, open)| open.waiting.is_empty()).map(|(ticket, _)| *ticket).collect();
        for ticket in left {
            inner.settle(ticket, Outcome::refused(Reason::Dismissed));
        }
    }

    /// End the questions whose time is over.
    pub fn expire(&self) {
        self.inner().expire(Instant::now());
    }

    /// When the next question's time is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.inner().open.values().map(|open| open.question.until).min()
    }

    /// Add a channel; it is told of what waits already.
    pub fn attach(&self, channel: Box<dyn Channel>) -> u64 {
        let mut inner = self.inner();
        for open in inner.open.values() {
            channel.asked(&open.question);
        }
        inner.next += 1;
        let id = inner.next;
        inner.channels.insert(id, channel);
        id
    }

    /// Remove a channel. Without any left, what waits is refused.
    pub fn detach(&self, id: u64) {
        let mut inner = self.inner();
        inner.channels.remove(&id);
        if inner.channels.is_empty() {
            let all: Vec<Ticket> = inner.open.keys().copied().collect();
            for ticket in all {
                inner.settle(ticket, Outcome::refused(Reason::NoChannel));
            }
        }
    }

    /// Whether anybody can be asked.
    pub fn is_attended(&self) -> bool {
        !self.inner().channels.is_empty()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn settle(&mut self, ticket: Ticket, outcome: Outcome) -> bool {
        let Some(open) = self.open.remove(&ticket) else { return false };
        // First the channels: a bar on the terminal ends before the next line of the trail.
        for channel in self.channels.values() {
            channel.settled(ticket, outcome);
        }
        for (inbox, token) in open.waiting {
            inbox.put(token, outcome);
        }
        true
    }

    fn expire(&mut self, now: Instant) {
        let late: Vec<Ticket> =
            self.open.iter().filter(|(_, open)| open.question.until <= now).map(|(ticket, _)| *ticket).collect();
        for ticket in late {
            self.settle(ticket, Outcome::refused(Reason::TimedOut));
        }
    }
}

fn question(
    ticket: Ticket,
    policy: &Policy,
    request: &Request,
    verdict: &Verdict,
    words: &str,
    key: &Key,
    until: Instant,
) -> Question {
    let class = act_policy::Engine::class_of(request);
    // A yes to looking at a file is one to reading it (see `Key`), so that this is what is asked.
    let asked = match request {
        Request::File { access: Access::Stat | Access::List, path } => {
            Request::File { access: Access::Read, path: path.clone() }.describe()
        }
        other => other.describe(),
    };
    let mut lines = vec![
        format!("{} asks for", escape(&policy.subject().to_string())),
        format!("  {}  {asked}", escape(class.as_str())),
    ];
    let mut full = lines.clone();
    let words = escape(words.trim());
    if !words.is_empty() {
        let short: String = words.chars().take(LONGEST_WORDS).collect();
        let more = if short.len() < words.len() { "…" } else { "" };
        lines.push(format!("  the component says: “{short}{more}”"));
        full.push(format!("  the component says: “{words}”"));
    }
    let mode = policy.mode_of(request).map(|mode| format!(" (mode {mode})")).unwrap_or_default();
    full.push(format!("  why it is asked: {}{mode}", escape(&policy.reason(verdict))));
    let covers = format!("{}, until this session ends", key.text());
    Question { ticket, lines, full, covers, until }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_policy::Layers;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts what it is told.
    #[derive(Clone, Debug, Default)]
    struct Counting {
        asked: Arc<Mutex<Vec<Ticket>>>,
        settled: Arc<Mutex<Vec<(Ticket, Outcome)>>>,
    }

    impl Channel for Counting {
        fn asked(&self, question: &Arc<Question>) {
            self.asked.lock().unwrap().push(question.ticket);
        }

        fn settled(&self, ticket: Ticket, outcome: Outcome) {
            self.settled.lock().unwrap().push((ticket, outcome));
        }
    }

    struct Case {
        desk: Desk,
        policy: Policy,
        inbox: Arc<Inbox>,
    }

    impl Case {
        fn new(timeout: Duration) -> Self {
            let policy = Policy::of_agent(&Layers::default()).0;
            Self { desk: Desk::new(timeout), policy, inbox: Inbox::new().unwrap() }
        }

        fn ask(&self, path: &str, token: u64) -> Option<Outcome> {
            let request = Request::File { access: Access::Read, path: path.into() };
            let verdict = Verdict { decision: act_policy::Decision::Ask, ..Verdict::deny(act_policy::Reason::AskMode) };
            self.desk.ask(&self.policy, &request, &verdict, "", (&self.inbox, token))
        }
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn nobody_is_refused_at_once() {
        let case = Case::new(LONG);
        assert_eq!(case.ask("/a", 1), Some(Outcome::refused(Reason::NoChannel)));
        let channel = case.desk.attach(Box::new(Counting::default()));
        assert_eq!(case.ask("/a", 2), None);
        case.desk.detach(channel);
        assert_eq!(case.inbox.take(), [(2, Outcome::refused(Reason::NoChannel))]);
    }

    #[test]
    fn the_same_question_is_asked_once_and_answered_for_all() {
        let case = Case::new(LONG);
        let shown = Counting::default();
        case.desk.attach(Box::new(shown.clone()));
        for token in 0..5 {
            assert_eq!(case.ask("/a", token), None);
        }
        let asked = shown.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 1);
        assert!(case.desk.answer(asked[0], Answer::Once));
        let yes = Outcome { allow: true, reason: Reason::User { lasting: false } };
        assert_eq!(case.inbox.take(), (0..5).map(|token| (token, yes)).collect::<Vec<_>>());
        // A second answer, and one to what was never asked, are nothing.
        assert!(!case.desk.answer(asked[0], Answer::Deny) && !case.desk.answer(999, Answer::Session));
        // Once is once.
        assert_eq!(case.ask("/a", 9), None);
    }

    #[test]
    fn what_is_answered_for_the_session_is_remembered() {
        for (answer, allow) in [(Answer::Session, true), (Answer::DenySession, false)] {
            let case = Case::new(LONG);
            let shown = Counting::default();
            case.desk.attach(Box::new(shown.clone()));
            assert_eq!(case.ask("/a", 1), None);
            let ticket = shown.asked.lock().unwrap()[0];
            assert!(case.desk.answer(ticket, answer));
            assert_eq!(case.ask("/a", 2), Some(Outcome { allow, reason: Reason::Remembered }));
            assert_eq!(case.ask("/b", 3), None);
        }
    }

    #[test]
    fn floods_are_bounded() {
        let case = Case::new(LONG);
        case.desk.attach(Box::new(Counting::default()));
        let outcomes: Vec<_> = (0..10_000u64).map(|n| case.ask(&format!("/{n}"), n)).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_none()).count(), MOST_NEW);
        assert!(outcomes.iter().flatten().all(|outcome| *outcome == Outcome::refused(Reason::TooMany)));
        // The same question again and again is bounded, too.
        let same: Vec<_> = (0..10_000u64).map(|n| case.ask("/0", n)).collect();
        assert_eq!(same.iter().filter(|outcome| outcome.is_none()).count(), MOST_WAITING - 1);
    }

    #[test]
    fn time_ends_a_question_and_a_call_that_is_gone_withdraws_it() {
        let case = Case::new(Duration::ZERO);
        let shown = Counting::default();
        case.desk.attach(Box::new(shown.clone()));
        assert_eq!(case.ask("/a", 1), None);
        let ticket = shown.asked.lock().unwrap()[0];
        assert!(!case.desk.answer(ticket, Answer::Session), "an answer after its time");
        assert_eq!(case.inbox.take(), [(1, Outcome::refused(Reason::TimedOut))]);

        let case = Case::new(LONG);
        let shown = Counting::default();
        case.desk.attach(Box::new(shown.clone()));
        assert_eq!(case.ask("/a", 1), None);
        case.desk.withdraw(&case.inbox);
        assert_eq!(case.inbox.take(), []);
        assert_eq!(shown.settled.lock().unwrap().len(), 1);
    }

    #[test]
    fn of_two_answers_one_wins_and_both_channels_agree() {
        let yes = AtomicUsize::new(0);
        for _ in 0..1000 {
            let case = Case::new(LONG);
            let (a, b) = (Counting::default(), Counting::default());
            case.desk.attach(Box::new(a.clone()));
            case.desk.attach(Box::new(b.clone()));
            assert_eq!(case.ask("/a", 1), None);
            let ticket = a.asked.lock().unwrap()[0];
            assert_eq!(b.asked.lock().unwrap()[0], ticket);
            let (first, second) = std::thread::scope(|scope| {
                let first = scope.spawn(|| case.desk.answer(ticket, Answer::Once));
                let second = scope.spawn(|| case.desk.answer(ticket, Answer::Deny));
                (first.join().unwrap(), second.join().unwrap())
            });
            assert!(first != second, "both or none took effect");
            let told = a.settled.lock().unwrap().clone();
            assert_eq!((told.len(), &told), (1, &*b.settled.lock().unwrap()));
            assert_eq!(told[0].1.allow, first);
            assert_eq!(case.inbox.take(), [(1, told[0].1)]);
            yes.fetch_add(usize::from(first), Ordering::Relaxed);
        }
        assert!(yes.into_inner() <= 1000);
    }
}
