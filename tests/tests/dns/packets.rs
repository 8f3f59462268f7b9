//! Names and addresses that nobody is asked about.

use crate::{GOOD, HTTP, PORT, SOCKETS, both, fetch, lookup, reached, web};
use act_tests::{Guest, NameServer, Network, Web, World, case};

/// What is said, the name that is used, flags, and part of the audit.
type Refused = (&'static str, &'static str, &'static [&'static str], &'static str);

/// `{C}` is the class.
const REFUSED: &[Refused] = &[
    ("no rule covers it", "good.test", &["--allow", "{C}=other.test"], "not granted"),
    ("a deny rule covers it", "good.test", &["--allow", "{C}", "--deny", "{C}=good.test"], "denied by good.test"),
    (
        "in other letters, with a dot",
        "GOOD.Test.",
        &["--allow", "{C}", "--deny", "{C}=good.test"],
        "denied by good.test",
    ),
    (
        "a deny rule covers all below",
        "a.good.test",
        &["--allow", "{C}", "--deny", "{C}=*.good.test"],
        "denied by *.good.test",
    ),
    ("the end of a granted name", "notgood.test", &["--allow", "{C}=good.test"], "not granted"),
    ("a granted name in the middle", "good.test.evil.test", &["--allow", "{C}=*.good.test"], "not granted"),
    ("the name carries what the component knows", "secret.evil.test", &["--allow", "{C}=good.test"], "not granted"),
    ("an address is granted", "good.test", &["--allow", "{C}=127.9.9.9"], "not granted"),
    ("the class is denied", "good.test", &["--deny", "{C}"], "not granted"),
    ("nobody can be asked", "good.test", &[], "no prompt channel"),
];

fn refused_names(world: &World, network: &Network, name_server: &NameServer, what: &str) {
    for (class, guests) in [("http", HTTP), ("sockets", SOCKETS)] {
        for guest in guests {
            let run = |name: &str, flags: &[&str]| match class {
                "http" => fetch(world, guest, name, flags),
                _ => lookup(world, guest, name, flags),
            };
            for (row, name, flags, audit) in REFUSED {
                case(&format!("{what}: {guest:?}: {class}: {row}"));
                let flags: Vec<String> = flags.iter().map(|flag| flag.replace("{C}", class)).collect();
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                let before = network.sent();
                run(name, &flags).exits(4).says(audit);
                assert_eq!(name_server.take(), Vec::<String>::new());
                assert_eq!(network.sent(), before, "what the kernel sent");
            }
            case(&format!("{what}: {guest:?}: {class}: control, a granted name"));
            let before = network.sent();
            run("good.test", &["--allow", &format!("{class}=good.test")]).exits(0).never_says("✗ deny");
            assert_eq!(name_server.take(), both("good.test"));
            assert!(network.sent().datagrams >= before.datagrams + 2);
        }
    }
}

#[test]
fn a_refused_name_causes_no_packet() {
    Network::with(|network| {
        let Some(world) = World::new() else { return };
        let _servers = web();
        let name_server = NameServer::start(&[("good.test", &[GOOD])]);
        refused_names(&world, network, &name_server, "all layers");
    });
}

/// With the guest's own check switched off: the supervisor asks nobody either.
#[test]
fn a_refused_name_causes_no_packet_below() {
    Network::with(|network| {
        let Some(world) = World::unchecked() else { return };
        let _servers = web();
        let name_server = NameServer::start(&[("good.test", &[GOOD])]);
        refused_names(&world, network, &name_server, "unchecked");
    });
}

#[test]
fn a_literal_address_causes_no_packet() {
    Network::with(|network| {
        let Some(world) = World::new() else { return };
        let web = web();
        let six = Web::start_at("::1", PORT).unwrap();
        let name_server = NameServer::start(&[("good.test", &[GOOD])]);
        for guest in HTTP {
            for host in ["127.9.9.9", "127.9.9.9.", "0x7f.9.2313", "2131298569", "[::1]", "[::ffff:127.9.9.9]"] {
                case(&format!("{guest:?}: http://{host}"));
                let before = network.sent();
                fetch(&world, guest, host, &["--allow", "http"]).exits(0).prints("200 GET /x");
                let after = network.sent();
                assert_eq!((after.datagrams, after.connections), (before.datagrams, before.connections + 1));
            }
        }
        assert_eq!((reached(&web), six.take().len()), ([10, 0], 2));
        for guest in SOCKETS {
            for host in ["127.9.9.9", "::1", "::ffff:127.9.9.9", "2131298569"] {
                case(&format!("{guest:?}: look-up of {host}"));
                let before = network.sent();
                lookup(&world, guest, host, &["--allow", "sockets"]);
                assert_eq!(network.sent(), before);
            }
        }
        assert_eq!(name_server.take(), Vec::<String>::new());
        case("control: a name");
        fetch(&world, Guest::Fetch, "good.test", &["--allow", "http"]).exits(0);
        assert_eq!(name_server.take(), both("good.test"));
    });
}
