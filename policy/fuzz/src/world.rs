//! The fixed things that inputs are tried against: anchors, two manifests, grants.

use act_policy::{Anchors, Engine, Grants, Layers, Manifest, Policy, Warning};
use std::sync::LazyLock;

pub(crate) const ANCHORS: Anchors<'static> =
    Anchors { home: Some("/home/a"), directory: Some("/work"), workspace: Some("/ws"), stars_at_root: false };

/// Declares everything.
pub(crate) static WIDE: LazyLock<Manifest> = LazyLock::new(|| {
    declared(
        r#"{"wasi:filesystem": {"constraints": [{"path": "/**", "mode": "rw"}]},
            "wasi:sockets": {"constraints": [{"host": "*"}, {"cidr": "0.0.0.0/0"}, {"cidr": "::/0"}]},
            "wasi:http": {"constraints": [{"host": "*"}]},
            "act:credentials": {}, "db:drop": {}, "db:read": {}}"#,
    )
});

/// Declares a part of each class.
pub(crate) static NARROW: LazyLock<Manifest> = LazyLock::new(|| {
    declared(
        r#"{"wasi:filesystem": {"constraints": [{"path": "/data/**", "mode": "rw"}, {"path": "~/notes/**/*.md", "mode": "ro"},
                {"path": "**/*.db", "mode": "ro"}]},
            "wasi:sockets": {"constraints": [{"cidr": "10.0.0.0/8", "ports": [80, 443]}, {"host": "*.example.com"},
                {"cidr": "fd00::/8", "protocols": ["udp"]}]},
            "wasi:http": {"constraints": [{"host": "example.com", "methods": ["GET"]}, {"host": "*.example.org", "scheme": "https"}]},
            "db:drop": {"constraints": [{"key": "tmp_*"}]}}"#,
    )
});

/// Grants the whole ceiling of every class.
pub(crate) static OPEN: LazyLock<Grants> =
    LazyLock::new(|| Grants::parse_json(r#"{"default": "open"}"#, &ANCHORS).expect("a grant"));

/// The whole of [`WIDE`].
pub(crate) static OPEN_WIDE: LazyLock<Engine> = LazyLock::new(|| opened(&WIDE));
/// The whole of [`NARROW`].
pub(crate) static OPEN_NARROW: LazyLock<Engine> = LazyLock::new(|| opened(&NARROW));

fn opened(manifest: &Manifest) -> Engine {
    engine(manifest, &Layers { grant: Some(&OPEN), ..Layers::default() }).expect("an engine")
}

fn declared(capabilities: &str) -> Manifest {
    let json = format!(r#"{{"std": {{"name": "demo", "version": "1", "capabilities": {capabilities}}}}}"#);
    Manifest::decode(&cbor(&json).expect("JSON"), ANCHORS.home).expect("a manifest")
}

/// JSON text as CBOR.
pub(crate) fn cbor(json: &str) -> Option<Vec<u8>> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let mut out = Vec::new();
    ciborium::into_writer(&value, &mut out).ok()?;
    Some(out)
}

/// The engine of a component. What was read is also compiled.
pub(crate) fn engine(manifest: &Manifest, layers: &Layers<'_>) -> Option<Engine> {
    let (policy, warnings) = Policy::resolve(manifest, layers).ok()?;
    Some(compiled(policy, &warnings))
}

/// The engine of an agent.
pub(crate) fn agent(layers: &Layers<'_>) -> Engine {
    let (policy, warnings) = Policy::of_agent(layers);
    compiled(policy, &warnings)
}

fn compiled(policy: Policy, warnings: &[Warning]) -> Engine {
    for Warning(text) in warnings {
        one_line(text);
    }
    match Engine::compile(policy) {
        Ok(engine) => engine,
        Err(error) => panic!("a rule was read and does not compile: {error}"),
    }
}

/// Text for people never carries control characters to a terminal.
pub(crate) fn one_line(text: &str) {
    assert!(!text.contains(char::is_control), "control characters in a message: {text:?}");
}
