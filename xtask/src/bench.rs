//! `cargo xtask bench`: how long does one `act call` take, beside another program's? `cargo xtask bench policy`: how long
//! does a decision? `cargo xtask bench broker`: how long does an open by the broker? `cargo xtask bench http` and
//! `files`: what do layer 1's checks cost beside plain wasmtime-wasi?
//!
//! The two run in turns (ABAB…), so that what else the machine does hits both alike. Medians are compared.

mod stats;

use crate::{build, guests, process, project, setup};
use anyhow::{Context as _, Result, ensure};
use stats::Summary;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; `policy` takes nine minutes
    #[arg(default_value = "calls", value_enum)]
    what: What,
    /// The other program; without this, act-cli 0.14.6 is fetched from the Python package index
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// Our program; without this, it is built
    #[arg(long, value_name = "PATH")]
    act: Option<PathBuf>,
    /// Number of pairs
    #[arg(short = 'n', long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Whole calls, beside another program
    Calls,
    /// The policy engine, beside cedar-policy; see policy/bench
    Policy,
    /// A file opened by the broker, beside the same in place
    Broker,
    /// Requests over kept connections, beside a client that judges nothing
    Http,
    /// Operations on files, beside plain wasmtime-wasi
    Files,
}

const PEER: &str = "act-cli==0.14.6";
const WARM_UP: u32 = 3;

/// The measured calls: fixture, tool, arguments.
const CASES: &[(&str, &str, &str)] = &[
    ("files.wasm", "echo", r#"{"value": {"text": "hello"}}"#),
    ("files.wasm", "read_file", r#"{"path": "DIR/input.txt"}"#),
    ("files3.wasm", "read_file", r#"{"path": "DIR/input.txt"}"#),
    ("py.wasm", "read_file", r#"{"path": "DIR/input.txt"}"#),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::packages::install()?;
    let bench: &[&str] = match arguments.what {
        What::Calls => &[],
        What::Policy => &["run", "--release", "--locked", "--manifest-path", "policy/bench/Cargo.toml"],
        What::Broker => &["bench", "--locked", "-p", "act-supervisor", "--bench", "broker"],
        What::Http => return in_the_host("bench-http"),
        What::Files => return in_the_host("bench-files"),
    };
    if !bench.is_empty() {
        return process::run(process::cargo()?.args(bench));
    }
    let ours = match &arguments.act {
        Some(path) => path.clone(),
        None => build::programs()?.join("act"),
    };
    let peer = match &arguments.peer {
        Some(path) => path.clone(),
        None => fetch_peer()?,
    };
    let guests = guests::build()?;
    let folder = tempfile::tempdir()?;
    let dir = folder.path().canonicalize()?;
    let dir = dir.to_str().context("the temporary folder's name is not UTF-8")?;
    std::fs::write(folder.path().join("input.txt"), "input\n")?;

    println!("{:<24}{:>10}{:>10}{:>10}{:>10}{:>8}", "call", "act", "p95", "peer", "p95", "ratio");
    let mut phases = BTreeMap::new();
    for (fixture, tool, json) in CASES {
        let component = guests.join(fixture);
        let grant = format!("fs={dir}/**:ro");
        let call = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("call").arg(&component).args([tool, "--args", &json.replace("DIR", dir), "--allow", &grant]);
            command
        };
        let name = format!("{} {tool}", fixture.trim_end_matches(".wasm"));
        let (a, b) = pairs(arguments.pairs, || call(&ours), || call(&peer)).with_context(|| name.clone())?;
        let ratio = a.median.as_secs_f64() / b.median.as_secs_f64();
        let ms = |time: Duration| format!("{:.1}ms", time.as_secs_f64() * 1000.0);
        println!("{name:<24}{:>10}{:>10}{:>10}{:>10}{ratio:>8.2}", ms(a.median), ms(a.p95), ms(b.median), ms(b.p95));
        phases.insert(name, timing(call(&ours))?);
    }
    println!("{} pairs a line, after {WARM_UP} calls to warm up; ratio below 1: act is faster", arguments.pairs);
    for (name, lines) in phases.iter().filter(|(_, lines)| !lines.is_empty()) {
        println!("\nphases of one `{name}`:");
        for line in lines {
            println!("  {line}");
        }
    }
    Ok(())
}

/// A bench of `act-host`, which runs a fixture in its own process.
fn in_the_host(bench: &str) -> Result<()> {
    let (programs, guests) = (build::programs()?, guests::build()?);
    let mut cargo = process::cargo()?;
    cargo.args(["run", "--release", "--locked", "-p", "act-host", "--example", bench, "--"]);
    process::run(cargo.arg(programs.join("act-compile")).arg(guests.join("bench.wasm")))
}

/// Runs both in turns and sums up each.
fn pairs(count: u32, a: impl Fn() -> Command, b: impl Fn() -> Command) -> Result<(Summary, Summary)> {
    for _ in 0..WARM_UP {
        time(a())?;
        time(b())?;
    }
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..count {
        times.0.push(time(a())?);
        times.1.push(time(b())?);
    }
    Ok((Summary::of(times.0).context("no times")?, Summary::of(times.1).context("no times")?))
}

/// From start to exit, with the output collected as a caller would.
fn time(mut command: Command) -> Result<Duration> {
    let start = Instant::now();
    let output = command.output().with_context(|| format!("cannot start `{}`", process::show(&command)))?;
    let took = start.elapsed();
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}`: {}\n{stderr}", process::show(&command), output.status);
    Ok(took)
}

/// What `ACT_TIMING=1` makes a program print about its phases; nothing if it does not know this.
fn timing(mut command: Command) -> Result<Vec<String>> {
    let output = command.env("ACT_TIMING", "1").output().context("cannot start act")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    Ok(stderr.lines().filter_map(|line| line.strip_prefix("timing: ")).map(str::to_owned).collect())
}

fn fetch_peer() -> Result<PathBuf> {
    let venv = project::cache()?.join(format!("peer-{}", project::key(&[PEER.as_bytes()])));
    let program = venv.join("bin/act");
    if !program.is_file() {
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        process::run(Command::new(venv.join("bin/pip")).args(["install", "-q", PEER]))?;
    }
    Ok(program)
}
