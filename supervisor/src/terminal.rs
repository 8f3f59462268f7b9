//! The terminal of whoever started the program: a line that is typed without being seen.

use crate::secrets::{Ask, SecretsError};
use crate::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use zeroize::Zeroizing;

/// Longest line in bytes; the kernel's own bound on a line (N_TTY_BUF_SIZE).
const LONGEST: usize = 4096;

/// The terminal, which is not standard input or output: those may be a pipe of an MCP client.
#[derive(Debug)]
pub struct Terminal<'a> {
    tty: Option<File>,
    signals: &'a Signals,
}

impl<'a> Terminal<'a> {
    /// The controlling terminal, if there is one. `signals` end a wait for a line.
    pub fn open(signals: &'a Signals) -> Self {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let tty = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok().map(File::from);
        Self { tty, signals }
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.tty.is_some()
    }

    /// One line. `hidden`: it is not shown while it is typed. `None`: no terminal, or it was closed.
    pub fn line(&mut self, prompt: &str, hidden: bool) -> Result<Option<Zeroizing<String>>, SecretsError> {
        let Some(tty) = &self.tty else { return Ok(None) };
        let echo = if hidden { Some(Silence::begin(tty).map_err(SecretsError::Terminal)?) } else { None };
        let mut out = tty;
        out.write_all(prompt.as_bytes()).map_err(SecretsError::Terminal)?;
        let line = read_line(tty, self.signals);
        drop(echo);
        if hidden {
            // The line break that was typed was not shown either.
            let _ = out.write_all(b"\n");
        }
        line
    }
}

impl Ask for Terminal<'_> {
    fn hidden(&mut self, prompt: &str) -> Result<Option<Zeroizing<String>>, SecretsError> {
        self.line(prompt, true)
    }

    fn tell(&mut self, text: &str) {
        if let Some(mut tty) = self.tty.as_ref() {
            let _ = tty.write_all(format!("{text}\n").as_bytes());
        }
    }
}

fn read_line(mut tty: &File, signals: &Signals) -> Result<Option<Zeroizing<String>>, SecretsError> {
    let mut bytes = Zeroizing::new([0u8; LONGEST]);
    let mut length = 0;
    loop {
        let mut fds = [PollFd::new(tty, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(SecretsError::Terminal(e.into())),
        }
        if signals.pending() {
            return Err(SecretsError::Interrupted);
        }
        if fds.first().is_none_or(|fd| fd.revents().is_empty()) {
            continue;
        }
        let room = bytes.get_mut(length..).unwrap_or_default();
        if room.is_empty() {
            let long = io::Error::new(io::ErrorKind::InvalidInput, format!("a line of more than {LONGEST} bytes"));
            return Err(SecretsError::Terminal(long));
        }
        match tty.read(room) {
            Ok(0) => return Ok(None),
            Ok(n) => length += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(SecretsError::Terminal(e)),
        }
        let typed = bytes.get(..length).unwrap_or_default();
        if let Some(line) = typed.strip_suffix(b"\n") {
            let text = std::str::from_utf8(line).map_err(|_| {
                SecretsError::Terminal(io::Error::new(io::ErrorKind::InvalidData, "the line is not UTF-8"))
            })?;
            return Ok(Some(Zeroizing::new(text.to_owned())));
        }
    }
}

/// A terminal that shows nothing of what is typed, until this is dropped.
struct Silence<'a> {
    tty: &'a File,
    before: Termios,
}

impl<'a> Silence<'a> {
    fn begin(tty: &'a File) -> io::Result<Self> {
        let before = tcgetattr(tty)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        // Signals have to come as such, whole lines, too.
        silent.local_modes.insert(LocalModes::ICANON | LocalModes::ISIG);
        // What was typed before the question was asked is no answer to it.
        tcsetattr(tty, OptionalActions::Flush, &silent)?;
        Ok(Self { tty, before })
    }
}

impl Drop for Silence<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.tty, OptionalActions::Now, &self.before);
    }
}
