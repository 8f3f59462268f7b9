//! Policy flags, the configuration file, and the effective policy of a component.

use super::{
    dirs,
    resolve_heads::{resolve, resolve_heads},
};
use crate::component::Component;
use crate::exit::Failure;
use act_policy::{
    Anchors, Config, Engine, Flag, Grants, KernelPlan, Layers, MAX_CONFIG, Policy, Shorthand, Warning, escape,
};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Flags of every command that loads a component.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct PolicyArgs {
    /// Grant as JSON: `{"<class>": "open" | {"mode": …, "allow": […], "deny": […]}}`. Repeatable; the last wins per class
    #[arg(long, value_name = "JSON")]
    pub grant: Vec<String>,
    /// Allow a class (`--allow fs`) or one rule of it (`--allow 'fs=/data/**:ro'`). Repeatable
    #[arg(long, value_name = "CLASS[=RULE]")]
    pub allow: Vec<String>,
    /// Deny a class (`--deny http`) or one rule of it (`--deny 'fs=/data/secret/**'`). Repeatable; a deny always wins
    #[arg(long, value_name = "CLASS[=RULE]")]
    pub deny: Vec<String>,
    /// Use a named profile of the configuration file
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Read this configuration file instead of `$XDG_CONFIG_HOME/act/config.toml`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The operator's side, read and checked before a component is touched.
#[derive(Debug)]
pub struct Operator {
    config: Config,
    profile: Option<String>,
    grant: Option<Grants>,
    flags: Vec<Shorthand>,
    home: Option<String>,
    /// `[audit] detail = "full"`
    pub audit_full: bool,
}

/// The policy of one run.
#[derive(Debug)]
pub struct Effective {
    /// Compiled.
    pub engine: Engine,
    /// Lowered for the kernel layers.
    pub plan: KernelPlan,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

impl PolicyArgs {
    /// Read and check all of it.
    pub fn read(&self) -> Result<Operator, Failure> {
        let home = dirs::home().and_then(|h| h.into_os_string().into_string().ok());
        // A current directory that is gone or not UTF-8 refuses relative paths, nothing else.
        let directory = std::env::current_dir().ok().and_then(|d| d.into_os_string().into_string().ok());
        let anchors = Anchors { home: home.as_deref(), directory: directory.as_deref(), stars_at_root: false };
        let mut flags = Vec::new();
        for (flag, tokens) in [(Flag::Allow, &self.allow), (Flag::Deny, &self.deny)] {
            for token in tokens {
                flags.push(Shorthand::parse(flag, token, &anchors).map_err(Failure::usage)?);
            }
        }
        let mut grant: Option<Grants> = None;
        for text in &self.grant {
            let object = Grants::parse_json(text, &anchors).map_err(Failure::usage)?;
            grant.get_or_insert_default().merge(object);
        }
        let config = self.read_config(home.as_deref())?;
        if let Some(name) = &self.profile
            && config.profile(name).is_none()
        {
            let known: Vec<String> = config.profiles.iter().map(|(n, _)| escape(n)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = escape(name);
            return Err(Failure::usage(format!(
                "--profile {name}: no profile `{name}` in the configuration (known: {known})"
            )));
        }
        let audit_full = config.audit_full;
        Ok(Operator { config, profile: self.profile.clone(), grant, flags, home, audit_full })
    }

    fn read_config(&self, home: Option<&str>) -> Result<Config, Failure> {
        let (path, required) = match &self.config {
            Some(path) => (path.clone(), true),
            None => match dirs::config() {
                Some(folder) => (folder.join("config.toml"), false),
                None => return Ok(Config::default()),
            },
        };
        let shown = escape(&path.display().to_string());
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !required => return Ok(Config::default()),
            Err(e) => return Err(Failure::usage(format!("{shown}: {e}"))),
        };
        let mut text = String::new();
        file.take(MAX_CONFIG as u64 + 1)
            .read_to_string(&mut text)
            .map_err(|e| Failure::usage(format!("{shown}: {e}")))?;
        let directory = path.parent().and_then(|p| p.to_str());
        let anchors = Anchors { home, directory, stars_at_root: false };
        Config::parse(&text, &shown, &anchors).map_err(Failure::usage)
    }
}

impl Operator {
    /// The home directory, for `~/` in manifests.
    pub fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    /// The effective policy of a component.
    pub fn effective(&self, component: &Component) -> Result<Effective, Failure> {
        let layers = Layers {
            user: Some(&self.config.policy),
            profile: self.profile.as_deref().and_then(|name| self.config.profile(name)),
            grant: self.grant.as_ref(),
            flags: &self.flags,
        };
        let (mut policy, warnings) = Policy::resolve(&component.manifest, &layers).map_err(Failure::usage)?;
        resolve_heads(&mut policy);
        let own = own_folders();
        for folder in &own {
            policy.deny_folder(folder.clone());
        }
        let engine = Engine::compile(policy).map_err(Failure::usage)?;
        let plan = KernelPlan::new(&engine);
        refuse_own_folders(&plan, own)?;
        Ok(Effective { engine, plan, warnings })
    }
}

/// Folders that this program relies on: links resolved, whether they exist yet or not.
fn own_folders() -> Vec<Vec<u8>> {
    let folders = [dirs::config(), dirs::cache(), dirs::state(), dirs::data()].into_iter().flatten();
    folders.map(|folder| resolve(folder.as_os_str().as_bytes())).collect()
}

/// A grant must not let a component write to what this program relies on, nor to the files by which it would leave its
/// cgroup: such a run is refused, whatever deny rules say, because Landlock opens whole subtrees.
fn refuse_own_folders(plan: &KernelPlan, own: Vec<Vec<u8>>) -> Result<(), Failure> {
    let below = |a: &[u8], b: &[u8]| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    for folder in own.into_iter().chain([b"/sys/fs/cgroup".to_vec(), b"/proc".to_vec()]) {
        let touched = plan.files.iter().find(|s| below(&s.path, &folder) || s.write && below(&folder, &s.path));
        if let Some(subtree) = touched {
            let shown = |path: &[u8]| escape(&String::from_utf8_lossy(path));
            let granted = if subtree.path.is_empty() { "/".to_owned() } else { shown(&subtree.path) };
            return Err(Failure::usage(format!(
                "the grant of wasi:filesystem under `{granted}` covers {}, which act itself relies on: grant a narrower path",
                shown(&folder)
            )));
        }
    }
    Ok(())
}
