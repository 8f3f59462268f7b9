//! Properties that hold for every policy and request.
#![cfg(not(miri))] // Random inputs by the thousand take hours there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::{
    Access, Anchors, Config, Engine, Flag, Grants, Host, KernelPlan, Manifest, NetVerdict, PathPattern, Protocol,
    Request, Shorthand,
};
use common::{declares_files, engine, manifest};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Paths of a small world, so that rules and requests meet.
fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof!["[ab]", "[ab][ab]", "x\\.db"], 1..4)
        .prop_map(|parts| format!("/{}", parts.join("/")))
}

fn rule() -> impl Strategy<Value = String> {
    let tail = prop_oneof!["", "/\\*\\*", "/\\*", "/\\*\\*/\\*\\.db", "/\\{a,b\\}/\\*\\*", "/\\?"];
    let mode = prop_oneof!["", ":ro"];
    (path(), tail, mode).prop_map(|(path, tail, mode)| format!("{path}{tail}{mode}"))
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Stat), Just(Access::List), Just(Access::Read), Just(Access::Write)]
}

fn rules(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(rule(), n)
}

fn with_flags(declared: &[String], allow: &[String], deny: &[String]) -> Engine {
    let declared: Vec<(&str, &str)> =
        declared.iter().map(|r| r.strip_suffix(":ro").map_or((r.as_str(), "rw"), |path| (path, "ro"))).collect();
    let flags: Vec<String> =
        allow.iter().map(|r| format!("+fs={r}")).chain(deny.iter().map(|r| format!("-fs={r}"))).collect();
    engine(&declares_files(&declared), &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

fn decide(engine: &Engine, access: Access, path: &str) -> bool {
    engine.decide(&Request::File { access, path: path.into() }).allowed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_deny_never_widens_and_order_is_irrelevant(d in rules(1..4), a in rules(1..4), n in rules(0..3), more in rule(), who in access(), p in path()) {
        let before = with_flags(&d, &a, &n);
        let mut with_more = n.clone();
        with_more.push(more);
        let after = with_flags(&d, &a, &with_more);
        prop_assert!(decide(&before, who, &p) || !decide(&after, who, &p));
        let (mut ra, mut rn) = (a.clone(), n.clone());
        ra.reverse();
        rn.reverse();
        prop_assert_eq!(decide(&with_flags(&d, &ra, &rn), who, &p), decide(&before, who, &p));
    }

    #[test]
    fn nothing_passes_the_ceiling(d in rules(1..4), a in rules(1..4), who in access(), p in path()) {
        if decide(&with_flags(&d, &a, &[]), who, &p) {
            prop_assert!(decide(&with_flags(&d, &["/**".into()], &[]), who, &p));
        }
    }

    #[test]
    fn an_allowed_write_implies_an_allowed_read(d in rules(1..4), a in rules(1..4), n in rules(0..3), p in path()) {
        let engine = with_flags(&d, &a, &n);
        if decide(&engine, Access::Write, &p) {
            prop_assert!(decide(&engine, Access::Read, &p) && decide(&engine, Access::Stat, &p) && decide(&engine, Access::List, &p));
        }
    }

    #[test]
    fn the_kernel_is_never_tighter_than_the_policy(d in rules(1..4), a in rules(1..4), n in rules(0..3), p in path()) {
        let engine = with_flags(&d, &a, &n);
        let plan = KernelPlan::new(&engine);
        for (who, write) in [(Access::Read, false), (Access::Write, true)] {
            if decide(&engine, who, &p) {
                let covered = plan.files.iter().any(|s| (s.write || !write) && p.as_bytes().strip_prefix(s.path.as_slice()).is_some_and(|r| r.is_empty() || r[0] == b'/'));
                prop_assert!(covered, "{:?}", plan.files);
            }
        }
        for subtree in plan.files.iter().filter(|s| s.exact) {
            let text = String::from_utf8(subtree.path.clone()).unwrap();
            for below in [text.clone(), format!("{text}/new")] {
                prop_assert!(decide(&engine, Access::Read, &below), "{below} is opened and not allowed");
            }
        }
    }

    #[test]
    fn json_and_shorthand_decide_alike(r in rule(), who in access(), p in path()) {
        let (pattern, mode) = r.strip_suffix(":ro").map_or((r.as_str(), "rw"), |path| (path, "ro"));
        let json = format!(r#"{{"fs": {{"mode": "allowlist", "allow": [{{"path": "{pattern}", "mode": "{mode}"}}]}}}}"#);
        let by_json = common::resolve(&declares_files(&[("/**", "rw")]), &common::Operator { grants: &[&json], ..Default::default() }).0;
        let by_flag = with_flags(&["/**".into()], &[r], &[]);
        prop_assert_eq!(decide(&by_json, who, &p), decide(&by_flag, who, &p));
    }

    #[test]
    fn the_flattened_table_equals_the_decision(
        cidrs in prop::collection::vec((any::<u32>(), 8u8..=32, any::<bool>(), prop::option::of(1u16..5)), 1..12),
        picks in prop::collection::vec((any::<u32>(), 0usize..12, 1u16..6, any::<bool>()), 1..40),
    ) {
        let mut lists = [Vec::new(), Vec::new()];
        let mut nets = Vec::new();
        for (addr, prefix, deny, port) in cidrs {
            let net = ipnet::Ipv4Net::new(Ipv4Addr::from(addr & 0x0303_0303 | 0x0a00_0000), prefix).unwrap().trunc();
            let ports = port.map(|p| format!(r#", "ports": [{p}]"#)).unwrap_or_default();
            lists[usize::from(deny)].push(format!(r#"{{"cidr": "{net}"{ports}}}"#));
            nets.push(net);
        }
        let grant = format!(r#"{{"sockets": {{"mode": "allowlist", "allow": [{}], "deny": [{}]}}}}"#, lists[0].join(","), lists[1].join(","));
        let declared = manifest(r#"{"wasi:sockets": {"constraints": [{"host": "*"}]}}"#);
        let engine = common::resolve(&declared, &common::Operator { grants: &[&grant], ..Default::default() }).0;
        let plan = KernelPlan::new(&engine);
        for (noise, near, port, udp) in picks {
            let base = u32::from(nets[near % nets.len()].network());
            let addr = IpAddr::V4(Ipv4Addr::from(base ^ (noise & 0x0001_0101)));
            let protocol = if udp { Protocol::Udp } else { Protocol::Tcp };
            let decided = engine.decide(&Request::Connect { addr: SocketAddr::new(addr, port), protocol, names: vec![] });
            let entry = plan.net.entries.iter().filter(|e| e.range.contains(&addr)).max_by_key(|e| e.range.prefix_len()).unwrap();
            let range = entry.ports.iter().find(|r| r.protocol == protocol && (r.low..=r.high).contains(&port));
            let table = range.map_or(entry.default, |r| r.verdict);
            prop_assert_eq!(table == NetVerdict::Allow, decided.allowed(), "{} {}:{} {}", grant, addr, port, protocol);
        }
    }

    #[test]
    fn reading_anything_never_panics(text in "\\PC*", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let anchors = Anchors { home: Some("/h"), directory: Some("/d"), workspace: Some("/w"), stars_at_root: true };
        let _ = Shorthand::parse(Flag::Allow, &text, &anchors);
        let _ = Shorthand::parse(Flag::Deny, &format!("fs={text}"), &anchors);
        let _ = Shorthand::parse(Flag::Deny, &format!("sockets={text}"), &anchors);
        let _ = Shorthand::parse(Flag::Allow, &format!("http={text}"), &anchors);
        let _ = Grants::parse_json(&text, &anchors);
        let _ = Config::parse(&text, "f", act_policy::Layer::User, &anchors);
        let _ = Host::parse(&text);
        let _ = PathPattern::parse(&format!("/{text}"));
        let _ = Manifest::decode(&bytes, None);
        let _ = act_policy::escape(&text);
    }
}
