//! Requests of `wasi:http` 0.2 and 0.3: verdict, audit line, exit code, and what reached a real server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod reuse;

use act_tests::{Authority, Guest, Run, Running, Web, World, case, require, root};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;

/// Over WASI 0.2 and 0.3.
const GUESTS: [Guest; 2] = [Guest::Fetch, Guest::Files3];
const OPEN: &[&str] = &["--allow", "http"];

/// Arguments of the tool `fetch`; files3 wants all of them.
fn to(url: &str) -> Value {
    json!({ "url": url, "method": "GET", "body": "", "follow": "", "times": "" })
}

fn with(url: &str, key: &str, value: &str) -> Value {
    let mut arguments = to(url);
    arguments[key] = value.into();
    arguments
}

fn fetch(world: &World, guest: Guest, arguments: &Value, flags: &[&str]) -> Run {
    let run = world.call(&world.guest(guest), "fetch", arguments, flags);
    run.is_clean();
    run
}

/// Over TLS, with `trusted` as the only authority.
fn fetch_trusting(world: &World, guest: Guest, tool: &str, arguments: &Value, trusted: &Path) -> Run {
    let mut act = world.call_command(&world.guest(guest), tool, arguments, &["--allow", "http", "--hardened"]);
    // Without root the layers of the kernel are not all there.
    if root().is_err() {
        act = world.call_command(&world.guest(guest), tool, arguments, OPEN);
    }
    let run = Running::start(act.env("SSL_CERT_FILE", trusted)).finish();
    run.is_clean();
    run
}

/// Name, method, host and port, flags, and the reason in the audit; empty where the server has to be reached.
type Row = (&'static str, &'static str, &'static str, Vec<String>, &'static str);

fn rows() -> Vec<Row> {
    let f = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let grant = |text: &str| f(&["--grant", text]);
    let not_granted = "not granted  mode:allowlist";
    let rule = |text: &str| f(&["--allow", "http=127.0.0.1", "--deny", text]);
    vec![
        ("the whole ceiling", "GET", "127.0.0.1", f(OPEN), ""),
        ("the granted host and port", "GET", "127.0.0.1", f(&["--allow", "http=127.0.0.1:{P}"]), ""),
        ("another port", "GET", "127.0.0.1", f(&["--allow", "http=127.0.0.1:1"]), not_granted),
        ("another host", "GET", "127.0.0.1", f(&["--allow", "http=localhost"]), not_granted),
        ("the granted scheme", "GET", "127.0.0.1", f(&["--allow", "http=http://127.0.0.1"]), ""),
        ("another scheme", "GET", "127.0.0.1", f(&["--allow", "http=https://127.0.0.1"]), not_granted),
        (
            "the granted method",
            "POST",
            "127.0.0.1",
            grant(r#"{"http":{"mode":"allowlist","allow":[{"host":"127.0.0.1","methods":["POST"]}]}}"#),
            "",
        ),
        (
            "another method",
            "PUT",
            "127.0.0.1",
            grant(r#"{"http":{"mode":"allowlist","allow":[{"host":"127.0.0.1","methods":["POST"]}]}}"#),
            not_granted,
        ),
        (
            "another method in another case",
            "put",
            "127.0.0.1",
            grant(r#"{"http":{"mode":"open","deny":[{"host":"127.0.0.1","methods":["PUT"]}]}}"#),
            "denied by PUT 127.0.0.1 (cli, <command line> --grant)  mode:open",
        ),
        (
            "a denied method",
            "POST",
            "127.0.0.1",
            grant(r#"{"http":{"mode":"open","deny":[{"host":"127.0.0.1","methods":["POST"]}]}}"#),
            "denied by POST 127.0.0.1 (cli, <command line> --grant)  mode:open",
        ),
        (
            "a method beside the denied one",
            "GET",
            "127.0.0.1",
            grant(r#"{"http":{"mode":"open","deny":[{"host":"127.0.0.1","methods":["POST"]}]}}"#),
            "",
        ),
        (
            "a denied range",
            "GET",
            "127.0.0.1",
            rule("http=127.0.0.0/8"),
            "denied by 127.0.0.0/8 (cli, <command line> --deny http=127.0.0.0/8)  mode:allowlist",
        ),
        ("a range beside it", "GET", "127.0.0.1", rule("http=10.0.0.0/8"), ""),
        ("a class that is denied", "GET", "127.0.0.1", f(&["--deny", "http"]), "not granted  mode:deny"),
        ("another spelling", "GET", "0x7f.1", f(&["--allow", "http=127.0.0.1"]), ""),
        (
            "another spelling of what is denied",
            "GET",
            "0x7f.1",
            rule("http=127.0.0.1"),
            "denied by 127.0.0.1 (cli, <command line> --deny http=127.0.0.1)  mode:allowlist",
        ),
        (
            "a host rule covers no literal address",
            "GET",
            "127.0.0.1",
            f(&["--allow", "http=localhost:{P}"]),
            not_granted,
        ),
    ]
}

#[test]
fn requests() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let port = server.port();
    for guest in GUESTS {
        for (name, method, host, flags, reason) in rows() {
            case(&format!("{guest:?}: {name}"));
            let flags: Vec<String> = flags.iter().map(|t| t.replace("{P}", &port.to_string())).collect();
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let run = fetch(&world, guest, &with(&format!("http://{host}:{port}/x"), "method", method), &flags);
            let method = method.to_ascii_uppercase();
            if reason.is_empty() {
                run.exits(0).prints(&format!("200 {method} /x")).never_says("✗ deny");
                assert_eq!(server.take(), [format!("{method} /x 127.0.0.1:{port} HTTP/1.1")]);
                run.says(&format!("  http: 1 {method} under "));
            } else {
                run.exits(4).says("http-request-denied");
                run.audits(&format!("✗ deny  wasi:http  {method} {host}:{port}/http   {reason}"));
                assert!(server.take().is_empty());
            }
        }
    }
}

#[test]
fn the_ceiling_bounds_every_grant() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let port = server.port();
    let rule = json!([{ "host": "127.0.0.1", "methods": ["GET"], "scheme": "http", "ports": [port] }]);
    for guest in GUESTS {
        let capabilities = json!({ "wasi:http": { "constraints": rule } });
        let manifest = json!({ "std": { "name": "t", "version": "1.0.0", "capabilities": capabilities } });
        let component = world.pack_manifest(guest, &manifest);
        let call = |url: &str, method: &str| world.call(&component, "fetch", &with(url, "method", method), OPEN);
        call(&format!("http://127.0.0.1:{port}/"), "GET").is_clean().exits(0).prints("200 GET /");
        assert_eq!(server.take().len(), 1);
        for (what, url, method) in [
            ("a method", format!("127.0.0.1:{port}/http"), "POST"),
            ("a scheme", format!("127.0.0.1:{port}/https"), "GET"),
            ("a port", "127.0.0.1:1/http".to_owned(), "GET"),
            ("a host", format!("127.0.0.2:{port}/http"), "GET"),
        ] {
            case(&format!("{guest:?}: {what}"));
            let (at, scheme) = url.split_once('/').unwrap();
            let run = call(&format!("{scheme}://{at}/"), method);
            run.exits(4).audits(&format!("✗ deny  wasi:http  {method} {url}   outside ceiling  mode:open"));
        }
        assert!(server.take().is_empty());
    }
}

#[test]
fn names() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let port = server.port();
    let url = format!("http://LocalHost.:{port}/x");
    let deny = |more: &str| {
        let rules = ["127.0.0.0/8", "::1/128"].map(|net| format!(r#"{{"cidr":"{net}"{more}}}"#)).join(",");
        format!(r#"{{"http":{{"mode":"open","deny":[{rules}]}}}}"#)
    };
    for guest in GUESTS {
        case(&format!("{guest:?}: a granted name, and the allowed request with its address"));
        let run = fetch(&world, guest, &to(&url), &["--allow", &format!("http=localhost:{port}"), "-v"]);
        run.exits(0).prints("200 GET /x");
        run.audits(&format!(
            "✓ allow  wasi:http  GET LocalHost.:{port}/http (127.0.0.1)  mode:allowlist under localhost:{port}"
        ));
        assert_eq!(server.take(), [format!("GET /x localhost:{port} HTTP/1.1")]);

        case(&format!("{guest:?}: all addresses of the name are denied"));
        let run = fetch(&world, guest, &to(&url), &["--grant", &deny("")]);
        let reason = "denied by 127.0.0.0/8 (cli, <command line> --grant)  mode:open";
        run.exits(4).says("dns-error");
        run.audits(&format!("✗ deny  wasi:http  GET localhost:{port}/http (127.0.0.1)   {reason}"));

        case(&format!("{guest:?}: they are denied for this port"));
        let run = fetch(&world, guest, &to(&url), &["--grant", &deny(&format!(r#","ports":[{port}]"#))]);
        run.exits(4).says("dns-error");
        assert!(server.take().is_empty());

        case(&format!("{guest:?}: controls, other ports are denied"));
        for more in [r#","ports":[1]"#.to_owned(), format!(r#","except-ports":[{port}]"#)] {
            fetch(&world, guest, &to(&url), &["--grant", &deny(&more)]).exits(0).prints("200 GET /x");
            assert_eq!(server.take().len(), 1);
        }

        case(&format!("{guest:?}: a name that no rule covers is not looked up"));
        let run = fetch(&world, guest, &to(&format!("http://blocked.invalid:{port}/")), &["--allow", "http=localhost"]);
        run.exits(4).says("http-request-denied").never_says("lookup");
        run.audits(&format!("✗ deny  wasi:http  GET blocked.invalid:{port}/http   not granted  mode:allowlist"));

        case(&format!("{guest:?}: a name without addresses is no denial"));
        let run = fetch(&world, guest, &to("http://nothing.invalid/"), OPEN);
        run.exits(1).says("dns-error").never_says("✗ deny");
    }
}

#[test]
fn ask_without_a_prompt_channel_is_denied_and_told() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    for guest in GUESTS {
        for host in ["127.0.0.1", "localhost"] {
            let at = format!("{host}:{}", server.port());
            let run = fetch(&world, guest, &to(&format!("http://{at}/")), &[]);
            run.exits(4).says("http-request-denied").never_says("lookup");
            run.audits(&format!("? ask-deny  wasi:http  GET {at}/http   no prompt channel  mode:ask"));
        }
    }
    assert!(server.take().is_empty());
}

#[test]
fn what_is_no_request() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let port = server.port();
    for guest in GUESTS {
        for authority in
            ["user@127.0.0.1:{P}", "127.0.0.1:0", "127.0.0.1:99999", "localhost..:{P}", "127.0.0.1.0x1ff:{P}"]
        {
            let authority = authority.replace("{P}", &port.to_string());
            case(&format!("{guest:?}: {authority}"));
            let run = fetch(&world, guest, &to(&format!("http://{authority}/")), OPEN);
            assert!(run.code == Some(4) || run.err.contains("is no URL"), "{}", run.err);
        }
        case(&format!("{guest:?}: CONNECT"));
        let run = fetch(&world, guest, &with(&format!("http://127.0.0.1:{port}/"), "method", "CONNECT"), OPEN);
        run.exits(4).says("http-request-denied");
        run.audits(&format!(
            "✗ deny  wasi:http  CONNECT 127.0.0.1:{port}/http   not supported by this version of act  mode:open"
        ));
        assert!(server.take().is_empty());
    }
    case("control");
    fetch(&world, Guest::Fetch, &to(&format!("http://127.0.0.1:{port}/")), OPEN).exits(0);
}

#[test]
fn redirects_are_new_requests() {
    let Some(world) = World::new() else { return };
    let (server, other) = (Web::start("127.0.0.1").unwrap(), Web::start("127.0.0.1").unwrap());
    let (port, last) = (server.port(), other.port());
    let url = format!("http://127.0.0.1:{port}/to?http://127.0.0.1:{port}/to?http://127.0.0.1:{last}/end");
    let allow = format!("http=127.0.0.1:{port}");
    for guest in GUESTS {
        case(&format!("{guest:?}: the chain ends where it leaves the grant"));
        let run = fetch(&world, guest, &with(&url, "follow", "5"), &["--allow", &allow]);
        run.exits(4).says("http-request-denied");
        run.audits(&format!("✗ deny  wasi:http  GET 127.0.0.1:{last}/http   not granted  mode:allowlist"));
        assert_eq!((server.take().len(), other.take().len()), (2, 0));
        case(&format!("{guest:?}: the host follows none"));
        fetch(&world, guest, &to(&url), &["--allow", &allow]).exits(0).prints("302 GET /to");
        assert_eq!((server.take().len(), other.take().len()), (1, 0));
        case(&format!("{guest:?}: control, all of it is granted"));
        let run = fetch(&world, guest, &with(&url, "follow", "5"), &["--allow", "http=127.0.0.1"]);
        run.exits(0).prints("200 GET /end");
        assert_eq!((server.take().len(), other.take().len()), (2, 1));
    }
}

#[test]
fn proxy_variables_are_ignored() {
    let Some(world) = World::new() else { return };
    let (server, proxy) = (Web::start("127.0.0.1").unwrap(), Web::start("127.0.0.1").unwrap());
    let url = format!("http://127.0.0.1:{}/x", server.port());
    let mut act = world.call_command(&world.guest(Guest::Fetch), "fetch", &to(&url), OPEN);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        act.env(name, format!("http://127.0.0.1:{}", proxy.port()));
    }
    Running::start(&mut act).finish().exits(0).prints("200 GET /x");
    assert_eq!((server.take().len(), proxy.take().len()), (1, 0));
}

#[test]
fn tls() {
    let Some(world) = World::new() else { return };
    let (authority, stranger) = (Authority::new(), Authority::new());
    let trusted = authority.file(&world.path("trusted.pem"));
    let both = Web::secure("127.0.0.1", &authority, &["localhost", "127.0.0.1"], &["h2", "http/1.1"]).unwrap();
    let old = Web::secure("127.0.0.1", &authority, &["localhost"], &["http/1.1"]).unwrap();
    let misnamed = Web::secure("127.0.0.1", &authority, &["other.test"], &["h2"]).unwrap();
    let unknown = Web::secure("127.0.0.1", &stranger, &["localhost"], &["h2"]).unwrap();
    for guest in GUESTS {
        let get = |host: &str, server: &Web| {
            fetch_trusting(&world, guest, "fetch", &to(&format!("https://{host}:{}/x", server.port())), &trusted)
        };
        case(&format!("{guest:?}: HTTP/2"));
        get("localhost", &both).exits(0).prints("200 GET /x");
        assert_eq!(both.take(), [format!("GET /x localhost:{} HTTP/2.0", both.port())]);
        case(&format!("{guest:?}: a literal address"));
        get("127.0.0.1", &both).exits(0).prints("200 GET /x");
        assert_eq!(both.take().len(), 1);
        case(&format!("{guest:?}: HTTP/1.1"));
        get("localhost", &old).exits(0).prints("200 GET /x");
        assert_eq!(old.take(), [format!("GET /x localhost:{} HTTP/1.1", old.port())]);
        for (name, server) in [("another name", &misnamed), ("an unknown authority", &unknown)] {
            case(&format!("{guest:?}: {name}"));
            get("localhost", server).exits(1).says("tls-certificate-error");
            assert!(server.take().is_empty());
        }
        case(&format!("{guest:?}: the certificates of the system do not know the authority"));
        let run = fetch(&world, guest, &to(&format!("https://localhost:{}/x", both.port())), OPEN);
        run.exits(1).says("tls-certificate-error");
        case(&format!("{guest:?}: TLS to a server without"));
        let plain = Web::start("127.0.0.1").unwrap();
        get("127.0.0.1", &plain).exits(1).says("tls-protocol-error");
    }
    case("a file that is not there is told, and nobody is trusted");
    let missing = world.path("missing.pem");
    let url = format!("https://localhost:{}/x", both.port());
    let run = fetch_trusting(&world, Guest::Fetch, "fetch", &to(&url), &missing);
    run.exits(1).says("tls-certificate-error").says("⚠ certificates for https: ").says("missing.pem");
}

#[test]
fn ipv6() {
    let Some(world) = World::new() else { return };
    let Some(server) = require(Web::start("::1").map_err(|e| format!("no IPv6 here: {e}"))) else { return };
    let url = format!("http://[0:0::1]:{}/x", server.port());
    for guest in GUESTS {
        let run = fetch(&world, guest, &to(&url), &["--allow", &format!("http=[::1]:{}", server.port())]);
        run.exits(0).prints("200 GET /x");
        assert_eq!(server.take(), [format!("GET /x [::1]:{} HTTP/1.1", server.port())]);
        let run = fetch(&world, guest, &to(&url), &["--allow", "http", "--deny", "http=::/0"]);
        run.exits(4).says("http-request-denied");
        run.audits(&format!(
            "✗ deny  wasi:http  GET [0:0::1]:{}/http   denied by ::/0 (cli, <command line> --deny http=::/0)  mode:open",
            server.port()
        ));
        assert!(server.take().is_empty());
    }
}

#[test]
fn bodies_stream_both_ways() {
    let Some(world) = World::new() else { return };
    let authority = Authority::new();
    let trusted = authority.file(&world.path("trusted.pem"));
    let plain = Web::start("127.0.0.1").unwrap();
    let http2 = Web::secure("127.0.0.1", &authority, &["127.0.0.1"], &["h2"]).unwrap();
    let http1 = Web::secure("127.0.0.1", &authority, &["127.0.0.1"], &["http/1.1"]).unwrap();
    for guest in GUESTS {
        for (name, scheme, server) in
            [("plain", "http", &plain), ("HTTP/1.1 over TLS", "https", &http1), ("HTTP/2", "https", &http2)]
        {
            let at = format!("{scheme}://127.0.0.1:{}", server.port());
            case(&format!("{guest:?}: {name}, piece by piece"));
            let arguments = json!({ "url": format!("{at}/echo"), "pieces": "one two three" });
            let run = fetch_trusting(&world, guest, "duplex", &arguments, &trusted);
            run.exits(0).prints("one two three rest 0");
            case(&format!("{guest:?}: {name}, a large response"));
            let arguments = json!({ "url": format!("{at}/big?20000000") });
            fetch_trusting(&world, guest, "size", &arguments, &trusted).exits(0).prints("20000000");
            case(&format!("{guest:?}: {name}, a request with a body"));
            let mut arguments = with(&format!("{at}/echo"), "body", &"b".repeat(30_000));
            arguments["method"] = "POST".into();
            let run = fetch_trusting(&world, guest, "fetch", &arguments, &trusted);
            run.exits(0).prints(&"b".repeat(30_000));
        }
    }
}

/// More than connections and look-ups may be under way at once: the rest waits its turn.
#[test]
fn many_at_once() {
    let Some(world) = World::new() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let arguments = json!({ "url": format!("http://localhost:{}/x", server.port()), "count": "150" });
    let run = world.call(&world.guest(Guest::Files3), "many", &arguments, OPEN);
    // A name is looked up for each connection.
    run.is_clean().exits(0).prints("150").says("http: 150 GET under *, ").says(" lookup under *");
    assert_eq!(server.take().len(), 150);
}

#[test]
fn limits_on_heads_and_time() {
    let Some(world) = World::new() else { return };
    let authority = Authority::new();
    let trusted = authority.file(&world.path("trusted.pem"));
    let plain = Web::start("127.0.0.1").unwrap();
    let http2 = Web::secure("127.0.0.1", &authority, &["127.0.0.1"], &["h2"]).unwrap();
    // Accepts, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("https://127.0.0.1:{}/", silent.local_addr().unwrap().port());
    for guest in GUESTS {
        let get = |url: &str, times: &str| {
            let run = fetch_trusting(&world, guest, "fetch", &with(url, "times", times), &trusted);
            assert!(run.took.as_secs() < 30, "took {:?}", run.took);
            run
        };
        for (scheme, server) in [("http", &plain), ("https", &http2)] {
            let at = format!("{scheme}://127.0.0.1:{}", server.port());
            case(&format!("{guest:?}: {scheme}: a head that is too large"));
            let run = get(&format!("{at}/head"), "");
            run.exits(1);
            assert!(run.err.contains("header-section-size") || run.err.contains("protocol-error"), "{}", run.err);
            case(&format!("{guest:?}: {scheme}: no head in time"));
            get(&format!("{at}/slow"), "first=300").exits(1).says("http-response-timeout");
            case(&format!("{guest:?}: {scheme}: a body that stops"));
            let run = get(&format!("{at}/stall"), "between=300");
            // In 0.2 the error of a stream has words and no code.
            run.exits(1).says(if guest == Guest::Fetch {
                "connection read timeout"
            } else {
                "connection-read-timeout"
            });
        }
        case(&format!("{guest:?}: no TLS in time"));
        get(&silent, "connect=300").exits(1).says("connection-timeout");
        case(&format!("{guest:?}: nobody listens"));
        get("http://127.0.0.1:1/", "").exits(1).says("connection-refused");
    }
}

/// With the guest's own check switched off.
#[test]
fn the_layers_below_refuse() {
    if require(root()).is_none() {
        return;
    }
    let Some(world) = World::unchecked() else { return };
    let server = Web::start("127.0.0.1").unwrap();
    let port = server.port();
    for guest in GUESTS {
        let get = |host: &str, flags: &[&str]| fetch(&world, guest, &to(&format!("http://{host}:{port}/x")), flags);
        let allow = format!("http=127.0.0.1:{port}");
        let event =
            |reason: &str| format!("✗ deny  wasi:sockets  connect 127.0.0.1:{port}/tcp   kernel: connect4  {reason}");

        case(&format!("{guest:?}: the hook, a deny rule"));
        let run = get("127.0.0.1", &["--allow", &allow, "--deny", "http=127.0.0.0/8"]);
        run.exits(4).says("destination-ip-prohibited");
        run.audits(&event("under deny 127.0.0.0/8 (cli, <command line> --deny http=127.0.0.0/8)"));
        run.says("⚠ host check bypassed  wasi:http  GET 127.0.0.1:").says("denied by 127.0.0.0/8");

        case(&format!("{guest:?}: the hook, no rule"));
        let run = get("127.0.0.1", &["--allow", "http=127.0.0.2"]);
        run.exits(4).says("destination-ip-prohibited").audits(&event("no rule allows it"));
        let run = get("127.0.0.1", &["--allow", "http=127.0.0.1:1"]);
        run.exits(4).says("destination-ip-prohibited").audits(&event("no rule allows it"));

        case(&format!("{guest:?}: the broker, an address of a name"));
        let name = format!("http=localhost:{port}");
        let run = get("localhost", &["--allow", &name, "--deny", "http=127.0.0.0/8", "--deny", "http=::1/128"]);
        run.exits(4).says("dns-error");
        run.says(&format!("✗ deny  wasi:http  GET localhost:{port}/http (127.0.0.1)   denied by 127.0.0.0/8"));

        case(&format!("{guest:?}: the broker, a name that no rule covers"));
        let run = get("localhost", &["--allow", &allow]);
        run.exits(4).says("dns-error");
        run.audits(&format!("✗ deny  wasi:http  GET localhost:{port}/http   not granted  mode:allowlist"));
        assert!(server.take().is_empty());

        case(&format!("{guest:?}: controls"));
        get("127.0.0.1", &["--allow", &allow]).exits(0).prints("200 GET /x").never_says("bypassed");
        get("localhost", &["--allow", &name]).exits(0).prints("200 GET /x").never_says("bypassed");
        assert_eq!(server.take().len(), 2);
    }
}
