//! The same question to the built program: `act permissions explain --json`, where `ACT_BIN_DIR` names the programs (as
//! `cargo xtask test` does). What it says is what the engine said, or it refuses a grant that covers what it relies on
//! itself.
//!
//! Rows with a managed file, a workspace or relative paths are asked in a root of their own, below mounts that no one else
//! sees: that takes root. Without it they are skipped, with one line; where `ACT_CI` is `1` that fails.

use super::Operator;
use act_policy::{Call, Engine, Explanation, Manifest, Policy};
use serde_json::Value;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

/// What a policy was made of: the program is given the same.
#[derive(Clone, Default)]
struct Recipe {
    manifest: Option<String>,
    config: String,
    arguments: Vec<String>,
    managed: Option<String>,
    workspace: Option<String>,
    /// Whether paths are relative to the folder that is current, `/work`.
    relative: bool,
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

/// Whether a path of a shorthand or a rule is relative to a folder.
fn relative(token: &str) -> bool {
    match token.split_once('=') {
        Some(("fs" | "wasi:filesystem", path)) => !path.starts_with(['/', '~']),
        _ => false,
    }
}

/// Remember what a component's policy was made of.
pub(super) fn component(policy: &Policy, manifest: &Manifest, operator: &Operator<'_>) {
    if programs().is_none() {
        return;
    }
    let json = MANIFESTS.with_borrow(|all| all.iter().find(|(m, _)| m == manifest).map(|(_, json)| json.clone()));
    let mut recipe = Recipe {
        manifest: Some(json.expect("a manifest that common::manifest made")),
        config: operator.config.to_owned(),
        managed: operator.managed.map(str::to_owned),
        workspace: operator.workspace.map(str::to_owned),
        ..Recipe::default()
    };
    for text in operator.grants {
        recipe.relative |= text.contains("\"path\": \"") && !text.contains("\"path\": \"/");
        recipe.arguments.extend(["--grant".into(), (*text).to_owned()]);
    }
    for text in operator.flags {
        let (sign, token) = text.split_at(1);
        recipe.relative |= relative(token);
        recipe.arguments.extend([if sign == "+" { "--allow" } else { "--deny" }.into(), token.to_owned()]);
    }
    if let Some(name) = operator.profile {
        recipe.arguments.extend(["--profile".into(), name.to_owned()]);
    }
    if let Some(client) = operator.client {
        recipe.arguments.extend(["--subject".into(), format!("agent:{client}")]);
    }
    RECIPES.with_borrow_mut(|all| push(all, (policy.clone(), recipe)));
}

/// Remember what an agent's policy was made of.
pub(crate) fn agent(policy: &Policy, config: &str, client: Option<&str>) {
    if programs().is_none() {
        return;
    }
    let subject = client.map(|client| ["--subject".into(), format!("agent:{client}")]);
    let arguments = subject.into_iter().flatten().collect();
    let recipe = Recipe { config: config.to_owned(), arguments, ..Recipe::default() };
    RECIPES.with_borrow_mut(|all| push(all, (policy.clone(), recipe)));
}

/// Ask the program.
pub(crate) fn compare(engine: &Engine, call: &Call, explanation: &Explanation) {
    let Some(programs) = programs() else { return };
    let policy = engine.policy();
    let recipe = RECIPES.with_borrow(|all| all.iter().find(|(p, _)| p == policy).map(|(_, recipe)| recipe.clone()));
    let recipe = recipe.expect("a policy that common made");
    let Some(output) = ask(&programs, &recipe, &["permissions", "explain", &call.text, "--json"]) else { return };
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let place = format!("{} under {:?}\n{}\n{error}", call.text, recipe.arguments, recipe.config);
    // A tree around all is one around the program's own folders.
    if recipe.manifest.is_some() && engine.subtrees().iter().any(|tree| tree.write && tree.path.is_empty()) {
        assert!(error.contains("which act itself relies on") && output.status.code() == Some(2), "{place}");
        return;
    }
    // The names of files are those of the table.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text =
        text.replace("/etc/act/managed.toml", "managed.toml").replace("/ws/.act/config.toml", ".act/config.toml");
    let said: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {place}"));
    let ours = serde_json::to_value(explanation).unwrap();
    for key in ["verdict", "reason", "subject"] {
        assert_eq!(said[key], ours[key], "{key} of {place}");
    }
    assert_eq!(said["rule"]["text"], ours["rule"]["text"], "{place}");
}

/// The program refuses arguments, or a configuration, and says why.
pub(crate) fn refuses(arguments: &[&str], config: &str, words: &str) {
    let Some(programs) = programs() else { return };
    let recipe = Recipe {
        manifest: Some(super::EMPTY.into()),
        config: config.to_owned(),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        ..Recipe::default()
    };
    let Some(output) = ask(&programs, &recipe, &["permissions", "explain", "read(/x)"]) else { return };
    said(&output, 2, words, &format!("{arguments:?}\n{config}"));
}

/// The program refuses a component with this manifest, and says why; or it takes it.
pub(crate) fn validates(json: &str, words: Option<&str>) {
    let Some(programs) = programs() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.wasm"), component_of(json)).unwrap();
    let mut act = Command::new(programs.join("act"));
    let output = act.env_clear().current_dir(folder.path()).args(["validate", "t.wasm"]).output().unwrap();
    match words {
        Some(words) => said(&output, 1, words, json),
        None => assert_eq!(output.status.code(), Some(0), "{json}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn said(output: &Output, code: i32, words: &str, place: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(code) && error.contains(words), "{place}\n{words}\n{error}");
}

/// Run the program with what a policy is made of.
fn ask(programs: &Path, recipe: &Recipe, arguments: &[&str]) -> Option<Output> {
    // No row grants this folder; one that did would be refused, for the configuration lies there.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let root = folder.path();
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let write = |path: &str, text: &[u8]| {
        std::fs::create_dir_all(inside(path).parent().unwrap()).unwrap();
        std::fs::write(inside(path), text).unwrap();
    };
    let below_root = recipe.managed.is_some() || recipe.workspace.is_some() || recipe.relative;
    let here = match (below_root, recipe.workspace.is_some()) {
        (false, _) => "",
        (true, true) => "/ws",
        (true, false) => "/work",
    };
    write(&format!("{here}/config.toml"), recipe.config.as_bytes());
    let mut all: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    all.extend(["--config".into(), "config.toml".into()]);
    all.extend(recipe.arguments.iter().cloned());
    if let Some(json) = &recipe.manifest {
        write(&format!("{here}/t.wasm"), &component_of(json));
        all.extend(["--component".into(), "t.wasm".into()]);
    }
    let mut act = if below_root {
        if !can_mount() {
            return None;
        }
        if let Some(text) = &recipe.managed {
            write("/etc/act/managed.toml", text.as_bytes());
        }
        if let Some(text) = &recipe.workspace {
            write("/ws/.act/config.toml", text.as_bytes());
        }
        let mut act = Command::new("unshare");
        act.args(["--mount", "--propagation", "private", "sh", "-c", IN_A_ROOT]).arg(root).arg(programs).arg(here);
        act
    } else {
        Command::new(programs.join("act"))
    };
    act.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/home/a");
    for kind in ["CONFIG", "CACHE", "STATE", "DATA"] {
        act.env(format!("XDG_{kind}_HOME"), format!("/own/{kind}"));
    }
    Some(act.current_dir(root).args(all).output().unwrap())
}

/// `$0`: the root, `$1`: the programs, `$2`: the current folder, then the arguments. What the programs need of the machine
/// is mounted there, in a mount namespace that ends with the program.
const IN_A_ROOT: &str = r#"
set -e
for folder in /bin /sbin /lib /lib64 /usr /proc; do
    if [ -L "$folder" ]; then cp -P "$folder" "$0$folder"
    elif [ -d "$folder" ]; then mkdir -p "$0$folder"; mount --rbind "$folder" "$0$folder"
    fi
done
mkdir -p "$0/programs"; mount --bind "$1" "$0/programs"
here="$2"; shift 2
exec chroot "$0" sh -c 'cd "$0" && exec /programs/act "$@"' "$here" "$@"
"#;

/// Whether mounts can be made; one line if not.
fn can_mount() -> bool {
    static TOLD: Once = Once::new();
    let can = Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|output| output.status.success());
    if !can {
        assert!(std::env::var_os("ACT_CI").is_none_or(|ci| ci != "1"), "no mount namespace can be made here");
        TOLD.call_once(|| println!("skipped: rows of managed files and workspaces: no mount namespace can be made"));
    }
    can
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
