//! `cargo xtask test`: all that has to pass before a change lands, but for `lint`.

use crate::{build, ebpf, guests, process, project, setup};
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::Stdio;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Arguments for `cargo nextest run`, for example a part of a test's name
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    nextest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let programs = build::programs()?;
    let unchecked = build::unchecked()?;
    let guests = guests::build()?;
    let object = object()?;
    if arguments.nextest.is_empty() {
        quiet_tests("doc tests", &["--doc"])?;
        quiet_tests("seeds of the fuzz targets", &["--manifest-path", "policy/fuzz/Cargo.toml", "--test", "seeds"])?;
    }
    // Last, so that its summary ends the output.
    let config = project::root()?.join("xtask/nextest.toml");
    let mut nextest = process::cargo()?;
    nextest.args(["nextest", "run", "--release", "--locked", "--config-file"]).arg(config);
    nextest.args(&arguments.nextest);
    nextest.env("ACT_BIN_DIR", programs).env("ACT_UNCHECKED_DIR", unchecked).env("ACT_GUESTS", guests);
    if let Some(object) = object {
        nextest.env("ACT_GUARD_OBJECT", object);
    }
    // Tests make variants of a fixture's manifest with `$ACT_XTASK guests pack`.
    nextest.env("ACT_XTASK", std::env::current_exe().context("the path of xtask")?);
    process::run(&mut nextest)
}

/// Checks the committed eBPF object. If this machine has another compiler than the one it was built with, its bytes
/// say nothing: then the object that was rebuilt from the sources is returned, to be tested in its place.
fn object() -> Result<Option<PathBuf>> {
    let in_ci = std::env::var_os("ACT_CI").is_some();
    if !in_ci && process::find(&["apt-get"]).is_none() {
        eprintln!("ebpf/guard.bpf.o: not checked, the compiler for it comes from Debian's packages");
        return Ok(None);
    }
    ebpf::run(true)?;
    let folder = project::root()?.join("ebpf");
    let (committed, rebuilt) = (folder.join("guard.bpf.o"), folder.join("target/guard.bpf.o"));
    let same = std::fs::read(&committed)? == std::fs::read(&rebuilt)?;
    Ok((!same).then_some(rebuilt))
}

/// Runs tests that nextest cannot, such as the examples in the documentation; their output is shown only if one fails.
fn quiet_tests(what: &str, arguments: &[&str]) -> Result<()> {
    let mut cargo = process::cargo()?;
    cargo.args(["test", "--release", "--locked"]).args(arguments).stderr(Stdio::inherit());
    eprintln!("$ {}", process::show(&cargo));
    let output = cargo.output().context("cannot start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{what} failed: {}\n{text}", output.status);
    }
    let passed = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    let passed: u32 = passed.filter_map(|line| line.split(' ').next()?.parse::<u32>().ok()).sum();
    eprintln!("{what}: {passed} ok");
    Ok(())
}
