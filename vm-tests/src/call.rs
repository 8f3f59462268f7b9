//! One `act call` of the component, under way or ended.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use crate::cgroup::Cgroup;
use crate::{place, sys};
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long one call may take. The first compiles the component, on an emulated processor.
const DEADLINE: Duration = Duration::from_mins(1);

/// A call under way. Left behind by a failed test, it is killed.
#[derive(Debug)]
pub struct Call {
    child: Child,
    /// The lines of standard error that were not read yet.
    trail: Receiver<String>,
    /// Those that were.
    seen: Vec<String>,
    out: Option<JoinHandle<String>>,
    ended: bool,
}

/// A call that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None`: a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Call {
    /// Start `act call COMPONENT TOOL --args ARGUMENTS FLAGS`.
    #[track_caller]
    pub fn start(tool: &str, arguments: &str, flags: &[&str]) -> Self {
        let mut act = Command::new(place::ACT);
        act.args(["call", place::COMPONENT, tool, "--args", arguments]).args(flags);
        act.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = act.spawn().unwrap();
        let (mut out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, trail) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                // Nobody listens any more when a test has failed.
                let _ = sender.send(line);
            }
        });
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = out.read_to_string(&mut text);
            text
        });
        Self { child, trail, seen: Vec::new(), out: Some(out), ended: false }
    }

    /// Start a call that goes on until it is interrupted, and wait for its isolation line: from then on the component
    /// runs, inside its cgroup.
    #[track_caller]
    pub fn spinning(flags: &[&str]) -> (Self, String) {
        let mut call = Self::start("spin", "{}", flags);
        let line = call.wait_for("isolation");
        (call, line)
    }

    /// Run a call to its end.
    #[track_caller]
    pub fn run(tool: &str, arguments: &str, flags: &[&str]) -> Ended {
        Self::start(tool, arguments, flags).finish()
    }

    /// Its cgroup.
    #[track_caller]
    pub fn cgroup(&self) -> Cgroup {
        Cgroup::of(self.child.id())
    }

    /// Interrupt it as a person would, and wait for its end. Its cgroup has to be gone.
    #[track_caller]
    pub fn interrupt(self) -> Ended {
        sys::signal(self.child.id(), sys::INTERRUPT).unwrap();
        self.finish()
    }

    /// Kill the supervisor, which can clean up nothing then.
    #[track_caller]
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.ended = true;
    }

    /// The next line of the audit trail that has this word.
    #[track_caller]
    fn wait_for(&mut self, word: &str) -> String {
        let until = Instant::now() + DEADLINE;
        loop {
            match self.trail.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line.clone()),
                Err(RecvTimeoutError::Timeout) => panic!("no `{word}` within {DEADLINE:?}:\n{}", self.seen.join("\n")),
                Err(RecvTimeoutError::Disconnected) => panic!("ended without `{word}`:\n{}", self.seen.join("\n")),
            }
            if let Some(line) = self.seen.last().filter(|line| line.contains(word)) {
                return line.clone();
            }
        }
    }

    #[track_caller]
    fn finish(mut self) -> Ended {
        let until = Instant::now() + DEADLINE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "still runs after {DEADLINE:?}:\n{}", self.seen.join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        };
        self.ended = true;
        // The thread that reads ends with the stream.
        self.seen.extend(self.trail.iter());
        let prefix = format!("act-{}-", self.child.id());
        let left = Cgroup::all().into_iter().find(|path| path.to_string_lossy().contains(&prefix));
        assert_eq!(left, None, "a cgroup is left behind:\n{}", self.seen.join("\n"));
        let out = self.out.take().map(|thread| thread.join().unwrap()).unwrap_or_default();
        Ended { code: status.code(), out, err: self.seen.join("\n") }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            // By its signal handler it takes its cgroup with it; a moment later it is killed for good.
            let _ = sys::signal(self.child.id(), sys::INTERRUPT);
            std::thread::sleep(Duration::from_secs(1));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// The exit code has to be this.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "exit code\n{}\n{}", self.err, self.out);
        self
    }

    /// Standard error has to have this.
    #[track_caller]
    pub fn says(&self, part: &str) -> &Self {
        assert!(self.err.contains(part), "standard error has no `{part}`:\n{}", self.err);
        self
    }

    /// Standard output has to have this.
    #[track_caller]
    pub fn prints(&self, part: &str) -> &Self {
        assert!(self.out.contains(part), "standard output has no `{part}`:\n{}\n{}", self.out, self.err);
        self
    }
}
