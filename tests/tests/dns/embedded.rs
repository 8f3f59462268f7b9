//! IPv4 addresses inside of IPv6 addresses.

use crate::{BAD_NET, GOOD, HTTP, PORT, SOCKETS, fetch, lookup, reached, web, zone};
use act_tests::{NameServer, Network, Web, World, case, require};

/// All addresses lead to a server, so that only the rule stops them.
#[test]
fn embedded_addresses() {
    const FORMS: &[(&str, &str)] = &[
        ("mapped.test", "::ffff:127.0.0.1"),
        ("compatible.test", "::7f00:1"),
        ("nat64.test", "64:ff9b::7f00:1"),
        ("nat64-local.test", "64:ff9b:1::7f00:1"),
        ("6to4.test", "2002:7f00:1::1"),
        ("teredo.test", "2001:0:1:2:3:4:80ff:fffe"),
    ];
    let rows: Vec<_> = FORMS.iter().map(|(name, address)| (*name, [*address])).collect();
    let mixed = FORMS.iter().map(|(_, address)| *address).chain([GOOD]).collect::<Vec<_>>().join(" ");
    Network::with(|network| {
        let Some(world) = World::new() else { return };
        let servers = web();
        let mut six = Vec::new();
        for (_, address) in &FORMS[1..] {
            if require(network.add(address)).is_none() {
                return;
            }
            six.push(Web::start_at(address, PORT).unwrap());
        }
        let mixed = [mixed.as_str()];
        let name_server = NameServer::start(&[&zone(&rows)[..], &[("mixed.test", &mixed)]].concat());
        let deny: &[&str] = &["--allow", "http", "--deny", &format!("http={BAD_NET}")];
        for guest in HTTP {
            for (name, address) in FORMS {
                case(&format!("{guest:?}: {name}"));
                fetch(&world, guest, name, deny).exits(4).says("dns-error").says(&format!("denied by {BAD_NET}"));
                case(&format!("{guest:?}: literal {address}"));
                fetch(&world, guest, &format!("[{address}]"), deny).exits(4).says(&format!("denied by {BAD_NET}"));
                assert_eq!(reached(&servers), [0, 0]);
                assert_eq!(six.iter().map(|server| server.take().len()).sum::<usize>(), 0);
                case(&format!("{guest:?}: {name}, control"));
                fetch(&world, guest, name, &["--allow", "http"]).exits(0).prints("200 GET /x");
                let there: usize = six.iter().map(|server| server.take().len()).sum();
                assert_eq!(reached(&servers)[1] + there, 1);
            }
            case(&format!("{guest:?}: all of them and a good one"));
            fetch(&world, guest, "mixed.test", deny).exits(0).prints("200 GET /x");
            assert_eq!(reached(&servers), [1, 0]);
        }
        for guest in SOCKETS {
            let flags: &[&str] = &["--allow", "sockets", "--deny", &format!("sockets={BAD_NET}")];
            for (name, _) in FORMS {
                case(&format!("{guest:?}: look-up of {name}"));
                lookup(&world, guest, name, flags).exits(4).says("name-unresolvable");
                case(&format!("{guest:?}: look-up of {name}, control"));
                assert!(!lookup(&world, guest, name, &["--allow", "sockets"]).exits(0).text().is_empty());
            }
            assert_eq!(lookup(&world, guest, "mixed.test", flags).exits(0).text(), GOOD);
        }
        assert!(!name_server.take().is_empty());
    });
}
