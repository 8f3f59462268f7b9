//! Connections, look-ups and the tables that the kernel gets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::Protocol::{self, Tcp, Udp};
use act_policy::{Engine, KernelPlan, NetEntry, NetVerdict, Request};
use common::{Operator, connect, decide, engine, manifest, resolve, word};
use std::net::IpAddr;

fn declares(rules: &str) -> act_policy::Manifest {
    manifest(&format!(r#"{{"wasi:sockets": {{"constraints": [{rules}]}}}}"#))
}

fn check(engine: &Engine, cases: &[(&str, Protocol, &[&str], &str)]) {
    for (addr, protocol, names, expected) in cases {
        let verdict = connect(engine, addr, *protocol, names);
        assert_eq!(word(verdict), *expected, "{addr}/{protocol} {names:?}: {}", engine.policy().reason(&verdict));
    }
}

#[test]
fn ranges_ports_and_protocols() {
    let all = declares(r#"{"host": "*"}"#);
    check(
        &engine(&all, &["+sockets=10.0.0.0/8"]),
        &[
            ("10.1.2.3:80", Tcp, &[], "allow"),
            ("11.0.0.0:80", Tcp, &[], "grant"),
            ("[::ffff:10.1.2.3]:80", Tcp, &[], "allow"),
            // An embedded address can only be denied, never allowed by its IPv4 rule.
            ("[64:ff9b::a01:203]:80", Tcp, &[], "grant"),
        ],
    );
    check(
        &engine(&all, &["+sockets=127.0.0.1:5432/tcp"]),
        &[
            ("127.0.0.1:5432", Tcp, &[], "allow"),
            ("127.0.0.1:5432", Udp, &[], "grant"),
            ("127.0.0.1:5433", Tcp, &[], "grant"),
            ("127.0.0.2:5432", Tcp, &[], "grant"),
            ("0.0.0.0:5432", Tcp, &[], "allow"),
            ("127.0.0.1:0", Tcp, &[], "deny"),
        ],
    );
    check(
        &engine(&declares(r#"{"cidr": "127.5.0.0/16", "protocols": ["tcp"]}"#), &["+sockets=127.0.0.0/8"]),
        &[
            ("127.5.6.7:1", Tcp, &[], "allow"),
            ("127.5.6.7:1", Udp, &[], "ceiling"),
            ("127.6.0.1:1", Tcp, &[], "ceiling"),
        ],
    );
}

#[test]
fn denies_see_every_form_of_an_address() {
    let engine =
        engine(&declares(r#"{"host": "*"}"#), &["+sockets", "-sockets=127.0.0.0/8", "-sockets=[fd00:ec2::254]"]);
    for addr in [
        "127.0.0.1:80",
        "127.9.9.9:80",
        "0.0.0.0:80",
        "[::ffff:127.0.0.1]:80",
        "[::ffff:0.0.0.0]:80",
        "[::7f00:1]:80",
        "[64:ff9b::7f00:1]:80",
        "[64:ff9b:1::7f00:1]:80",
        "[2002:7f00:1::]:80",
        "[2001:0:1:2:3:4:80ff:fffe]:80",
        "[fd00:ec2::254]:80",
    ] {
        check(&engine, &[(addr, Tcp, &[], "rule"), (addr, Udp, &[], "rule")]);
    }
    check(
        &engine,
        &[
            ("128.0.0.1:80", Tcp, &[], "allow"),
            ("[::1]:80", Tcp, &[], "allow"),
            ("[fd00:ec2::255]:80", Tcp, &[], "allow"),
        ],
    );
}

#[test]
fn except_ports_are_carved_back_out() {
    let grant = r#"{"sockets": {"mode": "open", "deny": [{"cidr": "127.0.0.0/8", "except-ports": [3000]}, {"host": "*", "ports": [25]}]}}"#;
    let engine = resolve(&declares(r#"{"host": "*"}"#), &Operator { grants: &[grant], ..Operator::default() }).0;
    check(
        &engine,
        &[
            ("127.0.0.1:3000", Tcp, &[], "allow"),
            ("127.0.0.1:3001", Tcp, &[], "rule"),
            ("9.9.9.9:25", Tcp, &[], "rule"),
            ("9.9.9.9:26", Tcp, &[], "allow"),
        ],
    );
}

#[test]
fn names() {
    let all = declares(r#"{"host": "*"}"#);
    let engine = engine(&all, &["+sockets=*.example.com:443", "-sockets=admin.example.com"]);
    check(
        &engine,
        &[
            ("9.9.9.9:443", Tcp, &["api.example.com"], "allow"),
            ("9.9.9.9:443", Tcp, &["example.com"], "allow"),
            ("9.9.9.9:443", Tcp, &["API.Example.com."], "allow"),
            ("9.9.9.9:443", Tcp, &["ADMIN.example.com"], "rule"),
            ("9.9.9.9:443", Tcp, &["notexample.com"], "grant"),
            ("9.9.9.9:443", Tcp, &["example.com.evil.com"], "grant"),
            ("9.9.9.9:443", Tcp, &["admin.example.com"], "rule"),
            ("9.9.9.9:443", Tcp, &["api.example.com", "admin.example.com"], "rule"),
            ("9.9.9.9:80", Tcp, &["api.example.com"], "grant"),
            // A literal address that nobody looked up needs a rule of its own.
            ("9.9.9.9:443", Tcp, &[], "grant"),
        ],
    );
    let lookup =
        |host: &str| word(decide(&engine, &Request::Lookup { class: act_policy::Class::sockets(), host: host.into() }));
    for (host, expected) in [
        ("api.example.com", "allow"),
        ("API.Example.COM.", "allow"),
        ("admin.example.com", "rule"),
        ("evil.com", "grant"),
        ("notexample.com", "grant"),
        ("a\0.example.com", "deny"),
        ("a@example.com", "deny"),
        ("1.2.3.4", "deny"),
    ] {
        assert_eq!(lookup(host), expected, "{host:?}");
    }
}

#[test]
fn of_equal_rules_the_first_is_named() {
    let all = declares(r#"{"host": "*"}"#);
    for host in ["a.test", "*.test", "9.9.9.9", "*"] {
        let deny = |port: u16| format!(r#"{{"host": "{host}", "ports": [{port}, 80]}}"#);
        let grant = format!(r#"{{"sockets": {{"mode": "open", "deny": [{}, {}, {}]}}}}"#, deny(1), deny(2), deny(3));
        let engine = resolve(&all, &Operator { grants: &[&grant], ..Operator::default() }).0;
        for (port, first) in [(80, 1), (1, 1), (2, 2), (3, 3)] {
            let verdict = connect(&engine, &format!("9.9.9.9:{port}"), Tcp, &["a.test"]);
            let rule = engine.policy().rule(verdict.rule.unwrap()).unwrap();
            assert!(rule.text.contains(&format!(":{first},80")), "{host}:{port}: {}", rule.text);
        }
    }
}

#[test]
fn listening_is_never_granted() {
    let all = engine(&declares(r#"{"host": "*"}"#), &["+sockets"]);
    let none = engine(&manifest("{}"), &["+sockets"]);
    let addr = "127.0.0.1:80".parse().unwrap();
    for request in [Request::Bind { addr, protocol: Tcp }, Request::Listen { addr }] {
        assert_eq!(word(decide(&all, &request)), "grant");
        assert_eq!(word(decide(&none, &request)), "ceiling");
    }
}

#[test]
fn http_axes() {
    let declared = manifest(
        r#"{"wasi:http": {"constraints": [{"host": "api.example.com", "methods": ["GET"]}, {"host": "127.0.0.1"}]}}"#,
    );
    let engine = engine(&declared, &["+http"]);
    let http = |method: &str, scheme: &str, host: &str, port| {
        word(decide(
            &engine,
            &Request::Http { method: method.into(), scheme: scheme.into(), host: host.into(), port, address: None },
        ))
    };
    assert_eq!(http("GET", "https", "API.example.com.", 443), "allow");
    assert_eq!(http("POST", "https", "api.example.com", 443), "ceiling");
    assert_eq!(http("POST", "http", "0x7f.1", 80), "allow");
    assert_eq!(http("GET", "https", "api.example.com#", 443), "deny");
}

#[test]
fn a_mapped_literal_is_an_http_host_of_its_own() {
    let declared = manifest(
        r#"{"wasi:http": {"constraints": [{"host": "[::ffff:127.0.0.1]"}, {"host": "127.0.0.1", "scheme": "http", "methods": ["GET"]}]}}"#,
    );
    let http = |flags: &[&str], method: &str, scheme: &str, host: &str| {
        let (method, scheme, host) = (method.into(), scheme.into(), host.into());
        word(decide(&engine(&declared, flags), &Request::Http { method, scheme, host, port: 80, address: None }))
    };
    // What one of them may do, the other does not get.
    assert_eq!(http(&["+http"], "GET", "http", "127.0.0.1"), "allow");
    assert_eq!(http(&["+http"], "POST", "http", "127.0.0.1"), "ceiling");
    assert_eq!(http(&["+http"], "GET", "https", "0x7f.1"), "ceiling");
    assert_eq!(http(&["+http"], "POST", "https", "[::ffff:127.0.0.1]"), "allow");
    assert_eq!(http(&["+http"], "POST", "https", "[::ffff:7f00:1]"), "allow");
    assert_eq!(http(&["+http=[::ffff:127.0.0.1]"], "GET", "http", "127.0.0.1"), "grant");
    assert_eq!(http(&["+http=[::ffff:127.0.0.1]"], "POST", "http", "[::ffff:127.0.0.1]"), "allow");
    // A deny sees one place, however it is spelled.
    for deny in ["-http=127.0.0.1", "-http=[::ffff:127.0.0.1]", "-http=127.0.0.0/8"] {
        for host in ["127.0.0.1", "[::ffff:127.0.0.1]"] {
            assert_eq!(http(&["+http", deny], "GET", "http", host), "rule", "{deny} {host}");
        }
    }
}

/// The verdict of the longest prefix that holds an address, as the kernel's tries give it.
fn in_tables(entries: &[NetEntry], addr: IpAddr, port: u16, protocol: Protocol) -> NetVerdict {
    let entry = entries.iter().filter(|e| e.range.contains(&addr)).max_by_key(|e| e.range.prefix_len()).unwrap();
    let range = entry.ports.iter().find(|r| r.protocol == protocol && (r.low..=r.high).contains(&port));
    range.map_or(entry.default, |r| r.verdict)
}

#[test]
#[cfg_attr(miri, ignore = "thousands of decisions, for half an hour in Miri")]
fn tables_say_what_decisions_say() {
    let grants = [
        r#"{"sockets": {"mode": "open", "deny": [{"cidr": "10.0.0.0/8", "except-ports": [443]}, {"cidr": "10.1.0.0/16", "ports": [443, 80]}, {"host": "fd00::1"}]}}"#,
        r#"{"sockets": {"mode": "allowlist", "allow": [{"cidr": "10.0.0.0/8", "protocols": ["udp"]}, {"host": "10.1.2.3", "ports": [1, 2, 65535]}]}}"#,
        r#"{"sockets": {"mode": "allowlist", "allow": [{"host": "*", "ports": [53]}, {"host": "db.local"}], "deny": [{"host": "db.local", "ports": [53]}]}}"#,
        r#"{"sockets": "ask"}"#,
        r#"{"sockets": "deny"}"#,
    ];
    for grant in grants {
        let engine = resolve(&declares(r#"{"host": "*"}"#), &Operator { grants: &[grant], ..Operator::default() }).0;
        let plan = KernelPlan::new(&engine);
        for addr in ["10.1.2.3", "10.1.2.4", "10.2.0.1", "11.0.0.1", "fd00::1", "fd00::2", "127.0.0.1"] {
            for port in [1, 2, 3, 52, 53, 54, 80, 443, 444, 65534, 65535] {
                for protocol in [Tcp, Udp] {
                    let addr: IpAddr = addr.parse().unwrap();
                    let decided = connect(&engine, &std::net::SocketAddr::new(addr, port).to_string(), protocol, &[]);
                    let table = in_tables(&plan.net.entries, addr, port, protocol);
                    assert_eq!(table, NetVerdict::from(decided), "{grant} {addr} {port} {protocol}");
                    if protocol == Tcp && decided.allowed() {
                        assert!(
                            plan.net.tcp && plan.net.tcp_ports.as_ref().is_none_or(|p| p.contains(&port)),
                            "{grant} {port}"
                        );
                    }
                    assert!(protocol == Tcp || !decided.allowed() || plan.net.udp);
                }
            }
        }
    }
}

#[test]
fn an_address_that_was_looked_up_gets_an_entry_of_its_own() {
    let flags = ["+sockets=db.local:5432", "-sockets=10.0.0.0/8"];
    let engine = engine(&declares(r#"{"host": "*"}"#), &flags);
    let entry = |addr: &str| NetEntry::for_address(&engine, addr.parse().unwrap(), &["db.local".to_owned()]);
    let good = entry("9.9.9.9");
    assert_eq!(in_tables(std::slice::from_ref(&good), "9.9.9.9".parse().unwrap(), 5432, Tcp), NetVerdict::Allow);
    assert_eq!(in_tables(std::slice::from_ref(&good), "9.9.9.9".parse().unwrap(), 5433, Tcp), NetVerdict::Unlisted);
    assert!(
        good.allows_anything() && !entry("10.0.0.1").allows_anything() && !entry("64:ff9b::a00:1").allows_anything()
    );
}

#[test]
#[cfg_attr(miri, ignore = "thousands of decisions, for half an hour in Miri")]
fn an_answer_opens_one_port_and_no_deny() {
    let grant = r#"{"sockets": {"mode": "allowlist", "allow": [{"host": "10.1.2.3", "ports": [80, 81]}],
        "deny": [{"cidr": "10.0.0.0/8", "ports": [22]}, {"cidr": "10.9.0.0/16", "except-ports": [65535, 7]}]}}"#;
    let engine = resolve(&declares(r#"{"host": "*"}"#), &Operator { grants: &[grant], ..Operator::default() }).0;
    for address in ["10.1.2.3", "10.9.0.1", "11.0.0.1", "fd00::1"] {
        let address: IpAddr = address.parse().unwrap();
        let before = NetEntry::for_address(&engine, address, &[]);
        for (opened, protocol) in
            [(22, Tcp), (7, Tcp), (80, Tcp), (82, Udp), (1, Tcp), (65535, Tcp), (65535, Udp), (0, Tcp)]
        {
            let after = before.clone().with_port(opened, protocol);
            for port in [1, 2, 6, 7, 8, 21, 22, 23, 79, 80, 81, 82, 83, 65534, 65535] {
                for other in [Tcp, Udp] {
                    let was = in_tables(std::slice::from_ref(&before), address, port, other);
                    let expected = match was {
                        NetVerdict::Unlisted if (port, other) == (opened, protocol) => NetVerdict::Allow,
                        was => was,
                    };
                    let is = in_tables(std::slice::from_ref(&after), address, port, other);
                    assert_eq!(is, expected, "{address} {opened}/{protocol}: {port}/{other}");
                }
            }
            let overlaps = after.ports.windows(2).any(|w| w[0].protocol == w[1].protocol && w[0].high >= w[1].low);
            assert!(!overlaps, "{after:?}");
        }
    }
}

#[test]
fn what_a_name_resolves_to_can_be_denied_by_a_range() {
    let declared = manifest(r#"{"wasi:http": {"constraints": [{"host": "*"}]}}"#);
    let grant = r#"{"http": {"mode": "allowlist", "allow": [{"host": "api.example.com"}, {"cidr": "10.9.0.0/16"}],
        "deny": [{"cidr": "10.0.0.0/24"}, {"cidr": "127.0.0.0/8", "except-ports": [3000]}]}}"#;
    let engine = resolve(&declared, &Operator { grants: &[grant], ..Operator::default() }).0;
    let asked = |host: &str, port: u16, address: Option<&str>| {
        let address = address.map(|a| a.parse::<IpAddr>().unwrap());
        let (method, scheme, host) = ("GET".into(), "https".into(), host.into());
        word(decide(&engine, &Request::Http { method, scheme, host, port, address }))
    };
    assert_eq!(asked("api.example.com", 443, None), "allow");
    assert_eq!(asked("api.example.com", 443, Some("192.0.2.1")), "allow");
    assert_eq!(asked("api.example.com", 443, Some("10.0.0.7")), "rule");
    assert_eq!(asked("api.example.com", 443, Some("64:ff9b::a00:7")), "rule");
    assert_eq!(asked("api.example.com", 3000, Some("127.0.0.1")), "allow");
    assert_eq!(asked("api.example.com", 3001, Some("127.0.0.1")), "rule");
    assert_eq!(asked("10.9.1.1", 80, None), "allow");
    // A range allows literal addresses, never a name that happens to resolve into it.
    assert_eq!(asked("other.example.com", 80, Some("10.9.1.1")), "grant");
    let lookup =
        |host: &str| word(decide(&engine, &Request::Lookup { class: act_policy::Class::http(), host: host.into() }));
    assert_eq!(lookup("api.example.com"), "allow");
    assert_eq!(lookup("other.example.com"), "grant");
}

/// A ceiling for both classes, and what the operator grants.
fn both(grant: &str) -> Engine {
    let declared = manifest(
        r#"{"wasi:http": {"constraints": [{"host": "*"}]}, "wasi:sockets": {"constraints": [{"host": "*"}]}}"#,
    );
    resolve(&declared, &Operator { grants: &[grant], ..Operator::default() }).0
}

/// Whether some request of `wasi:http` may go to an address, as a literal or under one of its names.
fn http_may(engine: &Engine, addr: IpAddr, port: u16, names: &[&str]) -> bool {
    let request = |method: &str, scheme: &str, host: &str, address: Option<IpAddr>| {
        let (method, scheme, host) = (method.into(), scheme.into(), host.into());
        engine.decide(&Request::Http { method, scheme, host, port, address }).allowed()
    };
    let any = |host: &str, address: Option<IpAddr>| {
        ["GET", "POST", "OTHER"].iter().any(|m| ["http", "https"].iter().any(|s| request(m, s, host, address)))
    };
    let mapped = match addr {
        IpAddr::V4(v4) => any(&v4.to_ipv6_mapped().to_string(), None),
        IpAddr::V6(_) => false,
    };
    mapped || any(&addr.to_string(), None) || names.iter().any(|name| any(name, Some(addr)))
}

#[test]
#[cfg_attr(miri, ignore = "thousands of decisions, for half an hour in Miri")]
fn tables_are_open_for_what_http_may_reach() {
    let grants = [
        r#"{"sockets": "deny", "http": "open"}"#,
        r#"{"sockets": "deny", "http": {"mode": "open", "deny": [{"cidr": "10.0.0.0/8", "except-ports": [443]}, {"host": "bad.test"}]}}"#,
        r#"{"sockets": "deny", "http": {"mode": "allowlist", "allow": [{"cidr": "10.0.0.0/8", "ports": [80]}, {"host": "api.test", "scheme": "https", "ports": [443]}]}}"#,
        r#"{"sockets": "deny", "http": {"mode": "open", "deny": [{"host": "*", "methods": ["POST"]}, {"host": "10.1.2.3", "scheme": "http"}]}}"#,
        r#"{"sockets": {"mode": "allowlist", "allow": [{"cidr": "10.0.0.0/8"}], "deny": [{"cidr": "10.1.0.0/16"}]}, "http": {"mode": "open", "deny": [{"cidr": "10.2.0.0/16"}, {"cidr": "11.0.0.0/8"}]}}"#,
        r#"{"sockets": "deny", "http": {"mode": "allowlist", "allow": [{"host": "[::ffff:10.1.2.3]", "ports": [80]}]}}"#,
        r#"{"sockets": "open", "http": "ask"}"#,
        r#"{"sockets": "ask", "http": "ask"}"#,
    ];
    for grant in grants {
        let engine = both(grant);
        let plan = KernelPlan::new(&engine);
        for text in ["10.1.2.3", "10.2.0.1", "10.3.0.1", "11.0.0.1", "fd00::1"] {
            let addr: IpAddr = text.parse().unwrap();
            for names in [&[][..], &["api.test"], &["bad.test"], &["api.test", "bad.test"]] {
                let owned: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
                let entry = NetEntry::for_address(&engine, addr, &owned);
                for (port, protocol) in [(80, Tcp), (443, Tcp), (444, Tcp), (443, Udp)] {
                    let address = std::net::SocketAddr::new(addr, port).to_string();
                    let sockets = connect(&engine, &address, protocol, names).allowed();
                    let expected = sockets || protocol == Tcp && http_may(&engine, addr, port, names);
                    let case = format!("{grant} {address}/{protocol} {names:?}");
                    let told = in_tables(std::slice::from_ref(&entry), addr, port, protocol);
                    assert_eq!(told == NetVerdict::Allow, expected, "{case}");
                    if names.is_empty() {
                        let table = in_tables(&plan.net.entries, addr, port, protocol);
                        assert_eq!(table == NetVerdict::Allow, expected, "{case}");
                    }
                    if expected {
                        assert!(protocol == Udp || plan.net.tcp, "{case}");
                        let ports = plan.net.tcp_ports.as_ref();
                        assert!(protocol == Udp || ports.is_none_or(|p| p.contains(&port)), "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_plan_for_http_alone_has_its_ports_only() {
    let engine =
        both(r#"{"sockets": "deny", "http": {"mode": "allowlist", "allow": [{"host": "a.test", "ports": [8443]}]}}"#);
    let plan = KernelPlan::new(&engine).net;
    assert_eq!((plan.tcp, plan.udp, plan.tcp_ports), (true, false, Some(vec![8443])));
    let plan = KernelPlan::new(&both(r#"{"sockets": "deny", "http": "ask"}"#)).net;
    assert_eq!((plan.tcp, plan.udp), (false, false));
}
