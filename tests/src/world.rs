//! The place where one test happens.

use crate::run::{Run, Running};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use xtask::pack::{self, Existing};

/// The fixtures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Rust over WASI 0.2.
    Files,
    /// Rust over WASI 0.3.
    Files3,
    /// Python over WASI 0.2.
    Py,
    /// Rust over WASI 0.2, for HTTP.
    Fetch,
    /// Rust with sessions, consent and credentials.
    Vault,
}

impl Guest {
    /// Its file.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Files => "files.wasm",
            Self::Files3 => "files3.wasm",
            Self::Py => "py.wasm",
            Self::Fetch => "fetch.wasm",
            Self::Vault => "vault.wasm",
        }
    }
}

/// A folder of a test's own, with a home for `act` in it; removed in the end.
#[derive(Debug)]
pub struct World {
    _folder: TempDir,
    /// The folder for fixtures, links resolved.
    pub dir: PathBuf,
    /// `HOME` of the programs.
    pub home: PathBuf,
    programs: PathBuf,
    guests: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        // A supervisor without capabilities may leave the empty folder of cgroups; one that is in use stays.
        if let Some(folder) = crate::process::cgroup_folder() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// `None` where a test cannot run here, after saying why; a failure where `ACT_CI` is `1`.
#[track_caller]
pub fn require<T>(found: Result<T, String>) -> Option<T> {
    match found {
        Ok(value) => Some(value),
        Err(reason) => {
            assert!(std::env::var_os("ACT_CI").is_none_or(|v| v != "1"), "cannot be skipped where ACT_CI=1: {reason}");
            println!("skipped: {reason}");
            eprintln!("skipped: {reason}");
            None
        }
    }
}

/// Whether this process is root; the kernel programs and the cgroups need it.
pub fn root() -> Result<(), String> {
    rustix::process::geteuid().is_root().then_some(()).ok_or_else(|| "not root".into())
}

/// Names a row of a table in the output, so that a failure tells which it was.
pub fn case(name: &str) {
    eprintln!("case: {name}");
}

fn folder(variable: &str) -> Result<PathBuf, String> {
    let set = std::env::var_os(variable).map(PathBuf::from).filter(|p| p.is_dir());
    set.and_then(|p| p.canonicalize().ok()).ok_or_else(|| format!("{variable} names no folder: use cargo xtask test"))
}

impl World {
    /// With the programs that people get.
    #[track_caller]
    pub fn new() -> Option<Self> {
        Self::with(require(folder("ACT_BIN_DIR"))?)
    }

    /// With a guest whose own check lets everything pass.
    #[track_caller]
    pub fn unchecked() -> Option<Self> {
        Self::with(require(folder("ACT_UNCHECKED_DIR"))?)
    }

    #[track_caller]
    fn with(programs: PathBuf) -> Option<Self> {
        let guests = require(folder("ACT_GUESTS"))?;
        let folder = tempfile::Builder::new().prefix("act-test-").tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let (dir, home) = (top.join("world"), top.join("home"));
        fs::create_dir(&dir).unwrap();
        fs::create_dir(&home).unwrap();
        Some(Self { _folder: folder, dir, home, programs, guests })
    }

    /// Put programs of the test's own in place: copies of `act` and `act-compile`, with `guest` as `act-guest`.
    pub fn replace_guest(&mut self, guest: &Path) {
        let folder = self.dir.parent().unwrap().join("programs");
        fs::create_dir(&folder).unwrap();
        for name in ["act", "act-compile"] {
            fs::copy(self.programs.join(name), folder.join(name)).unwrap();
        }
        fs::copy(guest, folder.join("act-guest")).unwrap();
        self.programs = folder;
    }

    /// The folder of the programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// `text` with `{D}` replaced by the folder for fixtures and `{H}` by the home.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{D}", self.dir.to_str().unwrap()).replace("{H}", self.home.to_str().unwrap())
    }

    /// The path of a fixture.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Write a file, and the folders above it.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Content of a file.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap()
    }

    /// A component as it was built.
    pub fn guest(&self, guest: Guest) -> PathBuf {
        self.guests.join(guest.file())
    }

    /// A component with a manifest that declares these constraints; see [`World::manifest`].
    pub fn pack(&self, guest: Guest, files: &[(&str, &str)], sockets: &Value) -> PathBuf {
        self.pack_manifest(guest, &self.manifest(files, sockets))
    }

    /// A component with a manifest.
    pub fn pack_manifest(&self, guest: Guest, manifest: &Value) -> PathBuf {
        let component = fs::read(self.guest(guest)).unwrap();
        let section = pack::encode(manifest).unwrap();
        let packed = pack::pack(&component, &section, Existing::Replace).unwrap();
        self.write_component(guest.file(), &packed)
    }

    /// Write a component of any bytes beside the world.
    pub fn write_component(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.dir.parent().unwrap().join(name);
        fs::write(&file, bytes).unwrap();
        file
    }

    /// A manifest that declares paths with their modes, and constraints of sockets (none if the list is empty).
    pub fn manifest(&self, files: &[(&str, &str)], sockets: &Value) -> Value {
        let files: Vec<Value> =
            files.iter().map(|(path, mode)| json!({ "path": self.fill(path), "mode": mode })).collect();
        let mut capabilities = serde_json::Map::new();
        if !files.is_empty() {
            capabilities.insert("wasi:filesystem".into(), json!({ "constraints": files }));
        }
        if sockets.as_array().is_some_and(|s| !s.is_empty()) {
            capabilities.insert("wasi:sockets".into(), json!({ "constraints": sockets }));
        }
        json!({ "std": { "name": "t", "version": "1.0.0", "capabilities": capabilities } })
    }

    /// `act` with this home, an otherwise empty environment, and no input.
    pub fn act(&self) -> Command {
        self.command(&self.programs.join("act"))
    }

    /// Any program in the surroundings of [`World::act`].
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", &self.home).current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    /// `act ARGUMENTS`, to its end.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Run {
        let mut act = self.act();
        act.args(arguments.iter().map(|a| self.fill(a)));
        Running::start(&mut act).finish()
    }

    /// The command `act call COMPONENT TOOL --args ARGUMENTS FLAGS`.
    pub fn call_command(&self, component: &Path, tool: &str, arguments: &Value, flags: &[&str]) -> Command {
        let mut act = self.act();
        act.arg("call").arg(component).args([tool, "--args", &self.fill(&arguments.to_string())]);
        act.args(flags.iter().map(|a| self.fill(a)));
        act
    }

    /// That command, to its end.
    #[track_caller]
    pub fn call(&self, component: &Path, tool: &str, arguments: &Value, flags: &[&str]) -> Run {
        Running::start(&mut self.call_command(component, tool, arguments, flags)).finish()
    }
}
