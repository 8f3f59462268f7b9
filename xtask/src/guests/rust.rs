//! Rust fixtures: cargo makes a core module, `wit-component` makes a component of it.

use crate::setup::wasm::{Compiler, TARGET};
use crate::{process, project};
use anyhow::{Context as _, Result};
use std::path::Path;
use wit_component::ComponentEncoder;

/// Builds the packages of the workspace at `source`, and returns each name with its component.
pub(super) fn build<'a>(source: &Path, names: &[&'a str], compiler: &Compiler) -> Result<Vec<(&'a str, Vec<u8>)>> {
    const FOLDER: &str = "wasm-target";
    let mut cargo = super::cargo(source, FOLDER)?;
    cargo.args(["build", "--release", "--locked", "--target", TARGET]);
    if let Compiler::FromSource { rustc, linker } = compiler {
        cargo.arg("-Zbuild-std=std,panic_abort");
        // `-Z` options are for nightly compilers; this variable lets a stable one take them.
        cargo.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
        cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
    for name in names {
        cargo.args(["-p", name]);
    }
    let built = project::cache()?.join(FOLDER).join(TARGET).join("release");
    // Another copy of the sources may have built here, and cargo would take its newer files for up to date.
    for entry in std::fs::read_dir(built.join(".fingerprint")).into_iter().flatten() {
        let path = entry?.path();
        let package = path.file_name().unwrap_or_default().to_string_lossy();
        if names.iter().any(|name| package.rsplit_once('-').is_some_and(|(package, _)| package == *name)) {
            std::fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    process::run(&mut cargo)?;
    let component = |name: &&'a str| {
        let module = built.join(format!("{name}.wasm"));
        let module = std::fs::read(&module).with_context(|| format!("read {}", module.display()))?;
        let encoder = ComponentEncoder::default().validate(true).module(&module);
        let bytes = encoder.and_then(|mut encoder| encoder.encode()).with_context(|| format!("encode `{name}`"))?;
        Ok((*name, bytes))
    };
    names.iter().map(component).collect()
}
