//! What the kernel holds when the guest's own check is switched off.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Server, World, case, require, root};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::time::Duration;

fn anywhere() -> Value {
    json!([{ "cidr": "0.0.0.0/0" }, { "cidr": "::/0" }, { "host": "*" }])
}

fn to(guest: Guest, ip: &str, port: u16) -> Value {
    match guest {
        Guest::Py => json!({ "host": ip, "port": port, "send": "hello" }),
        _ if ip.contains(':') => json!({ "address": format!("[{ip}]:{port}"), "send": "hello" }),
        _ => json!({ "address": format!("{ip}:{port}"), "send": "hello" }),
    }
}

fn world() -> Option<World> {
    require(root())?;
    World::unchecked()
}

#[test]
fn the_hook_refuses_a_connection() {
    let Some(world) = world() else { return };
    let server = Server::start("127.0.0.1").unwrap();
    let port = server.port();
    let mut reached = 0;
    for guest in [Guest::Files, Guest::Files3, Guest::Py] {
        let component = world.pack(guest, &[], &anywhere());
        let tcp = |flags: &[&str]| world.call(&component, "tcp", &to(guest, "127.0.0.1", port), flags);
        let allow = format!("sockets=127.0.0.1:{port}");
        let other = format!("sockets=127.0.0.2:{port}");
        let event =
            |reason: &str| format!("✗ deny  wasi:sockets  connect 127.0.0.1:{port}/tcp   kernel: connect4  {reason}");
        let refused = if guest == Guest::Py { "PermissionError" } else { "access-denied" };

        case(&format!("{guest:?}: a deny rule"));
        let run = tcp(&["--allow", &allow, "--deny", "sockets=127.0.0.0/8"]);
        run.is_clean().exits(4).says(refused);
        run.audits(&event("under deny 127.0.0.0/8 (cli, <command line> --deny sockets=127.0.0.0/8)"));
        run.says("⚠ host check bypassed  wasi:sockets  connect 127.0.0.1:").says("denied by 127.0.0.0/8");
        case(&format!("{guest:?}: no rule"));
        let run = tcp(&["--allow", &other]);
        run.is_clean().exits(4).says(refused).audits(&event("no rule allows it"));
        run.audits(&format!("⚠ host check bypassed  wasi:sockets  connect 127.0.0.1:{port}/tcp   not granted"));
        assert_eq!(server.accepted(), reached, "the server was reached");

        case(&format!("{guest:?}: control, the same run with a policy that allows it"));
        let run = tcp(&["--allow", &allow]);
        run.is_clean().exits(0).prints("echo: hello").never_says("✗ deny").never_says("bypassed");
        reached += 1;
        assert_eq!(server.settle(reached), reached);
    }
}

/// Where the policy asks, a guest that lets the connection pass has asked nobody: that is no allowed operation.
#[test]
fn what_needs_an_answer_is_never_shown_as_allowed() {
    let Some(world) = world() else { return };
    let server = Server::start("127.0.0.1").unwrap();
    let port = server.port();
    let component = world.pack(Guest::Files, &[], &anywhere());
    let run = world.call(&component, "tcp", &to(Guest::Files, "127.0.0.1", port), &["-v"]);
    run.is_clean().exits(4).says("access-denied").never_says("✓ allow  wasi:sockets  connect");
    run.audits(&format!("⚠ host check bypassed  wasi:sockets  connect 127.0.0.1:{port}/tcp   needs an answer"));
    run.audits(&format!("✗ deny  wasi:sockets  connect 127.0.0.1:{port}/tcp   kernel: connect4  no rule allows it"));
    assert_eq!(server.accepted(), 0, "the server was reached");
}

#[test]
fn the_hook_refuses_over_ipv6() {
    let Some(world) = world() else { return };
    let Some(server) = require(Server::start("::1").map_err(|e| format!("no IPv6 here: {e}"))) else { return };
    let component = world.pack(Guest::Files, &[], &anywhere());
    let allow = |ip: &str| format!("sockets={ip}:{}", server.port());
    let tcp =
        |ip: &str| world.call(&component, "tcp", &to(Guest::Files, "::1", server.port()), &["--allow", &allow(ip)]);
    let line =
        format!("✗ deny  wasi:sockets  connect [::1]:{}/tcp   kernel: connect6  no rule allows it", server.port());
    tcp("127.0.0.1").is_clean().exits(4).audits(&line);
    assert_eq!(server.accepted(), 0);
    tcp("[::1]").is_clean().exits(0).prints("echo: hello");
    assert_eq!(server.settle(1), 1);
}

#[test]
fn the_hook_refuses_a_datagram() {
    let Some(world) = world() else { return };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let port = socket.local_addr().unwrap().port();
    let component = world.pack(Guest::Files, &[], &anywhere());
    let udp = |ip: &str| {
        let allow = format!("sockets={ip}:{port}/udp");
        world.call(&component, "udp", &to(Guest::Files, "127.0.0.1", port), &["--allow", &allow, "--timeout", "2s"])
    };
    let run = udp("127.0.0.2");
    run.is_clean()
        .audits(&format!("✗ deny  wasi:sockets  send 127.0.0.1:{port}/udp   kernel: sendmsg4  no rule allows it"));
    run.exits(4);
    assert!(socket.recv(&mut [0; 16]).is_err(), "a datagram came");
    case("control: granted, it arrives (nobody answers, so that the call runs out of time)");
    udp("127.0.0.1").is_clean().exits(6);
    assert_eq!(socket.recv(&mut [0; 16]).unwrap(), 5);
}

/// Regression: Landlock knew the ports of the grants and refused others before a hook saw them, so that the denial had no
/// record (protocol.md §3: denials of the kernel are never dropped in silence).
#[test]
fn a_port_that_no_grant_names_is_told() {
    let Some(world) = world() else { return };
    let servers = [Server::start("127.0.0.1").unwrap(), Server::start("127.0.0.1").unwrap()];
    let component = world.pack(Guest::Files, &[], &anywhere());
    let allow = format!("sockets=127.0.0.1:{}", servers[0].port());
    let run = world.call(&component, "tcp", &to(Guest::Files, "127.0.0.1", servers[1].port()), &["--allow", &allow]);
    run.is_clean().says("access-denied");
    assert_eq!(servers[1].accepted(), 0);
    run.audits(&format!(
        "✗ deny  wasi:sockets  connect 127.0.0.1:{}/tcp   kernel: connect4  no rule allows it",
        servers[1].port()
    ));
    run.exits(4);
}

#[test]
fn landlock_refuses_files() {
    let Some(world) = world() else { return };
    world.file("ro/r.txt", "text of r");
    world.file("out/s.txt", "SECRET");
    let flags = ["--allow", "fs={D}/ro/**:ro"];
    let text = |p: &str| json!({ "path": format!("{{D}}/{p}"), "text": "new" });
    let rows = [
        ("read outside", "read_file", json!({ "path": "{D}/out/s.txt" }), "read {D}/out/s.txt"),
        ("write under ro", "write_file", text("ro/r.txt"), "write {D}/ro/r.txt"),
        ("make under ro", "write_file", text("ro/new.txt"), "write {D}/ro/new.txt"),
        ("make outside", "write_file", text("out/new.txt"), "write {D}/out/new.txt"),
    ];
    for guest in [Guest::Files, Guest::Files3, Guest::Py] {
        let component = world.pack(guest, &[("/**", "rw")], &json!([]));
        for (name, tool, arguments, what) in &rows {
            case(&format!("{guest:?}: {name}"));
            let run = world.call(&component, tool, arguments, &flags);
            run.is_clean().exits(4).audits(&world.fill(&format!("✗ deny  wasi:filesystem  {what}   kernel: landlock")));
            run.audits(&world.fill(&format!("⚠ host check bypassed  wasi:filesystem  {what}   not granted")));
            assert!(run.out.is_empty() && !run.err.contains("SECRET"));
        }
        case(&format!("{guest:?}: controls"));
        let run = world.call(&component, "read_file", &json!({ "path": "{D}/ro/r.txt" }), &flags);
        run.is_clean().exits(0).prints("text of r").never_says("bypassed");
        let wide = ["--allow", "fs={D}/**"];
        world.call(&component, "read_file", &json!({ "path": "{D}/out/s.txt" }), &wide).exits(0).prints("SECRET");
    }
    assert_eq!((world.read("out/s.txt").as_str(), world.read("ro/r.txt").as_str()), ("SECRET", "text of r"));
    assert!(!world.path("ro/new.txt").exists() && !world.path("out/new.txt").exists());
}
