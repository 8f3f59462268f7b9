//! `act run --http`: tools over Streamable HTTP, what is refused, and what bounds it. Beside every refusal stands the same
//! request without its fault.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Authority, Guest, Run, Running, World, case, process};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an answer may take; the first one may wait for the compiler.
const PATIENCE: Duration = Duration::from_secs(100);
const MIB: usize = 1 << 20;

/// `act run --http` on a port that the kernel chose.
struct Served {
    act: Running,
    errors: PathBuf,
    /// The address that it tells clients.
    url: String,
    at: SocketAddr,
}

impl Served {
    fn start(world: &World, component: &Path, flags: &[&str]) -> Self {
        Self::start_at(world, component, "127.0.0.1:0", flags)
    }

    fn start_at(world: &World, component: &Path, address: &str, flags: &[&str]) -> Self {
        let errors = world.path("stderr");
        let mut command = world.act();
        command.arg("run").arg(component).args(["--mcp", "--http", "-l", address]);
        command.args(flags.iter().map(|flag| world.fill(flag)));
        let mut act = Running::start_as_is(command.stderr(File::create(&errors).unwrap()));
        let mut url = None;
        process::wait_until(PATIENCE, "act to listen", || {
            let text = fs::read_to_string(&errors).unwrap();
            assert!(act.ended().is_none(), "it ended:\n{text}");
            url = text.lines().find_map(|line| Some(line.strip_prefix("act: serving t on ")?.to_owned()));
            url.is_some() && text.ends_with('\n')
        });
        let url = url.unwrap();
        let port = url.strip_suffix("/mcp").unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
        Self { act, errors, url, at: (Ipv4Addr::LOCALHOST, port).into() }
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to a request with these headers instead of the usual ones (`None`: without it).
    fn ask(&self, method: &str, path: &str, headers: &[(&str, Option<&str>)], body: &[u8]) -> Answer {
        self.ask_on(self.connect(), method, path, headers, body)
    }

    fn ask_on(
        &self,
        mut stream: impl Read + Write,
        method: &str,
        path: &str,
        headers: &[(&str, Option<&str>)],
        body: &[u8],
    ) -> Answer {
        let host = format!("127.0.0.1:{}", self.at.port());
        let length = body.len().to_string();
        let mut all = vec![
            ("Host", host.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("Content-Length", length.as_str()),
            ("Connection", "close"),
        ];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers.iter().filter_map(|(name, value)| Some((*name, (*value)?))));
        let mut bytes = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        for (name, value) in all {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        // It may have closed before all was sent.
        let _ = stream.write_all(&bytes);
        Answer::read(stream)
    }

    /// The answer to a message.
    fn post(&self, headers: &[(&str, Option<&str>)], message: &Value) -> Answer {
        self.ask("POST", "/mcp", headers, message.to_string().as_bytes())
    }

    /// The status of `initialize` with these headers.
    fn status(&self, headers: &[(&str, Option<&str>)]) -> u16 {
        self.post(headers, &initialize()).status
    }

    /// Open a session: its id.
    fn session(&self) -> String {
        let answer = self.post(&[], &initialize());
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.header("mcp-session-id").unwrap().to_owned();
        let told = self.post(
            &[("Mcp-Session-Id", Some(&id))],
            &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        );
        assert_eq!(told.status, 202, "{told:?}");
        id
    }

    /// A request in a session.
    fn request(&self, session: &str, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let answer = self.post(&[("Mcp-Session-Id", Some(session))], &message);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.message()
    }

    /// End it by a signal: in order, and at once.
    fn stop(self) -> Run {
        process::signal(self.act.pid(), Signal::TERM);
        self.finish()
    }

    /// After a signal.
    fn finish(self) -> Run {
        let run = self.act.finish_within(Duration::from_secs(4));
        Run { err: fs::read_to_string(&self.errors).unwrap(), ..run }
    }

    /// The same, for a server that was asked nothing but well-behaved things.
    fn ends(self) {
        self.stop().is_clean().exits(5);
    }
}

#[derive(Debug)]
struct Answer {
    /// 0: the connection was closed without an answer.
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// Read to the end of the connection.
    fn read(mut stream: impl Read) -> Self {
        let mut bytes = Vec::new();
        // A connection that is reset has told what there was to tell.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut answer = Self { status, head: head.to_owned(), body: body.to_owned() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = chunks(body);
        }
        answer
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// The response in a stream of events.
    fn message(&self) -> Value {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        messages.find(|message| message.get("id").is_some()).unwrap_or_else(|| panic!("no response: {self:?}"))
    }
}

fn chunks(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").unwrap();
    }
    out
}

fn initialize() -> Value {
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

fn world() -> Option<(World, PathBuf)> {
    let world = World::new()?;
    world.file("a.txt", "text of a");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    Some((world, component))
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

const ALLOW: &[&str] = &["--allow", "fs={D}/**:ro"];

#[test]
fn clients_of_both_eras_call_tools() {
    let Some((world, component)) = world() else { return };
    let served = Served::start(&world, &component, ALLOW);
    assert_eq!(served.url, format!("http://{}/mcp", served.at));
    let read = json!({ "name": "read_file", "arguments": { "path": world.path("a.txt") } });

    case("two sessions");
    let (one, two) = (served.session(), served.session());
    assert_ne!(one, two);
    let tools = served.request(&one, "tools/list", json!({}));
    assert!(tools["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "read_file"), "{tools}");
    assert_eq!(text(&served.request(&one, "tools/call", read.clone())), "text of a");
    assert_eq!(text(&served.request(&two, "tools/call", read.clone())), "text of a");
    let write = json!({ "name": "write_file", "arguments": { "path": world.path("a.txt"), "text": "x" } });
    assert_eq!(served.request(&two, "tools/call", write)["result"]["isError"], json!(true));

    case("a session that was ended, and one that never was");
    assert_eq!(served.ask("DELETE", "/mcp", &[("Mcp-Session-Id", Some(&one))], b"").status, 202);
    for id in [one.as_str(), "none"] {
        assert_eq!(
            served
                .post(&[("Mcp-Session-Id", Some(id))], &json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }))
                .status,
            404
        );
    }
    assert_eq!(text(&served.request(&two, "tools/call", read.clone())), "text of a");

    case("2026-07-28: no session");
    let mut params = read;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("MCP-Protocol-Version", Some("2026-07-28")),
        ("Mcp-Method", Some("tools/call")),
        ("Mcp-Name", Some("read_file")),
    ];
    let answer = served.post(&headers, &json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params }));
    assert_eq!((answer.status, text(&answer.message()), answer.header("mcp-session-id")), (200, "text of a", None));

    let run = served.stop();
    run.is_clean().exits(5).says("✗ deny  wasi:filesystem  write ");
    assert_eq!(run.audit().iter().filter(|line| line.starts_with("● read_file  ok ")).count(), 4, "{}", run.err);
}

#[test]
fn strangers_hosts_and_origins_are_refused() {
    let Some((world, component)) = world() else { return };
    let served = Served::start(&world, &component, ALLOW);
    let port = served.at.port();
    let own = |host: &str| format!("{host}:{port}");
    for (host, status) in [
        (own("127.0.0.1").as_str(), 200),
        (own("localhost").as_str(), 200),
        (own("[::1]").as_str(), 200),
        ("localhost", 200),
        ("evil.example", 403),
        (own("evil.example").as_str(), 403),
        (own("127.0.0.1.evil.example").as_str(), 403),
        (own("localhost.evil.example").as_str(), 403),
        (own("0.0.0.0").as_str(), 403),
        ("", 400),
    ] {
        case(&format!("host {host}"));
        assert_eq!(served.status(&[("Host", Some(host))]), status);
    }
    for (origin, status) in [
        (format!("http://127.0.0.1:{port}").as_str(), 200),
        (format!("http://localhost:{port}").as_str(), 200),
        (format!("https://127.0.0.1:{port}").as_str(), 403),
        ("http://localhost", 403),
        ("http://localhost:1", 403),
        ("http://evil.example", 403),
        (format!("http://evil.example:{port}").as_str(), 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
    ] {
        case(&format!("origin {origin}"));
        assert_eq!(served.status(&[("Origin", Some(origin))]), status);
    }
    case("other methods and paths");
    for (method, path, status) in [
        ("PUT", "/mcp", 405),
        ("OPTIONS", "/mcp", 405),
        ("GET", "/", 404),
        ("POST", "/mcp/", 404),
        ("POST", "/mcp/x", 404),
        ("POST", "/mcp", 200),
    ] {
        let answer = served.ask(method, path, &[], initialize().to_string().as_bytes());
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    served.ends();
}

#[test]
fn a_token_is_asked_for() {
    let Some((world, component)) = world() else { return };
    let file = world.path("token");
    let flags = [ALLOW, &["--token-file", "{D}/token"]].concat();
    let served = Served::start(&world, &component, &flags);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o600);
    let token = fs::read_to_string(&file).unwrap().trim_end().to_owned();
    assert_eq!(token.len(), 43);
    let bearer = format!("Bearer {token}");

    for (value, status) in [
        (Some(bearer.as_str()), 200),
        (None, 401),
        (Some("Bearer x"), 401),
        (Some(token.as_str()), 401),
        (Some(format!("{bearer}x").as_str()), 401),
        (Some(format!("Basic {token}").as_str()), 401),
    ] {
        case(&format!("{value:?}"));
        let answer = served.post(&[("Authorization", value)], &initialize());
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("www-authenticate"), (status == 401).then_some("Bearer"));
    }
    case("before anything else is looked at");
    for (method, path, headers, with_token) in [
        ("POST", "/none", ("Accept", Some("x")), 404),
        ("POST", "/mcp", ("Host", Some("evil.example")), 403),
        ("GET", "/mcp", ("Mcp-Session-Id", Some("none")), 404),
    ] {
        assert_eq!(served.ask(method, path, &[headers], b"").status, 401);
        assert_eq!(served.ask(method, path, &[headers, ("Authorization", Some(&bearer))], b"").status, with_token);
    }
    let run = served.stop();
    run.is_clean().exits(5).says("act: wrote a new token to ").never_says(&token);

    case("the file is used again");
    let served = Served::start(&world, &component, &flags);
    assert_eq!(served.status(&[("Authorization", Some(&bearer))]), 200);
    assert_eq!(served.status(&[]), 401);
    served.stop().is_clean().exits(5).never_says("wrote a new token").never_says(&token);

    case("files that are none");
    let refused = |what: &str| {
        let shown = component.to_str().unwrap();
        let run = world.run(&["run", shown, "--http", "-l", "127.0.0.1:0", "--token-file", "{D}/token"]);
        run.one_error(2, what).never_says(&token);
    };
    for mode in [0o640, 0o604] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        refused("chmod 600");
    }
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "short\n").unwrap();
    refused("16 to 1024");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(world.path("elsewhere"), &file).unwrap();
    refused("create");
    assert!(!world.path("elsewhere").exists());
}

#[test]
fn other_machines_need_a_token() {
    let Some((world, component)) = world() else { return };
    let served = Served::start_at(&world, &component, "0.0.0.0:0", ALLOW);
    let told = served.errors();
    let mut tokens = told.lines().filter_map(|line| line.strip_prefix("act: clients need this token, "));
    let token = tokens.next().unwrap().rsplit_once(' ').unwrap().1.to_owned();
    assert!(tokens.next().is_none() && token.len() == 43, "{told}");
    assert!(told.contains("--tls-cert"), "{told}");
    let bearer = format!("Bearer {token}");
    let any = ("Host", Some("any.name.of.this.machine"));
    assert_eq!(served.status(&[any]), 401);
    assert_eq!(served.status(&[any, ("Authorization", Some(&bearer))]), 200);
    assert_eq!(served.status(&[("Authorization", Some(&bearer)), ("Origin", Some("http://evil.example"))]), 403);
    let run = served.stop();
    run.is_clean().exits(5);
    assert_eq!(run.err.matches(&token).count(), 1, "{}", run.err);
}

#[test]
fn bodies_and_heads_are_bounded() {
    let Some((world, component)) = world() else { return };
    let served = Served::start(&world, &component, ALLOW);
    let next_works = || assert_eq!(served.status(&[]), 200);
    let padded = |size: usize| {
        let mut body = initialize().to_string().into_bytes();
        body.resize(size, b' ');
        body
    };

    case("a body");
    assert_eq!(served.ask("POST", "/mcp", &[], &padded(4 * MIB)).status, 200);
    assert_eq!(served.ask("POST", "/mcp", &[], &padded(4 * MIB + 1)).status, 413);
    next_works();

    case("what is no message");
    for (body, statuses) in [
        (&b"{nonsense"[..], 400..500),
        (b"", 400..500),
        (b"[]", 400..500),
        (b"\xff\xfe", 400..500),
        (br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, 400..500),
    ] {
        let answer = served.ask("POST", "/mcp", &[], body);
        assert!(statuses.contains(&answer.status), "{answer:?}");
        next_works();
    }
    for (name, value, status) in [
        ("Accept", "application/json", 406),
        ("Content-Type", "text/plain", 415),
        ("MCP-Protocol-Version", "1999-01-01", 400),
        ("Content-Length", "x", 400),
    ] {
        assert_eq!(served.status(&[(name, Some(value))]), status, "{name}");
    }
    next_works();

    case("so many fields");
    let fields = |n: usize| {
        let names: Vec<String> = (0..n).map(|n| format!("X-{n}")).collect();
        let mut headers: Vec<(&str, Option<&str>)> = names.iter().map(|name| (name.as_str(), Some("v"))).collect();
        headers.push(("Accept", Some("application/json, text/event-stream")));
        served.status(&headers)
    };
    assert_eq!(fields(59), 200);
    assert_eq!(fields(60), 431);

    case("a head");
    let long = |size: usize| served.status(&[("X-Long", Some(&"v".repeat(size)))]);
    assert_eq!(long(60 << 10), 200);
    assert!([431, 0].contains(&long(70 << 10)));
    case("a head without an end");
    let mut stream = served.connect();
    stream.write_all(b"POST /mcp HTTP/1.1\r\n").unwrap();
    let line = format!("X: {}\r\n", "v".repeat(1000));
    let started = Instant::now();
    // Much of it may fit into the kernel's buffers.
    let _ = (0..10_000).try_for_each(|_| stream.write_all(line.as_bytes()));
    assert!([431, 0].contains(&Answer::read(stream).status));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    next_works();

    case("heads that come slowly, and connections without one");
    let started = Instant::now();
    let mut waiting = [served.connect(), served.connect(), served.connect()];
    waiting[1].write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    waiting[2].write_all(b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    for stream in waiting {
        Answer::read(stream);
    }
    let took = started.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(20)).contains(&took), "{took:?}");
    next_works();
    served.ends();
}

#[test]
fn a_body_has_to_come_in_time() {
    let Some((world, component)) = world() else { return };
    let served = Served::start(&world, &component, ALLOW);
    let mut stream = served.connect();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let started = Instant::now();
    assert_eq!(Answer::read(stream).status, 408);
    let took = started.elapsed();
    assert!((Duration::from_secs(29)..Duration::from_secs(45)).contains(&took), "{took:?}");
    assert_eq!(served.status(&[]), 200);
    served.ends();
}

#[test]
fn sessions_connections_and_requests_are_bounded() {
    let Some((world, component)) = world() else { return };
    let served = Served::start(&world, &component, ALLOW);
    case("sessions");
    let ids: Vec<String> =
        (0..64).map(|_| served.post(&[], &initialize()).header("mcp-session-id").unwrap().to_owned()).collect();
    let answer = served.post(&[], &initialize());
    assert_eq!((answer.status, answer.header("mcp-session-id")), (503, None));
    assert!(answer.header("retry-after").is_some());
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    assert_eq!(served.post(&[("Mcp-Session-Id", Some(&ids[5]))], &ping).status, 200);
    assert_eq!(served.ask("DELETE", "/mcp", &[("Mcp-Session-Id", Some(&ids[6]))], b"").status, 202);
    assert_eq!(served.status(&[]), 200);
    assert_eq!(served.status(&[]), 503);

    case("requests");
    std::thread::sleep(Duration::from_secs(2));
    let mut stream = served.connect();
    let started = Instant::now();
    let one = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = b"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // So many fit into one read: what is left unread when a connection is closed would reset it, and take the answers along.
    stream.write_all(&one.repeat(180)).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let all = String::from_utf8(bytes).unwrap();
    let most = 100 + usize::try_from(started.elapsed().as_millis()).unwrap() / 20 + 1;
    let (passed, refused) = (all.matches("HTTP/1.1 404 ").count(), all.matches("HTTP/1.1 429 ").count());
    // The first refusal closes the connection.
    assert_eq!(refused, 1);
    assert!((100..=most).contains(&passed), "{passed} of at most {most}");
    assert!(all.contains("\r\nretry-after: 1\r\n"), "{all}");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(served.ask("GET", "/none", &[], b"").status, 404);

    case("connections: more than so many wait");
    let mut held: Vec<TcpStream> = (0..64).map(|_| served.connect()).collect();
    let mut waiting = served.connect();
    waiting.write_all(last).unwrap();
    waiting.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(waiting.read(&mut [0; 1]).is_err());
    held.pop();
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(Answer::read(waiting).status, 404);
    drop(held);
    served.ends();
}

fn trusting(authority: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn over_tls() {
    let Some((world, component)) = world() else { return };
    let authority = Authority::new();
    let trusted = authority.file(&world.path("authority.pem"));
    let (certificate, key) = authority.server_files(&world.dir, &["localhost"]);
    let other = Authority::new().file(&world.path("other.pem"));
    let flags = [ALLOW, &["--tls-cert", "{D}/server.pem", "--tls-key", "{D}/server.key"]].concat();
    let served = Served::start(&world, &component, &flags);
    assert_eq!(served.url, format!("https://{}/mcp", served.at));
    let ask = |authority: &Path, name: &'static str, origin: Option<&str>| {
        let client = ClientConnection::new(trusting(authority), ServerName::try_from(name).unwrap()).unwrap();
        let stream = StreamOwned::new(client, served.connect());
        served.ask_on(stream, "POST", "/mcp", &[("Origin", origin)], initialize().to_string().as_bytes()).status
    };
    assert_eq!(ask(&trusted, "localhost", None), 200);
    assert_eq!(ask(&trusted, "localhost", Some(&format!("https://localhost:{}", served.at.port()))), 200);
    assert_eq!(ask(&trusted, "localhost", Some(&format!("http://localhost:{}", served.at.port()))), 403);
    assert_eq!(ask(&other, "localhost", None), 0);
    assert_eq!(ask(&trusted, "other.example", None), 0);
    case("what is no TLS is not answered, and a handshake has its time");
    assert_eq!(served.status(&[]), 0);
    let started = Instant::now();
    assert_eq!(Answer::read(served.connect()).status, 0);
    assert!((Duration::from_secs(9)..Duration::from_secs(20)).contains(&started.elapsed()));
    assert_eq!(ask(&trusted, "localhost", None), 200);
    served.ends();

    case("files that do not fit");
    let component = component.to_str().unwrap();
    let refused = |certificate: &Path, key: &Path, what: &str| {
        let (certificate, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
        let flags = ["run", component, "--http", "-l", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key];
        world.run(&flags).one_error(2, what);
    };
    refused(&world.path("none"), &key, "--tls-cert");
    refused(&key, &key, "no certificate in it");
    refused(&certificate, &certificate, "no private key in it");
    refused(&trusted, &key, "--tls-cert and --tls-key: ");
}

#[test]
fn a_signal_ends_it_in_order() {
    let Some((world, component)) = world() else { return };
    let served = Served::start(&world, &component, ALLOW);
    let session = served.session();
    let id = ("Mcp-Session-Id", Some(session.as_str()));
    let (at, url) = (served.at, served.url.clone());
    let (call, stream) = (served.connect(), served.connect());
    let pid = served.act.pid();
    let (call, open) = std::thread::scope(|scope| {
        let served = &served;
        let open = scope.spawn(move || served.ask_on(stream, "GET", "/mcp", &[id], b""));
        let message = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "spin" } });
        let body = message.to_string();
        let call = scope.spawn(move || served.ask_on(call, "POST", "/mcp", &[id], body.as_bytes()));
        process::spinning_guest(pid);
        process::signal(pid, Signal::TERM);
        (call.join().unwrap(), open.join().unwrap())
    });
    assert_eq!((call.status, open.status), (200, 200));
    assert_eq!(call.message()["result"]["isError"], json!(true), "{call:?}");
    let run = served.finish();
    run.is_clean().exits(5).says("● spin  ");
    assert!(TcpStream::connect(at).is_err(), "{url}");
}

#[test]
fn flags_that_do_not_fit() {
    let Some((world, component)) = world() else { return };
    let component = component.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (flags, code, what) in [
        (&[][..], 2, "--mcp"),
        (&["--mcp", "--listen", "3000"], 2, "--listen 3000: it needs --http"),
        (&["--mcp", "--token-file", "t"], 2, "--token-file t: it needs --http"),
        (&["--mcp", "--http", "--listen", "foo"], 2, "--listen foo: it is no address"),
        (&["--http", "-l", "a b:1"], 2, "--listen a b:1: it is no address"),
        (&["--http", "--tls-cert", "c"], 2, "--tls-cert: it needs --tls-key"),
        (&["--http", "-l", &taken], 1, "(choose another address with --listen)"),
        (&["--http", "-l", "name.invalid:0"], 2, "--listen name.invalid:0: "),
    ] {
        case(&format!("{flags:?}"));
        world.run(&[&["run", component][..], flags].concat()).one_error(code, what);
    }
    case("--http alone");
    let mut act = world.act();
    act.args(["run", component, "--http", "-l", "127.0.0.1:0"]);
    let mut act = Running::start(&mut act);
    std::thread::sleep(Duration::from_secs(2));
    assert!(act.ended().is_none());
    process::signal(act.pid(), Signal::INT);
    act.finish_within(Duration::from_secs(4)).is_clean().exits(5).says("act: serving t on http://127.0.0.1:");
}
