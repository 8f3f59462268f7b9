//! The program `act`.

use act_supervisor::cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
