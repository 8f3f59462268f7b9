//! Name servers without an answer.

use crate::{GOOD, HTTP, SOCKETS, fetch, lookup, reached, url, web};
use act_tests::{Guest, NAME_SERVER, NameServer, Network, World, Zone, case};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than one attempt of the resolver, and shorter than what anybody would call a hang.
const BOUND: Duration = Duration::from_secs(20);

/// Answers with aliases that lead nowhere.
const LOOPS: Zone = &[
    ("itself.test", &["=itself.test"]),
    ("loop.test", &["=a.test =b.test =loop.test"]),
    ("loop-elsewhere.test", &["=a.test =b.test =a.test"]),
    ("nowhere.test", &["=a.test"]),
    (
        "too-long.test",
        &["=a.test =b.test =c.test =d.test =e.test =f.test =g.test =h.test =i.test =j.test =k.test =l.test"],
    ),
];

/// A run that gets no address: an error for the component and an end in time.
fn no_address(world: &World, guest: Guest, name: &str, http: bool) {
    let run = if http {
        fetch(world, guest, name, &["--allow", "http"])
    } else {
        lookup(world, guest, name, &["--allow", "sockets"])
    };
    run.exits(1).says(if http { "dns-error" } else { "name-unresolvable" }).never_says("✗ deny");
    assert!(run.took < BOUND, "took {:?}", run.took);
}

#[test]
fn a_name_server_without_an_answer() {
    const FAILING: Zone =
        &[("silence.test", &["silence"]), ("servfail.test", &["servfail"]), ("empty.test", &["=a.test"])];
    Network::with(|network| {
        let Some(world) = World::new() else { return };
        let _servers = web();
        let name_server = NameServer::start(&[FAILING, LOOPS, &[("good.test", &[GOOD])]].concat());
        for (http, guests) in [(true, HTTP), (false, SOCKETS)] {
            for guest in guests {
                for (name, _) in [FAILING, LOOPS, &[("none.test", &[])]].concat() {
                    case(&format!("{guest:?}: {name}"));
                    no_address(&world, guest, name, http);
                    assert!(name_server.take().starts_with(&[format!("A {name} udp")]));
                }
            }
        }
        // From here on the resolver waits for longer than anybody else.
        network.resolver("options timeout:60\n");
        for guest in HTTP {
            case(&format!("{guest:?}: the component waits for less"));
            let mut arguments = url("silence.test");
            arguments["times"] = "connect=300".into();
            let run = world.call(&world.guest(guest), "fetch", &arguments, &["--allow", "http"]);
            run.is_clean().exits(1).says("dns-timeout");
            assert!(run.took < BOUND, "took {:?}", run.took);
        }
        for (http, guest) in [(true, Guest::Fetch), (false, Guest::Files), (false, Guest::Files3)] {
            case(&format!("{guest:?}: the call has less time"));
            let run = if http {
                fetch(&world, guest, "silence.test", &["--allow", "http", "--timeout", "1s"])
            } else {
                lookup(&world, guest, "silence.test", &["--allow", "sockets", "--timeout", "1s"])
            };
            run.exits(6);
            assert!(run.took < BOUND, "took {:?}", run.took);
        }
        case("control");
        fetch(&world, Guest::Fetch, "good.test", &["--allow", "http"]).exits(0).prints("200 GET /x");
    });
}

/// What comes back instead of an answer, made from the question.
type Garbage = (&'static str, fn(&[u8]) -> Vec<u8>);

const GARBAGE: &[Garbage] = &[
    ("nothing", |_| Vec::new()),
    ("one byte", |_| vec![0]),
    ("words", |_| b"this is no answer to any question at all".to_vec()),
    ("the question", <[u8]>::to_vec),
    ("another number", |question| [&[!question[0], !question[1], 0x81, 0x80], &question[4..]].concat()),
    ("the number and nonsense", |question| [&question[..2], &[0xff; 500]].concat()),
    ("a head that promises 65535 answers", |question| {
        [&question[..2], &[0x81, 0x80, 0, 1, 0xff, 0xff, 0, 0, 0, 0], &question[12..]].concat()
    }),
    ("an answer whose name points at itself", |question| {
        let at = u8::try_from(question.len()).unwrap();
        let head = [&question[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], &question[12..]].concat();
        [&head[..], &[0xc0, at, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 9, 9, 9]].concat()
    }),
    ("an address of three bytes", |question| {
        let head = [&question[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], &question[12..]].concat();
        [&head[..], &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 3, 127, 9, 9]].concat()
    }),
    ("an address that is cut off", |question| {
        let head = [&question[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], &question[12..]].concat();
        [&head[..], &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127]].concat()
    }),
];

/// A name server that answers so.
struct Liar {
    asked: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    fn start(garbage: fn(&[u8]) -> Vec<u8>) -> Self {
        let socket = UdpSocket::bind((NAME_SERVER, 53)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (asked, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, end) = (asked.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut question = [0; 512];
            while !end.load(Ordering::SeqCst) {
                let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
                count.fetch_add(1, Ordering::SeqCst);
                // Who asked may be gone.
                let _ = socket.send_to(&garbage(&question[..length]), from);
            }
        });
        Self { asked, stop, thread: Some(thread) }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_name_server_that_sends_garbage() {
    Network::with(|_| {
        let Some(world) = World::new() else { return };
        let servers = web();
        for (what, garbage) in GARBAGE {
            let liar = Liar::start(*garbage);
            for (http, guest) in [(true, Guest::Fetch), (false, Guest::Files)] {
                case(&format!("{guest:?}: {what}"));
                no_address(&world, guest, "good.test", http);
            }
            assert!(liar.asked.load(Ordering::SeqCst) >= 4);
        }
        assert_eq!(reached(&servers), [0, 0]);
        case("control");
        let _name_server = NameServer::start(&[("good.test", &[GOOD])]);
        fetch(&world, Guest::Fetch, "good.test", &["--allow", "http"]).exits(0).prints("200 GET /x");
    });
}
