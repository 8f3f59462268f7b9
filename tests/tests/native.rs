//! Native code in the guest's place: every attempt under the real supervisor, and once without it, where it works.
//!
//! `act-probe` takes the place of `act-guest`. It confines itself in the same way, so the layers that answer are those
//! that would answer a guest that was taken over.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Probe, Run, case, setpriv};

/// Who refuses, with which errno; or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Seccomp,
    Landlock,
    /// The hooks of the cgroup.
    Hook,
    Nobody,
}

impl By {
    fn outcome(self) -> String {
        match self {
            Self::Seccomp | Self::Hook => format!("errno {}", libc::EPERM),
            Self::Landlock => format!("errno {}", libc::EACCES),
            Self::Nobody => "ok".to_owned(),
        }
    }
}

/// Under a grant to write one folder and to connect to one TCP address.
const GRANTED: &[(&str, By)] = &[
    ("open the file", By::Nobody),
    ("connect 127.0.0.1", By::Nobody),
    ("connect 127.0.0.2", By::Hook),
    ("connect another port", By::Hook),
    ("bind", By::Hook),
    ("datagram", By::Hook),
    ("datagram to ::ffff:127.0.0.1", By::Hook),
    ("connect ::ffff:127.0.0.2", By::Hook),
    ("connect a datagram socket", By::Hook),
    ("sendmmsg", By::Seccomp),
    ("MSG_FASTOPEN", By::Seccomp),
    ("TCP_FASTOPEN_CONNECT", By::Seccomp),
    ("IP_OPTIONS", By::Seccomp),
    ("listen", By::Seccomp),
    ("execve", By::Seccomp),
    ("execveat of a memfd", By::Seccomp),
    ("fork", By::Seccomp),
    ("vfork", By::Seccomp),
    ("clone3", By::Seccomp),
    ("thread", By::Seccomp),
    ("ptrace", By::Seccomp),
    ("process_vm_writev", By::Seccomp),
    ("pidfd_getfd", By::Seccomp),
    ("kill", By::Seccomp),
    ("tgkill", By::Seccomp),
    ("AF_UNIX", By::Seccomp),
    ("AF_NETLINK", By::Seccomp),
    ("AF_PACKET", By::Seccomp),
    ("AF_VSOCK", By::Seccomp),
    ("AF_ALG", By::Seccomp),
    ("raw socket", By::Seccomp),
    ("SCTP", By::Seccomp),
    ("MPTCP", By::Seccomp),
    ("UDP-Lite", By::Seccomp),
    ("mmap PROT_EXEC", By::Seccomp),
    ("mprotect W to X", By::Seccomp),
    ("mmap MAP_SHARED", By::Seccomp),
    ("memfd_create", By::Seccomp),
    ("bpf", By::Seccomp),
    ("perf_event_open", By::Seccomp),
    ("userfaultfd", By::Seccomp),
    ("keyctl", By::Seccomp),
    ("mount", By::Seccomp),
    ("unshare", By::Seccomp),
    ("unshare user", By::Seccomp),
    ("setns", By::Seccomp),
    ("chroot", By::Seccomp),
    ("setuid", By::Seccomp),
    ("io_uring_setup", By::Seccomp),
    ("personality", By::Seccomp),
    ("prctl", By::Seccomp),
    ("seccomp", By::Seccomp),
    ("ioctl TIOCSTI", By::Seccomp),
    ("fcntl F_SETOWN", By::Seccomp),
    ("utimensat", By::Seccomp),
    ("chmod", By::Seccomp),
    ("chown", By::Seccomp),
    ("setxattr", By::Seccomp),
    ("inotify", By::Seccomp),
    ("shmget", By::Seccomp),
    ("x32 call", By::Seccomp),
    ("open /etc/passwd", By::Landlock),
    ("open /proc/1/environ", By::Landlock),
    ("open /proc/PPID/environ", By::Landlock),
    ("open /proc/PPID/mem", By::Landlock),
    ("open /proc/self/mem", By::Landlock),
    ("open /dev/null", By::Landlock),
    ("open /dev/zero", By::Landlock),
    ("list /proc/self/fd", By::Landlock),
    ("open cgroup.procs", By::Landlock),
];

/// Without any grant. Sockets can be made, so that attempts are on record; they reach nothing.
const NOTHING: &[(&str, By)] = &[
    ("connect 127.0.0.1", By::Hook),
    ("datagram", By::Hook),
    ("bind", By::Hook),
    ("open the file", By::Landlock),
    ("open /etc/passwd", By::Landlock),
    ("chmod", By::Seccomp),
];

/// Without the hooks, under the grants of [`GRANTED`].
const NO_HOOKS: &[(&str, By)] = &[
    ("connect 127.0.0.1", By::Nobody),
    ("connect another port", By::Landlock),
    ("bind", By::Landlock),
    ("open /etc/passwd", By::Landlock),
    ("execve", By::Seccomp),
];

/// What came of each attempt is what its row says.
#[track_caller]
fn assert_rows(rows: &[(&str, By)], run: &Run) {
    let held = Probe::outcomes(run);
    let wrong = rows.iter().filter(|(name, by)| held.get(*name) != Some(&by.outcome()));
    let wrong: Vec<String> =
        wrong.map(|(name, by)| format!("{name}: {:?}, expected {} by {by:?}", held.get(*name), by.outcome())).collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), run.err);
}

/// Each attempt under the supervisor, and without it, where it has to work.
///
/// Returns the run, and how many connections each server saw in it.
fn check(probe: &Probe, rows: &[(&str, By)], flags: &[&str]) -> (Run, Vec<usize>) {
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let bare = Probe::outcomes(probe.bare(&names).is_clean().exits(0));
    let before = probe.connections();
    let run = probe.call(&names, flags);
    run.is_clean().exits(0);
    let mut impossible = Vec::new();
    for (name, _) in rows {
        match bare.get(*name).map(String::as_str) {
            Some("ok") => {}
            other => impossible.push(format!("{name} ({})", other.unwrap_or("nothing"))),
        }
    }
    println!(
        "not possible here even without the sandbox: {} of {}: {}",
        impossible.len(),
        rows.len(),
        impossible.join(", ")
    );
    assert_rows(rows, &run);
    // Modules and configuration of the kernel decide about these; all the others have to be possible.
    let rare = [
        "AF_VSOCK",
        "AF_ALG",
        "AF_PACKET",
        "SCTP",
        "MPTCP",
        "UDP-Lite",
        "userfaultfd",
        "keyctl",
        "perf_event_open",
        "x32 call",
        "open /proc/1/",
        "io_uring_setup",
    ];
    let odd: Vec<_> = impossible.iter().filter(|i| !rare.iter().any(|r| i.starts_with(r))).collect();
    assert!(odd.is_empty(), "these prove nothing: {odd:?}");
    let seen = probe.connections().iter().zip(before).map(|(after, before)| after - before).collect();
    (run, seen)
}

#[test]
fn attempts_under_a_file_and_an_address() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    let grants = probe.grants();
    let flags: Vec<&str> = grants.iter().map(String::as_str).collect();
    let (run, seen) = check(&probe, GRANTED, &flags);
    let port = probe.servers[0].port();
    run.audits(&format!("✗ deny  wasi:sockets  connect 127.0.0.2:{port}/tcp   kernel: connect4  no rule allows it"));
    run.audits(&format!("✗ deny  wasi:sockets  send 127.0.0.1:{port}/udp   kernel: sendmsg4  no rule allows it"));
    assert_eq!(seen, [1, 0, 0], "the servers saw more than the granted connection");
}

#[test]
fn attempts_under_no_grant() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    let (run, seen) = check(&probe, NOTHING, &[]);
    let port = probe.servers[0].port();
    run.audits(&format!("✗ deny  wasi:sockets  connect 127.0.0.1:{port}/tcp   kernel: connect4  no rule allows it"));
    assert_eq!(seen, [0, 0, 0]);
}

/// Runs the probe where the hooks cannot be loaded, under the supervisor alone.
fn check_without_hooks(probe: &Probe, rows: &[(&str, By)], flags: &[&str]) {
    let Some(setpriv) = setpriv() else { return };
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let run = probe.call_through(&setpriv, &names, flags);
    run.is_clean().exits(0).says("⚠ degraded: no ebpf: ");
    assert_rows(rows, &run);
}

/// Where the hooks are missing Landlock holds the ports.
#[test]
fn without_the_hooks() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    let grants = probe.grants();
    let flags: Vec<&str> = grants.iter().map(String::as_str).collect();
    check_without_hooks(&probe, NO_HOOKS, &flags);
    case("under no grant");
    check_without_hooks(&probe, &[("connect 127.0.0.1", By::Landlock), ("bind", By::Landlock)], &[]);
}

/// Landlock knows nothing of UDP: where the hooks are missing and no grant names it, only seccomp can refuse it.
#[test]
fn without_the_hooks_no_datagram_leaves() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    let grants = probe.grants();
    let flags: Vec<&str> = grants.iter().map(String::as_str).collect();
    check_without_hooks(&probe, &[("datagram", By::Seccomp)], &[]);
    check_without_hooks(&probe, &[("datagram", By::Seccomp)], &flags);
}

/// What Landlock refuses stays refused where the filter is missing.
#[test]
fn landlock_holds_without_seccomp() {
    let Some(probe) = Probe::new(env!("CARGO_BIN_EXE_act-probe")) else { return };
    probe.mode("no-seccomp-said-so");
    let grants = probe.grants();
    let flags: Vec<&str> = grants.iter().map(String::as_str).collect();
    let rows: Vec<(&str, By)> = GRANTED.iter().copied().filter(|(_, by)| *by != By::Seccomp).collect();
    check(&probe, &rows, &flags).0.says("⚠ degraded: no seccomp: ");
    case("and is an error where isolation is required");
    probe.call(&["kill"], &[&flags[..], &["--hardened"]].concat()).one_error(3, "a layer is missing: seccomp");
    case("the hook refuses other kinds of sockets, and they are told");
    let run = probe.call(&["raw socket", "AF_UNIX", "AF_PACKET"], &flags);
    let held = Probe::outcomes(run.is_clean().exits(0));
    for name in ["raw socket", "AF_PACKET"] {
        assert_ne!(held[name], "ok", "{name}\n{}", run.err);
    }
}
