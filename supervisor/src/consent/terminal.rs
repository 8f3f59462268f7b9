//! Questions on the terminal of whoever started the program: lines that say what is asked and what each key would do, and
//! one key for an answer.
//!
//! A key counts only if it came alone. A paste, an escape sequence, or what was typed before the question was there is no
//! answer. The terminal's own signals stay as they are, so that Ctrl-C ends the run.

use super::{Answer, Channel, Desk, Outcome, Question, Ticket};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A second key this soon after the first was not typed by hand.
const PASTE: Duration = Duration::from_millis(20);

/// What the desk tells.
#[derive(Debug)]
enum Event {
    Asked(Arc<Question>),
    Settled(Ticket),
    Close,
}

/// The desk's end.
#[derive(Clone, Debug)]
struct Bell {
    events: Sender<Event>,
    wake: Arc<OwnedFd>,
    tty: Arc<File>,
    /// The question that is shown, 0 for none.
    shown: Arc<AtomicU64>,
}

impl Bell {
    fn ring(&self, event: Event) {
        let _ = self.events.send(event);
        // It fails only when the counter is at its maximum, and then the other side is awake.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Channel for Bell {
    fn asked(&self, question: &Arc<Question>) {
        self.ring(Event::Asked(Arc::clone(question)));
    }

    fn settled(&self, ticket: Ticket, outcome: Outcome) {
        if self.shown.compare_exchange(ticket, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // Here and now, so that what is printed next begins on a line of its own.
            let _ = (&*self.tty).write_all(format!("{}\r\n", outcome.text()).as_bytes());
        }
        self.ring(Event::Settled(ticket));
    }
}

/// The terminal as a channel; dropped, it is as it was before.
#[derive(Debug)]
pub struct TerminalChannel {
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl TerminalChannel {
    /// Whether there is a terminal, and this program is the one that may read from it.
    pub fn is_there() -> bool {
        open().is_some_and(|tty| is_ours(&tty))
    }

    /// Show the questions of a desk on the terminal. `None`: there is none.
    pub fn attach(desk: &Arc<Desk>) -> Option<Self> {
        let tty = open().filter(is_ours)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?);
        let (events, receiver) = channel();
        let bell = Bell { events, wake, tty: Arc::new(tty), shown: Arc::default() };
        let mut bar = Bar { bell: bell.clone(), desk: Arc::downgrade(desk), events: receiver, queue: Vec::new() };
        let id = desk.attach(Box::new(bell.clone()));
        let own = Arc::downgrade(desk);
        let thread = std::thread::Builder::new().name("terminal".into()).spawn(move || {
            bar.run();
            // It was closed: it answers nothing any more.
            if let Some(desk) = own.upgrade() {
                desk.detach(id);
            }
        });
        let Ok(thread) = thread else {
            desk.detach(id);
            return None;
        };
        Some(Self { bell, thread: Some(thread) })
    }
}

impl Drop for TerminalChannel {
    fn drop(&mut self) {
        self.bell.ring(Event::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open() -> Option<File> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).ok().map(File::from)
}

/// A program in the background would be stopped for reading.
fn is_ours(tty: &File) -> bool {
    tcgetpgrp(tty).is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}

/// The questions that wait, one of them shown.
struct Bar {
    bell: Bell,
    desk: Weak<Desk>,
    events: Receiver<Event>,
    queue: Vec<Arc<Question>>,
}

/// What came of looking at the terminal once.
enum Seen {
    Key(u8),
    /// Something that is no key.
    Noise,
    Nothing,
    Closed,
}

impl Bar {
    fn run(&mut self) {
        while self.listen(None) {
            while let Some(question) = self.queue.first().cloned() {
                // What was typed before is no answer.
                let Ok(keys) = Keys::begin(&self.bell.tty) else { return };
                let go_on = self.ask(&question);
                drop(keys);
                if !go_on {
                    return;
                }
            }
        }
    }

    /// Take what the desk tells; with a question that is shown, until it is settled. False: the channel is closed.
    fn listen(&mut self, shown: Option<Ticket>) -> bool {
        loop {
            let mut fds = [PollFd::new(&*self.bell.wake, PollFlags::IN)];
            let now = Timespec::default();
            if poll(&mut fds, if shown.is_some() { Some(&now) } else { None }).is_err() {
                continue;
            }
            let _ = rustix::io::read(&*self.bell.wake, &mut [0u8; 8]);
            for event in self.events.try_iter() {
                match event {
                    Event::Asked(question) => self.queue.push(question),
                    Event::Settled(ticket) => self.queue.retain(|question| question.ticket != ticket),
                    Event::Close => return false,
                }
            }
            if shown.is_some() || !self.queue.is_empty() {
                return true;
            }
        }
    }

    /// Show a question until it is settled. False: the terminal is gone, or the run is over.
    fn ask(&mut self, question: &Arc<Question>) -> bool {
        let mut text = self.text(question, &question.lines);
        loop {
            self.bell.shown.store(question.ticket, Ordering::Relaxed);
            if !text.is_empty() && self.write(&text).is_err() {
                return false;
            }
            let answer = loop {
                if !self.listen(Some(question.ticket)) {
                    return false;
                }
                if !self.queue.iter().any(|waiting| waiting.ticket == question.ticket) {
                    return true;
                }
                match self.look(question.until) {
                    Seen::Key(b'y') => break Some(Answer::Once),
                    Seen::Key(b'a') => break Some(Answer::Session),
                    Seen::Key(b'n') => break Some(Answer::Deny),
                    Seen::Key(b'd') => break Some(Answer::DenySession),
                    Seen::Key(b'e') => {
                        text = self.text(question, &question.full);
                        break None;
                    }
                    Seen::Key(_) | Seen::Noise => {
                        text = self.text(question, &question.lines);
                        break None;
                    }
                    Seen::Nothing => {}
                    Seen::Closed => return false,
                }
            };
            if let (Some(answer), Some(desk)) = (answer, self.desk.upgrade()) {
                // The desk tells how it ended: perhaps somebody else was first.
                desk.answer(question.ticket, answer);
                text.clear();
            } else if self.write("\r\n").is_err() {
                return false;
            }
        }
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        (&*self.bell.tty).write_all(text.as_bytes())
    }

    /// All of it in one write, so that no other output comes between.
    fn text(&self, question: &Question, lines: &[String]) -> String {
        let seconds = question.until.saturating_duration_since(Instant::now()).as_secs();
        let more = match self.queue.len() {
            0 | 1 => String::new(),
            n => format!(", {} more wait", n - 1),
        };
        format!(
            "act: {}\r\n  a and d cover: {}\r\n[y] once  [a] for this session  [n] deny  [d] deny for this session  [e] show all  ({seconds} s{more}) ",
            lines.join("\r\n"),
            question.covers,
        )
    }

    /// Wait for a key, for what the desk tells, or for the end of the question's time.
    fn look(&mut self, until: Instant) -> Seen {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // Nobody else may be there to see that its time is over.
            if let Some(desk) = self.desk.upgrade() {
                desk.expire();
            }
        }
        let mut fds = [PollFd::new(&*self.bell.tty, PollFlags::IN), PollFd::new(&*self.bell.wake, PollFlags::IN)];
        let left = Timespec::try_from(left.min(Duration::from_secs(1))).unwrap_or_default();
        if poll(&mut fds, Some(&left)).is_err() {
            return Seen::Nothing;
        }
        let [tty, _] = &fds;
        if tty.revents().is_empty() {
            return Seen::Nothing;
        }
        let mut bytes = [0u8; 4096];
        match (&*self.bell.tty).read(&mut bytes) {
            Ok(0) | Err(_) => Seen::Closed,
            Ok(1) if !self.more_comes() => bytes.first().map_or(Seen::Noise, |key| Seen::Key(*key)),
            Ok(_) => {
                while self.more_comes() && (&*self.bell.tty).read(&mut bytes).is_ok_and(|n| n > 0) {}
                Seen::Noise
            }
        }
    }

    fn more_comes(&self) -> bool {
        let mut fds = [PollFd::new(&*self.bell.tty, PollFlags::IN)];
        let soon = Timespec::try_from(PASTE).unwrap_or_default();
        poll(&mut fds, Some(&soon)).is_ok_and(|ready| ready > 0)
    }
}

/// A terminal that hands over single keys and shows none of them, until this is dropped.
struct Keys {
    tty: File,
    before: Termios,
}

impl Keys {
    fn begin(tty: &File) -> std::io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON);
        single.local_modes.insert(LocalModes::ISIG);
        tcsetattr(tty, OptionalActions::Flush, &single)?;
        Ok(Self { tty: tty.try_clone()?, before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.before);
    }
}
