//! `act-guest` with a component of WASI 0.3 (`tests/guests/p3demo`): files, lookups, streamed output, traps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use act_policy::Access::{List, Read, Stat, Write};
use common::{Setup, compiled};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

#[test]
fn files_through_wasi_0_3() {
    let Some(component) = compiled("p3demo") else { return };
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let at = |path: &str| top.join(path).to_str().unwrap().to_owned();
    for d in ["data/secret", "data/sub", "ro", "other"] {
        fs::create_dir_all(at(d)).unwrap();
    }
    for f in ["data/a.txt", "data/secret/k", "ro/r.txt", "other/s.txt"] {
        fs::write(at(f), f).unwrap();
    }
    fs::write(top.join("data").join(std::ffi::OsStr::from_bytes(b"od\xffd")), "").unwrap();
    symlink("../other/s.txt", at("data/out")).unwrap();
    symlink("../other", at("data/outdir")).unwrap();
    let mut guest = Setup::new(&[
        format!("+fs={}/**", at("data")),
        format!("+fs={}/**:ro", at("ro")),
        format!("-fs={}/**", at("data/secret")),
    ])
    .start(component);
    guest.go();
    let absolute = at("other/s.txt");
    for (tool, what, path, other, expected) in [
        ("read_file", "", "data/a.txt", "", Ok("data/a.txt")),
        ("read_file", "", "data/out", "", Err((Read, "other/s.txt"))),
        ("read_file", "", "data/outdir/s.txt", "", Err((Read, "other/s.txt"))),
        ("read_file", "", "data/secret/k", "", Err((Read, "data/secret/k"))),
        ("write_file", "", "data/n.txt", "", Ok("left 0")),
        ("write_file", "", "ro/r.txt", "", Err((Write, "ro/r.txt"))),
        ("write_file", "", "data/out", "", Err((Write, "other/s.txt"))),
        ("list_dir", "", "data", "", Ok("a.txt,n.txt,out,outdir,sub")),
        ("list_dir", "", "data/outdir", "", Err((Stat, "other"))),
        ("list_dir", "", "", "", Err((List, ""))),
        ("act", "mkdir", "data/d", "", Ok("ok")),
        ("act", "mkdir", "ro/d", "", Err((Write, "ro/d"))),
        ("act", "rename", "data/d", "data/e", Ok("ok")),
        ("act", "rename", "data", "data2", Err((Write, "data2"))),
        ("act", "rename", "data/a.txt", "ro/a.txt", Err((Write, "ro/a.txt"))),
        ("act", "rmdir", "data/e", "", Ok("ok")),
        ("act", "link", "data/a.txt", "data/l", Ok("ok")),
        ("act", "link", "ro/r.txt", "data/m", Err((Write, "ro/r.txt"))),
        ("act", "unlink", "data/l", "", Ok("ok")),
        ("act", "unlink", "ro/r.txt", "", Err((Write, "ro/r.txt"))),
        ("act", "times", "data/a.txt", "", Ok("ok")),
        ("act", "times", "ro/r.txt", "", Err((Write, "ro/r.txt"))),
        ("act", "readlink", "data/out", "", Ok("../other/s.txt")),
        ("act", "stat", "data/a.txt", "", Ok("DescriptorType::RegularFile 10")),
        ("act", "stat", "other/s.txt", "", Err((Stat, "other/s.txt"))),
    ] {
        let (path, real) = (at(path), path);
        let other = if other.is_empty() { String::new() } else { at(other) };
        let all = [("what", what), ("path", path.as_str()), ("other", other.as_str()), ("text", "W")];
        let wanted: &[&str] = match tool {
            "act" => &["what", "path", "other"],
            "write_file" => &["path", "text"],
            _ => &["path"],
        };
        let arguments: Vec<_> = all.into_iter().filter(|(key, _)| wanted.contains(key)).collect();
        let got = guest.text(tool, &arguments);
        match expected {
            Ok(text) => assert_eq!(got.as_deref(), Ok(text), "{tool} {what} {real}"),
            Err((access, real)) => {
                let told = got.as_ref().is_err_and(|e| e.to_lowercase().replace('-', "").contains("notpermitted"));
                assert!(told, "{tool} {what} {real}: {got:?}");
                let real = at(real);
                assert!(guest.denied(access, real.trim_end_matches('/')), "{tool} {real}: {:?}", guest.records.last());
            }
        }
    }
    let link = [("what", "symlink"), ("path", &at("data/abs")), ("other", absolute.as_str())];
    assert!(guest.text("act", &link).is_err());
    // A descriptor that was opened for reading changes nothing, whatever the file may be opened for.
    assert!(guest.text("append_readonly", &[("path", &at("data/a.txt"))]).is_err());
    assert_eq!(fs::read_to_string(at("data/a.txt")).unwrap(), "data/a.txt");
    assert_eq!(fs::read_to_string(at("data/n.txt")).unwrap(), "W");
    assert_eq!(fs::read_to_string(at("other/s.txt")).unwrap(), "other/s.txt");
}

#[test]
fn names_are_resolved_outside() {
    let Some(component) = compiled("p3demo") else { return };
    let mut guest = Setup::new(&["+sockets=known.test:80".into()]).start(component);
    guest.names.insert("known.test".into(), vec!["127.0.0.9".parse().unwrap(), "::1".parse().unwrap()]);
    guest.go();
    let resolved = guest.text("resolve", &[("host", "known.test")]).unwrap();
    assert!(resolved.contains("127, 0, 0, 9") && resolved.to_lowercase().contains("ipv6"), "{resolved}");
    let denied = guest.text("resolve", &[("host", "evil.test")]).unwrap_err();
    assert!(denied.to_lowercase().replace('-', "").contains("accessdenied"), "{denied}");
    assert!(guest.text("resolve", &[("host", "127.0.0.1")]).is_ok());
    let lookups = guest.records.iter().filter(|r| matches!(r.request, act_policy::Request::Lookup { .. })).count();
    assert_eq!(lookups, 1, "only the denied one is the child's to record: {:?}", guest.records);
}

#[test]
fn streamed_output_arrives_in_order_and_is_bounded() {
    let Some(component) = compiled("p3demo") else { return };
    let mut guest = Setup::new(&[]).start(component);
    guest.go();
    let arguments = |n: i64, bytes: i64| [("n", n.into()), ("bytes", bytes.into())];
    let text = guest.call("stream", &arguments(1000, 2)).unwrap();
    let numbers: Vec<_> =
        text.split("xx").filter(|t| !t.is_empty()).map(|t| t.trim_end_matches(';').parse::<u32>().unwrap()).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    let over = guest.call("stream", &arguments(100, 50_000)).unwrap_err();
    assert!(over.contains("output of more than"), "{over}");
    assert!(guest.call("stream", &arguments(1, 1)).is_ok());
}

#[test]
fn after_a_trap_the_next_call_works() {
    let Some(component) = compiled("p3demo") else { return };
    let mut guest = Setup::new(&[]).start(component);
    guest.go();
    for _ in 0..3 {
        let error = guest.text("trap", &[]).unwrap_err();
        assert!(error.contains("unreachable"), "{error}");
        assert_eq!(guest.text("resolve", &[("host", "::1")]).map(|_| ()), Ok(()));
    }
}

#[test]
fn consent_and_credentials_are_denied() {
    let Some(component) = compiled("p3demo") else { return };
    let mut guest = Setup::new(&[]).start(component);
    guest.go();
    assert_eq!(guest.text("consent", &[("class", "db:drop"), ("key", "x")]).unwrap(), "Decision::Deny");
    let secret = guest.text("secret", &[("key", "k")]).unwrap();
    assert!(secret.starts_with("Ok(0) Err(") && secret.to_lowercase().contains("denied"), "{secret}");
}
