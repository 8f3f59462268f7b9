//! `cargo xtask guests`: the WebAssembly fixtures, built from `tests/guests` and cached.

mod python;
mod rust;

use crate::setup::{self, wasm};
use crate::{process, project};
use anyhow::{Context as _, Result};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use xtask::pack::{self, Existing};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Write the manifest section of a component
    Pack {
        /// The component
        input: PathBuf,
        /// The manifest: `.json` is encoded as it is, `.toml` is read as an act.toml, any other file is the section's bytes
        manifest: PathBuf,
        /// The new component
        output: PathBuf,
        /// Leave a manifest that is there already, so that there are two
        #[arg(long)]
        keep: bool,
    },
}

/// Every fixture: `NAME.wasm` is built from the folder `NAME` with its `act.toml`.
const RUST: &[&str] = &["bench", "fetch", "files", "files3", "vault"];
const PYTHON: &[&str] = &["py"];

/// Changes of these change what is built.
const RECIPE: &[&str] = &[
    include_str!("guests.rs"),
    include_str!("guests/rust.rs"),
    include_str!("guests/python.rs"),
    include_str!("pack.rs"),
    include_str!("../Cargo.toml"),
];

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        None => {
            setup::packages::install()?;
            println!("{}", build()?.display());
            Ok(())
        }
        Some(Command::Pack { input, manifest, output, keep }) => {
            let existing = if *keep { Existing::Keep } else { Existing::Replace };
            let section = section(manifest)?;
            let packed = pack::pack(&read(input)?, &section, existing).with_context(|| input.display().to_string())?;
            std::fs::write(output, packed).with_context(|| format!("write {}", output.display()))
        }
    }
}

/// Builds all fixtures unless they are in the cache, and returns their folder.
pub(crate) fn build() -> Result<PathBuf> {
    let source = project::root()?.join("tests/guests");
    let compiler = wasm::find().context("no compiler for WebAssembly: run `cargo xtask setup`")?;
    let folder = project::cache()?.join(format!("guests-{}", key(&source, &compiler)?));
    if !folder.is_dir() {
        let python = setup::python::install()?;
        let new = tempfile::tempdir_in(project::cache()?)?;
        for (name, component) in rust::build(&source, RUST, &compiler)? {
            write(&source, name, &component, new.path())?;
        }
        for name in PYTHON {
            write(&source, name, &python::build(&source, name, &python)?, new.path())?;
        }
        // Another run may have been faster; what it built is the same.
        if std::fs::rename(new.path(), &folder).is_err() && !folder.is_dir() {
            anyhow::bail!("cannot move the fixtures to {}", folder.display());
        }
    }
    project::remove_old("guests-", &folder)?;
    Ok(folder)
}

/// Depends on every source file, on the tools, and on how xtask uses them.
fn key(source: &Path, compiler: &wasm::Compiler) -> Result<String> {
    let files = project::files(source)?;
    let tools = [compiler.version()?, setup::python::version()];
    let mut parts: Vec<&[u8]> = files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes.as_slice()]).collect();
    parts.extend(RECIPE.iter().map(|text| text.as_bytes()));
    parts.extend(tools.iter().map(String::as_bytes));
    Ok(project::key(&parts))
}

fn write(source: &Path, name: &str, component: &[u8], folder: &Path) -> Result<()> {
    let section = section(&source.join(name).join("act.toml"))?;
    let file = folder.join(format!("{name}.wasm"));
    let packed = pack::pack(component, &section, Existing::Replace).with_context(|| name.to_owned())?;
    std::fs::write(&file, packed).with_context(|| format!("write {}", file.display()))
}

/// The bytes of the section that a manifest file stands for.
fn section(manifest: &Path) -> Result<Vec<u8>> {
    let bytes = read(manifest)?;
    let kind = manifest.extension().unwrap_or_default();
    let named = || manifest.display().to_string();
    if kind == "json" {
        pack::encode(&serde_json::from_slice(&bytes).with_context(named)?)
    } else if kind == "toml" {
        let text = std::str::from_utf8(&bytes).with_context(named)?;
        pack::encode(&pack::from_toml(text).with_context(named)?)
    } else {
        Ok(bytes)
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("read {}", file.display()))
}

/// A cargo for a workspace other than the project's.
fn cargo(workspace: &Path, target: &str) -> Result<std::process::Command> {
    let mut cargo = process::cargo()?;
    cargo.current_dir(workspace).env("CARGO_TARGET_DIR", project::cache()?.join(target));
    Ok(cargo)
}
