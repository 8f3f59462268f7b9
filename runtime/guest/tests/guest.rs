//! The built `act-guest` with real components, under a stand-in for the supervisor.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use act_lockdown::profile::Profile;
use act_policy::Access::{self, List, Read, Stat, Write};
use act_wire::{ToGuest, ToSupervisor, ToolEvent};
use common::{Setup, compiled};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

struct Tree {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

impl Tree {
    /// `data` is granted for writing but for `data/secret`, `ro` for reading, `other` not at all.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for d in ["data/secret", "data/sub/deep", "ro", "other"] {
            fs::create_dir_all(top.join(d)).unwrap();
        }
        for (f, text) in [
            ("data/a.txt", "hello"),
            ("data/secret/k", "top"),
            ("data/sub/b.txt", "sub"),
            ("ro/r.txt", "ro"),
            ("other/s.txt", "secret"),
        ] {
            fs::write(top.join(f), text).unwrap();
        }
        for (target, link) in [
            ("../other/s.txt", "data/out"),
            ("../other", "data/outdir"),
            ("a.txt", "data/in"),
            ("../ro/r.txt", "data/rolnk"),
        ] {
            symlink(target, top.join(link)).unwrap();
        }
        symlink(top.join("other/s.txt"), top.join("data/abs")).unwrap();
        Self { _dir: dir, top }
    }

    fn at(&self, path: &str) -> String {
        self.top.join(path).to_str().unwrap().to_owned()
    }

    fn setup(&self) -> Setup {
        let at = |path: &str| self.at(path);
        Setup::new(&[
            format!("+fs={}/**", at("data")),
            format!("+fs={}/**:ro", at("ro")),
            format!("-fs={}/**", at("data/secret")),
        ])
    }
}

#[test]
fn the_child_is_locked_before_it_says_ready() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let guest = tree.setup().start(component);
    let report = guest.report.clone().unwrap();
    assert!(report.confinement.seccomp && report.confinement.landlock_full, "{report:?}");
    assert_eq!((guest.status("Seccomp"), guest.status("NoNewPrivs")), ("2".into(), "1".into()));
    // The main thread, the ticker and one blocking thread.
    assert_eq!(guest.status("Threads"), "3");
    println!("ready after {:?}, phases {:?} µs", guest.ready, report.phases);
}

#[test]
fn tools_are_listed_and_called() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let mut guest = tree.setup().start(component);
    guest.go();
    let tools = guest.list().unwrap();
    assert!(tools.iter().any(|t| t.name == "read_file" && t.description == "Read a file"), "{tools:?}");
    assert_eq!(guest.text("preopens", &[]).unwrap(), r#"["/"]"#);
    assert!(guest.text("no_such_tool", &[]).is_err());
}

#[test]
fn files_through_wasi_0_2() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let mut guest = tree.setup().start(component);
    guest.go();
    for (tool, path, expected) in [
        ("read_file", "data/a.txt", Ok("hello")),
        ("read_file", "data/in", Ok("hello")),
        ("read_file", "data/sub/../a.txt", Ok("hello")),
        ("read_file", "ro/r.txt", Ok("ro")),
        ("read_file", "data/rolnk", Ok("ro")),
        ("read_file", "other/s.txt", Err((Read, "other/s.txt"))),
        ("read_file", "data/out", Err((Read, "other/s.txt"))),
        ("read_file", "data/abs", Err((Read, "other/s.txt"))),
        ("read_file", "data/outdir/s.txt", Err((Read, "other/s.txt"))),
        ("read_file", "data/outdir/../x", Err((Read, "x"))),
        ("read_file", "data/../other/s.txt", Err((Read, "other/s.txt"))),
        ("read_file", "data/secret/k", Err((Read, "data/secret/k"))),
        // That it is not there must not be told outside the grants.
        ("read_file", "other/missing/x", Err((Read, "other/missing/x"))),
        ("list_dir", "data/sub", Ok("b.txt,deep")),
        ("list_dir", "data", Ok("a.txt,abs,in,out,outdir,rolnk,sub")),
        ("list_dir", "data/outdir", Err((Stat, "other"))),
        ("list_dir", "", Err((List, ""))),
        ("write_file", "data/new.txt", Ok("wrote 1")),
        ("write_file", "ro/r.txt", Err((Write, "ro/r.txt"))),
        ("write_file", "ro/new", Err((Write, "ro/new"))),
        ("write_file", "data/rolnk", Err((Write, "ro/r.txt"))),
        ("write_file", "data/out", Err((Write, "other/s.txt"))),
        ("write_file", "data/outdir/w", Err((Write, "other/w"))),
    ] {
        let real = tree.at(path);
        let mut arguments = vec![("path", real.as_str())];
        if tool == "write_file" {
            arguments.push(("text", "W"));
        }
        let got = guest.text(tool, &arguments);
        match expected {
            Ok(text) => assert_eq!(got.as_deref(), Ok(text), "{tool} {path}"),
            Err((access, real)) => {
                assert!(got.as_ref().is_err_and(|e| e.contains("not-permitted")), "{tool} {path}: {got:?}");
                let real = tree.at(real);
                assert!(guest.denied(access, real.trim_end_matches('/')), "{tool} {path}: {:?}", guest.records.last());
            }
        }
    }
    assert!(guest.text("read_file", &[("path", &tree.at("data/missing"))]).unwrap_err().contains("no-entry"));
    assert!(guest.text("read_file", &[("path", &tree.at("data/a.txt/x"))]).unwrap_err().contains("not-directory"));
    assert_eq!(fs::read_to_string(tree.top.join("data/new.txt")).unwrap(), "W");
    assert_eq!(fs::read_to_string(tree.top.join("other/s.txt")).unwrap(), "secret");
}

#[test]
fn listings_leave_out_what_is_denied_or_not_utf8() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    fs::write(tree.top.join("data/sub").join(std::ffi::OsStr::from_bytes(b"od\xffd")), "").unwrap();
    let mut guest = tree.setup().start(component);
    guest.go();
    assert_eq!(guest.text("list_dir", &[("path", &tree.at("data/sub"))]).unwrap(), "b.txt,deep");
    assert!(!guest.text("list_dir", &[("path", &tree.at("data"))]).unwrap().contains("secret"));
}

#[test]
fn special_files_are_not_opened() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let fifo = tree.top.join("data/fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.top.join("data/sock")).unwrap();
    let at = |path: &str| tree.at(path);
    let mut guest =
        Setup::new(&[format!("+fs={}/**", at("data")), "+fs=/dev/**".into(), "+fs=/proc/**".into()]).start(component);
    guest.go();
    for path in [at("data/fifo"), at("data/sock"), "/dev/null".into(), "/proc/self/mem".into(), "/proc/version".into()]
    {
        let got = guest.text("read_file", &[("path", &path)]);
        assert!(got.as_ref().is_err_and(|e| e.contains("not-permitted")), "{path}: {got:?}");
    }
}

#[test]
fn a_directory_shown_elsewhere_keeps_host_paths() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let mut setup = tree.setup();
    setup.shown = ("/ows".into(), tree.at("data"));
    let mut guest = setup.start(component);
    guest.go();
    assert_eq!(guest.text("preopens", &[]).unwrap(), r#"["/ows"]"#);
    assert_eq!(guest.text("read_file", &[("path", "a.txt")]).unwrap(), "hello");
    assert!(guest.text("read_file", &[("path", "out")]).is_err());
    assert!(guest.denied(Access::Read, &tree.at("other/s.txt")));
    assert!(guest.text("read_file", &[("path", "../other/s.txt")]).unwrap_err().contains("not-permitted"));
}

#[test]
fn files_through_python() {
    let Some(component) = compiled("fsdemo") else { return };
    let tree = Tree::new();
    let mut guest = tree.setup().start(component);
    println!("python ready after {:?}", guest.ready);
    guest.go();
    let at = |path: &str| tree.at(path);
    assert_eq!(guest.text("read_file", &[("path", &at("data/a.txt"))]).unwrap(), "hello");
    let listed = guest.text("list_dir", &[("path", &at("data"))]).unwrap();
    assert!(listed.contains("a.txt") && !listed.contains("secret"), "{listed}");
    for (tool, arguments) in [
        ("mkdir", vec![("path", at("data/nd"))]),
        ("write_file", vec![("path", at("data/nd/f")), ("text", "x".into())]),
        ("rename", vec![("src", at("data/nd/f")), ("dst", at("data/g"))]),
        ("rename", vec![("src", at("data/sub")), ("dst", at("data/sub2"))]),
        ("hardlink", vec![("src", at("data/a.txt")), ("dst", at("data/hl"))]),
        ("symlink", vec![("target", "../other/s.txt".into()), ("link", at("data/mine"))]),
        ("unlink", vec![("path", at("data/g"))]),
        ("stat", vec![("path", at("data/a.txt"))]),
        ("stat", vec![("path", at(""))]),
    ] {
        let arguments: Vec<_> = arguments.iter().map(|(k, v)| (*k, v.as_str())).collect();
        assert!(guest.text(tool, &arguments).is_ok(), "{tool} {arguments:?}: {:?}", guest.records.last());
    }
    for (tool, arguments, access, path) in [
        ("read_file", vec![("path", at("data/mine"))], Read, "other/s.txt"),
        ("mkdir", vec![("path", at("ro/nd"))], Write, "ro/nd"),
        ("unlink", vec![("path", at("ro/r.txt"))], Write, "ro/r.txt"),
        ("hardlink", vec![("src", at("ro/r.txt")), ("dst", at("data/h2"))], Write, "ro/r.txt"),
        ("hardlink", vec![("src", at("data/secret/k")), ("dst", at("data/h3"))], Write, "data/secret/k"),
        ("rename", vec![("src", at("ro/r.txt")), ("dst", at("data/r"))], Write, "ro/r.txt"),
        ("rename", vec![("src", at("data/a.txt")), ("dst", at("ro/a"))], Write, "ro/a"),
        ("rename", vec![("src", at("data/a.txt")), ("dst", at("data/secret/k"))], Write, "data/secret/k"),
        // The whole of `data` would carry `secret` out of its deny.
        ("rename", vec![("src", at("data")), ("dst", at("data2"))], Write, "data2"),
        ("stat", vec![("path", at("other/s.txt"))], Stat, "other/s.txt"),
    ] {
        let arguments: Vec<_> = arguments.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let got = guest.text(tool, &arguments);
        assert!(got.is_err(), "{tool} {arguments:?}: {got:?}");
        assert!(guest.denied(access, &at(path)), "{tool} {arguments:?}: {got:?} {:?}", guest.records.last());
    }
    assert_eq!(guest.text("env", &[]).unwrap(), "{} argv=[] cwd='/'");
}

#[test]
fn memory_is_bounded_and_the_next_call_works() {
    let Some(component) = compiled("fsdemo") else { return };
    let mut setup = Tree::new().setup();
    setup.memory = 64 << 20;
    let mut guest = setup.start(component);
    guest.go();
    let mib = |n: i64| [("mib", ciborium::Value::from(n))];
    assert!(guest.call("alloc", &mib(600)).unwrap_err().to_lowercase().contains("memory"));
    assert_eq!(guest.call("alloc", &mib(1)).unwrap(), "allocated 1048576");
}

/// A call that spins does not keep the channel from being read, and others from being told.
#[test]
fn a_spinning_call_leaves_the_channel_served() {
    let Some(component) = compiled("rsdemo") else { return };
    let mut guest = Tree::new().setup().start(component);
    guest.go();
    guest.list().unwrap();
    guest.begin("spin", &[]);
    std::thread::sleep(std::time::Duration::from_millis(50));
    guest.send(&ToGuest::Go);
    // A second `Go` is against the protocol: that it is noticed shows that the reader runs.
    let ToSupervisor::Failed { step, .. } = guest.message() else { panic!("no failure told") };
    assert_eq!(step, "protocol");
}

#[test]
fn sockets_by_address_and_by_name() {
    let Some(component) = compiled("netdemo") else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut copy = stream.try_clone().unwrap();
            std::thread::spawn(move || std::io::copy(&mut copy, &mut stream));
        }
    });
    let mut guest = Setup::new(&["+sockets=echo.test".to_owned() + &format!(":{port}")]).start(component);
    guest.names.insert("echo.test".into(), vec!["127.0.0.1".parse().unwrap()]);
    guest.go();
    let arguments = |host: &str, port: u16| [("host", host.into()), ("port", i64::from(port).into())];
    // Nobody looked the address up yet: the rule is for the name.
    assert!(guest.call("tcp", &arguments("127.0.0.1", port)).is_err());
    assert_eq!(guest.call("tcp", &arguments("echo.test", port)).unwrap(), "ping");
    assert_eq!(guest.call("tcp", &arguments("127.0.0.1", port)).unwrap(), "ping");
    assert!(guest.call("tcp", &arguments("127.0.0.1", port ^ 1)).is_err());
    assert!(guest.call("tcp", &arguments("unknown.test", port)).is_err());
    assert!(guest.call("listen", &arguments("127.0.0.1", 0)).is_err());
}

#[test]
fn http_is_refused_and_recorded() {
    let Some(component) = compiled("rsnet") else { return };
    let mut guest = Setup::new(&[]).start(component);
    guest.go();
    let request = [("method", "GET"), ("scheme", "http"), ("authority", "a.test:81"), ("path", "/")];
    assert!(guest.text("fetch", &request).unwrap_err().contains("HttpRequestDenied"));
    let recorded = guest
        .records
        .iter()
        .any(|r| matches!(&r.request, act_policy::Request::Http { host, port: 81, .. } if host == "a.test"));
    assert!(recorded, "{:?}", guest.records);
}

/// With layer 1 off, Landlock refuses what the policy refuses by subtree, and the record says that the kernel did.
#[test]
fn the_kernel_holds_without_layer_1() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let mut setup = tree.setup();
    setup.program = "act-guest-unchecked";
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_act-guest")).with_file_name(setup.program);
    if !program.exists() {
        println!("SKIP: build with --features unchecked");
        return;
    }
    let mut guest = setup.start(component);
    guest.go();
    assert_eq!(guest.text("read_file", &[("path", &tree.at("data/a.txt"))]).unwrap(), "hello");
    for (tool, path, access) in [
        ("read_file", "other/s.txt", Access::Read),
        ("read_file", "data/out", Access::Read),
        ("write_file", "ro/r.txt", Access::Write),
        ("list_dir", "other", Access::List),
    ] {
        let real = tree.at(path);
        let got = guest.text(tool, &[("path", &real), ("text", "W")]);
        assert!(got.is_err(), "{tool} {path}: {got:?}");
        let real = if path == "data/out" { tree.at("other/s.txt") } else { real };
        let kernel = guest.records.iter().any(|r| {
            matches!(r.outcome, act_wire::Observed::KernelRefused(_))
                && r.request == act_policy::Request::File { access, path: real.clone().into_bytes() }
        });
        assert!(kernel, "{tool} {path}: {:?}", guest.records.last());
    }
}

#[test]
fn nothing_granted_needs_no_file_calls() {
    let Some(component) = compiled("rsdemo") else { return };
    let mut setup = Setup::new(&[]);
    setup.profile = Profile::default();
    let mut guest = setup.start(component);
    guest.go();
    assert_eq!(guest.text("preopens", &[]).unwrap(), r#"["/"]"#);
    assert!(guest.text("read_file", &[("path", "/etc/passwd")]).is_err());
    assert!(guest.denied(Access::Read, "/etc/passwd"), "{:?}", guest.records);
}

/// Events that a call made before it ended come before its end.
#[test]
fn calls_end_once() {
    let Some(component) = compiled("rsdemo") else { return };
    let mut guest = Tree::new().setup().start(component);
    guest.go();
    let calls: Vec<_> = (0..20).map(|_| guest.begin("preopens", &[])).collect();
    let mut ended = Vec::new();
    while ended.len() < calls.len() {
        match guest.message() {
            ToSupervisor::Event { call, event: ToolEvent::Content(_) } => assert!(!ended.contains(&call)),
            ToSupervisor::Done { call } => ended.push(call),
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, calls);
}

#[test]
fn a_human_is_asked_where_the_mode_says_so() {
    let Some(component) = compiled("rsdemo") else { return };
    let tree = Tree::new();
    let mut setup = tree.setup();
    setup.ask = true;
    // What was not asked for beforehand is not in the kernel's plan; here layer 1 is what is tested.
    setup.landlock = false;
    let mut guest = setup.start(component);
    guest.go();
    let path = tree.at("data/a.txt");
    assert!(guest.text("read_file", &[("path", &path)]).unwrap_err().contains("not-permitted"));
    let wanted = act_policy::Request::File { access: Read, path: path.clone().into_bytes() };
    assert_eq!(guest.asked, std::slice::from_ref(&wanted));
    guest.human = true;
    assert_eq!(guest.text("read_file", &[("path", &path)]).unwrap(), "hello");
    let answers: Vec<_> = guest
        .records
        .iter()
        .filter_map(|r| match r.outcome {
            act_wire::Observed::Answered(allow) if r.request == wanted => Some(allow),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [false, true]);
    // A deny is a deny, and nobody is asked.
    let asked = guest.asked.len();
    assert!(guest.text("read_file", &[("path", &tree.at("data/secret/k"))]).is_err());
    assert_eq!(guest.asked.len(), asked);
}

#[test]
fn datagrams_by_name() {
    let Some(component) = compiled("netdemo") else { return };
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            socket.send_to(buffer.get(..length).unwrap(), peer).unwrap();
        }
    });
    let mut guest = Setup::new(&[format!("+sockets=echo.test:{port}/udp")]).start(component);
    guest.names.insert("echo.test".into(), vec!["127.0.0.1".parse().unwrap()]);
    guest.go();
    let arguments = |host: &str, port: u16| [("host", host.into()), ("port", i64::from(port).into())];
    assert!(guest.call("udp", &arguments("127.0.0.1", port)).is_err());
    assert_eq!(guest.call("udp", &arguments("echo.test", port)).unwrap(), "ping");
    assert!(guest.call("udp", &arguments("echo.test", port ^ 1)).is_err());
    assert!(guest.call("tcp", &arguments("echo.test", port)).is_err());
}

/// Not a check but figures: `cargo test --release -p act-guest -- --ignored --nocapture figures`.
#[test]
#[ignore = "prints figures"]
fn figures() {
    for name in ["rsdemo", "fsdemo"] {
        let Some(component) = compiled(name) else { return };
        let tree = Tree::new();
        let (mut ready, mut first, mut call) = (Vec::new(), Vec::new(), Vec::new());
        let mut memory = String::new();
        for _ in 0..100 {
            let begun = std::time::Instant::now();
            let mut guest = tree.setup().start(component);
            ready.push(guest.ready);
            guest.go();
            let path = tree.at("data/a.txt");
            guest.text("read_file", &[("path", &path)]).unwrap();
            first.push(begun.elapsed());
            for _ in 0..20 {
                let begun = std::time::Instant::now();
                guest.text("read_file", &[("path", &path)]).unwrap();
                call.push(begun.elapsed());
            }
            memory = format!("{} (anonymous {})", guest.status("VmRSS"), guest.status("RssAnon"));
        }
        for (what, mut times) in [("ready", ready), ("first reply", first), ("call", call)] {
            times.sort_unstable();
            println!("{name} {what}: median {:?}, least {:?}", times[times.len() / 2], times[0]);
        }
        println!("{name} memory: {memory}");
    }
}
