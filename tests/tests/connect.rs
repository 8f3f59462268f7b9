//! TCP connections and name look-ups: verdict, audit line, exit code, and whether the server was reached.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Server, World, case};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const GUESTS: [Guest; 3] = [Guest::Files, Guest::Files3, Guest::Py];
const OPEN: &[&str] = &["--allow", "sockets"];

fn anywhere() -> Value {
    json!([{ "cidr": "0.0.0.0/0" }, { "cidr": "::/0" }, { "host": "*" }])
}

/// Arguments of the tool `tcp`, which Python wants in two parts.
fn to(guest: Guest, ip: &str, port: u16) -> Value {
    if guest == Guest::Py {
        return json!({ "host": ip, "port": port, "send": "hello" });
    }
    let address = if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    json!({ "address": address, "send": "hello" })
}

/// Address, flags, and the reason in the audit; empty where the server has to be reached.
type Row = (&'static str, &'static str, Vec<String>, &'static str);

fn flags(texts: &[&str], port: u16) -> Vec<String> {
    texts.iter().map(|t| t.replace("{P}", &port.to_string())).collect()
}

fn rows(port: u16) -> Vec<Row> {
    let f = |texts: &[&str]| flags(texts, port);
    let grant = |text: &str| text.replace("{P}", &port.to_string());
    vec![
        ("the granted address and port", "127.0.0.1", f(&["--allow", "sockets=127.0.0.1:{P}"]), ""),
        ("the whole ceiling", "127.0.0.1", f(OPEN), ""),
        ("the granted protocol", "127.0.0.1", f(&["--allow", "sockets=127.0.0.1:{P}/tcp"]), ""),
        (
            "a granted range",
            "127.0.0.1",
            f(&[
                "--grant",
                &grant(r#"{"sockets":{"mode":"allowlist","allow":[{"cidr":"127.0.0.0/8","ports":[{P}]}]}}"#),
            ]),
            "",
        ),
        ("another port", "127.0.0.1", f(&["--allow", "sockets=127.0.0.1:1"]), "not granted  mode:allowlist"),
        ("another address", "127.0.0.1", f(&["--allow", "sockets=127.0.0.2:{P}"]), "not granted  mode:allowlist"),
        (
            "a range with other ports",
            "127.0.0.1",
            f(&["--grant", r#"{"sockets":{"mode":"allowlist","allow":[{"cidr":"127.0.0.0/8","ports":[1]}]}}"#]),
            "not granted  mode:allowlist",
        ),
        (
            "a deny rule beats the grant",
            "127.0.0.1",
            f(&["--allow", "sockets=127.0.0.1:{P}", "--deny", "sockets=127.0.0.0/8"]),
            "denied by 127.0.0.0/8 (cli, <command line> --deny sockets=127.0.0.0/8)  mode:allowlist",
        ),
        (
            "a host rule covers no literal address",
            "127.0.0.1",
            f(&["--allow", "sockets=localhost:{P}"]),
            "not granted  mode:allowlist",
        ),
        (
            "a rule for another protocol, beside one for another port",
            "127.0.0.1",
            f(&["--allow", "sockets=127.0.0.1:{P}/udp", "--allow", "sockets=127.0.0.1:1/tcp"]),
            "not granted  mode:allowlist",
        ),
    ]
}

#[test]
fn connections() {
    let Some(world) = World::new() else { return };
    let server = Server::start("127.0.0.1").unwrap();
    let mut reached = 0;
    for guest in GUESTS {
        let component = world.pack(guest, &[], &anywhere());
        for (name, ip, flags, reason) in rows(server.port()) {
            case(&format!("{guest:?}: {name}"));
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let run = world.call(&component, "tcp", &to(guest, ip, server.port()), &flags);
            if reason.is_empty() {
                run.is_clean().exits(0).prints("echo: hello").never_says("✗ deny");
                reached += 1;
            } else {
                let line = format!("✗ deny  wasi:sockets  connect {ip}:{}/tcp   {reason}", server.port());
                run.is_clean().exits(4).audits(&line);
                run.says(if guest == Guest::Py { "PermissionError" } else { "access-denied" });
            }
            assert_eq!(server.settle(reached), reached, "connections seen by the server");
        }
    }
}

#[test]
fn the_ceiling_bounds_every_grant() {
    let Some(world) = World::new() else { return };
    let servers = Server::same_port(&["127.0.0.1", "127.1.2.3"]).unwrap();
    let port = servers[0].port();
    let component = world.pack(Guest::Files, &[], &json!([{ "cidr": "127.0.0.0/16", "ports": [port] }]));
    world.call(&component, "tcp", &to(Guest::Files, "127.0.0.1", port), OPEN).exits(0);
    let run = world.call(&component, "tcp", &to(Guest::Files, "127.1.2.3", port), OPEN);
    run.exits(4).audits(&format!("✗ deny  wasi:sockets  connect 127.1.2.3:{port}/tcp   outside ceiling  mode:open"));
    assert_eq!((servers[0].settle(1), servers[1].accepted()), (1, 0));
}

#[test]
fn other_spellings_of_a_denied_address() {
    let Some(world) = World::new() else { return };
    // A server on each, so that a connection would be seen.
    let servers = Server::same_port(&["127.0.0.1", "127.1.2.3"]).unwrap();
    let port = servers[0].port();
    let flags = ["--allow", "sockets", "--deny", "sockets=127.0.0.0/8"];
    for guest in [Guest::Files, Guest::Files3] {
        let component = world.pack(guest, &[], &anywhere());
        for ip in ["127.0.0.1", "127.1.2.3", "0.0.0.0", "::", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"] {
            case(&format!("{guest:?} {ip}"));
            let run =
                world.call(&component, "tcp", &to(guest, ip, port), &[&flags[..], &["--timeout", "20s"]].concat());
            run.is_clean();
            assert!(run.code == Some(4) || run.code == Some(1), "{}", run.err);
            // WASI itself refuses mapped and unspecified addresses; what it lets through has to be denied.
            assert!(run.code == Some(4) || run.err.contains("invalid-argument"), "{}", run.err);
        }
    }
    assert_eq!(servers.iter().map(Server::accepted).sum::<usize>(), 0);
    case("control: without the deny rule");
    let component = world.pack(Guest::Files, &[], &anywhere());
    world.call(&component, "tcp", &to(Guest::Files, "127.1.2.3", port), OPEN).exits(0);
    assert_eq!(servers[1].settle(1), 1);
}

#[test]
fn names() {
    let Some(world) = World::new() else { return };
    let server = Server::start("127.0.0.1").unwrap();
    let allow = format!("sockets=localhost:{}", server.port());
    for guest in GUESTS {
        let component: PathBuf = world.pack(guest, &[], &anywhere());
        let resolve = |name: &str| world.call(&component, "resolve", &json!({ "name": name }), &["--allow", &allow]);
        case(&format!("{guest:?}: a granted name"));
        resolve("localhost").is_clean().exits(0).prints("127.0.0.1").never_says("✗ deny");
        for name in ["blocked.invalid", "localhost.blocked.invalid", "ocalhost"] {
            case(&format!("{guest:?}: {name}"));
            let run = resolve(name);
            run.is_clean()
                .exits(4)
                .audits(&format!("✗ deny  wasi:sockets  lookup {name}   not granted  mode:allowlist"));
            assert!(run.out.is_empty());
        }
    }
    case("Python connects by name");
    let component = world.pack(Guest::Py, &[], &anywhere());
    let run = world.call(&component, "tcp", &to(Guest::Py, "localhost", server.port()), &["--allow", &allow]);
    run.exits(0).prints("echo: hello");
    assert_eq!(server.settle(1), 1);
}

/// What has to be told when nothing was granted.
fn nothing_granted(world: &World, guest: Guest, component: &Path, port: u16, flags: &[&str], line: &str) {
    let run = world.call(component, "tcp", &to(guest, "127.0.0.1", port), flags);
    run.is_clean().audits(line).exits(4);
    assert!(run.out.is_empty());
}

#[test]
fn ask_without_a_prompt_channel_is_denied_and_told() {
    let Some(world) = World::new() else { return };
    let server = Server::start("127.0.0.1").unwrap();
    let line =
        format!("? ask-deny  wasi:sockets  connect 127.0.0.1:{}/tcp   no prompt channel  mode:ask", server.port());
    for guest in GUESTS {
        case(&format!("{guest:?}"));
        let component = world.pack(guest, &[], &anywhere());
        nothing_granted(&world, guest, &component, server.port(), &[], &line);
    }
    assert_eq!(server.accepted(), 0);
}

#[test]
fn a_class_that_is_denied_is_told() {
    let Some(world) = World::new() else { return };
    let server = Server::start("127.0.0.1").unwrap();
    for guest in GUESTS {
        case(&format!("{guest:?}"));
        let component = world.pack(guest, &[], &anywhere());
        let line = format!("✗ deny  wasi:sockets  connect 127.0.0.1:{}/tcp   not granted  mode:deny", server.port());
        nothing_granted(&world, guest, &component, server.port(), &["--deny", "sockets"], &line);
    }
    assert_eq!(server.accepted(), 0);
}
