//! `act-compile`: one component in on standard input, its `.cwasm` out on standard output, locked down in between.
//!
//! **Purpose.** A compiler that reads hostile input is attacked like a parser; so it runs in its own process, and no byte
//! is read before the process has neither files, sockets nor new threads: Landlock without a grant, seccomp with the
//! compile worker's profile, resource limits. Errors are one line on standard error and exit code 1.
//!
//! **Limits.** [`INPUT`] bytes of component; [`DATA`] bytes of data memory; [`CPU_SECONDS`] of processor time. The
//! supervisor keeps its own deadline.
//!
//! **Threat model.** The component makes the compiler do what it likes. What comes out is then hostile code; it is run
//! only inside `act-guest`'s lock-down, exactly as if the component had broken out of wasmtime there.
//!
//! **Tested** by the built program.

mod lock;

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

/// Most bytes of a component.
const INPUT: u64 = 256 << 20;
/// Most bytes of data memory (`RLIMIT_DATA`): 20 MB of component need about 1 GB.
const DATA: u64 = 4 << 30;
/// Most seconds of processor time (`RLIMIT_CPU`).
const CPU_SECONDS: u64 = 600;

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
enum CompileError {
    #[error("lock-down: {0}")]
    Lockdown(#[from] lock::LockError),
    #[error("read the component: {0}")]
    Read(#[source] std::io::Error),
    #[error("a component of more than {INPUT} bytes")]
    TooLarge,
    #[error("{0}")]
    Engine(String),
    #[error("write the compiled component: {0}")]
    Write(#[source] std::io::Error),
}

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|_| {
        _ = writeln!(std::io::stderr(), "the compiler panicked");
        std::process::exit(70)
    }));
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            _ = writeln!(std::io::stderr(), "{}", error.to_string().replace(['\n', '\r'], " "));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), CompileError> {
    let engine = act_engine::engine().map_err(|e| CompileError::Engine(format!("{e:#}")))?;
    lock::down()?;
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(INPUT + 1).read_to_end(&mut bytes).map_err(CompileError::Read)?;
    if read as u64 > INPUT {
        return Err(CompileError::TooLarge);
    }
    let compiled = engine.precompile_component(&bytes).map_err(|e| CompileError::Engine(format!("{e:#}")))?;
    let mut output = std::io::stdout().lock();
    output.write_all(&compiled).and_then(|()| output.flush()).map_err(CompileError::Write)
}
