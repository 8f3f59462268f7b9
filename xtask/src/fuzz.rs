//! `cargo xtask fuzz`: the policy engine's properties on whatever libFuzzer finds, see `policy/fuzz`.

use crate::{process, project};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Targets; without this, all
    #[arg(value_name = "TARGET", value_parser = names())]
    targets: Vec<String>,
    /// Time for each target
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only build
    #[arg(long)]
    build_only: bool,
}

/// A target with its longest input in bytes and its dictionaries.
struct Target {
    name: &'static str,
    longest: u32,
    dictionaries: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target { name: "grant", longest: 2048, dictionaries: &["json", "files", "net"] },
    Target { name: "shorthand", longest: 1024, dictionaries: &["files", "net"] },
    Target { name: "rules", longest: 2048, dictionaries: &["rules", "files", "net"] },
    Target { name: "config", longest: 4096, dictionaries: &["toml", "rules", "files", "net"] },
    Target { name: "manifest", longest: 4096, dictionaries: &["json", "files", "net"] },
    Target { name: "host", longest: 300, dictionaries: &["net"] },
    Target { name: "path", longest: 1024, dictionaries: &["files"] },
];

/// Coverage as libFuzzer reads it. All of it is stable: sanitizers need a nightly compiler, and the engine has no
/// unsafe code for them to watch.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg=fuzzing",
];
/// Most memory of a target, in MiB.
const MEMORY: u32 = 2048;
/// Longest time for one input, in seconds.
const LONGEST: u32 = 10;

fn names() -> clap::builder::PossibleValuesParser {
    TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().into()
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let programs = build()?;
    if arguments.build_only {
        println!("{}", programs.display());
        return Ok(());
    }
    let mut findings = Vec::new();
    println!("{:<12}{:>12}{:>10}{:>10}{:>10}", "target", "executions", "exec/s", "coverage", "findings");
    let chosen = |target: &&Target| arguments.targets.is_empty() || arguments.targets.iter().any(|n| n == target.name);
    for target in TARGETS.iter().filter(chosen) {
        let (report, inputs) = fuzz(target, &programs, arguments.seconds).with_context(|| target.name)?;
        let Report { executions, speed, coverage, message } = report;
        println!("{:<12}{executions:>12}{speed:>10}{coverage:>10}{:>10}", target.name, inputs.len());
        for input in inputs {
            println!("  {} {}", input.display(), message.as_deref().unwrap_or_default());
            findings.push(input);
        }
    }
    if !findings.is_empty() {
        bail!("{} findings; run a target's program with the input's path to see it again", findings.len());
    }
    Ok(())
}

/// Builds all targets and returns the folder of their programs.
fn build() -> Result<PathBuf> {
    let version = process::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    let target = project::fuzz_target(host)?;
    let mut cargo = process::cargo()?;
    cargo.args(["build", "--release", "--locked", "--bins", "--manifest-path", "policy/fuzz/Cargo.toml"]);
    // With a target, the flags are not for build scripts and macros.
    cargo.args(["--target", host]).env("RUSTFLAGS", FLAGS.join(" ")).env("CARGO_TARGET_DIR", &target);
    process::run(&mut cargo)?;
    Ok(target.join(host).join("release"))
}

/// What one run printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    executions: u64,
    speed: u64,
    coverage: u64,
    /// The panic, or libFuzzer's own word for what happened.
    message: Option<String>,
}

/// Runs one target; returns its report and the inputs that break something, copied to the cache folder.
fn fuzz(target: &Target, programs: &Path, seconds: u32) -> Result<(Report, Vec<PathBuf>)> {
    let sources = project::root()?.join("policy/fuzz");
    let folder = tempfile::tempdir()?;
    let (corpus, found) = (folder.path().join("corpus"), folder.path().join("found"));
    for folder in [&corpus, &found] {
        std::fs::create_dir(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let seeds = sources.join("corpus").join(target.name);
    encode(&seeds, &corpus)?;
    let words = folder.path().join("words");
    let mut dictionary = String::new();
    for name in target.dictionaries {
        let path = sources.join("dictionaries").join(format!("{name}.dict"));
        dictionary += &std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    }
    std::fs::write(&words, dictionary)?;
    let mut fuzzer = Command::new(programs.join(target.name));
    fuzzer.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={}", target.longest));
    fuzzer.arg(format!("-rss_limit_mb={MEMORY}")).arg(format!("-timeout={LONGEST}"));
    fuzzer.arg(format!("-dict={}", words.display())).arg(format!("-artifact_prefix={}/", found.display()));
    fuzzer.args(["-print_final_stats=1", "-report_slow_units=5"]).args([&corpus, &seeds]);
    fuzzer.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let output = fuzzer.output().with_context(|| format!("cannot start `{}`", process::show(&fuzzer)))?;
    let report = report(&String::from_utf8_lossy(&output.stderr));
    let mut inputs = Vec::new();
    for (name, content) in project::files(&found)? {
        let kept = project::cache()?.join("fuzz").join(target.name).join(name);
        std::fs::create_dir_all(kept.parent().context("no folder")?)?;
        std::fs::write(&kept, content).with_context(|| format!("write {}", kept.display()))?;
        inputs.push(kept);
    }
    ensure!(
        output.status.success() || !inputs.is_empty(),
        "it ended with {} and left no input: {}",
        output.status,
        report.message.as_deref().unwrap_or("no message")
    );
    Ok((report, inputs))
}

/// The seeds of a manifest are JSON text; the fuzzer gets them in CBOR, too.
fn encode(seeds: &Path, corpus: &Path) -> Result<()> {
    for (name, content) in project::files(seeds)? {
        if Path::new(&name).extension().is_some_and(|extension| extension == "json") {
            let value: serde_json::Value = serde_json::from_slice(&content).with_context(|| name.clone())?;
            let mut bytes = Vec::new();
            ciborium::into_writer(&value, &mut bytes).context("write CBOR")?;
            std::fs::write(corpus.join(name), bytes)?;
        }
    }
    Ok(())
}

fn report(log: &str) -> Report {
    let number = |text: &str| text.split_whitespace().next().and_then(|word| word.parse().ok());
    let mut report = Report::default();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(value) = line.strip_prefix("stat::number_of_executed_units:") {
            report.executions = number(value).unwrap_or_default();
        } else if let Some(value) = line.strip_prefix("stat::average_exec_per_sec:") {
            report.speed = number(value).unwrap_or_default();
        } else if line.contains("' panicked at ") || line.contains(") panicked at ") {
            // The message is on the line below the place.
            let place = line.split("panicked at ").nth(1).unwrap_or_default();
            report.message = Some(format!("{place} {}", lines.peek().unwrap_or(&"")));
        } else if let Some((_, what)) = line.split_once("ERROR: libFuzzer: ") {
            report.message.get_or_insert_with(|| what.to_owned());
        } else if let Some((_, value)) = line.split_once(" cov: ") {
            report.coverage = number(value).unwrap_or(report.coverage);
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::{Report, report};

    #[test]
    fn what_a_run_printed() {
        let quiet = "#2\tINITED cov: 10 ft: 12 corp: 1/1b exec/s: 0 rss: 30Mb\n#9\tDONE   cov: 57 ft: 80 corp: 2/3b\n\
            stat::number_of_executed_units: 900\nstat::average_exec_per_sec:     90\n";
        let expected = Report { executions: 900, speed: 90, coverage: 57, message: None };
        assert_eq!(report(quiet), expected);
        let broken = "#4\tNEW    cov: 20 ft: 22\n\nthread '<unnamed>' (7) panicked at src/path.rs:9:5:\na deny widens\nnote: x\n\
            ==7== ERROR: libFuzzer: deadly signal\nstat::number_of_executed_units: 5\n";
        let message = Some("src/path.rs:9:5: a deny widens".to_owned());
        assert_eq!(report(broken), Report { executions: 5, speed: 0, coverage: 20, message });
        let slow = "==7== ERROR: libFuzzer: timeout after 10 seconds\n";
        assert_eq!(report(slow).message.as_deref(), Some("timeout after 10 seconds"));
        assert_eq!(report(""), Report::default());
    }
}
