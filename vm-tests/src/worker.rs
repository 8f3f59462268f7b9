//! Starting `vm-worker`.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use crate::cgroup::Cgroup;
use crate::place;
use std::process::{Child, Command, Output};

/// The command for a job, inside a cgroup or outside of any.
fn command(cgroup: Option<&Cgroup>, job: &[&str]) -> Command {
    let mut worker = Command::new(place::WORKER);
    match cgroup {
        Some(cgroup) => worker.arg(cgroup.path()),
        None => worker.arg("-"),
    };
    worker.args(job);
    worker
}

/// Run a worker to its end.
#[track_caller]
pub fn run(cgroup: Option<&Cgroup>, job: &[&str]) -> Output {
    command(cgroup, job).output().unwrap()
}

/// Start a worker. It ends with its cgroup.
#[track_caller]
pub fn start(cgroup: &Cgroup, job: &[&str]) -> Child {
    command(Some(cgroup), job).spawn().unwrap()
}
