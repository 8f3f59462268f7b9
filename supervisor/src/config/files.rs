//! Reading configuration files: the user's, the machine's managed one, and a trusted workspace's.

use super::{dirs, resolve};
use crate::exit::Failure;
use act_policy::{Anchors, Config, Layer, MAX_CONFIG, escape};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The machine's managed configuration: set by its administrator, relaxed by nobody.
const MANAGED: &str = "/etc/act/managed.toml";
/// The folder of it.
pub(super) const MANAGED_FOLDER: &str = "/etc/act";
/// The folder of a workspace's own configuration, below its root.
pub(super) const WORKSPACE_FOLDER: &str = ".act";

/// The directory that `./` of permission rules means: the nearest one upwards with a `.act` folder, else the current one.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    pub(super) root: PathBuf,
}

impl Workspace {
    pub(super) fn find() -> Option<Self> {
        let here = std::env::current_dir().ok()?;
        let marked = here.ancestors().find(|folder| folder.join(WORKSPACE_FOLDER).is_dir());
        Some(Self { root: marked.unwrap_or(&here).to_owned() })
    }

    /// Its configuration, if the user trusts it; a warning if the user does not.
    pub(super) fn read(&self, user: &Config, anchors: &Anchors<'_>) -> Result<Trust, Failure> {
        let path = self.root.join(WORKSPACE_FOLDER).join("config.toml");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound || e.kind() == ErrorKind::NotADirectory => {
                return Ok(Trust::Absent);
            }
            Err(e) => return Err(unreadable(&path, &e)),
        };
        let root = resolve(self.root.as_os_str().as_bytes());
        let trusted = user.trusted_workspaces.iter().any(|trusted| {
            let path = match (trusted.strip_prefix("~/"), anchors.home) {
                (Some(below), Some(home)) => format!("{home}/{below}"),
                _ => trusted.clone(),
            };
            resolve(path.trim_end_matches('/').as_bytes()) == root
        });
        if !trusted {
            return Ok(Trust::Missing(format!(
                "{} is not read: to trust it, add \"{}\" to trusted-workspaces in your configuration",
                shown(&path),
                shown(&self.root)
            )));
        }
        parse(file, &path, Layer::Workspace, anchors).map(|config| Trust::Read(Box::new(config)))
    }
}

/// What became of a workspace's configuration.
pub(super) enum Trust {
    /// There is none.
    Absent,
    /// It is not read, and why.
    Missing(String),
    /// It was read.
    Read(Box<Config>),
}

/// The user's configuration. One that was named has to be there.
pub(super) fn user(named: Option<&Path>, anchors: &Anchors<'_>) -> Result<Config, Failure> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => match dirs::config() {
            Some(folder) => folder.join("config.toml"),
            None => return Ok(Config::default()),
        },
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound && named.is_none() => return Ok(Config::default()),
        Err(e) => return Err(unreadable(&path, &e)),
    };
    let directory = path.parent().and_then(Path::to_str).map(str::to_owned);
    parse(file, &path, Layer::User, &Anchors { directory: directory.as_deref(), ..*anchors })
}

/// The managed configuration; `None` where there is none. One that others than root could have written is no
/// instruction of the administrator: nothing starts until that is put right.
pub(super) fn managed(anchors: &Anchors<'_>) -> Result<Option<Config>, Failure> {
    let path = Path::new(MANAGED);
    let opened = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Failure::usage(format!("{MANAGED}: {e} (it is a regular file of root)"))),
    };
    let fault = |what: &str, found: &std::fs::Metadata| {
        let mode = found.mode() & 0o7777;
        Failure::usage(format!(
            "{what}: it belongs to user {} with mode {mode:o}, so that others than root can change the managed policy \
             (chown root:root {what}; chmod go-w {what})",
            found.uid()
        ))
    };
    let found = file.metadata().map_err(|e| Failure::usage(format!("{MANAGED}: {e}")))?;
    if !found.is_file() || found.uid() != 0 || found.mode() & 0o022 != 0 {
        return Err(fault(MANAGED, &found));
    }
    for folder in path.ancestors().skip(1) {
        let found = folder.metadata().map_err(|e| Failure::usage(format!("{}: {e}", folder.display())))?;
        if found.uid() != 0 || found.mode() & 0o022 != 0 {
            return Err(fault(&folder.display().to_string(), &found));
        }
    }
    // `~/` means nothing in a file that holds for all users.
    let anchors = Anchors { home: None, directory: None, ..*anchors };
    parse(file, path, Layer::Managed, &anchors).map(Some)
}

fn parse(file: File, path: &Path, layer: Layer, anchors: &Anchors<'_>) -> Result<Config, Failure> {
    let mut text = String::new();
    file.take(MAX_CONFIG as u64 + 1).read_to_string(&mut text).map_err(|e| unreadable(path, &e))?;
    Config::parse(&text, &shown(path), layer, anchors).map_err(Failure::usage)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", escape(&path.display().to_string())))
}

/// A path for people: below the home directory with `~`.
fn shown(path: &Path) -> String {
    let below = dirs::home().and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned));
    match below {
        Some(below) => escape(&format!("~/{}", below.display())),
        None => escape(&path.display().to_string()),
    }
}
