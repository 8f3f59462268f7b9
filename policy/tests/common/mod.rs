//! Policies for tests, built as the program builds them: from CBOR, JSON, TOML and flags.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod built;

use act_policy::{
    Access, Anchors, Call, Class, Config, Decision, Engine, Explanation, Flag, Grants, KernelPlan, Layer, Layers,
    Manifest, Policy, Protocol, Reason, Request, Shorthand, Verdict, Warning,
};

pub(crate) const ANCHORS: Anchors<'static> =
    Anchors { home: Some("/home/a"), directory: Some("/work"), workspace: Some("/ws"), stars_at_root: false };

/// JSON text as CBOR.
pub(crate) fn cbor(json: &str) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    let mut out = Vec::new();
    ciborium::into_writer(&value, &mut out).unwrap();
    out
}

/// A manifest that declares nothing.
pub(crate) const EMPTY: &str = r#"{"std": {"name": "t", "version": "1", "capabilities": {}}}"#;

/// A manifest that declares these capabilities.
pub(crate) fn manifest(capabilities: &str) -> Manifest {
    let text = format!(r#"{{"std": {{"name": "t", "version": "1", "capabilities": {capabilities}}}}}"#);
    let manifest = Manifest::decode(&cbor(&text), Some("/home/a")).unwrap();
    built::manifest(&manifest, &text);
    manifest
}

pub(crate) fn declares_files(rules: &[(&str, &str)]) -> Manifest {
    let rules: Vec<String> =
        rules.iter().map(|(path, mode)| format!(r#"{{"path": "{path}", "mode": "{mode}"}}"#)).collect();
    manifest(&format!(r#"{{"wasi:filesystem": {{"constraints": [{}]}}}}"#, rules.join(",")))
}

/// Flags as on the command line: `+fs=/x` allows, `-fs=/x` denies.
pub(crate) fn flags(list: &[&str]) -> Vec<Shorthand> {
    let parse = |text: &&str| match text.split_at(1) {
        ("+", token) => Shorthand::parse(Flag::Allow, token, &ANCHORS).unwrap(),
        ("-", token) => Shorthand::parse(Flag::Deny, token, &ANCHORS).unwrap(),
        _ => panic!("{text}"),
    };
    list.iter().map(parse).collect()
}

#[derive(Default)]
pub(crate) struct Operator<'a> {
    pub(crate) config: &'a str,
    pub(crate) profile: Option<&'a str>,
    pub(crate) grants: &'a [&'a str],
    pub(crate) flags: &'a [&'a str],
    pub(crate) managed: Option<&'a str>,
    pub(crate) workspace: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
}

pub(crate) fn resolve(manifest: &Manifest, operator: &Operator<'_>) -> (Engine, Vec<Warning>) {
    let config = Config::parse(operator.config, "config.toml", Layer::User, &ANCHORS).unwrap();
    let mut grant: Option<Grants> = None;
    for text in operator.grants {
        grant.get_or_insert_default().merge(Grants::parse_json(text, &ANCHORS).unwrap());
    }
    let flags = flags(operator.flags);
    let file =
        |text: Option<&str>, name: &str, layer| text.map(|text| Config::parse(text, name, layer, &ANCHORS).unwrap());
    let managed = file(operator.managed, "managed.toml", Layer::Managed);
    let workspace = file(operator.workspace, ".act/config.toml", Layer::Workspace);
    let layers = Layers {
        user: Some(&config.section),
        profile: operator.profile.map(|name| &config.profile(name).unwrap().section),
        managed: managed.as_ref().map(|config| &config.section),
        workspace: workspace.as_ref().map(|config| &config.section.permissions),
        grant: grant.as_ref(),
        flags: &flags,
        client: operator.client,
        workspace_root: Some("/ws"),
        ..Layers::default()
    };
    let (policy, warnings) = Policy::resolve(manifest, &layers).unwrap();
    built::component(&policy, manifest, operator);
    (Engine::compile(policy).unwrap(), warnings)
}

pub(crate) fn engine(manifest: &Manifest, list: &[&str]) -> Engine {
    resolve(manifest, &Operator { flags: list, ..Operator::default() }).0
}

pub(crate) fn file(engine: &Engine, access: Access, path: &str) -> Verdict {
    decide(engine, &Request::File { access, path: path.as_bytes().to_vec() })
}

/// What is decided; and that it is what is explained, here and by the built program.
pub(crate) fn decide(engine: &Engine, request: &Request) -> Verdict {
    let verdict = engine.decide(request);
    let Some(text) = written(request) else { return verdict };
    let call = Call::parse(&text, &ANCHORS).unwrap();
    assert_eq!(bare(call.request(engine.policy())), bare(request.clone()), "{text}");
    compare(engine, &call, verdict);
    verdict
}

/// A request without the brackets around its host, which mean nothing.
fn bare(mut request: Request) -> Request {
    if let Request::Http { host, .. } = &mut request {
        *host = host.trim_matches(['[', ']']).to_owned();
    }
    request
}

/// A request as the call that asks about it. There is none for what holds control characters or quotes, and none for a
/// path that no kernel resolves: who asks brings it into form.
fn written(request: &Request) -> Option<String> {
    let word = |text: &str| {
        let plain = !text.contains(|c: char| c.is_control() || c == '"');
        let quoted = text.is_empty() || text.contains(char::is_whitespace);
        plain.then(|| if quoted { format!("\"{text}\"") } else { text.to_owned() })
    };
    let words =
        |words: &[String]| words.iter().map(|text| Some(format!(" {}", word(text)?))).collect::<Option<String>>();
    Some(match request {
        Request::File { access, path } => {
            let path = std::str::from_utf8(path).ok()?;
            let resolved =
                path == "/" || path.starts_with('/') && path[1..].split('/').all(|c| !["", ".", ".."].contains(&c));
            (resolved && word(path).is_some()).then(|| format!("{access}({path})"))?
        }
        Request::Connect { addr, protocol, names } => {
            let names: Vec<String> = names.iter().map(|name| format!("name={name}")).collect();
            format!("connect({addr}/{protocol}{})", words(&names)?)
        }
        Request::Bind { addr, protocol } => format!("bind({addr}/{protocol})"),
        Request::Listen { addr } => format!("listen({addr})"),
        Request::Lookup { class, host } => format!("lookup({class} {})", word(host)?),
        Request::Http { method, scheme, host, port, address } => {
            let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.clone() };
            let address = address.map(|address| format!(" address={address}")).unwrap_or_default();
            format!("http({method} {scheme}://{}:{port}{address})", word(&host)?)
        }
        Request::Credential { key } => format!("creds({key})"),
        Request::Consent { class, key, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("consent({} {}{})", word(class)?, word(key)?, words(&arguments)?)
        }
        Request::Tool { component, tool } => format!("tool(\"{component}\".{tool})"),
        Request::Spawn { program, words: arguments } => format!("spawn(cmd: {program}{})", words(arguments)?),
        Request::Ui { placement } => format!("ui({placement})"),
        Request::Net { host, port: Some(port) } => format!("net(domain: {host}:{port})"),
        Request::Net { host, port: None } => format!("net(domain: {host})"),
    })
}

fn compare(engine: &Engine, call: &Call, verdict: Verdict) {
    let explanation = Explanation::new(call, engine, Some(&KernelPlan::new(engine)));
    assert_eq!(explanation.verdict, verdict.decision, "{}", explanation.text());
    assert_eq!(explanation.reason, engine.policy().reason(&verdict), "{}", explanation.text());
    assert_eq!(explanation.enforced_by.is_empty(), verdict.allowed(), "{}", explanation.text());
    built::compare(engine, call, &explanation);
}

pub(crate) fn connect(engine: &Engine, addr: &str, protocol: Protocol, names: &[&str]) -> Verdict {
    let literal = names.is_empty() && protocol == Protocol::Tcp && !addr.ends_with(":0");
    let names = names.iter().map(|n| (*n).to_owned()).collect();
    let verdict = decide(engine, &Request::Connect { addr: addr.parse().unwrap(), protocol, names });
    let http = engine.policy().class(&Class::http()).is_some_and(|class| class.declared.is_some());
    // The same in the words of a rule.
    if literal && !http {
        compare(engine, &Call::parse(&format!("net(domain: {addr})"), &ANCHORS).unwrap(), verdict);
    }
    verdict
}

/// A verdict in one word: `allow`, `ask`, or the reason of the refusal.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match (verdict.decision, verdict.reason) {
        (Decision::Allow, _) => "allow",
        (Decision::Ask, _) => "ask",
        (Decision::Deny, Reason::OutsideCeiling) => "ceiling",
        (Decision::Deny, Reason::NotGranted) => "grant",
        (Decision::Deny, Reason::DeniedByRule) => "rule",
        (Decision::Deny, _) => "deny",
    }
}
