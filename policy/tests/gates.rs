//! Properties over random policies of every class: explain is decide, nothing passes the ceiling, denies absorb, and the
//! kernel's plan is never tighter than the policy.
//!
//! `ACT_CASES=1000000` runs as many cases, as the nightly job does; without it 10,000 and 2,000.
#![cfg(not(miri))] // Random inputs by the thousand take hours there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::{
    Access, Call, Class, Decision, Enforcer, Engine, Explanation, KernelPlan, Manifest, NetVerdict, Protocol, Reason,
    Request, Verdict,
};
use common::{ANCHORS, Operator, manifest, resolve};
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

fn cases(ordinary: u32) -> u32 {
    std::env::var("ACT_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(ordinary)
}

fn config(ordinary: u32) -> ProptestConfig {
    ProptestConfig { cases: cases(ordinary), max_shrink_iters: 2000, ..ProptestConfig::default() }
}

const PATHS: &[&str] =
    &["/d", "/d/**", "/d/a/**", "/d/a/x.db", "/d/**/*.db", "/d/{a,b}/*", "/e/**", "/**", "/d/a", "/ws/**"];
const HOSTS: &[&str] = &["*", "a.test", "*.a.test", "b.test", "10.0.0.1", "127.0.0.1", "2001:db8::1"];
const CIDRS: &[&str] = &["10.0.0.0/8", "10.0.0.0/30", "127.0.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32"];
const MODES: &[&str] = &["ask", "deny", "allowlist", "open"];

fn file_rule() -> impl Strategy<Value = String> {
    (select(PATHS), any::<bool>())
        .prop_map(|(path, rw)| format!(r#"{{"path": "{path}", "mode": "{}"}}"#, if rw { "rw" } else { "ro" }))
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        select(HOSTS).prop_map(|h| format!(r#""host": "{h}""#)),
        select(CIDRS).prop_map(|c| format!(r#""cidr": "{c}""#))
    ]
}

fn socket_rule() -> impl Strategy<Value = String> {
    let ports = select(&["", r#", "ports": [80]"#, r#", "ports": [80, 443]"#, r#", "except-ports": [443]"#][..]);
    let protocols = select(&["", r#", "protocols": ["tcp"]"#, r#", "protocols": ["udp"]"#][..]);
    (target(), ports, protocols).prop_map(|(target, ports, protocols)| format!("{{{target}{ports}{protocols}}}"))
}

fn http_rule() -> impl Strategy<Value = String> {
    let ports = select(&["", r#", "ports": [80]"#, r#", "except-ports": [443]"#][..]);
    let more = select(&["", r#", "methods": ["GET"]"#, r#", "scheme": "https""#][..]);
    (target(), ports, more).prop_map(|(target, ports, more)| format!("{{{target}{ports}{more}}}"))
}

/// An entry of a grant: mode, allow and deny rules.
fn entry(rule: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = String> {
    let list = |rule| prop::collection::vec(rule, 0..3).prop_map(|rules| rules.join(","));
    (select(MODES), list(rule.clone()), list(rule))
        .prop_map(|(mode, allow, deny)| format!(r#"{{"mode": "{mode}", "allow": [{allow}], "deny": [{deny}]}}"#))
}

fn grant() -> impl Strategy<Value = String> {
    (entry(file_rule().boxed()), entry(socket_rule().boxed()), entry(http_rule().boxed()))
        .prop_map(|(fs, sockets, http)| format!(r#"{{"fs": {fs}, "sockets": {sockets}, "http": {http}}}"#))
}

fn declared() -> impl Strategy<Value = Manifest> {
    let list = |rule: BoxedStrategy<String>| prop::collection::vec(rule, 0..3).prop_map(|rules| rules.join(","));
    (list(file_rule().boxed()), list(socket_rule().boxed()), list(http_rule().boxed())).prop_map(|(fs, sockets, http)| {
        manifest(&format!(
            r#"{{"wasi:filesystem": {{"constraints": [{fs}]}}, "wasi:sockets": {{"constraints": [{sockets}]}}, "wasi:http": {{"constraints": [{http}]}}, "act:credentials": {{}}}}"#
        ))
    })
}

/// `[permissions]` as TOML.
fn permissions() -> impl Strategy<Value = String> {
    let path = || select(PATHS).prop_map(|p| p.replace("/ws/", "./"));
    let rule = prop_oneof![
        path().prop_map(|p| format!("read({p})")),
        path().prop_map(|p| format!("write({p})")),
        select(HOSTS).prop_map(|h| if h.contains(':') {
            format!("net(domain: [{h}])")
        } else {
            format!("net(domain: {h})")
        }),
        select(CIDRS).prop_map(|c| format!("net(domain: {c})")),
        select(
            &[
                "tool(*)",
                "tool(t.q)",
                "tool(t.*)",
                "tool(*.q)",
                "creds(k*)",
                "spawn(cmd: git push)",
                "spawn(*)",
                "ui(*)"
            ][..]
        )
        .prop_map(str::to_owned),
    ];
    let lists = prop::collection::vec((select(&["allow", "ask", "deny"][..]), rule), 0..5);
    let subjects = select(&["", ".subject.\"ext:t\"", ".subject.\"agent:c\""][..]);
    prop::collection::vec((subjects, lists), 0..3).prop_map(|sections| {
        let mut text = String::from("[permissions]\n");
        let mut seen = Vec::new();
        for (subject, lists) in sections {
            if seen.contains(&subject) {
                continue;
            }
            seen.push(subject);
            let mut section = String::new();
            for list in ["allow", "ask", "deny"] {
                let rules: Vec<String> =
                    lists.iter().filter(|(l, _)| *l == list).map(|(_, rule)| format!("{rule:?}")).collect();
                if !rules.is_empty() {
                    let _ = writeln!(section, "{list} = [{}]", rules.join(", "));
                }
            }
            if subject.is_empty() {
                text.insert_str("[permissions]\n".len(), &section);
            } else {
                let _ = write!(text, "[permissions{subject}]\n{section}");
            }
        }
        text
    })
}

fn managed() -> impl Strategy<Value = Option<String>> {
    prop::option::of((select(MODES), select(PATHS), select(CIDRS)).prop_map(|(mode, path, cidr)| {
        format!(
            "[policy.fs]\nmode = \"{mode}\"\nallow = [{{ path = \"{path}\", mode = \"rw\" }}]\n[policy.sockets]\nmode = \"open\"\ndeny = [{{ cidr = \"{cidr}\" }}]\n"
        )
    }))
}

fn address() -> impl Strategy<Value = IpAddr> {
    select(
        &[
            "10.0.0.1",
            "10.0.0.9",
            "127.0.0.1",
            "0.0.0.0",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2001:db8::1",
            "8.8.8.8",
            "::1",
        ][..],
    )
    .prop_map(|a| a.parse().unwrap())
}

fn request() -> impl Strategy<Value = Request> {
    let path = select(&["/", "/d", "/d/a", "/d/a/x.db", "/d/b/y", "/d/x.db", "/e/z", "/ws/n", "/f"][..]);
    let access = select(&[Access::Stat, Access::List, Access::Read, Access::Write][..]);
    let name = select(&["a.test", "x.a.test", "b.test", "c.test"][..]);
    let port = select(&[80u16, 443, 22][..]);
    let protocol = select(&[Protocol::Tcp, Protocol::Udp][..]);
    let names = prop::collection::vec(name.clone().prop_map(str::to_owned), 0..2);
    let method = select(&["GET", "POST"][..]);
    let scheme = select(&["http", "https"][..]);
    let class = select(&[true, false][..]).prop_map(|http| if http { Class::http() } else { Class::sockets() });
    prop_oneof![
        4 => (access, path).prop_map(|(access, path)| Request::File { access, path: path.into() }),
        4 => (address(), port.clone(), protocol, names)
            .prop_map(|(ip, port, protocol, names)| Request::Connect { addr: SocketAddr::new(ip, port), protocol, names }),
        4 => (method, scheme, name.clone(), port, prop::option::of(address())).prop_map(|(method, scheme, host, port, address)| {
            Request::Http { method: method.into(), scheme: scheme.into(), host: host.into(), port, address }
        }),
        1 => (class, name.clone()).prop_map(|(class, host)| Request::Lookup { class, host: host.into() }),
        1 => select(&["key", "other"][..]).prop_map(|key| Request::Credential { key: key.into() }),
        1 => select(&["q", "r"][..]).prop_map(|tool| Request::Tool { component: "t".into(), tool: tool.into() }),
    ]
}

fn engine(declared: &Manifest, grant: &str, config: &str, managed: Option<&str>) -> Engine {
    let operator = Operator { grants: &[grant], config, managed, client: Some("c"), ..Operator::default() };
    resolve(declared, &operator).0
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict.decision {
        Decision::Deny => 0,
        Decision::Ask => 1,
        Decision::Allow => 2,
    }
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn explain_is_decide(d in declared(), g in grant(), p in permissions(), m in managed(), r in request()) {
        let engine = engine(&d, &g, &p, m.as_deref());
        let verdict = engine.decide(&r);
        let judgement = engine.judge(&r);
        prop_assert_eq!(judgement.verdict, verdict);
        // What is decided is the narrowest of what the gates said.
        let gates = [judgement.ceiling, judgement.managed, judgement.grant, judgement.permission];
        if let Some(narrowest) = gates.iter().flatten().map(rank).min() {
            prop_assert_eq!(rank(&verdict), narrowest, "{:?}", judgement);
        }
        if judgement.ceiling.is_some_and(|c| c.decision == Decision::Deny) {
            prop_assert_eq!(verdict.reason, Reason::OutsideCeiling);
        }
        // A rule that is named exists, and the reason has words.
        prop_assert!(verdict.rule.is_none_or(|id| engine.policy().rule(id).is_some()));
        prop_assert!(!engine.policy().reason(&verdict).is_empty());
        // Every refusal is somebody's to enforce, an allow nobody's.
        let enforcers = KernelPlan::new(&engine).enforcers(&engine, &r);
        prop_assert_eq!(enforcers.is_empty(), verdict.allowed(), "{:?}", enforcers);
        // The form in which people ask gives the same answer.
        let call = match &r {
            Request::File { access: Access::Read, path } => Some(format!("read({})", String::from_utf8_lossy(path))),
            Request::File { access: Access::Write, path } => Some(format!("write({})", String::from_utf8_lossy(path))),
            Request::Tool { component, tool } => Some(format!("tool({component}.{tool})")),
            Request::Credential { key } => Some(format!("creds({key})")),
            _ => None,
        };
        if let Some(call) = call {
            let explanation = Explanation::new(&Call::parse(&call, &ANCHORS).unwrap(), &engine, None);
            prop_assert_eq!(explanation.verdict, verdict.decision, "{}", explanation.text());
            prop_assert_eq!(&explanation.reason, &engine.policy().reason(&verdict));
        }
    }

}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn the_effective_set_is_inside_the_ceiling(d in declared(), g in grant(), p in permissions(), r in request()) {
        let granted = engine(&d, &g, &p, None);
        let everything = engine(&d, r#"{"*": "open"}"#, "", None);
        let about_component = !matches!(r, Request::Tool { .. });
        let passed = granted.decide(&r).allowed() && about_component;
        prop_assert!(!passed || everything.decide(&r).allowed(), "outside the ceiling");
    }

    #[test]
    fn more_rules_that_narrow_never_widen(d in declared(), g in grant(), p in permissions(), m in managed(), extra in permissions(), r in request()) {
        let before = engine(&d, &g, &p, None);
        let bounded = engine(&d, &g, &p, m.as_deref());
        prop_assert!(rank(&bounded.decide(&r)) <= rank(&before.decide(&r)), "a managed layer widened");
        // Only the denies of another file.
        let denies: String = extra.lines().filter(|l| l.starts_with('[') || l.starts_with("deny")).map(|l| format!("{l}\n")).collect();
        let operator = Operator { grants: &[&g], config: &p, managed: Some(&denies), client: Some("c"), ..Operator::default() };
        let denied = resolve(&d, &operator).0;
        prop_assert!(rank(&denied.decide(&r)) <= rank(&before.decide(&r)), "a deny widened");
    }

    #[test]
    fn the_kernel_is_never_tighter_than_the_policy(d in declared(), g in grant(), p in permissions(), m in managed(), r in request()) {
        let engine = engine(&d, &g, &p, m.as_deref());
        let plan = KernelPlan::new(&engine);
        let allowed = engine.decide(&r).allowed();
        let table = |address: IpAddr, port: u16, protocol: Protocol, names: &[String]| {
            let entry = act_policy::NetEntry::for_address(&engine, address, names);
            let range = entry.ports.iter().find(|r| r.protocol == protocol && (r.low..=r.high).contains(&port));
            range.map_or(entry.default, |range| range.verdict)
        };
        match &r {
            Request::File { access: access @ (Access::Read | Access::List | Access::Write), path } if allowed => {
                let write = *access == Access::Write;
                let path = if path == b"/" { &[][..] } else { path.as_slice() };
                let open = plan.files.iter().any(|s| {
                    (s.write || !write) && path.strip_prefix(s.path.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
                });
                prop_assert!(open, "{:?}", plan.files);
            }
            Request::Connect { addr, protocol, names } if allowed => {
                prop_assert_eq!(table(addr.ip(), addr.port(), *protocol, names), NetVerdict::Allow);
            }
            Request::Http { host, port, address: Some(address), .. } if allowed => {
                prop_assert_eq!(table(*address, *port, Protocol::Tcp, std::slice::from_ref(host)), NetVerdict::Allow);
            }
            // And where no class lets an address be used, the tables do not either.
            Request::Connect { addr, protocol: Protocol::Udp, names } => {
                prop_assert_ne!(table(addr.ip(), addr.port(), Protocol::Udp, names), NetVerdict::Allow);
            }
            _ => {}
        }
        for subtree in plan.files.iter().filter(|s| s.exact) {
            let below = [subtree.path.as_slice(), b"/new"].concat();
            let read = engine.decide(&Request::File { access: Access::Read, path: below.clone() });
            prop_assert!(read.allowed(), "{} is opened as exact and not allowed", String::from_utf8_lossy(&below));
        }
        // Where a layer is said to hold a refusal, it does.
        let enforcers = plan.enforcers(&engine, &r);
        if let (Request::Connect { addr, protocol, names }, true) = (&r, enforcers.contains(&Enforcer::Ebpf))
            && names.is_empty()
        {
            prop_assert_ne!(table(addr.ip(), addr.port(), *protocol, &[]), NetVerdict::Allow);
        }
    }

    #[test]
    fn what_may_be_asked_is_kept_open_for_an_answer(d in declared(), g in grant(), p in permissions(), m in managed(), r in request()) {
        let mut engine = engine(&d, &g, &p, m.as_deref());
        let (before, alone) = (engine.decide(&r), KernelPlan::new(&engine));
        engine.attend();
        prop_assert_eq!(engine.decide(&r), before);
        let plan = KernelPlan::new(&engine);
        // No address is open before the answer.
        prop_assert_eq!(&plan.net.entries, &alone.net.entries);
        let port_open = |port: u16, protocol: Protocol| match protocol {
            Protocol::Tcp => plan.net.tcp && plan.net.tcp_ports.as_ref().is_none_or(|ports| ports.contains(&port)),
            Protocol::Udp => plan.net.udp,
        };
        match &r {
            Request::File { access: access @ (Access::Read | Access::List | Access::Write), path } if before.decision != Decision::Deny => {
                let write = *access == Access::Write;
                let path = if path == b"/" { &[][..] } else { path.as_slice() };
                let open = plan.files.iter().any(|s| {
                    (s.write || !write) && path.strip_prefix(s.path.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
                });
                prop_assert!(open, "{:?}", plan.files);
            }
            Request::Connect { addr, protocol, .. } if before.decision == Decision::Ask => {
                prop_assert!(port_open(addr.port(), *protocol), "{:?}", plan.net);
            }
            Request::Http { port, .. } if before.decision == Decision::Ask => {
                prop_assert!(port_open(*port, Protocol::Tcp), "{:?}", plan.net);
            }
            _ => {}
        }
        // What Landlock opens as a whole is allowed without an answer.
        for subtree in plan.files.iter().filter(|s| s.exact) {
            let below = [subtree.path.as_slice(), b"/new"].concat();
            for (access, holds) in [(Access::Read, true), (Access::Write, subtree.write)] {
                let verdict = engine.decide(&Request::File { access, path: below.clone() });
                prop_assert!(!holds || verdict.allowed(), "{access} {}", String::from_utf8_lossy(&below));
            }
        }
    }
}
