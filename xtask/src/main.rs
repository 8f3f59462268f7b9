//! The project's own commands. Run them as `cargo xtask COMMAND`.

mod bench;
mod build;
mod demo;
mod ebpf;
mod fuzz;
mod guests;
mod lint;
mod miri;
mod process;
mod project;
mod setup;
mod test;
mod vm;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Builds, tests and measures this project",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what building and testing needs (system packages only as root)
    Setup,
    /// Build the programs into one folder and print it
    Build(build::Arguments),
    /// Build the WebAssembly fixtures and print their folder
    Guests(guests::Arguments),
    /// Build the kernel programs' object, or check that the committed one is what the sources give
    Ebpf {
        /// Only check
        #[arg(long)]
        check: bool,
    },
    /// Run all tests; further arguments go to cargo nextest
    Test(test::Arguments),
    /// Look for inputs that break the policy engine's properties
    Fuzz(fuzz::Arguments),
    /// Run the policy engine's tests in Miri; installs a nightly compiler with it
    Miri(miri::Arguments),
    /// Boot other kernels in virtual machines and run what this one cannot show
    VmTest(vm::Arguments),
    /// Check formatting, clippy and licences
    Lint(lint::Arguments),
    /// Show the main job on real input, step by step
    Demo(demo::Arguments),
    /// Compare the time of `act call` with another program's
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Setup => setup::run(),
        Command::Build(arguments) => build::run(&arguments),
        Command::Guests(arguments) => guests::run(&arguments),
        Command::Ebpf { check } => ebpf::run(check),
        Command::Test(arguments) => test::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Miri(arguments) => miri::run(&arguments),
        Command::VmTest(arguments) => vm::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    }
}
