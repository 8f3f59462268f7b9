//! What the machine reports: one JSON object a line on a serial port.
//!
//! `start`, then any number of `line`, then `exit`, then `end`. `xtask/src/vm/replay.rs` reads them, and takes a run for
//! failed in which one of the three is missing.

use crate::{place, sys};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Result, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};

/// The port, shared by the threads that read the outputs of the tests.
#[derive(Debug)]
pub struct Frames(Mutex<File>);

impl Frames {
    /// Open the port.
    pub fn open() -> Result<Self> {
        Ok(Self(Mutex::new(OpenOptions::new().write(true).open(place::RESULTS)?)))
    }

    /// The tests are about to start, on this kernel.
    pub fn start(&self, release: &str) -> Result<()> {
        self.send(&format!(r#"{{"frame":"start","release":{}}}"#, quote(release)))
    }

    /// They printed a line.
    pub fn line(&self, text: &str) -> Result<()> {
        self.send(&format!(r#"{{"frame":"line","text":{}}}"#, quote(text)))
    }

    /// They ended.
    pub fn exit(&self, status: ExitStatus) -> Result<()> {
        let number = |value: Option<i32>| value.map_or_else(|| "null".to_owned(), |value| value.to_string());
        let (code, signal) = (number(status.code()), number(status.signal()));
        self.send(&format!(r#"{{"frame":"exit","code":{code},"signal":{signal}}}"#))
    }

    /// All is said. Waits until it has left the machine.
    pub fn end(&self) -> Result<()> {
        self.send(r#"{"frame":"end"}"#)?;
        sys::drain(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn send(&self, frame: &str) -> Result<()> {
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        port.write_all(format!("{frame}\n").as_bytes())
    }
}

/// A JSON string (RFC 8259, section 7).
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
