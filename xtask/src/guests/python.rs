//! Python fixtures, by componentize-py. One is about 20 MB: it contains CPython.

use crate::process;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// Builds `source/NAME/app.py`; `tools` is the folder that setup made.
pub(super) fn build(source: &Path, name: &str, tools: &Path) -> Result<Vec<u8>> {
    let work = tempfile::tempdir()?;
    let file = work.path().join("out.wasm");
    // A copy, because the guest's Python leaves its cache beside what it imports.
    process::copy(&source.join(name).join("app.py"), &work.path().join("app.py"))?;
    let mut command = Command::new(tools.join("venv/bin/componentize-py"));
    command.arg("-d").arg(source.join("wit")).args(["-w", "component-world", "componentize", "app"]);
    command.arg("-p").arg(work.path()).arg("-p").arg(tools.join("guest")).arg("-o").arg(&file);
    process::run(command.current_dir(work.path()).stdout(std::io::stderr()))?;
    std::fs::read(&file).with_context(|| format!("read {}", file.display()))
}
