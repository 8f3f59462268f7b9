//! The same question to the built program: `act permissions explain --json`, where `ACT_BIN_DIR` names the programs (as
//! `cargo xtask test` does). What it says is what the engine said.
//!
//! Some rows cannot be asked so: those with a managed file (root's), a workspace, or paths that depend on the current
//! directory, and those whose grant covers the folders of the program itself, which it refuses.

use super::Operator;
use act_policy::{Call, Explanation, Manifest, Policy};
use serde_json::Value;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;

/// What a policy was made of: the program is given the same.
#[derive(Clone, Default)]
struct Recipe {
    manifest: Option<String>,
    config: String,
    arguments: Vec<String>,
    askable: bool,
}

thread_local! {
    /// Manifests with their JSON, and policies with what they were made of; a test makes few.
    static MANIFESTS: RefCell<Vec<(Manifest, String)>> = const { RefCell::new(Vec::new()) };
    static RECIPES: RefCell<Vec<(Policy, Recipe)>> = const { RefCell::new(Vec::new()) };
}

/// Most manifests and policies that are remembered: a test asks about one that it has just made.
const MOST: usize = 64;

fn programs() -> Option<PathBuf> {
    std::env::var_os("ACT_BIN_DIR").map(PathBuf::from)
}

fn remember(policy: &Policy, recipe: Recipe) {
    RECIPES.with_borrow_mut(|all| push(all, (policy.clone(), recipe)));
}

fn push<T>(all: &mut Vec<T>, item: T) {
    if all.len() == MOST {
        all.remove(0);
    }
    all.push(item);
}

pub(super) fn manifest(manifest: &Manifest, json: &str) {
    if programs().is_some() {
        MANIFESTS.with_borrow_mut(|all| push(all, (manifest.clone(), json.to_owned())));
    }
}

fn absolute(token: &str) -> bool {
    match token.split_once('=') {
        Some(("fs" | "wasi:filesystem", path)) => path.starts_with(['/', '~']),
        _ => true,
    }
}

/// Remember what a component's policy was made of.
pub(super) fn component(policy: &Policy, manifest: &Manifest, operator: &Operator<'_>) {
    if programs().is_none() {
        return;
    }
    let json = MANIFESTS.with_borrow(|all| all.iter().find(|(m, _)| m == manifest).map(|(_, json)| json.clone()));
    let mut arguments: Vec<String> = Vec::new();
    let mut askable = json.is_some() && operator.managed.is_none() && operator.workspace.is_none();
    askable &= operator.client.is_none() && !operator.config.contains("./");
    for text in operator.grants {
        askable &= !text.contains("\"path\": \"") || text.contains("\"path\": \"/");
        arguments.extend(["--grant".into(), (*text).to_owned()]);
    }
    for text in operator.flags {
        let (sign, token) = text.split_at(1);
        askable &= absolute(token);
        arguments.extend([if sign == "+" { "--allow" } else { "--deny" }.into(), token.to_owned()]);
    }
    if let Some(name) = operator.profile {
        arguments.extend(["--profile".into(), name.to_owned()]);
    }
    let recipe = Recipe { manifest: json, config: operator.config.to_owned(), arguments, askable };
    remember(policy, recipe);
}

/// Remember what an agent's policy was made of.
pub(crate) fn agent(policy: &Policy, config: &str, client: Option<&str>) {
    if programs().is_none() {
        return;
    }
    let recipe = Recipe { config: config.to_owned(), askable: client.is_none(), ..Recipe::default() };
    remember(policy, recipe);
}

/// Ask the program, if it can be asked.
pub(crate) fn compare(policy: &Policy, call: &Call, explanation: &Explanation) {
    let Some(programs) = programs() else { return };
    let recipe = RECIPES.with_borrow(|all| all.iter().find(|(p, _)| p == policy).map(|(_, recipe)| recipe.clone()));
    let Some(recipe) = recipe.filter(|recipe| recipe.askable) else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), &recipe.config).unwrap();
    let mut act = Command::new(programs.join("act"));
    act.env_clear().env("HOME", "/home/a").current_dir(folder.path());
    act.args(["permissions", "explain", &call.text, "--json", "--config", "config.toml"]).args(&recipe.arguments);
    if let Some(json) = &recipe.manifest {
        std::fs::write(folder.path().join("t.wasm"), component_of(json)).unwrap();
        act.args(["--component", "t.wasm"]);
    }
    let output = act.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("which act itself relies on") {
        return;
    }
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{}: {e}: {error}", call.text));
    let ours = serde_json::to_value(explanation).unwrap();
    for key in ["verdict", "reason", "subject"] {
        assert_eq!(said[key], ours[key], "{key} of {} under {:?}\n{}", call.text, recipe.arguments, recipe.config);
    }
    // The program denies its own folders besides, so that a tree around them is no longer opened as a whole.
    if recipe.manifest.is_none() {
        assert_eq!(said["rule"]["text"], ours["rule"]["text"], "{}", call.text);
    }
}

/// The smallest component with a manifest: a head and one section.
fn component_of(json: &str) -> Vec<u8> {
    let (name, manifest) = (act_policy::SECTION.as_bytes(), super::cbor(json));
    let mut body = leb128(name.len());
    body.extend_from_slice(name);
    body.extend_from_slice(&manifest);
    let mut bytes = b"\0asm\x0d\0\x01\0\0".to_vec();
    bytes.extend(leb128(body.len()));
    bytes.extend(body);
    bytes
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}
