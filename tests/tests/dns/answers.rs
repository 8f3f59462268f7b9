//! Addresses in answers: what is dropped, what is left, and where connections go.

use crate::{BAD, BAD_NET, GOOD, HTTP, PORT, SOCKETS, anywhere, both, fetch, lookup, reached, url, web, zone};
use act_tests::{Guest, NameServer, Network, Server, World, case};
use serde_json::json;

/// Name, answers, and whether anything is left when [`BAD_NET`] is denied.
type Answered = (&'static str, &'static str, bool);

const ANSWERED: &[Answered] = &[
    ("good.test", "127.9.9.9", true),
    ("bad.test", "127.0.0.1", false),
    ("mixed.test", "127.0.0.1 127.9.9.9", true),
    ("mixed-the-other-way.test", "127.9.9.9 127.0.0.1", true),
    ("all-bad.test", "127.0.0.1 127.0.0.2 127.0.255.255", false),
    ("unspecified.test", "0.0.0.0", false),
    ("alias-to-good.test", "=other.test 127.9.9.9", true),
    ("alias-to-bad.test", "=other.test 127.0.0.1", false),
    ("alias-to-mixed.test", "=other.test 127.0.0.1 127.9.9.9", true),
    ("chain-to-good.test", "=a.test =b.test =c.test =d.test =other.test 127.9.9.9", true),
    ("chain-to-bad.test", "=a.test =b.test =c.test =d.test =other.test 127.0.0.1", false),
    // What a name is an alias of needs no rule, but must not be refused by one.
    ("alias-to-denied.test", "=denied.test 127.9.9.9", false),
    ("chain-to-denied.test", "=a.test =b.test =denied.test 127.9.9.9", false),
];

fn is_alias_of_denied(answer: &str) -> bool {
    answer.contains("=denied.test")
}

#[test]
fn answers_are_filtered_for_http() {
    let rows: Vec<_> = ANSWERED.iter().map(|(name, answer, _)| (*name, [*answer])).collect();
    Network::with(|_| {
        let Some(world) = World::new() else { return };
        let servers = web();
        let name_server = NameServer::start(&zone(&rows));
        for guest in HTTP {
            for (name, answer, left) in ANSWERED {
                case(&format!("{guest:?}: {name}"));
                let allow = format!("http={name}:{PORT}");
                let flags = ["--allow", &allow, "--deny", "http=denied.test"];
                let run = fetch(&world, guest, name, &[&flags[..], &["--deny", &format!("http={BAD_NET}")]].concat());
                if *left {
                    run.exits(0).prints("200 GET /x");
                    assert_eq!(reached(&servers), [1, 0]);
                } else {
                    run.exits(4).says("dns-error");
                    assert_eq!(reached(&servers), [0, 0]);
                }
                if is_alias_of_denied(answer) {
                    let reason = "denied by denied.test (cli, <command line> --deny http=denied.test)  mode:allowlist";
                    run.audits(&format!("✗ deny  wasi:http  GET denied.test:{PORT}/http   {reason}"));
                }
                if answer.contains("127.0.") || answer.contains("0.0.0.0") {
                    let reason =
                        format!("denied by {BAD_NET} (cli, <command line> --deny http={BAD_NET})  mode:allowlist");
                    run.audits(&format!("✗ deny  wasi:http  GET {name}:{PORT}/http ({BAD})   {reason}"));
                }
                // One look-up for one connection, and none for what an alias leads to.
                assert_eq!(name_server.take(), both(name));

                case(&format!("{guest:?}: {name}, control without the range"));
                fetch(&world, guest, name, &flags[..2]).exits(0).prints("200 GET /x").never_says("✗ deny");
                let only_good = !answer.contains("0.0.0.0") && !answer.contains("127.0.");
                assert_eq!(reached(&servers), if only_good { [1, 0] } else { [0, 1] });
                assert_eq!(name_server.take(), both(name));
            }
        }
    });
}

#[test]
fn answers_are_filtered_for_sockets() {
    let rows: Vec<_> = ANSWERED.iter().map(|(name, answer, _)| (*name, [*answer])).collect();
    Network::with(|_| {
        let Some(world) = World::new() else { return };
        let name_server = NameServer::start(&zone(&rows));
        for guest in SOCKETS {
            for (name, answer, left) in ANSWERED {
                case(&format!("{guest:?}: {name}"));
                let allow = format!("sockets={name}:{PORT}");
                let flags = ["--allow", &allow, "--deny", "sockets=denied.test"];
                let deny = format!("sockets={BAD_NET}");
                let run = lookup(&world, guest, name, &[&flags[..], &["--deny", &deny]].concat());
                if *left {
                    assert_eq!(run.exits(0).text(), GOOD);
                } else {
                    run.exits(4).says("name-unresolvable");
                }
                if is_alias_of_denied(answer) {
                    run.says("✗ deny  wasi:sockets  lookup denied.test   denied by denied.test (cli, ");
                }
                if answer.contains("127.0.") || answer.contains("0.0.0.0") {
                    run.says(&format!("✗ deny  wasi:sockets  lookup {name} to {BAD}   denied by {BAD_NET} (cli, "));
                }
                assert_eq!(name_server.take(), both(name));
                case(&format!("{guest:?}: {name}, control without the range"));
                let run = lookup(&world, guest, name, &flags[..2]);
                let bad = answer.contains("127.0.") || answer.contains("0.0.0.0");
                assert_eq!(run.exits(0).never_says("✗ deny").text().contains(BAD), bad);
                assert_eq!(name_server.take(), both(name));
            }
        }
    });
}

/// Python looks the name up and connects to what it got.
#[test]
fn connections_by_name_go_to_what_is_left() {
    Network::with(|_| {
        let Some(world) = World::new() else { return };
        let servers = [GOOD, BAD].map(|ip| Server::start_at(ip, PORT).unwrap());
        let _name_server = NameServer::start(&[("mixed.test", &["127.0.0.1 127.9.9.9"]), ("bad.test", &[BAD])]);
        let component = world.pack(Guest::Py, &[], &anywhere());
        let mut counts = [0, 0];
        let mut connect = |name: &str, flags: &[&str], more: [usize; 2]| {
            let allow = format!("sockets={name}:{PORT}");
            let arguments = json!({ "host": name, "port": PORT, "send": "hello" });
            let run = world.call(&component, "tcp", &arguments, &[&["--allow", &allow], flags].concat());
            counts = [counts[0] + more[0], counts[1] + more[1]];
            assert_eq!([servers[0].settle(counts[0]), servers[1].settle(counts[1])], counts, "{}", run.err);
            run
        };
        let deny: &[&str] = &["--deny", &format!("sockets={BAD_NET}")];
        case("one of two is denied");
        connect("mixed.test", deny, [1, 0]).exits(0).prints("echo: hello");
        case("the only one is denied");
        connect("bad.test", deny, [0, 0])
            .exits(4)
            .says("✗ deny  wasi:sockets  lookup bad.test to 127.0.0.1   denied by ");
        case("controls");
        connect("mixed.test", &[], [0, 1]).exits(0).prints("echo: hello");
        connect("bad.test", &[], [0, 1]).exits(0).prints("echo: hello");
    });
}

/// The name has the good address when it is asked for first, and the bad one from then on.
#[test]
fn rebinding() {
    Network::with(|_| {
        let Some(world) = World::new() else { return };
        let servers = web();
        let name_server = NameServer::start(&[("turns.test", &[GOOD, BAD])]);
        let twice = [both("turns.test"), both("turns.test")].concat().len();
        let deny = format!("http={BAD_NET}");
        for guest in HTTP {
            case(&format!("{guest:?}: one request, one look-up, and the address that was judged"));
            fetch(&world, guest, "turns.test", &["--allow", "http=turns.test", "--deny", &deny]).exits(0);
            assert_eq!((reached(&servers), name_server.take()), ([1, 0], both("turns.test")));

            let follow = |path: &str, flags: &[&str]| {
                let mut arguments = url("turns.test");
                arguments["url"] = format!("http://turns.test:{PORT}/{path}?http://turns.test:{PORT}/end").into();
                arguments["follow"] = "1".into();
                let run = world.call(&world.guest(guest), "fetch", &arguments, flags);
                run.is_clean();
                run
            };
            case(&format!("{guest:?}: a second request of the same run, over another connection"));
            let run = follow("leave", &["--allow", "http=turns.test", "--deny", &deny]);
            run.exits(4).says("dns-error");
            run.says(&format!("✗ deny  wasi:http  GET turns.test:{PORT}/http ({BAD})   denied by {BAD_NET}"));
            assert_eq!((reached(&servers), name_server.take().len()), ([1, 0], twice));

            case(&format!("{guest:?}: control, the second address is not denied"));
            follow("leave", &["--allow", "http=turns.test"]).exits(0).prints("200 GET /end");
            assert_eq!((reached(&servers), name_server.take().len()), ([1, 1], twice));

            case(&format!("{guest:?}: over the same connection: the same address, and no second look-up"));
            let run = follow("hop", &["--allow", "http=turns.test", "--deny", &deny]);
            run.exits(0).prints("200 GET /end").says("http: 2 GET under turns.test, 1 lookup under turns.test");
            assert_eq!((reached(&servers), name_server.take()), ([2, 0], both("turns.test")));
        }
    });
}

/// An answer that is cut off comes again over TCP: the same filter, and still nothing for a refused name.
#[test]
fn an_answer_too_long_for_a_datagram() {
    let bad: Vec<String> = (1..=40).map(|n| format!("127.0.1.{n}")).collect();
    let bad = bad.join(" ");
    let mixed = format!("{bad} {GOOD}");
    Network::with(|network| {
        let Some(world) = World::new() else { return };
        let servers = web();
        let (bad, mixed) = ([bad.as_str()], [mixed.as_str()]);
        let name_server = NameServer::start(&[("bad.test", &bad), ("mixed.test", &mixed)]);
        let deny: &[&str] = &["--allow", "http=*.test", "--deny", &format!("http={BAD_NET}")];
        for guest in HTTP {
            case(&format!("{guest:?}: one good address among many"));
            fetch(&world, guest, "mixed.test", deny).exits(0).prints("200 GET /x");
            assert_eq!(reached(&servers), [1, 0]);
            assert!(name_server.take().contains(&"A mixed.test tcp".to_owned()));
            case(&format!("{guest:?}: none"));
            fetch(&world, guest, "bad.test", deny).exits(4).says("dns-error");
            assert!(name_server.take().contains(&"A bad.test tcp".to_owned()));
            case(&format!("{guest:?}: a refused name"));
            let before = network.sent();
            fetch(&world, guest, "mixed.test", &["--allow", "http=other.test"]).exits(4);
            assert_eq!(network.sent(), before);
        }
        assert_eq!(reached(&servers), [0, 0]);
    });
}
