//! The machine: its file system, and QEMU around it.
//!
//! Nothing has a name outside: the file system is an unlinked file that QEMU has as its input, both serial ports are pipes,
//! and QEMU is killed with the value that stands for it.

use super::Built;
use super::initramfs::Archive;
use super::kernel::Kernel;
use crate::process;
use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a machine may run. PID 1 ends the tests after 200 s; booting takes some seconds more.
const DEADLINE: Duration = Duration::from_mins(4);
/// How much of the console is kept.
const CONSOLE: usize = 6000;
/// Two processors, so that tests see a limit of one.
const PROCESSORS: &str = "2";
/// Room for the file system, for 512 MiB that a test takes, and for 320 MiB that it writes.
const MEMORY: &str = "1536";

/// The file system of the machine. Its paths are also in `vm-tests/src/place.rs`.
pub(super) fn disk(built: &Built, programs: &Path, component: &Path) -> Result<File> {
    let mut archive = Archive::new(BufWriter::new(tempfile::tempfile().context("make a temporary file")?));
    for folder in ["/dev", "/proc", "/sys", "/tmp", "/root"] {
        archive.folder(Path::new(folder))?;
    }
    // What the kernel gives PID 1 as its outputs.
    archive.device(Path::new("/dev/console"), 5, 1)?;
    archive.program(Path::new("/init"), &built.init)?;
    archive.program(Path::new("/bin/limits"), &built.tests)?;
    archive.program(Path::new("/bin/vm-worker"), &built.worker)?;
    for name in ["act", "act-guest", "act-compile"] {
        archive.program(&Path::new("/bin").join(name), &programs.join(name))?;
    }
    archive.file(Path::new("/guests/files.wasm"), component)?;
    archive.finish()?.into_inner().context("write the file system of the machine")
}

/// A machine that runs. Dropped, it is switched off.
pub(super) struct Machine {
    qemu: Child,
    until: Instant,
    started: Instant,
    /// Which accelerator it was started with.
    pub(super) accelerator: &'static str,
    results: Receiver<String>,
    console: Option<JoinHandle<Vec<u8>>>,
}

pub(super) fn boot(qemu: &Path, kernel: &Kernel, disk: &File) -> Result<Machine> {
    // `/dev/kvm` alone says little: some hosts have one that runs no ordinary kernel.
    let usable = ["/sys/module/kvm_intel", "/sys/module/kvm_amd"].iter().any(|module| Path::new(module).is_dir())
        && File::options().read(true).write(true).open("/dev/kvm").is_ok();
    let (accelerator, option) = if usable { ("kvm", "kvm") } else { ("tcg", "tcg,thread=multi") };
    eprintln!("vm-test: booting {} ({}) with {accelerator}", kernel.name, kernel.origin);
    let mut command = bound(qemu);
    command.args(["-machine", "pc", "-accel", option, "-cpu", "max", "-smp", PROCESSORS, "-m", MEMORY]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none", "-no-reboot"]);
    for (name, fd) in [("console", 2), ("results", 1)] {
        command.args(["-chardev", &format!("file,id={name},path=/proc/self/fd/{fd}")]);
        command.args(["-serial", &format!("chardev:{name}")]);
    }
    command.arg("-kernel").arg(&kernel.image).args(["-initrd", "/proc/self/fd/0"]);
    // A panic reboots at once, which ends QEMU. The timer check fails now and then where processors are emulated.
    command.args(["-append", "console=ttyS0 quiet panic=-1 oops=panic no_timer_check"]);
    command.stdin(disk.try_clone()?).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut qemu = command.spawn().with_context(|| format!("cannot start {}", qemu.display()))?;
    let started = Instant::now();

    let (out, err) = (qemu.stdout.take(), qemu.stderr.take());
    let (sender, results) = channel();
    std::thread::spawn(move || {
        for line in out.into_iter().flat_map(|out| BufReader::new(out).split(b'\n')) {
            // Either nobody listens any more, or QEMU is gone.
            let Ok(line) = line else { return };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let console = err.map(|err| std::thread::spawn(move || tail(err)));
    Ok(Machine { qemu, until: started + DEADLINE, started, accelerator, results, console })
}

/// The command for a program that is killed when this one ends, however it ends.
fn bound(program: &Path) -> Command {
    // Without the tool the machine still ends by itself, when its tests are done or their time is up.
    let Some(setpriv) = process::find(&["setpriv"]) else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Reads to the end and keeps the last bytes.
fn tail(mut stream: impl Read) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        kept.extend_from_slice(buffer.get(..n).unwrap_or_default());
        kept.drain(..kept.len().saturating_sub(CONSOLE));
    }
    kept
}

impl Machine {
    /// The next line of the second serial port; `None` when the machine is off or its time is up.
    pub(super) fn line(&mut self) -> Option<String> {
        match self.results.recv_timeout(self.until.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("vm-test: the machine still runs after {DEADLINE:?}: switched off");
                self.off();
                None
            }
        }
    }

    /// How long it has been on.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Switches it off and returns the end of what its console and QEMU said.
    pub(super) fn console(mut self) -> String {
        self.off();
        let text = self.console.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        String::from_utf8_lossy(&text).replace('\r', "")
    }

    fn off(&mut self) {
        // Both fail only where it has ended before.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.off();
    }
}
