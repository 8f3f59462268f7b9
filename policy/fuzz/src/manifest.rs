use crate::properties::{hold, no_wider};
use crate::requests::{about, fixed};
use crate::world::{ANCHORS, OPEN, cbor, engine, one_line};
use act_policy::{Flag, Grants, Layers, Manifest, Shorthand};
use std::sync::LazyLock;

static GRANT: LazyLock<Grants> = LazyLock::new(|| {
    let json = r#"{"fs": {"mode": "allowlist", "allow": [{"path": "/data/**", "mode": "rw"}, {"path": "/h/*.db", "mode": "ro"}],
        "deny": [{"path": "/data/secret"}]},
        "http": {"mode": "allowlist", "allow": [{"host": "*.example.com", "ports": [443]}]}, "sockets": "open", "db:*": "open"}"#;
    Grants::parse_json(json, &ANCHORS).expect("a grant")
});

/// A manifest in CBOR, or the JSON text of one (a CBOR map does not start with `{`): decoded, resolved, compiled and
/// lowered for the kernel.
pub fn manifest(bytes: &[u8]) {
    let json = bytes.starts_with(b"{").then(|| std::str::from_utf8(bytes).ok().and_then(cbor)).flatten();
    let payload = json.as_deref().unwrap_or(bytes);
    // Without a home, `~/` has no meaning.
    if let Err(error) = Manifest::decode(payload, None) {
        one_line(&error.to_string());
    }
    let manifest = match Manifest::decode(payload, ANCHORS.home) {
        Ok(manifest) => manifest,
        Err(error) => return one_line(&error.to_string()),
    };
    for capability in &manifest.capabilities {
        assert!(serde_json::from_str::<serde_json::Value>(&capability.json).is_ok(), "not JSON: {}", capability.json);
    }
    let Some(open) = engine(&manifest, &Layers { grant: Some(&OPEN), ..Layers::default() }) else { return };
    let mut requests = fixed();
    requests.extend(about(open.policy()));
    hold(&open, &requests);
    let all = Shorthand::parse(Flag::Allow, "fs=/**", &ANCHORS).expect("a flag");
    let layers = [
        Layers::default(),
        Layers { grant: Some(&GRANT), ..Layers::default() },
        Layers { flags: std::slice::from_ref(&all), ..Layers::default() },
    ];
    for granted in layers.iter().filter_map(|layers| engine(&manifest, layers)) {
        hold(&granted, &requests);
        no_wider(&granted, &open, &requests, "a grant passes the ceiling");
    }
}
