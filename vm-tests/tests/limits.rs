//! The limits that the cgroup of a run holds: each acts, and without it the same attempt succeeds.
//!
//! Values are those of `supervisor/src/sandbox/limits.rs`. What a component cannot try, because the layers above stop it
//! first, is tried by a process that moves into the cgroup of a call under way.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};
use vm_tests::call::Call;
use vm_tests::cgroup::Cgroup;
use vm_tests::{sys, worker};

/// `--max-memory` of most calls, and what the cgroup adds for the process around the component.
const MEMORY: &[&str] = &["--max-memory", "64MiB"];
const MEMORY_MAX: u64 = (64 + 192) << 20;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

#[test]
fn a_call_has_its_limits_set_and_says_so() {
    let (call, line) = Call::spinning(MEMORY);
    for part in [" cgroup=on ", " memory=cgroup+rlimit pids=cgroup+seccomp cpu=cgroup+rlimit"] {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
    let cgroup = call.cgroup();
    assert_eq!(cgroup.read("memory.max"), MEMORY_MAX.to_string());
    assert_eq!(cgroup.read("pids.max"), "3");
    assert_eq!(cgroup.read("cpu.max"), "100000 100000");
    if cgroup.has("memory.swap.max") {
        assert_eq!(cgroup.read("memory.swap.max"), "0");
    }
    assert_eq!(cgroup.read("cgroup.procs").lines().count(), 1, "the guest alone is inside");
    call.interrupt().exits(5);

    // The number follows the flag.
    let (call, _) = Call::spinning(&["--max-memory", "128MiB"]);
    assert_eq!(call.cgroup().read("memory.max"), (MEMORY_MAX + (64 << 20)).to_string());
    call.interrupt().exits(5);
}

/// Pages of a file in memory are charged to the cgroup, and no rlimit counts them.
#[test]
fn a_component_that_fills_a_tmpfs_is_killed() {
    const MIB: u64 = 320;
    const PIECE: u64 = 64 << 10;
    let folder = "/tmp/filled";
    let file = format!("{folder}/file");
    std::fs::create_dir(folder).unwrap();
    let piece = "x".repeat(PIECE as usize);
    let arguments = format!(r#"{{"path":"{file}","text":"{piece}","times":{}}}"#, (MIB << 20) / PIECE);
    let size = || std::fs::metadata(&file).map_or(0, |found| found.len());
    let grant = format!("fs={folder}/**");

    let flags = [MEMORY, &["--allow", &grant]].concat();
    let ended = Call::run("write_file", &arguments, &flags);
    ended.exits(6).says("out of memory");
    let written = size();
    assert!(written <= MEMORY_MAX, "{written} bytes were written under a limit of {MEMORY_MAX}");
    assert!(written > MEMORY_MAX / 2, "killed early: {written} bytes were written under a limit of {MEMORY_MAX}");
    std::fs::remove_file(&file).unwrap();

    let flags = ["--max-memory", "512MiB", "--allow", &grant];
    let wrote = format!("wrote {}", MIB << 20);
    Call::run("write_file", &arguments, &flags).exits(0).prints(&wrote);
    assert_eq!(size(), MIB << 20);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn memory_beyond_the_limit_is_killed() {
    let job = |bytes: u64| ["memory".to_owned(), (bytes >> 20).to_string()];
    let below = job(MEMORY_MAX / 2);
    let above = job(MEMORY_MAX * 2);
    let run = |cgroup: Option<&Cgroup>, job: &[String; 2]| worker::run(cgroup, &job.each_ref().map(String::as_str));

    let (call, _) = Call::spinning(MEMORY);
    let cgroup = call.cgroup();
    let inside = run(Some(&cgroup), &below);
    assert_eq!(text(&inside), "took 128 MiB", "{inside:?}");
    assert_eq!(cgroup.count("memory.events", "oom_kill"), 0);

    let killed = run(Some(&cgroup), &above);
    assert_eq!(killed.status.signal(), Some(sys::KILL), "{killed:?}");
    assert_eq!(cgroup.count("memory.events", "oom_kill"), 1);
    // The one that took too much was killed, not its neighbour.
    call.interrupt().exits(5);

    let outside = run(None, &above);
    assert_eq!(text(&outside), "took 512 MiB", "{outside:?}");
}

#[test]
fn tasks_beyond_the_limit_are_refused() {
    let (call, _) = Call::spinning(MEMORY);
    let cgroup = call.cgroup();
    let tasks: u64 = cgroup.read("pids.current").parse().unwrap();
    assert_eq!(tasks, 3, "the guest's own tasks");
    // Moving in is not refused; starting one more is.
    let inside = worker::run(Some(&cgroup), &["fork", "8"]);
    assert_eq!(text(&inside), "started 0, then EAGAIN", "{inside:?}");
    assert!(cgroup.count("pids.events", "max") > 0);
    call.interrupt().exits(5);

    let outside = worker::run(None, &["fork", "8"]);
    assert_eq!(text(&outside), "started 8", "{outside:?}");
}

#[test]
fn cpu_time_beyond_the_limit_is_held_back() {
    const WINDOW: Duration = Duration::from_secs(1);
    /// CPU time per time, and how often the cgroup was held back, over a while.
    fn measure(cgroup: &Cgroup) -> (f64, u64) {
        let read = || {
            let used = cgroup.count("cpu.stat", "usage_usec");
            (Instant::now(), used, cgroup.count("cpu.stat", "nr_throttled"))
        };
        let (started, used, throttled) = read();
        sleep(WINDOW);
        let (ended, used_then, throttled_then) = read();
        let used = Duration::from_micros(used_then - used);
        (used.as_secs_f64() / (ended - started).as_secs_f64(), throttled_then - throttled)
    }
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!(processors >= 2, "two spinners need two processors to want more than one: {processors}");

    let (call, _) = Call::spinning(MEMORY);
    let cgroup = call.cgroup();
    // The component spins on one processor, this one on the other: ended with the cgroup.
    let mut second = worker::start(&cgroup, &["spin"]);

    let (share, throttled) = measure(&cgroup);
    assert!(throttled > 0, "not held back once, with {share:.2} processors in use");
    assert!(share < 1.25, "{share:.2} processors in use under a limit of 1");

    cgroup.write("cpu.max", "50000 100000");
    let (share, throttled) = measure(&cgroup);
    assert!(throttled > 0, "not held back once, with {share:.2} processors in use");
    assert!(share < 0.75, "{share:.2} processors in use under a limit of 0.5");

    cgroup.write("cpu.max", "max 100000");
    // What it was held back for before is over then.
    sleep(Duration::from_millis(200));
    let (share, throttled) = measure(&cgroup);
    assert_eq!(throttled, 0, "held back without a limit");
    assert!(share > 1.5, "{share:.2} processors in use without a limit");

    call.interrupt().exits(5);
    assert_eq!(second.wait().unwrap().signal(), Some(sys::KILL), "what moved in goes with the cgroup");
}

/// However a run ends, its cgroup goes; the folder goes with the last one.
#[test]
fn no_cgroup_is_left() {
    let gone = |after: &str| assert!(!Cgroup::folder().exists(), "{after}: {:?}", Cgroup::all());
    gone("the tests before this one");
    Call::run("echo", r#"{"value":1}"#, &[]).exits(0);
    gone("a call that succeeded");
    Call::run("read_file", r#"{"path":"/etc/passwd"}"#, &[]);
    gone("a call that was refused");
    Call::run("spin", "{}", &["--timeout", "500ms"]).exits(6);
    gone("a call that took too long");
    let (call, _) = Call::spinning(&[]);
    call.interrupt().exits(5);
    gone("a call that was interrupted");

    // A supervisor that is killed leaves an empty one, which the next start removes.
    let (call, _) = Call::spinning(&[]);
    let left = call.cgroup();
    call.kill();
    assert_eq!(Cgroup::all(), [left.path().to_owned()]);
    Call::run("echo", r#"{"value":1}"#, &[]).exits(0);
    gone("a supervisor that was killed, and the next call");
}
