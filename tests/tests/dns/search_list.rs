//! Short names and the `search` line of `resolv.conf`.

use crate::{GOOD, HTTP, SOCKETS, both, fetch, lookup, reached, web};
use act_tests::{NameServer, Network, World, case};

/// A short name must not become, by the search list of the system, the long name that a rule refuses.
#[test]
fn a_search_list_leads_to_no_refused_name() {
    Network::with(|network| {
        let Some(world) = World::new() else { return };
        let servers = web();
        let name_server = NameServer::start(&[("vault.corp.test", &[GOOD]), ("vault.team.corp.test", &[GOOD])]);
        for (class, guests) in [("http", HTTP), ("sockets", SOCKETS)] {
            let deny = format!("{class}=*.corp.test");
            for (guest, more) in guests.into_iter().flat_map(|guest| [(guest, ""), (guest, "options ndots:5\n")]) {
                let run = |name: &str, flags: &[&str]| match class {
                    "http" => fetch(&world, guest, name, &[&["--allow", "http"], flags].concat()),
                    _ => lookup(&world, guest, name, &[&["--allow", "sockets"], flags].concat()),
                };
                network.resolver("");
                case(&format!("{guest:?}: {class}: controls, the long name and the short one"));
                run("vault.corp.test", &[]).exits(0);
                assert_eq!(name_server.take(), both("vault.corp.test"));
                run("vault.corp.test", &["--deny", &deny]).exits(4);
                assert_eq!(name_server.take(), Vec::<String>::new());
                run("vault", &[]).exits(1);
                assert_eq!((name_server.take(), reached(&servers)), (both("vault"), [usize::from(class == "http"), 0]));
                network.resolver(&format!("search corp.test\n{more}"));
                for name in ["vault", "vault.team"] {
                    case(&format!("{guest:?}: {class}: {name}, with a search list, {more}"));
                    let run = run(name, &["--deny", &deny]);
                    let asked = name_server.take();
                    assert!(!asked.iter().any(|line| line.contains("corp.test")), "{asked:?}\n{}", run.err);
                    assert_eq!(reached(&servers), [0, 0], "{}", run.err);
                }
            }
        }
    });
}
