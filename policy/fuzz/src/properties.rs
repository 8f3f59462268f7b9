//! What holds for every engine and request.

use crate::world::one_line;
use act_policy::{
    Access, Decision, Engine, Host, KernelPlan, NetEntry, NetVerdict, Protocol, Reason, Request, effective_address,
};
use std::net::IpAddr;

/// Everything that is told of a request agrees, and the kernel is never tighter than the policy.
pub(crate) fn hold(engine: &Engine, requests: &[Request]) {
    let plan = KernelPlan::new(engine);
    for request in requests {
        let verdict = engine.decide(request);
        assert_eq!(verdict, engine.judge(request).verdict, "judge and decide differ on {request:?}");
        if let Some(rule) = verdict.rule {
            assert!(engine.policy().rule(rule).is_some(), "a verdict names no rule of the policy: {verdict:?}");
        }
        let by_rule = matches!(verdict.reason, Reason::DeniedByRule | Reason::AskRule);
        assert!(!by_rule || verdict.rule.is_some(), "{verdict:?} names no rule");
        one_line(&engine.policy().reason(&verdict));
        one_line(&request.describe());
        if let Request::File { access, path } = request {
            looked_at(engine, *access, path, verdict.decision);
        }
        // Only a component runs under the kernel's layers.
        if engine.policy().component.is_none() {
            continue;
        }
        let allowed = verdict.allowed();
        let refusing = plan.enforcers(engine, request);
        assert_eq!(refusing.is_empty(), allowed, "{request:?} is {verdict:?}, refused by {refusing:?}");
        match request {
            Request::File { access, path } => opened(engine, &plan, *access, path, allowed),
            Request::Connect { addr, protocol, names } if allowed => {
                reaches(engine, &plan, addr.ip(), addr.port(), *protocol, names);
            }
            Request::Http { host, port, address, .. } if allowed => match (Host::parse(host), address) {
                (Ok(Host::Address(literal)), _) => reaches(engine, &plan, literal, *port, Protocol::Tcp, &[]),
                (Ok(Host::Name(name)), Some(address)) => {
                    reaches(engine, &plan, *address, *port, Protocol::Tcp, &[name]);
                }
                _ => assert!(plan.net.tcp, "{request:?} is allowed without TCP"),
            },
            _ => {}
        }
    }
}

fn looked_at(engine: &Engine, access: Access, path: &[u8], decision: Decision) {
    let stat = engine.decide(&Request::File { access: Access::Stat, path: path.to_vec() }).decision;
    assert_eq!(engine.visible(path), stat != Decision::Deny, "visible and stat differ");
    if access == Access::Read {
        assert!(stat <= decision, "what may be read may be looked at: {stat:?} {decision:?}");
    }
}

/// Landlock opens what is allowed, and a subtree that is writable as a whole is.
fn opened(engine: &Engine, plan: &KernelPlan, access: Access, path: &[u8], allowed: bool) {
    if allowed && matches!(access, Access::Read | Access::Write) {
        let write = access == Access::Write;
        let opened = plan.files.iter().any(|tree| (tree.write || !write) && within(path, &tree.path));
        assert!(opened, "{access} {} is allowed, and Landlock opens {:?}", path.escape_ascii(), plan.files);
    }
    if access == Access::Write && engine.whole_subtree_writable(path) {
        for name in ["new", "a/b", "a.db", ".x"] {
            let below = [path.strip_suffix(b"/").unwrap_or(path), b"/", name.as_bytes()].concat();
            for access in [Access::Read, Access::Write] {
                let verdict = engine.decide(&Request::File { access, path: below.clone() });
                assert!(verdict.allowed(), "{} is writable as a whole, {name} not: {verdict:?}", path.escape_ascii());
            }
        }
    }
}

/// Whether a path is a directory or lies below it; the root is empty.
pub(crate) fn within(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The kernel's tables let an allowed connection pass.
fn reaches(engine: &Engine, plan: &KernelPlan, address: IpAddr, port: u16, protocol: Protocol, names: &[String]) {
    let net = &plan.net;
    match protocol {
        Protocol::Tcp => assert!(net.tcp, "a TCP connection is allowed, and the kernel has none"),
        Protocol::Udp => assert!(net.udp, "a datagram is allowed, and the kernel has none"),
    }
    let ports = net.tcp_ports.as_ref().filter(|_| protocol == Protocol::Tcp);
    assert!(ports.is_none_or(|ports| ports.contains(&port)), "port {port} is allowed, and not among {ports:?}");
    let exact = NetEntry::for_address(engine, address, names);
    let entry = if names.is_empty() {
        let address = effective_address(address);
        let holding = net.entries.iter().filter(|entry| entry.range.contains(&address));
        holding.max_by_key(|entry| entry.range.prefix_len())
    } else {
        Some(&exact)
    };
    let verdict = entry.map(|entry| {
        let range =
            entry.ports.iter().find(|range| range.protocol == protocol && (range.low..=range.high).contains(&port));
        range.map_or(entry.default, |range| range.verdict)
    });
    assert_eq!(verdict, Some(NetVerdict::Allow), "{address}:{port}/{protocol} {names:?} is allowed, the table says");
}

/// Whatever the first engine allows, the second allows.
pub(crate) fn no_wider(narrow: &Engine, wide: &Engine, requests: &[Request], why: &str) {
    for request in requests {
        if narrow.decide(request).allowed() {
            let verdict = wide.decide(request);
            assert!(verdict.allowed(), "{why}: {request:?} is allowed by the narrower policy; the wider: {verdict:?}");
        }
    }
}
