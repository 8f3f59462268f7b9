//! Ends that nobody planned: each party killed at any moment, signals, limits. Nothing stays behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Running, World, case, process, require, root};
use rustix::process::{Resource, Signal};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(2);

fn world() -> Option<(World, PathBuf)> {
    require(root())?;
    let world = World::new()?;
    world.file("a.txt", "text of a");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    // Compiles it, so that the runs below are short.
    world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs"]).exits(0);
    Some((world, component))
}

fn spin(world: &World, component: &std::path::Path, flags: &[&str]) -> Running {
    Running::start(&mut world.call_command(component, "spin", &json!({}), flags))
}

/// Whatever stays behind an `act` that was killed becomes a child of this process.
fn adopt_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
}

fn orphans() -> Vec<i32> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    [process::children(own, "act-guest"), process::children(own, "act-compile")].concat()
}

#[test]
fn a_killed_supervisor_takes_its_guest_along() {
    let Some((world, component)) = world() else { return };
    adopt_orphans();
    let mut left_behind = 0;
    for round in 0..20_u32 {
        let act = spin(&world, &component, &["--allow", "fs"]);
        let pid = act.pid();
        // From before the guest is born until it spins; the same moments in every run.
        let moment = Duration::from_millis(u64::from(round * 37 % 20) * 6);
        case(&format!("round {round}: after {moment:?}"));
        if round % 5 == 0 {
            process::spinning_guest(pid);
        } else {
            std::thread::sleep(moment);
        }
        process::signal(pid, Signal::KILL);
        assert_eq!(act.finish_within(SOON).code, None);
        process::wait_until(SOON, "the children of the killed supervisor to end", || {
            !orphans().iter().any(|&p| process::alive(p))
        });
        process::reap_orphans();
        left_behind += process::cgroups(pid).len();
        case("the next start removes what is left");
        let next = world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs"]);
        next.exits(0).prints("text of a");
        assert_eq!(process::cgroups(pid), Vec::<PathBuf>::new());
    }
    assert!(left_behind > 0, "no round left a cgroup, so that nothing was tested");
}

#[test]
fn a_supervisor_killed_while_it_compiles() {
    let Some((world, _)) = world() else { return };
    adopt_orphans();
    let component = world.pack(Guest::Py, &[("{D}/**", "rw")], &json!([]));
    let arguments = json!({ "path": "{D}/a.txt" });
    let act = Running::start(&mut world.call_command(&component, "read_file", &arguments, &["--allow", "fs"]));
    let pid = act.pid();
    process::wait_until(Duration::from_secs(20), "the compiler", || !process::children(pid, "act-compile").is_empty());
    std::thread::sleep(Duration::from_millis(500));
    process::signal(pid, Signal::KILL);
    act.finish_within(SOON);
    process::wait_until(SOON, "the compiler to end", || !orphans().iter().any(|&p| process::alive(p)));
    process::reap_orphans();
    world.call(&component, "read_file", &arguments, &["--allow", "fs"]).exits(0).prints("text of a");
    assert_eq!(process::cgroups(pid), Vec::<PathBuf>::new());
}

#[test]
fn a_killed_guest_is_reported() {
    let Some((world, component)) = world() else { return };
    let act = spin(&world, &component, &[]);
    let pid = act.pid();
    process::signal(process::spinning_guest(pid), Signal::KILL);
    let run = act.finish_within(SOON);
    run.one_error(6, "the guest was killed: SIGKILL").says("audit: ● spin  killed ");
    assert_eq!(process::cgroups(pid), Vec::<PathBuf>::new());
    case("the next call works");
    world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs"]).exits(0);
}

#[test]
fn signals_end_a_call() {
    let Some((world, component)) = world() else { return };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        case(&format!("{signal:?}"));
        let act = spin(&world, &component, &[]);
        let pid = act.pid();
        let guest = process::spinning_guest(pid);
        process::signal(pid, signal);
        let run = act.finish_within(SOON);
        run.one_error(5, "interrupted").says("audit: ● spin  interrupted ");
        assert!(!process::alive(guest));
        assert_eq!(process::cgroups(pid), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_signal_ends_a_compilation() {
    let Some((world, _)) = world() else { return };
    let component = world.pack(Guest::Py, &[("{D}/**", "rw")], &json!([]));
    let act = Running::start(&mut world.call_command(&component, "read_file", &json!({ "path": "{D}/a.txt" }), &[]));
    let pid = act.pid();
    process::wait_until(Duration::from_secs(20), "the compiler", || !process::children(pid, "act-compile").is_empty());
    process::signal(pid, Signal::INT);
    act.finish_within(SOON).is_clean().exits(5).says("interrupted");
    assert_eq!(process::cgroups(pid), Vec::<PathBuf>::new());
}

#[test]
fn a_call_that_runs_out_of_time() {
    let Some((world, component)) = world() else { return };
    let run = spin(&world, &component, &["--timeout", "500ms"]).finish();
    run.one_error(6, "time").says("audit: ● spin  timeout ");
    assert!(run.took < Duration::from_secs(3), "{:?}", run.took);
    case("a call that is fast enough");
    let flags = &["--timeout", "30s", "--allow", "fs"];
    world.call(&component, "read_file", &json!({ "path": "{D}/a.txt" }), flags).exits(0);
}

/// Soft `RLIMIT_CPU` of a process in seconds.
fn cpu_limit(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find(|l| l.starts_with("Max cpu time")).unwrap();
    let soft = line.split_whitespace().nth(3).unwrap();
    soft.parse().unwrap_or_else(|_| panic!("no limit: {line}"))
}

#[test]
fn cpu_time_has_a_bound() {
    let Some((world, component)) = world() else { return };
    for (flags, budget) in
        [(&["--allow", "fs"][..], 3602..=3604), (&["--allow", "fs", "--timeout", "30s"][..], 32..=34)]
    {
        case(&format!("{flags:?}"));
        let act = spin(&world, &component, flags);
        let guest = process::spinning_guest(act.pid());
        let limit = cpu_limit(guest);
        assert!(budget.contains(&limit), "{limit} s");
        // The budget is made to end one second from now.
        let limit = rustix::process::Rlimit { current: Some(process::ticks(guest) / 100 + 1), maximum: None };
        rustix::process::prlimit(rustix::process::Pid::from_raw(guest), Resource::Cpu, limit).unwrap();
        let run = act.finish_within(Duration::from_secs(10));
        run.one_error(6, "it used up its CPU time").says("audit: ● spin  killed ");
        run.says(" cpu=");
        assert!(!run.err.contains("cpu=none"), "{}", run.err);
    }
}

#[test]
fn memory_has_a_bound() {
    let Some((world, component)) = world() else { return };
    let grow = |mib: u32, limit: &str| -> (Option<i32>, String, String) {
        let arguments: Value = json!({ "mib": mib });
        let run = world.call(&component, "grow", &arguments, &["--max-memory", limit]);
        run.is_clean();
        (run.code, run.text(), run.err)
    };
    case("less than the component begins with");
    let run = world.call(&component, "grow", &json!({ "mib": 1 }), &["--max-memory", "64KiB"]);
    run.one_error(1, "the component could not be started: ").says("(raise --max-memory)").says("● grow  not-started ");
    let (code, text, err) = grow(40, "64MiB");
    assert_eq!((code, text.as_str()), (Some(0), "grew 40 MiB"), "{err}");
    let (code, text, err) = grow(200, "64MiB");
    assert!(matches!(code, Some(1 | 6)) && text.is_empty(), "{code:?} {text} {err}");
    assert!(err.contains("refused after") || err.contains("memory"), "{err}");
    let (code, text, err) = grow(200, "256MiB");
    assert_eq!((code, text.as_str()), (Some(0), "grew 200 MiB"), "{err}");
}

#[test]
fn a_trap_is_a_tool_error() {
    let Some((world, component)) = world() else { return };
    let run = world.call(&component, "trap", &json!({}), &[]);
    run.is_clean().exits(1).says("Error: ").says("unreachable");
}

#[test]
fn a_reader_that_goes_away() {
    let Some((world, component)) = world() else { return };
    let mut command = world.call_command(&component, "bytes", &json!({ "n": 8 << 20 }), &[]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = Running::start_as_is(command.stdout(writer).stderr(std::process::Stdio::piped())).finish();
    run.one_error(1, "standard output was closed");
}

/// The other limits, each hit by a call and not by the next one.
#[test]
fn output_handles_and_files_have_bounds() {
    let Some((world, component)) = world() else { return };
    let output = json!({ "n": 100_000 });
    let many = json!({ "path": "{D}/a.txt", "count": 100 });
    let write = json!({ "path": "{D}/big.txt", "text": "0123456789abcdef", "times": 8192 });
    let allow = ["--allow", "fs"];
    for (tool, arguments, limit, more, message) in [
        ("bytes", &output, ["--max-output", "64KiB"], ["--max-output", "128KiB"], "output of more than 65536 bytes"),
        ("hold", &many, ["--max-handles", "16"], ["--max-handles", "300"], "more open handles than it may have"),
        ("write_file", &write, ["--max-file", "64KiB"], ["--max-file", "1MiB"], "wrote a file larger than the limit"),
    ] {
        case(&format!("{tool} {limit:?}"));
        let run = world.call(&component, tool, arguments, &[allow, limit].concat());
        run.is_clean().exits(6).says(message);
        case(&format!("{tool} {more:?}"));
        world.call(&component, tool, arguments, &[allow, more].concat()).is_clean().exits(0);
    }
    case("what no limit can be");
    for (flag, value) in [("--max-handles", "3"), ("--pids", "2"), ("--cpus", "0"), ("--max-output", "0")] {
        world.call(&component, "bytes", &output, &[flag, value]).exits(2).says(flag);
    }
    case("a share of the CPUs, where nothing can hold it, is told");
    let run = world.call(&component, "bytes", &output, &["--cpus", "0.5", "--pids", "8"]);
    run.exits(0);
    assert_ne!(run.err.contains("--cpus is not held"), run.err.contains("cpu=cgroup"), "{}", run.err);
}
