//! The rules as act reads, resolves and decides them.

use crate::rules::{Rule, What};
use act_policy::{
    Access, Anchors, Capability, Class, Config, Engine, Grants, KernelPlan, Layer, Layers, Manifest, Matches, Mounts,
    PathPattern, Policy, Ports, Protocol, Request, Section, Source, Target,
};
use anyhow::{Result, anyhow};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The rules as people write them: a grant in JSON, and permissions in TOML.
pub(crate) struct Text {
    grant: String,
    permissions: String,
}

/// The rules as they were read.
pub(crate) struct Read {
    grant: Grants,
    section: Section,
}

impl Text {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let list = |deny: bool, of: &dyn Fn(&What) -> Option<String>| {
            let rules = rules.iter().filter(|rule| rule.deny == deny).filter_map(|rule| of(&rule.what));
            rules.collect::<Vec<_>>().join(",\n")
        };
        let files = |deny| {
            list(deny, &|what| match what {
                What::Path(path) | What::Glob(path) => Some(format!(r#"{{"path": "{path}", "mode": "rw"}}"#)),
                _ => None,
            })
        };
        let net = |deny| {
            list(deny, &|what| match what {
                What::Name(name) => Some(format!(r#"{{"host": "{name}"}}"#)),
                What::Suffix(suffix) => Some(format!(r#"{{"host": "*.{suffix}"}}"#)),
                What::Range([a, b, c]) => Some(format!(r#"{{"cidr": "{a}.{b}.{c}.0/24"}}"#)),
                _ => None,
            })
        };
        let tools = |deny| {
            list(deny, &|what| match what {
                What::Tool(id, tool) => Some(format!(r#""tool({id}.{})""#, tool.as_deref().unwrap_or("*"))),
                _ => None,
            })
        };
        let entry = |allow, deny| format!(r#"{{"mode": "allowlist", "allow": [{allow}], "deny": [{deny}]}}"#);
        let (files, net) = (entry(files(false), files(true)), entry(net(false), net(true)));
        Self {
            grant: format!(r#"{{"fs": {files}, "sockets": {net}}}"#),
            permissions: format!("[permissions]\nallow = [{}]\ndeny = [{}]\n", tools(false), tools(true)),
        }
    }

    pub(crate) fn read(&self) -> Result<Read> {
        let grant = Grants::parse_json(&self.grant, &Anchors::default()).map_err(|e| anyhow!(e))?;
        let config = Config::parse(&self.permissions, "bench.toml", Layer::User, &Anchors::default())?;
        Ok(Read { grant, section: config.section })
    }
}

/// How long each step took.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    pub(crate) resolve: Duration,
    pub(crate) compile: Duration,
    /// `None`: not done.
    pub(crate) plan: Option<Duration>,
}

impl Read {
    /// Resolve and compile, and lower for the kernel on request.
    pub(crate) fn engine(&self, manifest: &Manifest, lower: bool) -> Result<(Engine, Steps)> {
        let layers = Layers { grant: Some(&self.grant), user: Some(&self.section), ..Layers::default() };
        let start = Instant::now();
        let (policy, warnings) = Policy::resolve(manifest, &layers)?;
        let resolve = start.elapsed();
        drop(warnings);
        let start = Instant::now();
        let engine = Engine::compile(policy)?;
        let compile = start.elapsed();
        let plan = lower.then(|| {
            let start = Instant::now();
            let plan = std::hint::black_box(KernelPlan::new(&engine));
            let took = start.elapsed();
            drop(plan);
            took
        });
        Ok((engine, Steps { resolve, compile, plan }))
    }
}

/// A component that declares all files and connections.
pub(crate) fn manifest() -> Manifest {
    let capability = |class, matches| Capability {
        class,
        description: None,
        constraints: Some(vec![act_policy::Rule { text: "*".into(), source: Source::component(), matches }]),
        mounts: Mounts::default(),
        json: "{}".into(),
    };
    let path = PathPattern { head: Vec::new(), tail: String::new() };
    let files = capability(Class::filesystem(), Matches::File { path, write: true });
    let everywhere = Matches::Socket { target: Target::Any, ports: Ports::default(), protocols: Vec::new() };
    let sockets = capability(Class::sockets(), everywhere);
    Manifest {
        name: "bench".into(),
        version: "1".into(),
        description: None,
        capabilities: vec![files, sockets],
        credentials: Vec::new(),
    }
}

pub(crate) fn request(what: &What) -> Request {
    let connect = |address: IpAddr, names| Request::Connect {
        addr: SocketAddr::new(address, 443),
        protocol: Protocol::Tcp,
        names,
    };
    match what {
        What::Path(path) | What::Glob(path) => Request::File { access: Access::Read, path: path.as_bytes().to_vec() },
        What::Name(name) | What::Suffix(name) => connect(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), vec![name.clone()]),
        What::Address(address) => connect(IpAddr::from(*address), Vec::new()),
        What::Range([a, b, c]) => connect(IpAddr::V4(Ipv4Addr::new(*a, *b, *c, 1)), Vec::new()),
        What::Tool(id, tool) => Request::Tool { component: id.clone(), tool: tool.clone().unwrap_or_default() },
    }
}
