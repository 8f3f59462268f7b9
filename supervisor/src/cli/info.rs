//! `act info REF [-t] [-f text|json]`

use super::print_text;
use super::run_args::RunArgs;
use super::session_args::SessionArgs;
use crate::broker::files::opens_directly;
use crate::component::Component;
use crate::config::Effective;
use crate::exit::{Exit, Failure};
use crate::tools::{error_line, hint};
use act_policy::{Answer, Layer, Manifest, Rule, RuleId, escape};
use act_wire::Tool;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Component file
    #[arg(value_name = "REF")]
    component: String,
    /// List the tools too; this runs the component under the given policy
    #[arg(short, long)]
    tools: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let opening = args.session.parse()?;
    if !args.tools {
        if opening.is_wanted() {
            return Err(Failure::usage("--session-args: nothing runs without -t (add -t)"));
        }
        let operator = args.run.policy.read()?;
        let component = Component::load(&args.component, operator.home())?;
        let effective = operator.effective(&component)?;
        return show(args, &component, &effective, None);
    }
    let mut prepared = args.run.prepare(&args.component, false)?;
    let opening = opening.check(&prepared.component, &[])?;
    let tools = {
        let trail = prepared.trail(&args.run);
        let mut session = prepared.start(&args.run, trail)?;
        let opened = opening.open(&mut session, &[], args.run.timeout);
        let tools = opened.and_then(|()| Ok(session.list_tools(args.run.timeout)?));
        session.finish();
        tools?
    };
    let tools = tools.map_err(|e| Failure::failed(error_line(&e.kind, &e.message)))?;
    show(args, &prepared.component, &prepared.effective, Some(&tools))
}

fn show(args: &Args, component: &Component, effective: &Effective, tools: Option<&[Tool]>) -> Result<Exit, Failure> {
    let text = match args.format {
        Format::Text => text(&component.manifest, effective, tools),
        Format::Json => json(&component.manifest, effective, tools)?,
    };
    print_text(&text)?;
    Ok(Exit::Ok)
}

const HINTS: [(&str, &str, &str); 3] = [
    ("std:read-only", "read_only", "read-only"),
    ("std:destructive", "destructive", "destructive"),
    ("std:idempotent", "idempotent", "idempotent"),
];

fn json(manifest: &Manifest, effective: &Effective, tools: Option<&[Tool]>) -> Result<String, Failure> {
    let mut out = Map::new();
    out.insert("name".into(), json!(manifest.name));
    out.insert("version".into(), json!(manifest.version));
    if let Some(description) = &manifest.description {
        out.insert("description".into(), json!(description));
    }
    let mut capabilities = Map::new();
    for capability in &manifest.capabilities {
        let value = serde_json::from_str(&capability.json).unwrap_or(Value::Null);
        capabilities.insert(capability.class.as_str().to_owned(), value);
    }
    out.insert("capabilities".into(), Value::Object(capabilities));
    out.insert("policy".into(), effective_json(effective));
    if let Some(tools) = tools {
        let tools = tools.iter().map(|tool| {
            let mut entry = Map::new();
            entry.insert("name".into(), json!(tool.name));
            entry.insert("description".into(), json!(tool.description));
            let schema =
                serde_json::from_str(&tool.parameters_schema).unwrap_or_else(|_| json!(tool.parameters_schema));
            entry.insert("parameters_schema".into(), schema);
            for (key, name, _) in HINTS {
                if let Some(value) = hint(tool, key) {
                    entry.insert(name.into(), json!(value));
                }
            }
            Value::Object(entry)
        });
        out.insert("tools".into(), Value::Array(tools.collect()));
    }
    let mut text = serde_json::to_string_pretty(&Value::Object(out)).map_err(Failure::failed)?;
    text.push('\n');
    Ok(text)
}

fn text(manifest: &Manifest, effective: &Effective, tools: Option<&[Tool]>) -> String {
    let mut out = format!("{} v{}\n", escape(&manifest.name), escape(&manifest.version));
    if let Some(description) = &manifest.description {
        let _ = write!(out, "\n{}\n", escape(description));
    }
    let policy = effective.engine.policy();
    out.push_str("\nCapabilities:\n");
    if manifest.capabilities.is_empty() {
        out.push_str("  none\n");
    }
    for capability in &manifest.capabilities {
        let _ = writeln!(out, "  {}", escape(capability.class.as_str()));
        if let Some(description) = &capability.description {
            let _ = writeln!(out, "    {}", escape(description));
        }
        for rule in capability.constraints.iter().flatten() {
            let _ = writeln!(out, "    declares {}", rule_text(rule));
        }
        for (guest, host) in capability.mounts.views().into_iter().filter(|(guest, host)| guest != host) {
            let _ = writeln!(out, "    sees {} as {}", escape(host), escape(guest));
        }
        if let Some(class) = policy.class(&capability.class) {
            let _ = writeln!(out, "    granted: mode {} ({})", class.shown_mode(), class.source);
            rules_text(&mut out, effective, [("allow", &class.allow), ("deny", &class.deny)]);
            if let Some(managed) = &class.managed {
                let _ = writeln!(out, "    bounded: mode {} ({})", managed.mode, managed.source);
                rules_text(&mut out, effective, [("allow", &managed.allow), ("deny", &managed.deny)]);
            }
        }
    }
    permissions_text(&mut out, effective);
    credentials_text(&mut out, manifest);
    kernel_text(&mut out, effective);
    if let Some(tools) = tools {
        out.push_str("\nTools:\n");
        for tool in tools {
            let hints: String = HINTS
                .iter()
                .filter(|(key, _, _)| hint(tool, key) == Some(true))
                .map(|(_, _, word)| format!(" [{word}]"))
                .collect();
            let _ = write!(out, "\n{}{hints}\n  {}\n", escape(&tool.name), escape(&tool.description));
            parameters(&mut out, &tool.parameters_schema);
        }
    }
    out
}

/// Rules of a class, each with the layers that hold it.
fn rules_text(out: &mut String, effective: &Effective, lists: [(&str, &Vec<RuleId>); 2]) {
    for (word, ids) in lists {
        let rules = ids.iter().filter_map(|id| effective.engine.policy().rule(*id));
        // The folders of act itself are denied in every run; see the user guide.
        for rule in rules.filter(|rule| rule.source.layer != Layer::BuiltIn) {
            let held = held_by(effective, rule, word == "deny");
            let _ = writeln!(out, "      {word} {} ({}), held by {}", rule_text(rule), rule.source, held.join(", "));
        }
    }
}

fn held_by(effective: &Effective, rule: &Rule, narrows: bool) -> Vec<String> {
    effective.plan.holders(rule, narrows).iter().map(ToString::to_string).collect()
}

/// The permission rules that bind this component.
fn permissions_text(out: &mut String, effective: &Effective) {
    let policy = effective.engine.policy();
    if !policy.permissions.is_empty() {
        out.push_str("\nPermission rules:\n");
    }
    for permission in &policy.permissions {
        let Some(rule) = policy.rule(permission.rule) else { continue };
        let held = held_by(effective, rule, permission.answer != Answer::Allow);
        let (answer, text) = (permission.answer.as_str(), escape(&rule.text));
        let _ = writeln!(out, "  {answer} {text} ({}), held by {}", rule.source, held.join(", "));
    }
    if let Some((consent, source)) = &policy.consent {
        let _ = writeln!(out, "\nConsent: {consent} ({source})");
    }
}

/// The effective policy: per class what is granted and what bounds it, the permission rules, and who holds each rule.
fn effective_json(effective: &Effective) -> Value {
    let policy = effective.engine.policy();
    let one = |rule: &Rule, narrows: bool| {
        let source = &rule.source;
        let (layer, file, line) = (source.layer.to_string(), &source.file, source.line);
        let held = effective.plan.holders(rule, narrows);
        json!({ "rule": rule_text(rule), "layer": layer, "file": file, "line": line, "held_by": held })
    };
    let list = |ids: &[RuleId], narrows: bool| -> Value {
        ids.iter().filter_map(|id| policy.rule(*id)).map(|rule| one(rule, narrows)).collect()
    };
    let mut classes = Map::new();
    for class in &policy.classes {
        let mut entry = Map::new();
        entry.insert("mode".into(), json!(class.shown_mode().to_string()));
        entry.insert("source".into(), json!(class.source.to_string()));
        entry.insert("allow".into(), list(&class.allow, false));
        entry.insert("deny".into(), list(&class.deny, true));
        if let Some(managed) = &class.managed {
            let (allow, deny) = (list(&managed.allow, false), list(&managed.deny, true));
            let (mode, source) = (managed.mode.to_string(), managed.source.to_string());
            entry.insert("managed".into(), json!({ "mode": mode, "source": source, "allow": allow, "deny": deny }));
        }
        classes.insert(class.class.as_str().to_owned(), Value::Object(entry));
    }
    let permissions: Value = policy
        .permissions
        .iter()
        .filter_map(|permission| {
            let rule = one(policy.rule(permission.rule)?, permission.answer != Answer::Allow);
            Some(json!({ "list": permission.answer.as_str(), "rule": rule }))
        })
        .collect();
    let consent = policy.consent.as_ref().map(|(consent, _)| consent.to_string());
    json!({ "classes": classes, "permissions": permissions, "consent": consent })
}

/// A rule with its mode, where it has one, and the resolved path where that differs from what was written.
fn rule_text(rule: &act_policy::Rule) -> String {
    match &rule.matches {
        act_policy::Matches::File { path, write } => {
            let resolved = escape(&path.display());
            let mode = if *write { "rw" } else { "ro" };
            let written = rule.text.trim_end_matches(":ro").trim_end_matches(":rw").trim_end_matches("/**");
            if written == resolved {
                format!("{} {mode}", rule.text)
            } else {
                format!("{} {mode} (= {resolved})", rule.text)
            }
        }
        _ => rule.text.clone(),
    }
}

/// What the component may ask for, where the policy lets it.
fn credentials_text(out: &mut String, manifest: &Manifest) {
    if !manifest.credentials.is_empty() {
        out.push_str("\nCredentials:\n");
    }
    for credential in &manifest.credentials {
        let _ = writeln!(out, "  {}", escape(&credential.key));
        if let Some(description) = &credential.description {
            let _ = writeln!(out, "    {}", escape(description));
        }
        for field in &credential.fields {
            let label = if field.label.is_empty() { String::new() } else { format!("  {}", escape(&field.label)) };
            let optional = if field.required { "" } else { "?" };
            let _ = writeln!(out, "    field {}{optional}{label}", escape(&field.key));
        }
    }
}

/// Where files can be opened, and by whom: the child itself, or the broker after a decision of its own.
fn kernel_text(out: &mut String, effective: &Effective) {
    if !effective.plan.files.is_empty() {
        out.push_str("\nFiles are opened by:\n");
    }
    for subtree in &effective.plan.files {
        let path = if subtree.path.is_empty() { "/".into() } else { escape(&String::from_utf8_lossy(&subtree.path)) };
        let mode = if subtree.write { "rw" } else { "ro" };
        let layer = if opens_directly(subtree) { "landlock" } else { "broker" };
        let _ = writeln!(out, "  {layer} {path} {mode}");
    }
}

fn parameters(out: &mut String, schema: &str) {
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return };
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty()) else {
        return;
    };
    out.push_str("\n  Parameters:\n");
    let required = schema.get("required").and_then(Value::as_array);
    for (name, property) in properties {
        let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
        let optional = if required.is_some_and(|r| r.iter().any(|n| n == name)) { "" } else { "?" };
        let _ = write!(out, "    {}{optional}: {}", escape(name), escape(kind));
        if let Some(description) = property.get("description").and_then(Value::as_str) {
            let _ = write!(out, "  {}", escape(description));
        }
        out.push('\n');
    }
}
