//! Programs that were started, and what came of them.

use crate::process;
use std::io::Read;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a run may take before it counts as hanging. The compiler takes some seconds on a busy machine.
const DEADLINE: Duration = Duration::from_secs(100);

/// A program under way; killed, with its cgroup, when the test leaves it behind.
#[derive(Debug)]
pub struct Running {
    child: Child,
    started: Instant,
    out: Option<JoinHandle<Vec<u8>>>,
    err: Option<JoinHandle<Vec<u8>>>,
    ended: bool,
}

/// What a program printed and how it ended.
#[derive(Debug)]
pub struct Run {
    /// Exit code; `None`: a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
    /// Wall time.
    pub took: Duration,
}

fn drain(stream: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let mut stream = stream?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }))
}

impl Running {
    /// Start a command with both outputs read.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::start_as_is(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Start a command whose outputs are set already.
    #[track_caller]
    pub fn start_as_is(command: &mut Command) -> Self {
        let started = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
        Self { child, started, out, err, ended: false }
    }

    /// Start a command and keep its input and output for a dialogue.
    #[track_caller]
    pub fn start_with_pipes(command: &mut Command) -> (Self, ChildStdin, ChildStdout) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let err = drain(child.stderr.take());
        (Self { child, started, out: None, err, ended: false }, input, output)
    }

    /// The exit code, once it has ended; `Some(None)`: a signal.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        let status = self.child.try_wait().unwrap()?;
        self.ended = true;
        Some(status.code())
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Wait for the end.
    #[track_caller]
    pub fn finish(self) -> Run {
        self.finish_within(DEADLINE)
    }

    /// Wait for the end, which has to come in time.
    #[track_caller]
    pub fn finish_within(mut self, limit: Duration) -> Run {
        let status = self.wait(limit);
        let took = self.started.elapsed();
        let text = |stream: &mut Option<JoinHandle<Vec<u8>>>| stream.take().map_or(Vec::new(), |t| t.join().unwrap());
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        Run { code: status.code(), out, err: String::from_utf8_lossy(&err).into_owned(), took }
    }

    #[track_caller]
    fn wait(&mut self, limit: Duration) -> ExitStatus {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.ended = true;
                return status;
            }
            assert!(Instant::now() < until, "process {} still runs after {limit:?}", self.child.id());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
            process::remove_cgroups(self.pid());
        }
    }
}

impl Run {
    /// Standard output as text, without the line break at its end.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).trim_end().to_owned()
    }

    /// The lines of the audit trail, without `audit: `.
    pub fn audit(&self) -> Vec<&str> {
        self.err.lines().filter_map(|line| line.strip_prefix("audit: ")).collect()
    }

    /// The exit code has to be this.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "exit code\n{}{}", self.err, self.text());
        self
    }

    /// Standard error has to contain this.
    #[track_caller]
    pub fn says(&self, part: &str) -> &Self {
        assert!(self.err.contains(part), "standard error has no `{part}`:\n{}", self.err);
        self
    }

    /// Standard error must not contain this.
    #[track_caller]
    pub fn never_says(&self, part: &str) -> &Self {
        assert!(!self.err.contains(part), "standard error has `{part}`:\n{}", self.err);
        self
    }

    /// Standard output has to contain this.
    #[track_caller]
    pub fn prints(&self, part: &str) -> &Self {
        assert!(self.text().contains(part), "standard output has no `{part}`:\n{}\n{}", self.text(), self.err);
        self
    }

    /// The audit trail has to have exactly this line.
    #[track_caller]
    pub fn audits(&self, line: &str) -> &Self {
        assert!(self.audit().contains(&line), "the audit trail has no line\n  {line}\nbut:\n{}", self.err);
        self
    }

    /// Nothing that a panic or a forged line leaves behind.
    #[track_caller]
    pub fn is_clean(&self) -> &Self {
        self.never_says("panicked").never_says("RUST_BACKTRACE");
        assert!(self.code.is_some(), "killed by a signal:\n{}", self.err);
        self
    }

    /// One line of error that names `what`, and no panic.
    #[track_caller]
    pub fn one_error(&self, code: i32, what: &str) -> &Self {
        self.is_clean().exits(code);
        let other = ["audit: ", "act: compiling "];
        let errors: Vec<&str> = self.err.lines().filter(|l| !other.iter().any(|o| l.starts_with(o))).collect();
        assert_eq!(errors.len(), 1, "one line expected:\n{}", self.err);
        assert!(errors[0].contains(what), "no `{what}` in: {}", errors[0]);
        self
    }
}
