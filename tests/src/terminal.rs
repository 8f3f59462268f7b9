//! Programs on a terminal of their own, and what is typed there.

use crate::{Running, World, require};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What a terminal showed, how the program ended, and whether the terminal shows what is typed afterwards.
#[derive(Debug)]
pub struct Typed {
    /// All that was drawn.
    pub shown: String,
    /// The exit code; `None`: a signal.
    pub code: Option<i32>,
    /// Whether the terminal shows again what is typed.
    pub echo: bool,
}

/// Both ends of a new terminal.
fn terminal() -> (File, File) {
    let (mut master, mut slave) = (-1, -1);
    let (name, modes, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: openpty(3) writes two descriptors to two ints; null stands for what is not wanted.
    assert_eq!(unsafe { libc::openpty(&raw mut master, &raw mut slave, name, modes, size) }, 0);
    // SAFETY: both descriptors are new and belong to nobody else.
    unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) }
}

/// Run `act` on a terminal of its own and answer each prompt (its end, and what is typed then).
#[track_caller]
pub fn typed(world: &World, arguments: &[&str], answers: &[(&str, &str)]) -> Option<Typed> {
    let setsid = ["/usr/bin/setsid", "/bin/setsid"].iter().map(PathBuf::from).find(|p| p.is_file());
    let setsid = require(setsid.ok_or_else(|| "no setsid (util-linux) to give a program a terminal".to_owned()))?;
    let (master, slave) = terminal();
    let mut act = world.command(&setsid);
    let end = || Stdio::from(slave.try_clone().unwrap());
    act.args(["-c", "-w"]).arg(world.programs().join("act")).args(arguments);
    let mut running = Running::start_as_is(act.stdin(end()).stdout(end()).stderr(end()));
    let mut master = master;
    let mut reading = master.try_clone().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0u8; 4096];
        while let Ok(n @ 1..) = reading.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let until = Instant::now() + Duration::from_mins(1);
    let (mut shown, mut seen) = (String::new(), 0);
    let mut answers = answers.iter();
    let mut answer = answers.next();
    let code = loop {
        assert!(Instant::now() < until, "{shown}");
        if let Ok(bytes) = receiver.recv_timeout(Duration::from_millis(20)) {
            shown.push_str(&String::from_utf8_lossy(&bytes));
        } else if let Some(code) = running.ended() {
            break code;
        }
        if let Some((prompt, text)) = answer
            && shown.get(seen..).is_some_and(|new| new.ends_with(prompt))
        {
            seen = shown.len();
            master.write_all(text.as_bytes()).unwrap();
            answer = answers.next();
        }
    };
    assert!(answer.is_none(), "not asked for {answer:?}: {shown}");
    let echo = tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO);
    Some(Typed { shown, code, echo })
}
