//! `act permissions explain CALL` and `act permissions test FILE`

use super::print_text;
use crate::component::Component;
use crate::config::{Effective, Operator, PolicyArgs, resolve};
use crate::exit::{Exit, Failure};
use act_policy::{Call, Case, Explanation, MAX_CONFIG, Subject, escape};
use clap::Subcommand;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell whether a call is allowed, by which rule, and what else was considered
    Explain(ExplainArgs),
    /// Run the cases of a TOML file against the policy
    Test(TestArgs),
}

#[derive(clap::Args, Debug)]
struct ExplainArgs {
    /// One call, never a pattern: `read(./notes.txt)`, `net(domain: docs.rs:443)`, `tool(sqlite.query)`. With --component
    /// also one operation: stat(PATH), list(PATH), connect(ADDRESS:PORT/tcp [name=NAME]), bind(ADDRESS:PORT/tcp),
    /// listen(ADDRESS:PORT), lookup(CLASS NAME), http(METHOD SCHEME://HOST[:PORT] [address=ADDRESS]),
    /// consent(CLASS KEY [NAME=VALUE])
    #[arg(value_name = "CALL")]
    call: String,
    /// Who does it: `agent`, `agent:<client>` or `ext:<component>`
    #[arg(long, value_name = "SUBJECT", value_parser = subject)]
    subject: Option<Subject>,
    /// A component that does it: its ceiling and grant are judged too
    #[arg(long, value_name = "REF")]
    component: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Policy")]
    policy: PolicyArgs,
}

#[derive(clap::Args, Debug)]
struct TestArgs {
    /// File with `[[case]]` tables: request, expect, and optionally subject, component, reason, rule
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten, next_help_heading = "Policy")]
    policy: PolicyArgs,
}

fn subject(text: &str) -> Result<Subject, String> {
    Subject::parse(text)
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Explain(args) => explain(args),
        Command::Test(args) => test(args),
    }
}

fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let operator = args.policy.read()?;
    let call = parse(&operator, &args.call)?;
    needs_component(&call, args.component.as_deref())?;
    let (effective, component) = policy(&operator, args.subject.as_ref(), args.component.as_deref())?;
    let explanation = Explanation::new(&call, &effective.engine, component.then_some(&effective.plan));
    let text = if args.json {
        let mut text = serde_json::to_string_pretty(&explanation).map_err(Failure::failed)?;
        text.push('\n');
        text
    } else {
        let mut text = explanation.text();
        for warning in &effective.warnings {
            let _ = writeln!(text, "  ⚠ {}", escape(&warning.0));
        }
        text
    };
    print_text(&text)?;
    Ok(Exit::Ok)
}

/// Parse a call; links on its path are resolved, as they are when the operation is judged.
fn parse(operator: &Operator, text: &str) -> Result<Call, Failure> {
    let mut call = Call::parse(text, &operator.anchors()).map_err(Failure::usage)?;
    if let Some(path) = call.path()
        && path != b"/"
    {
        *path = resolve(path);
        if path.is_empty() {
            path.push(b'/');
        }
    }
    Ok(call)
}

/// An operation is a component's.
fn needs_component(call: &Call, component: Option<&str>) -> Result<(), Failure> {
    if call.operation && component.is_none() {
        let call = escape(&call.text);
        return Err(Failure::usage(format!("{call}: an operation of a component: name its file with --component")));
    }
    Ok(())
}

/// The policy that a subject is under, and whether it is a component's.
fn policy(
    operator: &Operator,
    subject: Option<&Subject>,
    component: Option<&str>,
) -> Result<(Effective, bool), Failure> {
    let client = match subject {
        Some(Subject::Client(name)) => Some(name.as_str()),
        _ => None,
    };
    if let Some(reference) = component {
        let component = Component::load(reference, operator.home())?;
        if let Some(Subject::Component(name)) = subject
            && *name != component.manifest.name
        {
            let (asked, is) = (escape(name), escape(&component.manifest.name));
            return Err(Failure::usage(format!("--subject ext:{asked}: the component {reference} is called {is}")));
        }
        return Ok((operator.effective_for(&component, client)?, true));
    }
    if let Some(Subject::Component(name)) = subject {
        let name = escape(name);
        return Err(Failure::usage(format!(
            "--subject ext:{name}: a component's ceiling decides too: name its file with --component"
        )));
    }
    Ok((operator.agent(client)?, false))
}

/// A subject, and the component that acts.
type Who<'a> = (Option<&'a Subject>, Option<&'a str>);

fn test(args: &TestArgs) -> Result<Exit, Failure> {
    let shown = escape(&args.file.display().to_string());
    let mut text = String::new();
    std::fs::File::open(&args.file)
        .and_then(|file| file.take(MAX_CONFIG as u64).read_to_string(&mut text))
        .map_err(|e| Failure::usage(format!("{shown}: {e}")))?;
    let cases = Case::parse(&text, &shown).map_err(Failure::usage)?;
    let operator = args.policy.read()?;
    // Each subject's policy is compiled once.
    let mut policies: HashMap<Who<'_>, (Effective, bool)> = HashMap::new();
    let (mut out, mut failed) = (String::new(), 0);
    for case in &cases {
        let located = |e: Failure| Failure::usage(format!("{shown}:{}: {e}", case.line));
        let call = parse(&operator, &case.request).map_err(located)?;
        needs_component(&call, case.component.as_deref()).map_err(located)?;
        let key = (case.subject.as_ref(), case.component.as_deref());
        let (effective, component) = match policies.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(policy(&operator, key.0, key.1).map_err(located)?)
            }
        };
        let explanation = Explanation::new(&call, &effective.engine, component.then_some(&effective.plan));
        let name = format!("{} for {}", escape(&case.request), explanation.subject);
        match case.miss(&explanation) {
            None => _ = writeln!(out, "ok    {name}"),
            Some(miss) => {
                failed += 1;
                let _ = writeln!(out, "FAIL  {name}\n      {shown}:{}: {miss}", case.line);
            }
        }
    }
    let _ = writeln!(out, "{} passed, {failed} failed", cases.len() - failed);
    print_text(&out)?;
    Ok(if failed == 0 { Exit::Ok } else { Exit::Failed })
}
