//! The supervisor looks for itself at a child that says it is confined, before the component runs.
//!
//! What is read here is the kernel's word, not the child's: `/proc/PID` of a process that cannot be another, because
//! the supervisor is its parent and has not reaped it.

use super::spawn::Child;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What must hold.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Name of the cgroup directory, if the child has one of its own.
    pub cgroup: Option<&'a str>,
    /// Whether the seccomp program must be there.
    pub seccomp: bool,
    /// Whether it holds the socket to the broker for files.
    pub broker: bool,
    /// Directories that are shown to the component: the child holds them without the right to list.
    pub shown: &'a [Vec<u8>],
}

/// Descriptors that a confined child may hold, by what `/proc/PID/fd` shows for them: the null device, what its event loop
/// is made of, the root directory that paths are resolved from, and the sealed code (wasmtime maps initial memory from
/// it). Besides, the child's own `/proc/PID/fd`, by which it learns the path of a directory and reopens a pinned file;
/// Landlock refuses to open anything else through it.
const KNOWN: [&str; 5] =
    ["/dev/null", "anon_inode:[eventpoll]", "anon_inode:[eventfd]", "/", "/memfd:act-code (deleted)"];
/// Sockets: the channel, and the pair by which the event loop of the guest wakes itself.
const MAX_SOCKETS: usize = 3;

/// Check a child; the error names what does not hold.
pub fn verify(child: &Child, expected: &Expected<'_>) -> Result<(), String> {
    let proc = format!("/proc/{}", child.pid);
    let proc = Path::new(&proc);
    let tasks = fs::read_dir(proc.join("task")).map_err(|e| format!("its threads cannot be listed: {e}"))?;
    for task in tasks {
        let task = task.map_err(|e| format!("its threads cannot be listed: {e}"))?;
        check_status(
            &fs::read_to_string(task.path().join("status")).map_err(|e| format!("its status: {e}"))?,
            expected,
        )?;
    }
    if let Some(name) = expected.cgroup {
        let groups = fs::read_to_string(proc.join("cgroup")).map_err(|e| format!("its cgroup: {e}"))?;
        let own = groups.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or_default();
        if Path::new(own).file_name().is_none_or(|last| last != name) {
            return Err(format!("it is in cgroup `{own}`, not in `{name}`"));
        }
    }
    check_descriptors(&proc.join("fd"), expected)
}

fn check_status(status: &str, expected: &Expected<'_>) -> Result<(), String> {
    let field = |name: &str| {
        let value = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim).ok_or_else(|| format!("its status has no {name}"))
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        let value = field(set)?;
        if value.bytes().any(|b| b != b'0') {
            return Err(format!("{set} is {value}"));
        }
    }
    let no_new_privs = field("NoNewPrivs")?;
    if no_new_privs != "1" {
        return Err(format!("NoNewPrivs is {no_new_privs}"));
    }
    let seccomp = field("Seccomp")?;
    if expected.seccomp && seccomp != "2" {
        return Err(format!("Seccomp is {seccomp}, not 2 (filter)"));
    }
    Ok(())
}

fn check_descriptors(directory: &Path, expected: &Expected<'_>) -> Result<(), String> {
    let listed = fs::read_dir(directory).map_err(|e| format!("its descriptors cannot be listed: {e}"))?;
    let mut sockets = 0;
    for entry in listed {
        let entry = entry.map_err(|e| format!("its descriptors cannot be listed: {e}"))?;
        let target =
            fs::read_link(entry.path()).map_err(|e| format!("descriptor {}: {e}", entry.file_name().display()))?;
        if expected.shown.iter().any(|path| path == target.as_os_str().as_bytes()) {
            continue;
        }
        let target = target.to_string_lossy();
        if target.starts_with("socket:[") {
            sockets += 1;
        } else if !KNOWN.contains(&&*target) && Path::new(&*target) != directory {
            return Err(format!("descriptor {} is {}", entry.file_name().display(), act_policy::escape(&target)));
        }
    }
    if sockets > MAX_SOCKETS + usize::from(expected.broker) {
        return Err(format!("it holds {sockets} sockets"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
                        CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn status_lines() {
        let expected = Expected { cgroup: None, seccomp: true, broker: false, shown: &[] };
        assert_eq!(check_status(GOOD, &expected), Ok(()));
        for (from, to, reason) in [
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001", "CapEff is 0000000000000001"),
            ("CapAmb:\t0000000000000000\n", "", "its status has no CapAmb"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs is 0"),
            ("Seccomp:\t2", "Seccomp:\t0", "Seccomp is 0, not 2 (filter)"),
        ] {
            assert_eq!(check_status(&GOOD.replace(from, to), &expected), Err(reason.to_owned()));
        }
    }

    #[test]
    fn an_unconfined_process_is_refused() {
        let pid = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        let own = Child { pid: pid.as_raw_nonzero().get(), pidfd };
        assert!(verify(&own, &Expected { cgroup: None, seccomp: true, broker: false, shown: &[] }).is_err());
    }
}
