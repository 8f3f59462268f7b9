//! `cargo xtask vm-test`: boots other kernels in QEMU and runs the tests of `vm-tests` in them.

mod debian;
mod initramfs;
mod kernel;
mod machine;
mod qemu;
mod replay;

use crate::{build, guests, process, project, setup};
use anyhow::{Context as _, Result, bail, ensure};
use kernel::Kernel;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Lines of Debian's kernels, such as 6.12
    #[arg(value_name = "KERNEL-LINE", default_value = "6.12", value_parser = kernel::parse_line)]
    lines: Vec<String>,
    /// A kernel (bzImage) to boot instead
    #[arg(long, value_name = "FILE", conflicts_with = "lines")]
    kernel: Option<PathBuf>,
    /// The folder of programs that are built already
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
}

/// What `vm-tests` was built into.
struct Built {
    init: PathBuf,
    worker: PathBuf,
    tests: PathBuf,
    /// How many tests the binary has.
    count: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "vm-test boots kernels for x86_64, and this machine is none");
    setup::packages::install()?;
    let qemu = qemu::install()?;
    let programs = match &arguments.programs {
        Some(folder) => folder.canonicalize().with_context(|| format!("--programs {}", folder.display()))?,
        None => build::programs()?,
    };
    let component = guests::build()?.join("files.wasm");
    let built = tests()?;
    let disk = machine::disk(&built, &programs, &component)?;

    let mut failed = Vec::new();
    for kernel in kernels(arguments) {
        let tried = kernel.and_then(|kernel| {
            let frames = machine::boot(&qemu, &kernel, &disk)?;
            replay::replay(frames, &kernel, built.count)
        });
        if let Err(error) = tried {
            eprintln!("error: {error:#}");
            failed.push(error);
        }
    }
    // Each was told above.
    if !failed.is_empty() {
        bail!("vm-test: {} of {} kernels failed", failed.len(), arguments.lines.len());
    }
    Ok(())
}

fn kernels(arguments: &Arguments) -> Vec<Result<Kernel>> {
    match &arguments.kernel {
        Some(file) => vec![Kernel::from_file(file)],
        None => arguments.lines.iter().map(|line| kernel::fetch(line)).collect(),
    }
}

/// Builds `vm-tests` in a target folder of its own, below the source tree's: no other build waits for it, and no other
/// copy of the sources, with older files, takes what this one built.
fn tests() -> Result<Built> {
    let mut cargo = process::cargo()?;
    cargo.args(["test", "--release", "--locked", "-p", "vm-tests", "--features", "vm", "--test", "limits", "--no-run"]);
    cargo.arg("--message-format=json").env("CARGO_TARGET_DIR", project::root()?.join("target/vm"));
    eprintln!("$ {}", process::show(&cargo));
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "`{}` failed: {}", process::show(&cargo), output.status);
    let messages = String::from_utf8_lossy(&output.stdout);
    let program = |name: &str| {
        let path_of = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let text = |place: &str| message.pointer(place)?.as_str();
            (text("/target/name") == Some(name)).then(|| text("/executable").map(PathBuf::from))?
        };
        messages.lines().find_map(path_of).with_context(|| format!("cargo built no program `{name}`"))
    };
    let tests = program("limits")?;
    let count = count(&tests)?;
    Ok(Built { init: program("vm-init")?, worker: program("vm-worker")?, tests, count })
}

/// How many tests a libtest binary would run.
fn count(tests: &Path) -> Result<usize> {
    let list = process::output(Command::new(tests).args(["--list", "--format", "terse"]))?;
    let count = list.lines().filter(|line| line.ends_with(": test")).count();
    ensure!(count > 0, "{} has no tests", tests.display());
    Ok(count)
}
