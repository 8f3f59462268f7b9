//! What is denied, what passes, and what the events say.

use crate::attempts::*;
use crate::lab::{Lab, OTHER, PORT, Puppet};
use crate::rows::*;
use act_bpf::{BpfError, Direction, Flags, Guard, Hook, NetTable, Reach, Reason, Verdict};
use rustix::net::{AddressFamily, SendFlags, SocketType, connect, connect_unspec, send, sendto};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

const MPTCP: u32 = 262;
const UDP_LITE: u32 = 136;
const SCTP: u32 = 132;

/// N01: denied addresses by every call that takes one; the exception's port and other addresses pass.
#[test]
fn denied_addresses() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let mut rows = Vec::new();
    for (ip, rule) in [("127.0.0.1", rule::LOOPBACK4), ("127.9.9.9", rule::LOOPBACK4), ("10.1.2.3", rule::TEN)] {
        let addr = to(ip, PORT);
        rows.push(denied("tcp4", Hook::Connect4, (ip, PORT, rule), move || try_connect(addr, TCP)));
        rows.push(denied("udp4 connect", Hook::Connect4, (ip, PORT, rule), move || try_connect(addr, UDP)));
        rows.push(denied("udp4 sendto", Hook::Sendmsg4, (ip, PORT, rule), move || try_sendto(addr)));
        rows.push(denied("udp4 sendmsg", Hook::Sendmsg4, (ip, PORT, rule), move || try_sendmsg(addr)));
    }
    for (ip, rule) in [("::1", rule::LOOPBACK6), ("fd00:ec2::254", rule::METADATA)] {
        let addr = to(ip, PORT);
        rows.push(denied("tcp6", Hook::Connect6, (ip, PORT, rule), move || try_connect(addr, TCP)));
        rows.push(denied("udp6 connect", Hook::Connect6, (ip, PORT, rule), move || try_connect(addr, UDP)));
        rows.push(denied("udp6 sendto", Hook::Sendmsg6, (ip, PORT, rule), move || try_sendto(addr)));
        rows.push(denied("udp6 sendmsg", Hook::Sendmsg6, (ip, PORT, rule), move || try_sendmsg(addr)));
    }
    let (good, bad) = (to("8.8.8.8", PORT), to("127.0.0.1", PORT));
    let target = ("127.0.0.1", PORT, rule::LOOPBACK4);
    rows.push(denied("connected elsewhere", Hook::Sendmsg4, target, move || try_connected_elsewhere(good, bad)));
    rows.push(denied("connected again", Hook::Connect4, target, move || try_reconnect(good, bad)));
    rows.push(denied("sendmmsg: one of two", Hook::Sendmsg4, target, move || {
        match sendmmsg_two(Ipv4Addr::new(8, 8, 8, 8), Ipv4Addr::LOCALHOST, PORT) {
            2 => 0,
            1 => libc::EPERM,
            other => 1000 + other,
        }
    }));
    for (ip, port) in
        [("8.8.8.8", PORT), ("128.0.0.1", PORT), ("11.0.0.0", PORT), ("2001:db8::1", PORT), ("::2", OTHER)]
    {
        let addr = to(ip, port);
        rows.push(passes(&format!("tcp to {addr}"), move || try_connect(addr, TCP)));
        rows.push(passes(&format!("udp to {addr}"), move || try_sendto(addr)));
    }
    // Except-port: TCP 7002 of a denied network, and that protocol only.
    for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"] {
        let addr = to(ip, OTHER);
        rows.push(passes(&format!("tcp to {addr}"), move || try_connect(addr, TCP)));
    }
    let addr = to("127.0.0.1", OTHER);
    let target = ("127.0.0.1", OTHER, rule::LOOPBACK4);
    rows.push(denied("the exception is for tcp", Hook::Sendmsg4, target, move || try_sendto(addr)));
    // Ranges of an allowed address.
    let (first, second) = (to("9.9.9.9", PORT), to("9.9.9.9", OTHER));
    rows.push(passes("9.9.9.9 tcp 7001", move || try_connect(first, TCP)));
    rows.push(denied("9.9.9.9 udp 7001", Hook::Sendmsg4, ("9.9.9.9", PORT, rule::PORTS), move || try_sendto(first)));
    let target = ("9.9.9.9", OTHER, rule::PORTS + 1);
    rows.push(denied("9.9.9.9 tcp 7002", Hook::Connect4, target, move || try_connect(second, TCP)));
    rows.push(denied("9.9.9.9 udp 7002", Hook::Sendmsg4, target, move || try_sendto(second)));
    check(&guard, &cgroup, attached.cgroup(), &rows);
}

/// N02: other ways to write the address.
#[test]
fn disguised_addresses() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let mut rows = Vec::new();
    // Mapped: connect runs the IPv6 hook, sendto the IPv4 one.
    for (ip, shown) in
        [("::ffff:127.0.0.1", "127.0.0.1"), ("::ffff:0.0.0.0", "0.0.0.0"), ("::ffff:127.9.9.9", "127.9.9.9")]
    {
        let (addr, target) = (to(ip, PORT), (shown, PORT, rule::LOOPBACK4));
        rows.push(denied(&format!("tcp to {addr}"), Hook::Connect6, target, move || try_connect(addr, TCP)));
        rows.push(denied(&format!("udp connect to {addr}"), Hook::Connect6, target, move || try_connect(addr, UDP)));
        rows.push(denied(&format!("udp to {addr}"), Hook::Sendmsg4, target, move || try_sendto(addr)));
    }
    let (zero4, zero6) = (to("0.0.0.0", PORT), to("::", PORT));
    let target = ("0.0.0.0", PORT, rule::LOOPBACK4);
    rows.push(denied("tcp to 0.0.0.0", Hook::Connect4, target, move || try_connect(zero4, TCP)));
    rows.push(denied("udp to 0.0.0.0", Hook::Sendmsg4, target, move || try_sendto(zero4)));
    rows.push(denied("IPv4 address on an IPv6 socket", Hook::Sendmsg4, ("127.0.0.1", PORT, rule::LOOPBACK4), || {
        try_v4_on_v6(to("127.0.0.1", PORT))
    }));
    rows.push(denied("no family", Hook::Sendmsg4, ("127.0.0.1", PORT, rule::LOOPBACK4), || {
        try_unspecified_family(Ipv4Addr::LOCALHOST, PORT)
    }));
    let target = ("::", PORT, rule::LOOPBACK6);
    rows.push(denied("tcp to ::", Hook::Connect6, target, move || try_connect(zero6, TCP)));
    rows.push(denied("udp to ::", Hook::Sendmsg6, target, move || try_sendto(zero6)));
    rows.push(passes("no family, allowed", || try_unspecified_family(Ipv4Addr::new(8, 8, 8, 8), PORT)));
    rows.push(passes("mapped, allowed", || try_connect(to("::ffff:8.8.8.8", PORT), TCP)));
    rows.push(passes("disconnect", || {
        errno(socket_for(to("8.8.8.8", PORT), UDP).and_then(|socket| {
            connect(&socket, &to("8.8.8.8", PORT))?;
            connect_unspec(&socket)
        }))
    }));
    check(&guard, &cgroup, attached.cgroup(), &rows);
}

/// N03: IPv6 addresses that a translator would unwrap to a denied IPv4 address.
#[test]
fn embedded_addresses() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let mut rows = Vec::new();
    for ip in [
        "::10.1.2.3",
        "64:ff9b::10.1.2.3",
        "64:ff9b:1::10.1.2.3",
        "64:ff9b:1:2:3:4:10.1.2.3",
        "2002:a01:203::1",
        "2001:0:5:6:7:8:f5fe:fdfc",
    ] {
        let (addr, target) = (to(ip, PORT), (ip, PORT, rule::TEN));
        rows.push(denied(&format!("tcp to {addr}"), Hook::Connect6, target, move || try_connect(addr, TCP)));
        rows.push(denied(&format!("udp connect to {addr}"), Hook::Connect6, target, move || try_connect(addr, UDP)));
        rows.push(denied(&format!("udp to {addr}"), Hook::Sendmsg6, target, move || try_sendto(addr)));
    }
    for ip in [
        "::8.8.8.8",
        "64:ff9b::8.8.8.8",
        // An inner address that no rule allows is no reason: a deny rule must name it.
        "64:ff9b::192.0.2.1",
        "64:ff9b:2::10.1.2.3",
        "2002:808:808::1",
        "2003:a01:203::1",
        "2001:0:5:6:7:8:f7f7:f7f7",
        "2001:1:5:6:7:8:f5fe:fdfc",
    ] {
        let addr = to(ip, PORT);
        rows.push(passes(&format!("tcp to {addr}"), move || try_connect(addr, TCP)));
        rows.push(passes(&format!("udp to {addr}"), move || try_sendto(addr)));
    }
    // The exception of a deny rule holds inside as outside; `::1` is no form of 0.0.0.1.
    rows.push(passes("inner exception", || try_connect(to("64:ff9b::127.0.0.1", OTHER), TCP)));
    let (addr, target) = (to("64:ff9b::127.0.0.1", PORT), ("64:ff9b::127.0.0.1", PORT, rule::LOOPBACK4));
    rows.push(denied("inner loopback", Hook::Connect6, target, move || try_connect(addr, TCP)));
    check(&guard, &cgroup, attached.cgroup(), &rows);

    let mut table = table();
    table.entries.push(entry(Direction::Out, "0.0.0.0/8", Verdict::Denied, 70, &[]));
    let Some((_lab, guard, cgroup, attached)) = configured(&table) else { return };
    let addr = to("::2", PORT);
    check(
        &guard,
        &cgroup,
        attached.cgroup(),
        &[
            passes("::1 is not 0.0.0.1", || try_connect(to("::1", OTHER), TCP)),
            denied("::2 is 0.0.0.2", Hook::Connect6, ("::2", PORT, 70), move || try_connect(addr, TCP)),
        ],
    );
}

/// N04, N05: protocols and sockets that are never granted.
#[test]
fn other_sockets() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let (bad, target) = (to("127.0.0.1", PORT), ("127.0.0.1", PORT, rule::LOOPBACK4));
    let mut rows = vec![
        denied("MSG_FASTOPEN", Hook::Connect4, target, move || try_fastopen(bad)),
        denied("TCP_FASTOPEN_CONNECT", Hook::Connect4, target, move || try_fastopen_connect(bad)),
        denied("MSG_FASTOPEN, mapped", Hook::Connect6, target, || try_fastopen(to("::ffff:127.0.0.1", PORT))),
        passes("MSG_FASTOPEN, allowed", || try_fastopen(to("8.8.8.8", PORT))),
        passes("TCP by number", || try_socket(AddressFamily::INET, TCP, 6)),
        passes("UDP by number", || try_socket(AddressFamily::INET6, UDP, 17)),
    ];
    for (family, ping) in [(AddressFamily::INET, 1), (AddressFamily::INET6, 58)] {
        for (name, kind, protocol) in [
            ("MPTCP", TCP, MPTCP),
            ("UDP-Lite", UDP, UDP_LITE),
            ("SCTP", TCP, SCTP),
            ("SCTP, packets", SocketType::SEQPACKET, SCTP),
            ("ping", UDP, ping),
            ("raw ICMP", SocketType::RAW, ping),
            ("raw TCP", SocketType::RAW, 6),
            ("raw UDP", SocketType::RAW, 17),
            ("raw IP", SocketType::RAW, 255),
        ] {
            let name = format!("{name}, family {}", family.as_raw());
            rows.push(refused(&name, Hook::SockCreate, ("::", 0), Reason::SocketKind, move || {
                try_socket(family, kind, protocol)
            }));
        }
    }
    check(&guard, &cgroup, attached.cgroup(), &rows);

    let puppet = Puppet::start(Some(&cgroup), |_| try_socket(AddressFamily::INET, TCP, MPTCP));
    assert_eq!(puppet.step(0), libc::EPERM);
    let event = events(&guard).pop().unwrap();
    assert_eq!((event.protocol, event.socket_type, event.family), (MPTCP, 1, 2), "the protocol in full");
}

/// Sockets of a protocol that nothing grants.
#[test]
fn ungranted_protocols() {
    for (tcp, udp) in [(true, false), (false, true), (false, false)] {
        let table = NetTable { flags: Flags { tcp, udp, ..Flags::default() }, ..table() };
        let Some((_lab, guard, cgroup, attached)) = configured(&table) else { return };
        let row = |granted: bool, name: &str, kind: SocketType, family: AddressFamily| {
            let attempt = move || try_socket(family, kind, 0);
            if granted {
                passes(name, attempt)
            } else {
                refused(name, Hook::SockCreate, ("::", 0), Reason::SocketKind, attempt)
            }
        };
        check(
            &guard,
            &cgroup,
            attached.cgroup(),
            &[
                row(tcp, "tcp4", TCP, AddressFamily::INET),
                row(tcp, "tcp6", TCP, AddressFamily::INET6),
                row(udp, "udp4", UDP, AddressFamily::INET),
                row(udp, "udp6", UDP, AddressFamily::INET6),
            ],
        );
    }
}

/// N06: packets that would go by way of an address that the call did not name.
#[test]
fn source_routes() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let (good4, good6) = (to("8.8.8.8", PORT), to("2001:db8::1", PORT));
    let route4 = |hop: &'static str| move || try_source_route(good4, hop.parse().unwrap());
    let route6 = |hop: &'static str| move || try_segment_route(good6, hop.parse().unwrap());
    check(
        &guard,
        &cgroup,
        attached.cgroup(),
        &[
            refused("IPv4, denied hop", Hook::Egress, ("127.0.0.2", 0), Reason::SourceRoute, route4("127.0.0.2")),
            refused("IPv4, allowed hop", Hook::Egress, ("8.8.4.4", 0), Reason::SourceRoute, route4("8.8.4.4")),
            refused(
                "IPv6, denied hop",
                Hook::Egress,
                ("fd00:ec2::254", 0),
                Reason::SourceRoute,
                route6("fd00:ec2::254"),
            ),
            refused("IPv6, allowed hop", Hook::Egress, ("2001:db8::2", 0), Reason::SourceRoute, route6("2001:db8::2")),
            passes("IPv4, no route", move || try_sendto(good4)),
            passes("IPv6, no route", move || try_sendto(good6)),
        ],
    );
}

/// N07: `bind`.
#[test]
fn binding() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let try_bind = |text: &'static str, kind| move || try_bind(at(text), kind);
    check(
        &guard,
        &cgroup,
        attached.cgroup(),
        &[
            passes("granted port", try_bind("127.0.0.1:7150", TCP)),
            passes("granted port, mapped", try_bind("[::ffff:127.0.0.1]:7199", TCP)),
            passes("any port", try_bind("0.0.0.0:0", UDP)),
            denied(
                "port behind the range",
                Hook::Bind4,
                ("127.0.0.1", 7200, rule::BIND),
                try_bind("127.0.0.1:7200", TCP),
            ),
            denied("protocol", Hook::Bind4, ("127.0.0.1", 7150, rule::BIND), try_bind("127.0.0.1:7150", UDP)),
            denied("mapped", Hook::Bind6, ("127.0.0.1", 7099, rule::BIND), try_bind("[::ffff:127.0.0.1]:7099", TCP)),
            denied("every address", Hook::Bind4, ("0.0.0.0", 7150, rule::BIND), try_bind("0.0.0.0:7150", TCP)),
            refused("no rule", Hook::Bind4, ("10.0.0.1", 7150), Reason::NoRule, try_bind("10.0.0.1:7150", TCP)),
            refused("no rule, IPv6", Hook::Bind6, ("::", 0), Reason::NoRule, try_bind("[::]:0", TCP)),
        ],
    );
}

/// N07: `listen` takes a port for itself without any bind hook; no connection may come of it.
#[test]
fn listening_without_bind() {
    for (listen, reached) in [(false, false), (true, true)] {
        let table = NetTable { flags: Flags { tcp: true, udp: true, listen, every_packet: false }, ..table() };
        let Some((_lab, guard, cgroup, _attached)) = configured(&table) else { return };
        for (held, reached) in [(None, true), (Some(&cgroup), reached)] {
            let mut socket = None;
            let puppet = Puppet::start(held, move |_| {
                let (listener, port) = listen_anywhere().unwrap();
                socket.replace(listener);
                i32::from(port)
            });
            let addr = to("127.0.0.1", u16::try_from(puppet.step(0)).unwrap());
            let connected = TcpStream::connect_timeout(&addr, Duration::from_millis(300));
            assert_eq!(connected.is_ok(), reached, "listen {listen}, held {}: {connected:?}", held.is_some());
        }
        let listens = events(&guard).iter().any(|e| (e.hook, e.reason) == (Hook::Egress, Reason::Listen));
        assert_eq!(listens, !reached);
    }
}

/// Loaded without rules: nothing goes on any hook, and no table can change that.
#[test]
fn reach_nothing() {
    let Some(lab) = Lab::open() else { return };
    let guard = Guard::load(Reach::Nothing).unwrap();
    let cgroup = lab.cgroup();
    let mut socket = None;
    let puppet = Puppet::start(Some(&cgroup), move |step| match step {
        0 => {
            socket = socket_for(at("8.8.8.8:1"), UDP).ok();
            0
        }
        1 => errno(connect(socket.as_ref().unwrap(), &to("8.8.8.8", PORT))),
        2 => errno(sendto(socket.as_ref().unwrap(), b"x", SendFlags::empty(), &to("8.8.8.8", PORT))),
        3 => errno(send(socket.as_ref().unwrap(), b"x", SendFlags::empty())),
        4 => try_socket(AddressFamily::INET, TCP, 0),
        _ => try_socket(AddressFamily::INET6, UDP, 0),
    });
    for step in 0..6 {
        assert_eq!(puppet.step(step), 0, "step {step} works without the guard");
    }
    let mut attached = cgroup.attach(&guard);
    for step in 1..6 {
        assert_eq!(puppet.step(step), libc::EPERM, "step {step}");
    }
    let seen: Vec<_> = events(&guard).iter().map(|e| (e.hook, e.reason)).collect();
    let hooks = [Hook::Connect4, Hook::Sendmsg4, Hook::Egress, Hook::SockCreate, Hook::SockCreate];
    assert_eq!(seen, hooks.map(|hook| (hook, Reason::Unconfigured)));
    assert!(matches!(attached.configure(&table()), Err(BpfError::NoRules)));
    // Sockets may be made where the flags say so, and still reach nothing.
    let flags = Flags { tcp: true, ..Flags::default() };
    attached.configure(&NetTable { flags, entries: Vec::new() }).unwrap();
    assert_eq!(puppet.step(4), 0);
    for step in [1, 2, 3, 5] {
        assert_eq!(puppet.step(step), libc::EPERM, "step {step}");
    }
    let seen: Vec<_> = events(&guard).iter().map(|e| (e.hook, e.reason, e.port)).collect();
    let expected = [
        (Hook::Connect4, Reason::NoRule, PORT),
        (Hook::Sendmsg4, Reason::NoRule, PORT),
        (Hook::Egress, Reason::NoRule, 0),
        (Hook::SockCreate, Reason::SocketKind, 0),
    ];
    assert_eq!(seen, expected);
}

/// Attached and not configured: nothing goes, not even with a socket that was made before, inside.
#[test]
fn unconfigured() {
    let Some(lab) = Lab::open() else { return };
    let guard = Guard::load(Reach::Rules).unwrap();
    let cgroup = lab.cgroup();
    let mut socket = None;
    let puppet = Puppet::start(Some(&cgroup), move |step| match step {
        0 => {
            socket = socket_for(at("8.8.8.8:1"), UDP).ok();
            0
        }
        1 => errno(connect(socket.as_ref().unwrap(), &to("8.8.8.8", PORT))),
        2 => errno(sendto(socket.as_ref().unwrap(), b"x", SendFlags::empty(), &to("8.8.8.8", PORT))),
        3 => errno(send(socket.as_ref().unwrap(), b"x", SendFlags::empty())),
        4 => try_socket(AddressFamily::INET, TCP, 0),
        _ => try_socket(AddressFamily::INET6, UDP, 0),
    });
    for step in 0..6 {
        assert_eq!(puppet.step(step), 0, "step {step} works without the guard");
    }
    let mut attached = cgroup.attach(&guard);
    for (step, hook) in
        [(1, Hook::Connect4), (2, Hook::Sendmsg4), (3, Hook::Egress), (4, Hook::SockCreate), (5, Hook::SockCreate)]
    {
        assert_eq!(puppet.step(step), libc::EPERM, "step {step}");
        let event = events(&guard).pop().unwrap();
        assert_eq!((event.hook, event.reason, event.rule), (hook, Reason::Unconfigured, None));
        assert_eq!(event.cgroup, attached.cgroup());
    }
    attached.configure(&NetTable::default()).unwrap();
    assert_eq!(puppet.step(1), libc::EPERM, "an empty table allows nothing");
    assert_eq!(events(&guard).pop().unwrap().reason, Reason::NoRule);
    attached.configure(&table()).unwrap();
    for step in 1..6 {
        assert_eq!(puppet.step(step), 0, "step {step} works when it is allowed");
    }
    let broken = NetTable {
        entries: vec![entry(Direction::Out, "0.0.0.0/0", Verdict::Allow, 1, &[range(2, 1, 0, Verdict::Denied, 1)])],
        ..table()
    };
    assert!(attached.configure(&broken).is_err());
    assert_eq!(puppet.step(1), 0, "a table that is refused leaves the one in force");
}

/// Child cgroups are held, and named by the cgroup that was attached.
#[test]
fn child_cgroups() {
    let Some((_lab, guard, cgroup, attached)) = configured(&table()) else { return };
    let child = cgroup.child();
    let target = ("127.0.0.1", PORT, rule::LOOPBACK4);
    let addr = to("127.0.0.1", PORT);
    check(
        &guard,
        &child,
        attached.cgroup(),
        &[
            denied("tcp", Hook::Connect4, target, move || try_connect(addr, TCP)),
            refused("raw", Hook::SockCreate, ("::", 0), Reason::SocketKind, || {
                try_socket(AddressFamily::INET, SocketType::RAW, 6)
            }),
            passes("elsewhere", || try_connect(to("8.8.8.8", PORT), TCP)),
        ],
    );
    drop(child);
}

/// Two cgroups of one guard do not see each other's rules.
#[test]
fn two_cgroups() {
    let Some((lab, guard, first, first_attached)) = configured(&table()) else { return };
    let second = lab.cgroup();
    let mut attached = second.attach(&guard);
    attached
        .configure(&NetTable {
            flags: Flags { tcp: true, ..Flags::default() },
            entries: vec![entry(Direction::Out, "127.0.0.0/8", Verdict::Allow, 5, &[])],
        })
        .unwrap();
    let (loopback, ten) = (to("127.0.0.1", PORT), to("10.1.2.3", PORT));
    check(
        &guard,
        &second,
        attached.cgroup(),
        &[
            passes("loopback", move || try_connect(loopback, TCP)),
            refused("ten", Hook::Connect4, ("10.1.2.3", PORT), Reason::NoRule, move || try_connect(ten, TCP)),
        ],
    );
    let target = ("127.0.0.1", PORT, rule::LOOPBACK4);
    check(
        &guard,
        &first,
        first_attached.cgroup(),
        &[
            denied("loopback", Hook::Connect4, target, move || try_connect(loopback, TCP)),
            passes("elsewhere", || try_connect(to("8.8.8.8", PORT), TCP)),
        ],
    );
}

/// Host pins: an entry that is added or replaced holds at once; retiring closes everything, live sockets too.
#[test]
fn entries_at_run_time() {
    let Some((_lab, guard, cgroup, mut attached)) = configured(&table()) else { return };
    let mut socket = None;
    let puppet = Puppet::start(Some(&cgroup), move |step| match step {
        0 => try_connect(to("10.1.2.3", PORT), TCP),
        1 => try_connect(to("10.1.2.4", PORT), TCP),
        2 => {
            let made = socket.insert(socket_for(at("8.8.8.8:1"), UDP).unwrap());
            errno(connect(&*made, &to("8.8.8.8", PORT)))
        }
        3 => errno(connect(socket.as_ref().unwrap(), &to("8.8.8.8", PORT))),
        _ => errno(send(socket.as_ref().unwrap(), b"x", SendFlags::empty())),
    });
    assert_eq!(puppet.step(0), libc::EPERM);
    let mut pin = entry(Direction::Out, "10.1.2.3/32", Verdict::Allow, 7, &[]);
    attached.allow(&pin).unwrap();
    assert_eq!((puppet.step(0), puppet.step(1)), (0, libc::EPERM));
    pin.default_verdict = Verdict::Denied;
    attached.allow(&pin).unwrap();
    assert_eq!(puppet.step(0), libc::EPERM);
    assert_eq!(events(&guard).pop().unwrap().rule, Some(7));

    // An open flow is held by new rules only where every packet is judged.
    assert_eq!((puppet.step(2), puppet.step(4)), (0, 0));
    attached.allow(&entry(Direction::Out, "8.8.8.8/32", Verdict::Denied, 8, &[])).unwrap();
    assert_eq!((puppet.step(3), puppet.step(4)), (libc::EPERM, 0));
    let mut strict = table();
    strict.flags.every_packet = true;
    attached.configure(&strict).unwrap();
    assert_eq!((puppet.step(2), puppet.step(4)), (0, 0), "configure replaced the added entries");
    attached.allow(&entry(Direction::Out, "8.8.8.8/32", Verdict::Denied, 9, &[])).unwrap();
    events(&guard);
    assert_eq!(puppet.step(4), libc::EPERM);
    let event = events(&guard).pop().unwrap();
    assert_eq!((event.hook, event.rule, event.port, event.pid), (Hook::Egress, Some(9), PORT, 0));
    attached.allow(&entry(Direction::Out, "8.8.8.8/32", Verdict::Allow, 9, &[])).unwrap();
    assert_eq!(puppet.step(4), 0);

    attached.retire().unwrap();
    assert_eq!((puppet.step(0), puppet.step(3), puppet.step(4)), (libc::EPERM, libc::EPERM, libc::EPERM));
    assert!(events(&guard).iter().all(|event| event.reason == Reason::Unconfigured));
}

/// What the hooks cannot hold, and something else must: a socket that was made outside is never judged.
#[test]
fn sockets_from_outside_are_not_held() {
    let Some((_lab, _guard, cgroup, _attached)) = configured(&table()) else { return };
    let socket = socket_for(at("127.0.0.1:1"), UDP).unwrap();
    let puppet = Puppet::start(Some(&cgroup), move |step| match step {
        0 => try_connect(to("127.0.0.1", PORT), UDP),
        _ => errno(connect(&socket, &to("127.0.0.1", PORT))),
    });
    assert_eq!((puppet.step(0), puppet.step(1)), (libc::EPERM, 0), "if this fails, the documentation can say more");
}

/// A full ring loses events and counts them; the verdicts stand. Two processes at once lose no count.
#[test]
fn flood() {
    const EACH: u32 = 20_000;
    let Some((_lab, guard, cgroup, _attached)) = configured(&table()) else { return };
    let act = |_| {
        let socket = socket_for(at("127.0.0.1:1"), UDP).unwrap();
        let denied = (0..EACH).filter(|_| errno(connect(&socket, &to("127.0.0.1", PORT))) == libc::EPERM);
        i32::try_from(denied.count()).unwrap()
    };
    let puppets = [Puppet::start(Some(&cgroup), act), Puppet::start(Some(&cgroup), act)];
    std::thread::scope(|scope| {
        for puppet in &puppets {
            scope.spawn(|| assert_eq!(puppet.step(0), EACH.cast_signed()));
        }
    });
    let mut seen = 0;
    while guard.drain(&mut |_| seen += 1) > 0 {}
    let dropped = guard.dropped().unwrap();
    assert!(seen > 1000 && dropped > 1000, "{seen} seen, {dropped} dropped");
    assert_eq!(seen + dropped, u64::from(2 * EACH));
}
