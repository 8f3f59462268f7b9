//! `act doctor`: every layer, tried here and now.

use super::print;
use crate::exit::{Exit, Failure};
use crate::sandbox::probe::{self, Finding};
use act_policy::escape;
use std::fmt::Write as _;

#[derive(clap::Args, Debug)]
pub(super) struct Args {}

pub(super) fn run(_: &Args) -> Result<Exit, Failure> {
    let findings = probe::all();
    let mut out = String::new();
    for Finding { layer, result, needed } in &findings {
        match result {
            Ok(detail) => {
                let _ = writeln!(out, "✓ {layer:<9} {}", escape(detail));
            }
            Err(missing) => {
                let mark = if *needed { "✗" } else { "–" };
                let _ = writeln!(out, "{mark} {layer:<9} {}", escape(&missing.reason));
                let _ = writeln!(out, "            fix: {}", escape(&missing.fix));
            }
        }
    }
    let complete = findings.iter().all(|f| f.result.is_ok() || !f.needed);
    out.push_str(if complete {
        "\n--hardened works here.\n"
    } else {
        "\n--hardened does not work here (exit code 3): a layer marked ✗ is missing.\n"
    });
    print(out.as_bytes())?;
    Ok(if complete { Exit::Ok } else { Exit::Isolation })
}
