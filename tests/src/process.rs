//! Processes and cgroups, as the kernel shows them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The fields of `/proc/PID/stat` after the name: state, parent, … (proc_pid_stat(5)).
fn stat(pid: i32) -> Option<(String, Vec<String>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (left, right) = text.rsplit_once(") ")?;
    let name = left.split_once('(')?.1.to_owned();
    Some((name, right.split(' ').map(str::to_owned).collect()))
}

/// Whether a process is there and not a zombie.
pub fn alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(_, fields)| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// The children of a process that have this name. The name of a program that was opened by `execveat` is the number of
/// its descriptor, so `argv[0]` is compared.
pub fn children(parent: i32, name: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| stat(pid).is_some_and(|(_, fields)| fields.get(1).is_some_and(|p| *p == parent.to_string())))
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c.split(|&b| b == 0).next() == Some(name.as_bytes()))
        })
        .collect()
}

/// Reaps what ended after its `act` was killed; the end of this process would leave it to whoever comes next.
pub fn reap_orphans() {
    let own = std::process::id().to_string();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for pid in pids {
        let orphan = stat(pid).is_some_and(|(name, fields)| {
            ["act-guest", "act-compile"].contains(&name.as_str()) && fields.starts_with(&["Z".into(), own.clone()])
        });
        if let (true, Some(pid)) = (orphan, rustix::process::Pid::from_raw(pid)) {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        }
    }
}

/// CPU time that a process has used, in clock ticks.
pub fn ticks(pid: i32) -> u64 {
    let fields = stat(pid).map(|(_, fields)| fields).unwrap_or_default();
    fields.get(11).into_iter().chain(fields.get(12)).filter_map(|t| t.parse::<u64>().ok()).sum()
}

/// The guest of `act`, as soon as it runs the component: a spinning one uses CPU time.
#[track_caller]
pub fn spinning_guest(act: i32) -> i32 {
    let mut found = None;
    wait_until(Duration::from_mins(1), "the guest to spin", || {
        found = children(act, "act-guest").first().copied().filter(|&pid| ticks(pid) > 10);
        found.is_some()
    });
    found.unwrap()
}

/// Poll until something holds.
#[track_caller]
pub fn wait_until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < until, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The folder in which `act`, run by root, makes its cgroups.
pub fn cgroup_folder() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts.lines().find(|l| l.contains(" - cgroup2 "))?;
    Some(PathBuf::from(line.split(' ').nth(4)?).join("act"))
}

/// The cgroups of an `act` process.
pub fn cgroups(act: i32) -> Vec<PathBuf> {
    let entries = cgroup_folder().and_then(|f| fs::read_dir(f).ok());
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    entries.filter(|e| e.file_name().to_string_lossy().starts_with(&format!("act-{act}-"))).map(|e| e.path()).collect()
}

/// Kill and remove what a killed `act` left behind.
pub fn remove_cgroups(act: i32) {
    for cgroup in cgroups(act) {
        let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        for _ in 0..200 {
            match fs::remove_dir(&cgroup) {
                Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => std::thread::sleep(Duration::from_millis(10)),
                _ => break,
            }
        }
    }
}

/// Send a signal.
pub fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}
