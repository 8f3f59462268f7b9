//! Policy flags, the configuration file, and the effective policy of a component.

use super::files::{self, Trust, WORKSPACE_FOLDER, Workspace};
use super::{
    dirs,
    resolve_heads::{resolve, resolve_heads},
};
use crate::component::Component;
use crate::exit::Failure;
use act_policy::{
    Anchors, Config, Consent, Engine, Flag, Grants, KernelPlan, Layers, Permissions, Policy, Profile, Shorthand,
    Subtree, Warning, Written, escape,
};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

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
    /// Add a permission rule to a list: `deny=read(./.env)`, `ask=net(domain: *)`. Repeatable
    #[arg(long, value_name = "LIST=RULE")]
    pub permission: Vec<String>,
    /// What becomes of what the policy asks about: `once` asks, `never` denies, `always` allows without asking
    #[arg(long, value_name = "MODE", value_parser = consent)]
    pub consent: Option<Consent>,
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
    managed: Option<Config>,
    config: Config,
    profile: Option<String>,
    workspace: Option<Box<Config>>,
    workspace_root: Option<String>,
    grant: Option<Grants>,
    flags: Vec<Shorthand>,
    permissions: Vec<Written>,
    consent: Option<Consent>,
    home: Option<String>,
    /// What was found on the way and is told with the policy's own warnings.
    warnings: Vec<Warning>,
    /// `[audit] detail = "full"`
    pub audit_full: bool,
}

/// The policy of one run.
#[derive(Debug)]
pub struct Effective {
    /// Compiled.
    pub engine: Arc<Engine>,
    /// Lowered for the kernel layers.
    pub plan: KernelPlan,
    /// What the operator should know.
    pub warnings: Vec<Warning>,
}

fn consent(text: &str) -> Result<Consent, String> {
    Consent::parse(text).ok_or_else(|| "expected once, always or never".to_owned())
}

impl PolicyArgs {
    /// Read and check all of it.
    pub fn read(&self) -> Result<Operator, Failure> {
        let text = |path: PathBuf| path.into_os_string().into_string().ok();
        let home = dirs::home().and_then(text);
        // A current directory that is gone or not UTF-8 refuses relative paths, nothing else.
        let directory = std::env::current_dir().ok().and_then(text);
        let workspace = Workspace::find();
        let workspace_root = workspace.clone().and_then(|workspace| text(workspace.root));
        let anchors = Anchors {
            home: home.as_deref(),
            directory: directory.as_deref(),
            workspace: workspace_root.as_deref(),
            stars_at_root: false,
        };
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
        let permissions = self.permission.iter().map(|text| Permissions::parse_flag(text, &anchors));
        let permissions = permissions.collect::<Result<_, _>>().map_err(Failure::usage)?;
        let managed = files::managed(&anchors)?;
        let config = files::user(self.config.as_deref(), &anchors)?;
        if let Some(name) = &self.profile
            && config.profile(name).is_none()
        {
            let known: Vec<String> = config.profiles.iter().map(|profile| escape(&profile.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = escape(name);
            return Err(Failure::usage(format!(
                "--profile {name}: no profile `{name}` in the configuration (known: {known})"
            )));
        }
        let mut warnings = Vec::new();
        let workspace = match workspace.map(|workspace| workspace.read(&config, &anchors)).transpose()? {
            Some(Trust::Read(config)) => Some(config),
            Some(Trust::Missing(reason)) => {
                warnings.push(Warning(reason));
                None
            }
            Some(Trust::Absent) | None => None,
        };
        let audit_full = config.audit_full;
        let (profile, consent) = (self.profile.clone(), self.consent);
        Ok(Operator {
            managed,
            config,
            profile,
            workspace,
            workspace_root,
            grant,
            flags,
            permissions,
            consent,
            home,
            warnings,
            audit_full,
        })
    }
}

impl Operator {
    /// The home directory, for `~/` in manifests.
    pub fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    /// How paths of calls in rule form are anchored.
    pub fn anchors(&self) -> Anchors<'_> {
        let workspace = self.workspace_root.as_deref();
        Anchors { home: self.home.as_deref(), directory: None, workspace, stars_at_root: false }
    }

    /// Metadata of the chosen profile: key and JSON value.
    pub fn metadata(&self) -> &[(String, String)] {
        self.chosen().map(|profile| profile.metadata.as_slice()).unwrap_or_default()
    }

    fn chosen(&self) -> Option<&Profile> {
        self.profile.as_deref().and_then(|name| self.config.profile(name))
    }

    fn layers<'a>(&'a self, client: Option<&'a str>) -> Layers<'a> {
        Layers {
            managed: self.managed.as_ref().map(|config| &config.section),
            user: Some(&self.config.section),
            profile: self.chosen().map(|profile| &profile.section),
            workspace: self.workspace.as_ref().map(|config| &config.section.permissions),
            grant: self.grant.as_ref(),
            flags: &self.flags,
            permissions: &self.permissions,
            consent: self.consent,
            client,
            workspace_root: self.workspace_root.as_deref(),
        }
    }

    /// The effective policy of a component.
    pub fn effective(&self, component: &Component) -> Result<Effective, Failure> {
        self.effective_for(component, None)
    }

    /// The effective policy of a component that serves this client.
    pub fn effective_for(&self, component: &Component, client: Option<&str>) -> Result<Effective, Failure> {
        let (mut policy, mut warnings) =
            Policy::resolve(&component.manifest, &self.layers(client)).map_err(Failure::usage)?;
        warnings.extend(self.warnings.iter().cloned());
        resolve_heads(&mut policy);
        let mut engine = Engine::compile(policy).map_err(Failure::usage)?;
        let mut own = own_folders();
        refuse_own_folders(&engine.subtrees(), &own)?;
        // What may change the rules of a workspace is not the component's to write.
        if let (Some(_), Some(root)) = (&self.workspace, &self.workspace_root) {
            own.push([resolve(root.as_bytes()).as_slice(), b"/", WORKSPACE_FOLDER.as_bytes()].concat());
        }
        for folder in own {
            engine.deny_folder(folder).map_err(Failure::usage)?;
        }
        let plan = KernelPlan::new(&engine);
        Ok(Effective { engine: Arc::new(engine), plan, warnings })
    }

    /// The permission rules for what an agent does itself.
    pub fn agent(&self, client: Option<&str>) -> Result<Effective, Failure> {
        let (mut policy, mut warnings) = Policy::of_agent(&self.layers(client));
        warnings.extend(self.warnings.iter().cloned());
        resolve_heads(&mut policy);
        let engine = Engine::compile(policy).map_err(Failure::usage)?;
        let plan = KernelPlan::new(&engine);
        Ok(Effective { engine: Arc::new(engine), plan, warnings })
    }
}

/// Folders that this program relies on: links resolved, whether they exist yet or not.
fn own_folders() -> Vec<Vec<u8>> {
    let folders = [dirs::config(), dirs::cache(), dirs::state(), dirs::data()].into_iter().flatten();
    folders.map(|folder| resolve(folder.as_os_str().as_bytes())).collect()
}

/// A grant must not let a component write to what this program relies on, nor to the files by which it would leave its
/// cgroup: such a run is refused, whatever deny rules say, because Landlock opens whole subtrees.
fn refuse_own_folders(opened: &[Subtree], own: &[Vec<u8>]) -> Result<(), Failure> {
    let below = |a: &[u8], b: &[u8]| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    let relied_on = own.iter().map(Vec::as_slice).chain([&b"/sys/fs/cgroup"[..], b"/proc"]);
    for folder in relied_on {
        let touched = opened.iter().find(|s| below(&s.path, folder) || s.write && below(folder, &s.path));
        if let Some(subtree) = touched {
            let shown = |path: &[u8]| escape(&String::from_utf8_lossy(path));
            let granted = if subtree.path.is_empty() { "/".to_owned() } else { shown(&subtree.path) };
            return Err(Failure::usage(format!(
                "the grant of wasi:filesystem under `{granted}` covers {}, which act itself relies on: grant a narrower path",
                shown(folder)
            )));
        }
    }
    Ok(())
}
