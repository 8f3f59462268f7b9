//! Policy flags, the configuration file, and the effective policy of a component.

use super::files::{self, Trust, WORKSPACE_FOLDER, Workspace};
use super::{
    dirs,
    resolve_heads::{resolve, resolve_heads},
};
use crate::component::Component;
use crate::exit::Failure;
use crate::secrets::PASSPHRASE_FILE;
use act_policy::{
    Anchors, Config, Consent, Engine, Flag, Grants, KernelPlan, Layers, Permissions, Policy, Profile, Shorthand,
    Subtree, Warning, Written, escape,
};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
    /// How long a question waits for an answer (30s, 5m, at most 24h); 60s where not given
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration::parse)]
    pub consent_timeout: Option<Duration>,
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
    consent_timeout: Option<Duration>,
    home: Option<String>,
    /// The file of `--config`, links resolved.
    config_file: Option<Vec<u8>>,
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

/// How long a question waits where nobody said.
const CONSENT_TIMEOUT: Duration = Duration::from_mins(1);

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
            consent_timeout: self.consent_timeout,
            home,
            config_file: self
                .config
                .as_ref()
                .and_then(|file| std::path::absolute(file).ok())
                .map(|file| resolve(file.as_os_str().as_bytes())),
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

    /// The effective policy of a component, where nobody can be asked.
    pub fn effective(&self, component: &Component) -> Result<Effective, Failure> {
        self.resolve(component, None, false)
    }

    /// The same, where somebody may be there to be asked.
    pub fn effective_attended(&self, component: &Component) -> Result<Effective, Failure> {
        self.resolve(component, None, true)
    }

    /// The effective policy of a component that serves this client, where nobody can be asked.
    pub fn effective_for(&self, component: &Component, client: Option<&str>) -> Result<Effective, Failure> {
        self.resolve(component, client, false)
    }

    /// How long a question waits for an answer: the flag goes before the profile and that before the file, and the managed
    /// configuration's is the longest.
    pub fn consent_timeout(&self) -> Duration {
        let profile = self.chosen().and_then(|profile| profile.section.consent_timeout);
        let chosen = self.consent_timeout.or(profile).or(self.config.section.consent_timeout);
        let chosen = chosen.unwrap_or(CONSENT_TIMEOUT);
        let managed = self.managed.as_ref().and_then(|config| config.section.consent_timeout);
        managed.map_or(chosen, |managed| managed.min(chosen))
    }

    fn resolve(&self, component: &Component, client: Option<&str>, attended: bool) -> Result<Effective, Failure> {
        let (mut policy, mut warnings) =
            Policy::resolve(&component.manifest, &self.layers(client)).map_err(Failure::usage)?;
        warnings.extend(self.warnings.iter().cloned());
        resolve_heads(&mut policy);
        let mut engine = Engine::compile(policy).map_err(Failure::usage)?;
        let (mut own, mut trusted) = (own_folders(), trusted_folders());
        trusted.extend(self.config_file.clone());
        refuse_own_folders(&engine.subtrees(), &own, &trusted)?;
        // What may change the rules of a workspace is not the component's to write.
        if let (Some(_), Some(root)) = (&self.workspace, &self.workspace_root) {
            own.push([resolve(root.as_bytes()).as_slice(), b"/", WORKSPACE_FOLDER.as_bytes()].concat());
        }
        for folder in own {
            engine.deny_folder(folder).map_err(Failure::usage)?;
        }
        for folder in trusted {
            engine.deny_writing(folder).map_err(Failure::usage)?;
        }
        // Nothing is kept open for an answer that nothing asks for.
        if attended && engine.policy().asks() {
            engine.attend();
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

/// Folders that this program relies on, and that hold what is nobody else's: links resolved, whether they exist yet or not.
fn own_folders() -> Vec<Vec<u8>> {
    let passphrase = std::env::var_os(PASSPHRASE_FILE).map(PathBuf::from).filter(|path| path.is_absolute());
    let folders = [dirs::config(), dirs::cache(), dirs::state(), dirs::data(), passphrase].into_iter().flatten();
    folders.map(|folder| resolve(folder.as_os_str().as_bytes())).collect()
}

/// What this program relies on and anybody may read: its programs, and the machine's configuration.
fn trusted_folders() -> Vec<Vec<u8>> {
    let programs = std::env::current_exe().ok().and_then(|program| program.parent().map(Path::to_owned));
    let folders = programs.into_iter().chain([PathBuf::from(files::MANAGED_FOLDER)]);
    folders.map(|folder| resolve(folder.as_os_str().as_bytes())).filter(|folder| !folder.is_empty()).collect()
}

/// A grant must not let a component write to what this program relies on, nor to the files by which it would leave its
/// cgroup: such a run is refused, whatever deny rules say, because Landlock opens whole subtrees.
fn refuse_own_folders(opened: &[Subtree], own: &[Vec<u8>], trusted: &[Vec<u8>]) -> Result<(), Failure> {
    let below = |a: &[u8], b: &[u8]| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    let own = own.iter().map(Vec::as_slice).chain([&b"/sys/fs/cgroup"[..], b"/proc"]).map(|folder| (folder, true));
    for (folder, secret) in own.chain(trusted.iter().map(|folder| (folder.as_slice(), false))) {
        let touches = |s: &&Subtree| below(&s.path, folder) && (secret || s.write) || s.write && below(folder, &s.path);
        let touched = opened.iter().find(touches);
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
