//! PID 1 of the machine: mount, run the tests, report, power off.
//!
//! The machine goes off whatever happens: by [`sys::power_off`] in the ordinary way, by a thread of its own when time is
//! up, and if this program dies, the kernel panics, which the command line turns into a reboot and QEMU into its end.

use std::fs;
use std::io::{BufRead as _, BufReader, Error, Read, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use vm_tests::frame::Frames;
use vm_tests::{place, sys};

/// How long the tests may take. They need 15 to 30 s.
const DEADLINE: Duration = Duration::from_secs(200);
/// How long the report may take after they were killed.
const REPORT: Duration = Duration::from_secs(10);

fn main() {
    std::thread::spawn(|| {
        std::thread::sleep(DEADLINE);
        eprintln!("vm-init: the tests still run after {DEADLINE:?}: killing them");
        // Their outputs are closed by that, and the main thread goes on.
        let _ = sys::kill_all_others();
        std::thread::sleep(REPORT);
        power_off()
    });
    if let Err(error) = run() {
        eprintln!("vm-init: {error}");
    }
    power_off()
}

fn power_off() -> ! {
    eprintln!("vm-init: cannot power off: {}", sys::power_off());
    std::process::exit(1)
}

fn run() -> Result<()> {
    mount_all()?;
    sys::unlimited_memlock().map_err(at("raise the limit of locked memory"))?;
    sys::loopback_up().map_err(at("bring lo up"))?;
    let frames = Frames::open().map_err(at(place::RESULTS))?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(at("read the kernel's release"))?;
    frames.start(release.trim())?;
    test(&frames)?;
    frames.end()
}

fn mount_all() -> Result<()> {
    let mounts = [
        (c"devtmpfs", c"/dev"),
        (c"proc", c"/proc"),
        (c"sysfs", c"/sys"),
        (c"cgroup2", c"/sys/fs/cgroup"),
        (c"tmpfs", c"/tmp"),
        (c"tmpfs", c"/root"),
    ];
    for (kind, target) in mounts {
        let named = format!("mount {} on {}", kind.to_string_lossy(), target.to_string_lossy());
        // The last ones lie in file systems that were mounted before them.
        let folder = target.to_string_lossy();
        if !Path::new(&*folder).is_dir() {
            fs::create_dir_all(&*folder).map_err(at(&named))?;
        }
        sys::mount_virtual(kind, target).map_err(at(&named))?;
    }
    Ok(())
}

/// Runs the test binary; each line that it prints is a frame.
fn test(frames: &Frames) -> Result<()> {
    let mut child = Command::new(place::TESTS)
        // All tests look at the one folder of cgroups.
        .arg("--test-threads=1")
        .env_clear()
        .envs([("HOME", "/root"), ("PATH", "/bin")])
        .current_dir("/root")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(at(place::TESTS))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let status = std::thread::scope(|scope| {
        scope.spawn(|| forward(out, frames));
        scope.spawn(|| forward(err, frames));
        child.wait()
    });
    frames.exit(status.map_err(at("wait for the tests"))?)
}

fn forward(stream: Option<impl Read>, frames: &Frames) {
    let Some(stream) = stream else { return };
    for line in BufReader::new(stream).split(b'\n') {
        let sent = line.and_then(|line| frames.line(&String::from_utf8_lossy(&line)));
        if let Err(error) = sent {
            eprintln!("vm-init: an output of the tests: {error}");
            return;
        }
    }
}

/// Names what failed.
fn at(what: &str) -> impl Fn(Error) -> Error + '_ {
    move |error| Error::new(error.kind(), format!("{what}: {error}"))
}
