//! Malformed input: message, place and hint together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::{Config, Flag, Grants, Layers, Manifest, Policy, Shorthand};
use common::{ANCHORS, built, cbor, flags, manifest};

#[test]
fn shorthand() {
    for (token, words) in [
        ("fs=", "--allow 'fs=': empty path"),
        ("fs=:ro", "empty path"),
        ("fs=/d:wr", "unknown mode `wr`: expected ro or rw"),
        ("fs=/d:RO", "unknown mode `RO`"),
        ("fss=/d", "unknown class `fss` (classes: fs, http, sockets, creds"),
        ("*", "pattern"),
        ("http=ftp://x", "unknown scheme `ftp`: expected http or https"),
        ("http=https://a/v1", "a path (`/v1`) in an http rule"),
        ("http=10.0.0.0/8", "name a host (a range can be denied)"),
        ("http=*", "`*` is every host"),
        ("http=a.*.com", "only a leading `*.` is a wildcard"),
        ("http=h:0", "`0` is not a port (1 to 65535)"),
        ("http=h:http", "`http` is not a port"),
        ("http=h:65536", "`65536` is not a port"),
        ("http=fe80::1:8080", "[fe80::1]:8080"),
        ("http=::1", "[::1]"),
        ("http=[::1", "unclosed bracket"),
        ("http=[nope]", "`[nope]` is not an IPv6 address in brackets"),
        ("sockets=", "empty host"),
        ("sockets=10.0.0.0/99", "`10.0.0.0/99` is not a CIDR"),
        ("sockets=10.0.0.1/8", "write 10.0.0.0/8"),
        ("sockets=10.0.0.0/8:22", "a CIDR takes no port"),
        ("sockets=db.local/sctp", "unknown protocol `sctp`: expected tcp or udp"),
        ("creds=x", "takes no rule: write --allow creds"),
        ("db:*=x", "a rule needs one class, not a pattern"),
        ("db:drop=", "empty key"),
        ("db:drop=a[", "invalid glob"),
        ("fs=/d/[", "invalid glob"),
        ("fs=/a/../b", "holds a `.` or `..` component"),
        ("fs= /d", "white space"),
        ("http=h ", "white space"),
        ("fs=/d\n/e", "control characters"),
        ("", "unknown class ``"),
        ("=", "unknown class ``"),
    ] {
        let error = Shorthand::parse(Flag::Allow, token, &ANCHORS).unwrap_err().to_string();
        assert!(error.starts_with("--allow '") && error.contains(words) && !error.contains('\n'), "{token:?}: {error}");
        built::refuses(&["--allow", token], "", words);
    }
    for token in [
        "fs=/d",
        "fs=~/x:ro",
        "fs=sub/**",
        "fs=../up",
        "http=https://a:8443",
        "http=[::1]:80",
        "sockets=[::1]:80/udp",
        "creds",
        "db:drop=a*",
    ] {
        assert!(Shorthand::parse(Flag::Allow, token, &ANCHORS).is_ok(), "{token}");
    }
    assert!(Shorthand::parse(Flag::Deny, "http=10.0.0.0/8", &ANCHORS).is_ok());
}

#[test]
fn flags_that_contradict_each_other() {
    for (list, words) in
        [(["+fs", "+fs=/d"], "--allow 'fs' and --allow 'fs=/d'"), (["-fs=/d", "-fs"], "--deny 'fs' and --deny 'fs=/d'")]
    {
        let flags = flags(&list);
        let error =
            Policy::resolve(&manifest("{}"), &Layers { flags: &flags, ..Layers::default() }).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        let arguments = list.map(|text| [if text.starts_with('+') { "--allow" } else { "--deny" }, &text[1..]]);
        built::refuses(&arguments.concat(), "", words);
    }
}

#[test]
fn grant_json() {
    for (text, words) in [
        ("", "--grant '': "),
        ("[]", "expected a table, found a list"),
        ("{} x", "trailing characters"),
        (r#"{"fs": "open", "fs": "deny"}"#, "duplicate key `fs`"),
        (r#"{"fs": "open", "wasi:filesystem": "deny"}"#, "`fs` and `wasi:filesystem` both name wasi:filesystem"),
        (r#"{"fs": "maybe"}"#, "unknown mode `maybe`: expected deny, allowlist, open or ask"),
        (r#"{"fs": null}"#, "found null"),
        (r#"{"fs": {"allow": []}}"#, "without `mode`"),
        (r#"{"fs": {"mode": "allowlist", "allow": null}}"#, "allow: expected a list, found null"),
        (r#"{"fs": {"mode": "allowlist", "alow": []}}"#, "unknown member `alow` (known: mode, allow, deny)"),
        (r#"{"fs": {"mode": "allowlist", "allow": [{"path": "/a"}]}}"#, "without `mode` (ro or rw)"),
        (
            r#"{"sockets": {"mode": "allowlist", "allow": [{"hosst": "x"}]}}"#,
            "unknown member `hosst` in a wasi:sockets rule (known: host, cidr,",
        ),
        (
            r#"{"sockets": {"mode": "allowlist", "allow": [{"host": "x", "cidr": "10.0.0.0/8"}]}}"#,
            "both `host` and `cidr`",
        ),
        (
            r#"{"sockets": {"mode": "allowlist", "allow": [{"host": "x", "ports": [0]}]}}"#,
            "`0` is not a port (1 to 65535)",
        ),
        (r#"{"sockets": {"mode": "allowlist", "allow": [{"host": "x", "ports": []}]}}"#, "an empty `ports` list"),
        (r#"{"creds": {"mode": "allowlist", "allow": [{}]}}"#, "takes no rules"),
        (r#"{"nope": "open"}"#, "unknown class `nope`"),
        (r#"{"a*b*": "open"}"#, "one `*`, at the end"),
    ] {
        let error = Grants::parse_json(text, &ANCHORS).unwrap_err();
        assert!(error.starts_with("--grant '") && error.contains(words) && !error.contains('\n'), "{text}: {error}");
        built::refuses(&["--grant", text], "", words);
    }
}

#[test]
fn configuration() {
    for (text, words) in [
        ("\n\n[policy\n", "config.toml:3: "),
        (
            "[policyy]\nfs = \"deny\"\n",
            "config.toml:1: unknown key `policyy` in the configuration (known: policy, permissions, consent,",
        ),
        ("[policy]\nfs = \"maybe\"\n", "config.toml:2: unknown mode `maybe`"),
        (
            "[policy]\nfs = \"open\"\n\"wasi:filesystem\" = \"deny\"\n",
            "config.toml:3: `fs` and `wasi:filesystem` both name",
        ),
        ("[policy.fs]\nmode = \"open\"\ndenny = []\n", "config.toml:3: unknown member `denny`"),
        ("[profile.p]\npolicyy = {}\n", "config.toml:2: unknown key `policyy` in a profile"),
        ("[audit]\nenabled = false\n", "config.toml:2: unknown key `enabled` in [audit] (known: detail)"),
        ("[policy]\nfs = 5\n", "config.toml:2: expected a mode or a table"),
        ("a = \"\u{7}", "config.toml:1: "),
    ] {
        let error = Config::parse(text, "config.toml", act_policy::Layer::User, &ANCHORS).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{text:?}: {error}");
        built::refuses(&[], text, words);
    }
}

#[test]
#[cfg_attr(miri, ignore = "expands a quarter of a million alternatives, for an hour in Miri")]
fn the_globs_of_a_manifest_are_bounded() {
    let rules = vec![r#"{"path": "/{,a}{,b}{,c}{,d}{,e}{,f}{,g}{,h}", "mode": "rw"}"#; 1000].join(",");
    let files = format!(r#"{{"wasi:filesystem": {{"constraints": [{rules}]}}}}"#);
    let json = format!(r#"{{"std": {{"name": "x", "version": "1", "capabilities": {files}}}}}"#);
    let error = Manifest::decode(&cbor(&json), None).unwrap_err().to_string();
    let words = "with their braces expanded, the globs take more than 4194304 bytes";
    assert!(error.contains(words), "{error}");
    built::validates(&json, Some(words));
}

#[test]
fn manifests() {
    let caps = |text: &str| format!(r#"{{"std": {{"name": "x", "version": "1", "capabilities": {text}}}}}"#);
    for (json, words) in [
        (r#"{"std": {"version": "1"}}"#.to_owned(), "no std.name"),
        (r#"{"std": {"name": "x"}}"#.to_owned(), "no std.version"),
        (r#"{"acme": {}}"#.to_owned(), "no `std`"),
        (r#"["std"]"#.to_owned(), "expected a table, found a list"),
        (caps(r#"{"db:*": {}}"#), "db:*: a declaration names one class"),
        (caps(r#"{"db:drop": {"constraints": [{"key": "a\u007f{"}]}}"#), "control characters in a path or key"),
        (caps(r#"{"db:drop": {"constraints": [{"key": "a{\u202e"}]}}"#), r"invalid glob `a{\u{202e}`"),
        (caps(r#"{"": {}}"#), "an empty class id"),
        (caps(r#"{"fs": {}}"#), "writes the full id wasi:filesystem"),
        (caps(r#"{"wasi:filesystem": {"constraints": [{"path": "/d"}]}}"#), "without `mode`"),
        (caps(r#"{"wasi:filesystem": {"constraints": [{"mode": "rw"}]}}"#), "without `path`"),
        (caps(r#"{"wasi:filesystem": {"constraints": [{"path": "/d", "mode": "rx"}]}}"#), "unknown mode `rx`"),
        (caps(r#"{"wasi:filesystem": {"constraints": [{"path": "/d/[", "mode": "rw"}]}}"#), "invalid glob"),
        (
            caps(r#"{"wasi:filesystem": {"constraints": [{"path": "d/x", "mode": "rw"}]}}"#),
            "a path here is absolute or starts with ~/ or **",
        ),
        (caps(r#"{"wasi:http": {"constraints": [{"scheme": "https"}]}}"#), "names a host"),
        (caps(r#"{"wasi:http": {"constraints": [{"host": "x", "scheme": "ftp"}]}}"#), "unknown scheme `ftp`"),
        (caps(r#"{"wasi:sockets": {"constraints": [{"ports": [1]}]}}"#), "names a host or a cidr"),
        (caps(r#"{"wasi:sockets": {"constraints": [{"cidr": "10.0.0.0/99"}]}}"#), "is not a CIDR"),
        (
            caps(r#"{"wasi:sockets": {"constraints": [{"host": "x", "protocols": ["sctp"]}]}}"#),
            "unknown protocol `sctp`",
        ),
        (
            caps(r#"{"wasi:filesystem": {"params": {"mounts": [{"guest": "/a/../b", "host": "/d"}]}}}"#),
            "without `.` and `..`",
        ),
        (
            caps(
                r#"{"wasi:filesystem": {"params": {"mounts": [{"guest": "/m", "host": "/d"}, {"guest": "/m", "host": "/e"}]}}}"#,
            ),
            "two mounts at `/m`",
        ),
        (
            caps(
                r#"{"wasi:filesystem": {"params": {"mount-root": "/m", "mounts": [{"guest": "/m/", "host": "/d"}]}}}"#,
            ),
            "two mounts at `/m`",
        ),
        (
            r#"{"std": {"name": "x", "version": "1", "credentials": [{"key": "k"}]}}"#.to_owned(),
            "without the capability act:credentials",
        ),
    ] {
        let error = Manifest::decode(&cbor(&json), Some("/home/a")).unwrap_err().to_string();
        assert!(
            error.starts_with("act:component: ") && error.contains(words) && !error.contains(char::is_control),
            "{json}: {error}"
        );
        built::validates(&json, Some(words));
    }
    for bytes in [&b"\xff\xff"[..], b"", b"\xa1\x01\x02", b"\xa0\xa0", &vec![0x81; 100_000]] {
        assert!(Manifest::decode(bytes, None).is_err());
    }
    let indefinite = b"\xbf\x63std\xbf\x64name\x61x\x67version\x611\xff\xff";
    assert_eq!(Manifest::decode(indefinite, None).unwrap().name, "x");
}
