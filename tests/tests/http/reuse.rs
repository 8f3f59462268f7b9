//! Connections that serve several requests: when they do, when they must not, and that each request is judged.

use super::{GUESTS, OPEN, to, with};
use act_tests::{Authority, Client, Guest, Run, Web, World, case};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

fn start(world: &World, guest: Guest, flags: &[&str]) -> Client {
    Client::start(world, &world.guest(guest), flags)
}

fn get(client: &mut Client, url: &str) -> String {
    text(&client.call("fetch", to(url), None))
}

fn ask(client: &mut Client, url: &str, method: &str) -> String {
    text(&client.call("fetch", with(url, "method", method), None))
}

/// How many lines of the trail are about allowed requests that contain `what`.
fn allowed(run: &Run, what: &str) -> usize {
    run.audit().iter().filter(|line| line.starts_with("✓ allow  wasi:http") && line.contains(what)).count()
}

#[test]
fn one_connection_for_many_requests() {
    let Some(world) = World::new() else { return };
    let authority = Authority::new();
    let trusted = authority.file(&world.path("trusted.pem"));
    for guest in GUESTS {
        let plain = Web::start("127.0.0.1").unwrap();
        let old = Web::secure("127.0.0.1", &authority, &["localhost"], &["http/1.1"]).unwrap();
        let new = Web::secure("127.0.0.1", &authority, &["localhost"], &["h2"]).unwrap();
        for (scheme, server) in [("http", &plain), ("https", &old), ("https", &new)] {
            let at = format!("localhost:{}", server.port());
            case(&format!("{guest:?}: {scheme}, between calls"));
            let mut act = world.act();
            act.env("SSL_CERT_FILE", &trusted);
            let mut client = Client::start_command(act, &world.guest(guest), &["--allow", "http", "-v"]);
            for n in 0..4 {
                assert_eq!(get(&mut client, &format!("{scheme}://{at}/{n}")), format!("200 GET /{n}"));
            }
            let mut body = with(&format!("{scheme}://{at}/length"), "body", &"b".repeat(30_000));
            body["method"] = "POST".into();
            assert_eq!(text(&client.call("fetch", body, None)), "200 30000");
            assert_eq!((server.accepted(), server.take().len()), (1, 5));
            case(&format!("{guest:?}: {scheme}, the trail has each request with the address, and one look-up"));
            let run = client.finish();
            run.is_clean();
            assert_eq!(allowed(&run, &format!("  GET {at}/{scheme} (127.0.0.1)")), 4, "{}", run.err);
            assert_eq!(allowed(&run, &format!("  POST {at}/{scheme} (127.0.0.1)")), 1, "{}", run.err);
            assert_eq!(allowed(&run, "lookup localhost"), 1, "{}", run.err);
        }
        case(&format!("{guest:?}: within a call"));
        let server = Web::start("127.0.0.1").unwrap();
        let at = format!("http://127.0.0.1:{}", server.port());
        let url = format!("{at}/hop?{at}/hop?{at}/end");
        let run = world.call(&world.guest(guest), "fetch", &with(&url, "follow", "5"), &["--allow", "http", "-v"]);
        run.is_clean().exits(0).prints("200 GET /end");
        assert_eq!((server.accepted(), server.take().len()), (1, 3));
        assert_eq!(allowed(&run, "  GET 127.0.0.1"), 3, "{}", run.err);
    }
}

#[test]
fn every_request_is_judged() {
    let Some(world) = World::new() else { return };
    let range = |rule: &str| {
        let nets = ["127.0.0.0/8", "::1/128"].map(|net| format!(r#"{{"cidr":"{net}",{rule}}}"#)).join(",");
        format!(r#"{{"http":{{"mode":"open","deny":[{nets}]}}}}"#)
    };
    let host = |method: &str| {
        format!(r#"{{"http":{{"mode":"open","deny":[{{"host":"localhost","methods":["{method}"]}}]}}}}"#)
    };
    let rows = [
        ("the method at the host", host("POST"), "POST localhost:{P}/http   denied by POST localhost"),
        (
            "the method at the address",
            range(r#""methods":["POST"]"#),
            "POST localhost:{P}/http (127.0.0.1)   denied by ",
        ),
    ];
    for guest in GUESTS {
        for (name, rules, line) in rows.clone() {
            case(&format!("{guest:?}: {name}"));
            let server = Web::start("127.0.0.1").unwrap();
            let url = format!("http://localhost:{}/x", server.port());
            let mut client = start(&world, guest, &["--grant", &rules]);
            assert_eq!(get(&mut client, &url), "200 GET /x");
            let refused = ask(&mut client, &url, "POST");
            assert!(refused.contains("http-request-denied") || refused.contains("dns-error"), "{refused}");
            assert_eq!(get(&mut client, &url), "200 GET /x");
            assert_eq!((server.accepted(), server.take().len()), (1, 2));
            let run = client.finish();
            run.is_clean();
            let line = format!("✗ deny  wasi:http  {}", line.replace("{P}", &server.port().to_string()));
            let lines = run.audit().iter().filter(|have| have.starts_with(&line)).count();
            assert_eq!(lines, 1, "`{line}` is not there once:\n{}", run.err);
        }
        case(&format!("{guest:?}: control, another method is denied"));
        for rules in [host("PUT"), range(r#""methods":["PUT"]"#)] {
            let server = Web::start("127.0.0.1").unwrap();
            let url = format!("http://localhost:{}/x", server.port());
            let mut client = start(&world, guest, &["--grant", &rules]);
            assert_eq!(get(&mut client, &url), "200 GET /x");
            assert_eq!(ask(&mut client, &url, "POST"), "200 POST /x");
            assert_eq!((server.accepted(), server.take().len()), (1, 2));
            client.finish().is_clean().never_says("✗ deny");
        }
        case(&format!("{guest:?}: another host, scheme or port is another connection"));
        let server = Web::start("127.0.0.1").unwrap();
        let port = server.port();
        let mut client = start(&world, guest, &["--allow", &format!("http=http://localhost:{port}")]);
        assert_eq!(get(&mut client, &format!("http://localhost:{port}/x")), "200 GET /x");
        for url in [format!("http://127.0.0.1:{port}/x"), format!("https://localhost:{port}/x")] {
            assert!(get(&mut client, &url).contains("http-request-denied"));
        }
        assert_eq!(get(&mut client, &format!("http://LOCALHOST.:{port}/x")), "200 GET /x");
        assert_eq!((server.accepted(), server.take().len()), (1, 2));
        client.finish().is_clean();
        let mut client = start(&world, guest, OPEN);
        for url in [format!("http://localhost:{port}/x"), format!("http://127.0.0.1:{port}/x")] {
            assert_eq!(get(&mut client, &url), "200 GET /x");
        }
        assert_eq!((server.accepted(), server.take().len()), (3, 2));
        client.finish().is_clean();
    }
}

/// After each of these the connection is closed, and the next request has a new one.
#[test]
fn what_closes_a_connection() {
    let Some(world) = World::new() else { return };
    let authority = Authority::new();
    let trusted = authority.file(&world.path("trusted.pem"));
    for guest in GUESTS {
        let plain = Web::start("127.0.0.1").unwrap();
        let new = Web::secure("127.0.0.1", &authority, &["127.0.0.1"], &["h2"]).unwrap();
        for (scheme, server) in [("http", &plain), ("https", &new)] {
            let at = format!("{scheme}://127.0.0.1:{}", server.port());
            let mut act = world.act();
            act.env("SSL_CERT_FILE", &trusted);
            let mut client = Client::start_command(act, &world.guest(guest), OPEN);
            let mut connections = 0;
            let mut after = |client: &mut Client, what: &str, closes: bool| {
                case(&format!("{guest:?}: {scheme}, {what}"));
                connections += usize::from(closes);
                assert_eq!(get(client, &format!("{at}/next")), "200 GET /next");
                assert_eq!(server.accepted(), connections);
                // The one that was given up is closed at once.
                assert_eq!(server.open(1, SOON), 1);
            };
            after(&mut client, "nothing before", true);
            after(&mut client, "control: a body that was read", false);
            if scheme == "http" {
                assert_eq!(get(&mut client, &format!("{at}/close")), "200 GET /close");
                after(&mut client, "`connection: close`", true);
            }
            assert!(get(&mut client, &format!("{at}/big?400000")).len() < 200_000);
            after(&mut client, "a body that was read in part", true);
            let slow = client.call("fetch", with(&format!("{at}/slow"), "times", "first=200"), None);
            assert!(text(&slow).contains("http-response-timeout"), "{slow}");
            after(&mut client, "a request that was given up", true);
            let stalled = client.call("fetch", with(&format!("{at}/stall"), "times", "between=200"), None);
            assert!(stalled["isError"] == json!(true), "{stalled}");
            after(&mut client, "a body that stops", true);
            let early = json!({ "url": format!("{at}/echo"), "pieces": "one two" });
            assert_eq!(text(&client.call("duplex", early, None)), "one two rest 0");
            after(&mut client, "a response that comes before the end of the request", true);
            after(&mut client, "control: nothing since", false);
            client.finish().is_clean();
        }
    }
}

/// A server that answers the first request on a connection with `first`, and does `then`.
fn scripted(first: &'static str, then: Then) -> (u16, Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, requests) = channel();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().flatten().enumerate() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream, connection, first, then, &sender));
        }
    });
    (port, requests)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Close, after the answer was sent.
    Close,
    /// Read the second request, and close without an answer.
    CloseAtSecond,
    /// Go on answering.
    GoOn,
}

fn serve(mut stream: TcpStream, connection: usize, first: &str, then: Then, sender: &std::sync::mpsc::Sender<usize>) {
    let mut bytes = [0; 4096];
    let mut requests = 0;
    while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
        sender.send(connection).unwrap();
        requests += 1;
        if requests == 2 && then == Then::CloseAtSecond && connection == 0 {
            return;
        }
        let answer = if connection == 0 && requests == 1 { first } else { ANSWER };
        stream.write_all(answer.as_bytes()).unwrap();
        if then == Then::Close {
            return;
        }
    }
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine";

#[test]
fn a_server_that_closes_or_says_too_much() {
    let Some(world) = World::new() else { return };
    for guest in GUESTS {
        let run = |first, then, method: &str| {
            let (port, requests) = scripted(first, then);
            let mut client = start(&world, guest, OPEN);
            let url = format!("http://127.0.0.1:{port}/");
            let answers = [get(&mut client, &url), ask(&mut client, &url, method)];
            client.finish().is_clean();
            (answers, requests.try_iter().collect::<Vec<_>>())
        };
        let fine = || "200 fine".to_owned();
        for method in ["GET", "POST"] {
            case(&format!("{guest:?}: {method}, control: it goes on"));
            assert_eq!(run(ANSWER, Then::GoOn, method), ([fine(), fine()], vec![0, 0]));
            case(&format!("{guest:?}: {method}, it closes between two requests"));
            assert_eq!(run(ANSWER, Then::Close, method), ([fine(), fine()], vec![0, 1]));
            case(&format!("{guest:?}: {method}, it closes after it has the second: that is not sent twice"));
            let ([first, second], requests) = run(ANSWER, Then::CloseAtSecond, method);
            assert_eq!((first, requests), (fine(), vec![0, 0]));
            assert!(
                second.contains("http-response-incomplete") || second.contains("connection-terminated"),
                "{second}"
            );
        }
        case(&format!("{guest:?}: bytes that belong to no response are no response to the next request"));
        let surplus =
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfineHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
        assert_eq!(run(surplus, Then::GoOn, "GET"), ([fine(), fine()], vec![0, 1]));
        case(&format!("{guest:?}: HTTP/1.0"));
        let old = "HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nfine";
        assert_eq!(run(old, Then::GoOn, "GET"), ([fine(), fine()], vec![0, 1]));
        case(&format!("{guest:?}: a body without a length ends with its connection"));
        assert_eq!(run("HTTP/1.1 200 OK\r\n\r\nfine", Then::Close, "GET"), ([fine(), fine()], vec![0, 1]));
    }
}

#[test]
fn connections_that_wait_make_room_and_do_not_wait_for_ever() {
    let Some(world) = World::new() else { return };
    let (one, two) = (Web::start("127.0.0.1").unwrap(), Web::start("127.0.0.1").unwrap());
    let mut client = start(&world, Guest::Files3, OPEN);
    let mut many = |server: &Web| {
        let url = format!("http://127.0.0.1:{}/x", server.port());
        let answer = text(&client.call("many", json!({ "url": url, "count": "100" }), None));
        assert_eq!((answer.trim(), server.take().len()), ("100", 100));
    };
    case("not more than eight wait at one place");
    many(&one);
    assert_eq!(one.open(8, SOON), 8);
    case("they give way to requests to another");
    many(&two);
    assert_eq!((one.open(0, SOON), two.open(8, SOON)), (0, 8));
    case("they are closed when nothing is asked");
    assert_eq!(two.open(0, Duration::from_secs(25)), 0);
    client.finish().is_clean();
}

#[test]
fn connections_go_with_their_instance() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let url = format!("http://127.0.0.1:{}/x", server.port());
    // More than fits into the component's memory.
    let large = world.file("large", "");
    std::fs::File::options().write(true).open(&large).unwrap().set_len(1 << 30).unwrap();
    let files = world.fill("fs={D}/**:ro");
    let flags = ["--allow", "http", "--allow", &files, "--max-memory", "64MiB"];
    let mut client = start(&world, Guest::Files3, &flags);
    assert_eq!(get(&mut client, &url), "200 GET /x");
    case("control");
    assert_eq!(get(&mut client, &url), "200 GET /x");
    assert_eq!((server.accepted(), server.open(1, SOON)), (1, 1));
    case("the instance is lost");
    let lost = client.call("read_file", json!({ "path": large }), None);
    assert!(lost["isError"] == json!(true), "{lost}");
    assert_eq!(get(&mut client, &url), "200 GET /x");
    assert_eq!((server.accepted(), server.open(1, SOON)), (2, 1));
    client.finish().is_clean();
}
