//! What each layer gives on this machine, proved by trying it (`act doctor`).
//!
//! What would confine this process is tried in a forked child, which attempts what the layer has to refuse.

use super::cgroup::{self, Cgroup};
use super::spawn::open_sibling;
use act_bpf::{Guard, Reach};
use act_lockdown::profile::Profile;
use act_wire::Lockdown;
use rustix::fd::AsFd as _;
use rustix::io::Errno;

/// What a probe found.
#[derive(Debug)]
pub struct Finding {
    /// The layer.
    pub layer: &'static str,
    /// What it gives, or what is missing.
    pub result: Result<String, Missing>,
    /// Whether `--hardened` needs it.
    pub needed: bool,
}

/// A missing layer and the one command that adds it.
#[derive(Debug)]
pub struct Missing {
    /// Why.
    pub reason: String,
    /// What to do.
    pub fix: String,
}

fn missing(reason: impl ToString, fix: &str) -> Missing {
    Missing { reason: reason.to_string(), fix: fix.into() }
}

/// Try everything.
pub fn all() -> Vec<Finding> {
    let group = Cgroup::create();
    let mut findings = vec![
        Finding { layer: "programs", result: programs(), needed: true },
        Finding { layer: "landlock", result: landlock(), needed: true },
        Finding { layer: "seccomp", result: seccomp(), needed: true },
        Finding { layer: "ebpf", result: ebpf(group.as_ref().ok()), needed: true },
    ];
    let limits = limits(group.as_ref().ok());
    findings.push(Finding {
        layer: "cgroup",
        result: group.map_err(|e| cgroup_missing(&e)).map(|g| placed(&g)),
        needed: true,
    });
    findings.push(Finding { layer: "limits", result: limits, needed: false });
    findings
}

fn programs() -> Result<String, Missing> {
    for name in ["act-guest", "act-compile"] {
        open_sibling(name).map_err(|e| missing(e, "install act, act-guest and act-compile into one folder"))?;
    }
    Ok("act-guest and act-compile are beside act".into())
}

/// Run `attempt` in a forked child; its answer is the child's exit code.
fn in_child(attempt: impl FnOnce() -> u8) -> Result<u8, Errno> {
    // SAFETY: doctor is single threaded, so the child has the only thread and no lock is held by another. It ends with
    // _exit, so nothing of the parent's is flushed or dropped twice.
    let pid = match unsafe { libc::fork() } {
        -1 => {
            return Err(Errno::from_raw_os_error(
                std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN),
            ));
        }
        0 => {
            let code = attempt();
            // SAFETY: ends this child at once; see above.
            unsafe { libc::_exit(i32::from(code)) }
        }
        pid => pid,
    };
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::CHILD)?;
    loop {
        match rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return Ok(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

const HELD: u8 = 0;
const NOT_ENFORCED: u8 = 1;
const LET_PASS: u8 = 2;

fn landlock() -> Result<String, Missing> {
    const FIX: &str =
        "boot a kernel 6.2 or newer with `lsm=landlock,…` on its command line (cat /sys/kernel/security/lsm)";
    let abi = act_lockdown::kernel_abi();
    if abi == 0 {
        return Err(missing("the kernel has no Landlock", FIX));
    }
    let nothing = Lockdown {
        files: Vec::new(),
        connect_tcp: Some(Vec::new()),
        bind_tcp: Some(Vec::new()),
        seccomp: Vec::new(),
        required: true,
    };
    let code = in_child(|| {
        if std::fs::File::open("/proc/self/status").is_err() {
            return LET_PASS;
        }
        match act_lockdown::landlock(&nothing) {
            Ok((_, true)) => {}
            _ => return NOT_ENFORCED,
        }
        let refused = |path: &str| std::fs::File::open(path).is_err_and(|e| e.raw_os_error() == Some(libc::EACCES));
        if refused("/proc/self/status") && refused("/etc/passwd") { HELD } else { LET_PASS }
    });
    match code {
        Ok(HELD) if abi >= 3 => Ok(format!("ABI {abi}: a child could open a file before and not after")),
        Ok(HELD) => Err(missing(format!("ABI {abi} does not see truncate(2); 3 is needed"), FIX)),
        Ok(NOT_ENFORCED) => Err(missing("the kernel enforces it only in part", FIX)),
        Ok(_) => Err(missing("it was enforced and a file could still be opened", FIX)),
        Err(e) => Err(missing(format!("fork: {e}"), "free processes or memory")),
    }
}

fn seccomp() -> Result<String, Missing> {
    const FIX: &str = "boot a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64";
    let profile = Profile { files: true, files_write: false, tcp: false, udp: false, listen: false };
    let program = profile.program().map_err(|e| missing(e, FIX))?;
    let code = in_child(|| {
        let socket = || rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
        if socket().is_err() {
            return LET_PASS;
        }
        if rustix::thread::set_no_new_privs(true).is_err() || act_lockdown::seccomp(&program).is_err() {
            return NOT_ENFORCED;
        }
        if socket().is_err_and(|e| e == Errno::PERM) { HELD } else { LET_PASS }
    });
    match code {
        Ok(HELD) => {
            Ok(format!("filter of {} instructions: a child could make a socket before and not after", program.len()))
        }
        Ok(NOT_ENFORCED) => Err(missing("the filter cannot be installed", FIX)),
        Ok(_) => Err(missing("the filter was installed and a socket could still be made", FIX)),
        Err(e) => Err(missing(format!("fork: {e}"), "free processes or memory")),
    }
}

fn ebpf(group: Option<&Cgroup>) -> Result<String, Missing> {
    act_bpf::probe().map_err(|e| {
        let fix = match e {
            act_bpf::Unavailable::Capabilities { .. } => format!("sudo act …  ({})", e.hint()),
            _ => e.hint().to_owned(),
        };
        missing(super::start::with_sources(&e), &fix)
    })?;
    let Some(group) = group else {
        return Err(missing("the programs load, and there is no cgroup to attach them to", "see cgroup"));
    };
    let attached =
        Guard::load(Reach::Rules).and_then(|guard| guard.attach(group.as_fd()).map(|attached| (guard, attached)));
    let (_guard, attached) = attached.map_err(|e| {
        missing(super::start::with_sources(&e), "run act as root, or give it CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")
    })?;
    attached.retire().map_err(|e| missing(super::start::with_sources(&e), "report this as a bug"))?;
    Ok("8 programs loaded and attached to a cgroup of their own".into())
}

fn cgroup_missing(error: &super::SandboxError) -> Missing {
    let fix = if rustix::process::geteuid().is_root() {
        "mount -t cgroup2 none /sys/fs/cgroup (and give the container write access to it)"
    } else {
        "start act with: systemd-run --user --scope -p Delegate=yes act …"
    };
    missing(error, fix)
}

fn placed(group: &Cgroup) -> String {
    let base = cgroup::base().map(|b| b.display().to_string()).unwrap_or_default();
    format!("made {} in {base}", group.name())
}

fn limits(group: Option<&Cgroup>) -> Result<String, Missing> {
    let controllers = group.map(Cgroup::controllers).unwrap_or_default();
    let by = super::Limits::default().held_by(Some(controllers));
    if controllers.memory && controllers.pids && controllers.cpu {
        Ok(by)
    } else {
        Err(missing(
            format!("cgroup v2 has not all of memory, pids and cpu here: {by}"),
            "boot with `systemd.unified_cgroup_hierarchy=1`, or delegate the controllers to this user",
        ))
    }
}
