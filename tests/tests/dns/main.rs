//! Names, answers and addresses: what is asked of a real name server, and where connections go.
//!
//! Each test has a network of its own, in which `resolv.conf` names one server and the ports are free.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod answers;
mod embedded;
mod failures;
mod packets;
mod search_list;

use act_tests::{Guest, Run, Web, World};
use serde_json::{Value, json};

/// Over WASI 0.2 and 0.3.
const HTTP: [Guest; 2] = [Guest::Fetch, Guest::Files3];
const SOCKETS: [Guest; 2] = [Guest::Files, Guest::Files3];

/// The address that is denied where one is; it sorts before the other, so that it would be tried first.
const BAD: &str = "127.0.0.1";
const GOOD: &str = "127.9.9.9";
const BAD_NET: &str = "127.0.0.0/16";
const PORT: u16 = 8080;

fn url(host: &str) -> Value {
    json!({ "url": format!("http://{host}:{PORT}/x"), "method": "GET", "body": "", "follow": "", "times": "" })
}

fn fetch(world: &World, guest: Guest, host: &str, flags: &[&str]) -> Run {
    let run = world.call(&world.guest(guest), "fetch", &url(host), flags);
    run.is_clean();
    run
}

fn anywhere() -> Value {
    json!([{ "cidr": "0.0.0.0/0" }, { "cidr": "::/0" }, { "host": "*" }])
}

fn lookup(world: &World, guest: Guest, name: &str, flags: &[&str]) -> Run {
    let component = world.pack(guest, &[], &anywhere());
    let run = world.call(&component, "resolve", &json!({ "name": name }), flags);
    run.is_clean();
    run
}

/// Web servers on the good address and on the bad one.
fn web() -> [Web; 2] {
    [GOOD, BAD].map(|ip| Web::start_at(ip, PORT).unwrap())
}

/// How many requests reached each.
fn reached(servers: &[Web; 2]) -> [usize; 2] {
    [servers[0].take().len(), servers[1].take().len()]
}

/// Questions for both kinds of address, over UDP.
fn both(name: &str) -> Vec<String> {
    vec![format!("A {name} udp"), format!("AAAA {name} udp")]
}

/// One answer for each name.
fn zone<'a>(rows: &'a [(&'a str, [&'a str; 1])]) -> Vec<(&'a str, &'a [&'a str])> {
    rows.iter().map(|(name, answers)| (*name, answers.as_slice())).collect()
}
