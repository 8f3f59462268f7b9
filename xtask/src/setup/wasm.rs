//! Finds a compiler for WebAssembly guests.
//!
//! Two kinds work: a toolchain that has the target installed (`rustup target add wasm32-unknown-unknown`), or
//! Debian's `rustc-web` with its library sources, for which cargo builds the standard library itself.

use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// A compiler that can build for [`TARGET`].
pub(crate) enum Compiler {
    /// The default `rustc` has the target.
    Installed,
    /// This `rustc` has the sources of the standard library beside it, and this program links.
    FromSource { rustc: PathBuf, linker: PathBuf },
}

/// The compiler to use, if there is one.
pub(crate) fn find() -> Option<Compiler> {
    let installed = process::output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    if installed.is_ok_and(|folder| Path::new(&folder).is_dir()) {
        return Some(Compiler::Installed);
    }
    let rustc = rustc().filter(|rustc| has_sources(rustc))?;
    Some(Compiler::FromSource { rustc, linker: linker()? })
}

impl Compiler {
    /// Names the versions: a part of the key of everything that it built.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        let version = |program: &Path, flag: &str| process::output(Command::new(program).arg(flag));
        match self {
            Self::Installed => version(Path::new("rustc"), "--version"),
            Self::FromSource { rustc, linker } => {
                Ok(format!("{} {}", version(rustc, "--version")?, version(linker, "--version")?))
            }
        }
    }
}

/// Debian's compiler; `ACT_WASM_RUSTC` names another one.
pub(crate) fn rustc() -> Option<PathBuf> {
    let path = std::env::var_os("ACT_WASM_RUSTC").map_or_else(|| PathBuf::from("/usr/bin/rustc"), PathBuf::from);
    path.is_file().then_some(path)
}

pub(crate) fn linker() -> Option<PathBuf> {
    process::find(&["wasm-ld-19", "wasm-ld", "rust-lld"])
}

pub(crate) fn has_sources(rustc: &Path) -> bool {
    process::output(Command::new(rustc).args(["--print", "sysroot"]))
        .is_ok_and(|root| Path::new(&root).join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file())
}
