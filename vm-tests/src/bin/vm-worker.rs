//! A process that wants more than it may have: `vm-worker FOLDER|- memory MIB | fork N | spin | wait`.
//!
//! It moves itself into the cgroup `FOLDER` first; with `-` it stays where it is, so that a test can show what happens
//! without a limit.

use std::hint::black_box;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use vm_tests::sys;

/// Neither spinning nor waiting goes on for longer, even if nobody ends it.
const LIFETIME: Duration = Duration::from_mins(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vm-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let [folder, job @ ..] = words else { return Err("no cgroup".into()) };
    if *folder != "-" {
        let procs = format!("{folder}/cgroup.procs");
        std::fs::write(&procs, "0").map_err(|error| format!("{procs}: {error}"))?;
    }
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("`{text}` is not a number"));
    match job {
        ["memory", mib] => take_memory(number(mib)?),
        ["fork", times] => return fork(number(times)?),
        ["spin"] => spin(),
        ["wait"] => std::thread::sleep(LIFETIME),
        _ => return Err(format!("`{}` is no job", job.join(" "))),
    }
    Ok(())
}

/// Takes memory and touches each page of it.
fn take_memory(mib: usize) {
    let taken: Vec<Vec<u8>> = (0..mib).map(|_| vec![1; 1 << 20]).collect();
    println!("took {} MiB", black_box(taken).len());
}

/// Starts processes that wait, all at the same time.
fn fork(times: usize) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let start = || Command::new(&program).args(["-", "wait"]).stdout(Stdio::null()).spawn();
    let mut children: Vec<Child> = Vec::new();
    let mut refused = None;
    while children.len() < times && refused.is_none() {
        match start() {
            Ok(child) => children.push(child),
            Err(error) => refused = Some(error),
        }
    }
    let started = children.len();
    for mut child in children {
        // It may have ended by itself; what counts is that it was there.
        let _ = child.kill();
        let _ = child.wait();
    }
    match refused {
        None => println!("started {started}"),
        Some(error) if error.raw_os_error() == Some(sys::AGAIN) => println!("started {started}, then EAGAIN"),
        Some(error) => return Err(format!("started {started}, then {error}")),
    }
    Ok(())
}

fn spin() {
    let until = Instant::now() + LIFETIME;
    while Instant::now() < until {
        for n in 0..100_000 {
            black_box(n);
        }
    }
}
