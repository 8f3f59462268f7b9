//! `cargo xtask demo`: the main job with real input. Every command and what it prints is shown.

mod echo;

use crate::{build, guests, process, setup};
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of programs that are built already
    #[arg(long, value_name = "FOLDER", requires = "unchecked")]
    programs: Option<PathBuf>,
    /// The folder of the same programs with the test-only guest
    #[arg(long, value_name = "FOLDER", requires = "programs")]
    unchecked: Option<PathBuf>,
}

/// A tool call that was refused by the policy or by the kernel.
const DENIED: i32 = 4;

/// One call of `act` and what has to come of it.
struct Step<'a> {
    title: &'a str,
    programs: &'a Path,
    tool: &'a str,
    arguments: String,
    grants: Vec<String>,
    exit: i32,
    /// Each has to be in the output.
    stdout: &'a [&'a str],
    /// Each has to be in the audit trail.
    stderr: &'a [&'a str],
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let (programs, unchecked) = match (&arguments.programs, &arguments.unchecked) {
        (Some(programs), Some(unchecked)) => (programs.clone(), unchecked.clone()),
        _ => (build::programs()?, build::unchecked()?),
    };
    let component = guests::build()?.join("files.wasm");
    let folder = tempfile::tempdir()?;
    let dir = folder.path().canonicalize()?;
    std::fs::write(dir.join("notes.txt"), "the text of an allowed file\n")?;
    std::fs::write(dir.join("secret.txt"), "the text of a secret file\n")?;
    let server = echo::Server::start()?;

    let dir = dir.to_str().context("the temporary folder's name is not UTF-8")?;
    let file = |name: &str| serde_json::json!({ "path": format!("{dir}/{name}") }).to_string();
    let connect = || serde_json::json!({ "address": server.address(), "send": "hello over TCP" }).to_string();
    let fs_grant = || vec!["--allow".to_owned(), format!("fs={dir}/notes.txt:ro")];
    let net_grant = || vec!["--allow".to_owned(), format!("sockets={}", server.address())];
    let net_deny = || [net_grant(), vec!["--deny".to_owned(), "sockets=127.0.0.0/8".to_owned()]].concat();

    let steps = [
        Step {
            title: "A file that was granted is read",
            programs: &programs,
            tool: "read_file",
            arguments: file("notes.txt"),
            grants: fs_grant(),
            exit: 0,
            stdout: &["the text of an allowed file"],
            stderr: &["audit:", "wasi:filesystem"],
        },
        Step {
            title: "The file beside it is not",
            programs: &programs,
            tool: "read_file",
            arguments: file("secret.txt"),
            grants: fs_grant(),
            exit: DENIED,
            stdout: &[],
            stderr: &["deny  wasi:filesystem  read", "secret.txt"],
        },
        Step {
            title: "A connection that was granted",
            programs: &programs,
            tool: "tcp",
            arguments: connect(),
            grants: net_grant(),
            exit: 0,
            stdout: &["hello over TCP"],
            stderr: &["audit:", "wasi:sockets"],
        },
        Step {
            title: "A deny rule beats the grant; the host check in the guest process refuses",
            programs: &programs,
            tool: "tcp",
            arguments: connect(),
            grants: net_deny(),
            exit: DENIED,
            stdout: &[],
            stderr: &["deny  wasi:sockets  connect", "127.0.0.0/8"],
        },
        Step {
            title: "The same with a TEST program whose host check is switched off: now the kernel refuses",
            programs: &unchecked,
            tool: "tcp",
            arguments: connect(),
            grants: net_deny(),
            exit: DENIED,
            stdout: &[],
            stderr: &["deny  wasi:sockets  connect", "kernel:"],
        },
    ];
    let accepted = [0, 0, 1, 1, 1];
    for ((number, step), accepted) in (1..).zip(&steps).zip(accepted) {
        step.run(number, &component).with_context(|| format!("step {number}: {}", step.title))?;
        // What the guest says is not enough: the server knows whether it was reached.
        ensure!(server.accepted() == accepted, "step {number}: the server saw {} connections", server.accepted());
    }
    println!("demo: ok");
    Ok(())
}

impl Step<'_> {
    fn run(&self, number: usize, component: &Path) -> Result<()> {
        let mut act = Command::new(self.programs.join("act"));
        act.arg("call").arg(component).arg(self.tool).args(["--args", &self.arguments]).args(&self.grants);
        println!("\n== {number}. {}\n$ {}", self.title, process::show(&act));
        let output = act.output().context("cannot start act")?;
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        print!("{stderr}{stdout}");
        println!("({})", output.status);
        ensure!(output.status.code() == Some(self.exit), "{}, expected exit code {}", output.status, self.exit);
        for (name, text, expected) in [("output", &stdout, self.stdout), ("audit trail", &stderr, self.stderr)] {
            for part in expected {
                ensure!(text.contains(part), "the {name} has no `{part}`");
            }
        }
        Ok(())
    }
}
