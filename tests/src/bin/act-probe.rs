//! A guest program that tries what native code would try, in the place of `act-guest`.
//!
//! It confines itself as `act-guest` does. A file `probe-mode` beside it makes it lie or break the protocol. Executed
//! by hand it makes the same attempts without confinement: `act-probe --bare FILE PROCS PORT OTHER NAME…`.

use act_files::{Opening, Operation};
use act_policy::{Access, Reason, Request, RuleId, Verdict};
use act_tests::attempts::{self, Places};
use act_wire::{
    Bounded, Channel, Confinement, ContentPart, FileAnswer, Observed, PACKET, Purpose, Record, Report, ToGuest,
    ToSupervisor, Tool, ToolEvent,
};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, file, procs, port, other, names @ ..] = arguments.as_slice()
        && flag == "--bare"
    {
        let number = |text: &str| text.parse().unwrap_or(0);
        let places = Places { file: file.clone(), procs: procs.clone(), port: number(port), other: number(other) };
        for name in names {
            println!("{name}: {}", bare(name, &places));
        }
        return ExitCode::SUCCESS;
    }
    let own = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let mode = std::fs::read_to_string(own.with_file_name("probe-mode")).unwrap_or_default();
    // SAFETY: descriptor 0 is the channel, by the contract with the supervisor; nothing else here uses it.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    if serve(socket, mode.trim()).is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One attempt in a child of its own: some attempts replace the process.
fn bare(name: &str, places: &Places) -> String {
    // SAFETY: this program has one thread.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = attempts::run(name, places).map_or_else(rustix::io::Errno::raw_os_error, |()| 0);
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: `pid` is our child, `status` an int.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if libc::WIFEXITED(status) {
        outcome(libc::WEXITSTATUS(status))
    } else {
        format!("signal {}", libc::WTERMSIG(status))
    }
}

fn outcome(errno: i32) -> String {
    if errno == 0 { "ok".to_owned() } else { format!("errno {errno}") }
}

/// `None`: the protocol did not go as it should.
fn serve(socket: OwnedFd, mode: &str) -> Option<()> {
    let raw = socket.as_raw_fd();
    attempts::parent();
    let sending = socket.try_clone().ok()?;
    let mut channel = Channel::new(socket, 256 << 20);
    let (message, descriptors) = channel.receive::<ToGuest>(None).ok()?;
    let ToGuest::Start(_) = message else { return None };
    let broker = descriptors.into_iter().nth(1);
    let broker_raw = broker.as_ref().map_or(-1, std::os::fd::AsRawFd::as_raw_fd);
    let mut broker = broker.map(|socket| Channel::new(socket, 256 << 20));
    let (ToGuest::Lock(lockdown), _) = channel.receive::<ToGuest>(None).ok()? else { return None };
    let kept = match mode {
        "keeps-a-file" => std::fs::File::open("/etc/passwd").ok(),
        _ => None,
    };
    match mode {
        "garbage" => {
            write(raw, &[0, 1, 200, 200, 7]);
            std::thread::sleep(Duration::from_mins(1));
        }
        "oversized" => flood(raw),
        "silent" => std::thread::sleep(Duration::from_mins(2)),
        "dies" => return None,
        "closes-and-sleeps" => close_and_sleep(channel, sending),
        _ => {}
    }
    let (landlock_abi, landlock_full) = act_lockdown::landlock(&lockdown).ok()?;
    if !mode.starts_with("no-seccomp") {
        act_lockdown::seccomp(&lockdown.seccomp).ok()?;
    }
    let seccomp = mode != "no-seccomp-said-so";
    let confinement = Confinement { landlock_abi, landlock_full, seccomp };
    channel.send(&ToSupervisor::Ready(Report { confinement, phases: [0; 4] })).ok()?;
    if mode == "speaks-first" {
        channel.send(&ToSupervisor::Done { call: 1 }).ok()?;
    }
    loop {
        match channel.receive::<ToGuest>(None).ok()?.0 {
            ToGuest::ListTools { call, .. } => {
                let tool = Tool {
                    name: "attempt".into(),
                    description: "Try".into(),
                    parameters_schema: "{}".into(),
                    metadata: Vec::new(),
                };
                channel.send(&ToSupervisor::Tools { call, result: Ok(Bounded(vec![tool])) }).ok()?;
            }
            ToGuest::CallTool { call, arguments, .. } => {
                match mode {
                    "garbage-in-a-call" => write(raw, &[0, 1, 200, 200, 7]),
                    "oversized-in-a-call" => flood(raw),
                    "garbage-to-the-broker" => break_the_broker(broker_raw, &[0, 1, 200, 200, 7]),
                    "oversized-to-the-broker" => break_the_broker(broker_raw, &vec![7; 40_000]),
                    "descriptor-to-the-broker" => {
                        let question = Operation::List { path: b"/".to_vec() };
                        broker.as_ref()?.send_with(&question, &[sending.as_fd()]).ok()?;
                        std::thread::sleep(Duration::from_mins(1));
                    }
                    "closes-and-sleeps-in-a-call" => close_and_sleep(channel, sending),
                    "empty-packets-in-a-call" => loop {
                        write(raw, &[1]);
                    },
                    "endless-metadata" => loop {
                        let metadata = vec![("k".repeat(1 << 20), Vec::new()); 4];
                        let part = ContentPart { data: Vec::new(), mime_type: None, metadata };
                        channel.send(&ToSupervisor::Event { call, event: ToolEvent::Content(part) }).ok()?;
                    },
                    "metadata-without-bound" => {
                        let metadata = vec![(String::new(), Vec::new()); 1 << 20];
                        let part = ContentPart { data: Vec::new(), mime_type: None, metadata };
                        channel.send(&ToSupervisor::Event { call, event: ToolEvent::Content(part) }).ok()?;
                    }
                    "long-path" => {
                        let request = Request::File { access: Access::Read, path: vec![b'/'; 1 << 20] };
                        let outcome = Observed::Judged(Verdict::deny(Reason::NotGranted));
                        channel.send(&ToSupervisor::Records(Bounded(vec![Record { request, outcome }]))).ok()?;
                    }
                    "long-key" => {
                        let key = "a".repeat(8 << 20);
                        let request = Request::Consent { class: "db:drop".into(), key, arguments: Vec::new() };
                        channel.send(&ToSupervisor::Ask { ask: 1, request, words: String::new() }).ok()?;
                    }
                    "false-rule" => {
                        let path = file_of(&arguments)?;
                        let request = Request::File { access: Access::Read, path };
                        let denied = Verdict { rule: Some(RuleId(0)), ..Verdict::deny(Reason::DeniedByRule) };
                        let record = Record { request, outcome: Observed::Judged(denied) };
                        channel.send(&ToSupervisor::Records(Bounded(vec![record]))).ok()?;
                    }
                    "another-call" => channel.send(&ToSupervisor::Done { call: call + 7 }).ok()?,
                    "sends-a-descriptor" => {
                        channel.send_with(&ToSupervisor::Done { call }, &[sending.as_fd()]).ok()?;
                        continue;
                    }
                    "long-name" => look_up(&channel, &"a".repeat(1 << 20), "http")?,
                    "odd-scheme" => look_up(&channel, "localhost", "gopher")?,
                    "roots-twice" => {
                        channel.send(&ToSupervisor::Roots { ask: 1 }).ok()?;
                        channel.send(&ToSupervisor::Roots { ask: 2 }).ok()?;
                    }
                    "endless-output" => loop {
                        let part = ContentPart { data: vec![b'x'; 4 << 20], mime_type: None, metadata: Vec::new() };
                        channel.send(&ToSupervisor::Event { call, event: ToolEvent::Content(part) }).ok()?;
                    },
                    _ => {}
                }
                let data = match mode {
                    "asks-for-secrets" => secrets(&mut channel)?.into_bytes(),
                    _ => attempt(&arguments, broker.as_mut()).into_bytes(),
                };
                let part = ContentPart { data, mime_type: Some("text/plain".into()), metadata: Vec::new() };
                channel.send(&ToSupervisor::Event { call, event: ToolEvent::Content(part) }).ok()?;
                channel.send(&ToSupervisor::Done { call }).ok()?;
            }
            ToGuest::SessionSchema { call, .. } => {
                channel.send(&ToSupervisor::SessionSchema { call, result: Ok("{}".into()) }).ok()?;
            }
            ToGuest::OpenSession { call, .. } => {
                channel.send(&ToSupervisor::SessionOpened { call, result: Ok("own".into()) }).ok()?;
            }
            ToGuest::CloseSession { call, .. } => channel.send(&ToSupervisor::Done { call }).ok()?,
            _ => {}
        }
        if kept.is_some() {
            return Some(());
        }
    }
}

fn look_up(channel: &Channel, host: &str, scheme: &str) -> Option<()> {
    let purpose = Purpose::Http { method: "GET".into(), scheme: scheme.into(), port: 80 };
    channel.send(&ToSupervisor::Resolve { ask: 1, host: host.into(), purpose }).ok()
}

/// Ask for secrets as `act-guest` would after its own check, without making one.
fn secrets(channel: &mut Channel) -> Option<String> {
    let mut out = String::new();
    for (ask, (session, key)) in (1..).zip([("own", "acme"), ("own", "other"), ("foreign", "acme"), ("", "acme")]) {
        let (session, key) = (session.to_owned(), key.to_owned());
        let question = format!("{session} {key}");
        channel.send(&ToSupervisor::Secret { ask, session, key, words: "please".into() }).ok()?;
        let (ToGuest::Secret { result, .. }, _) = channel.receive::<ToGuest>(None).ok()? else { return None };
        let answer = match result {
            Ok(secret) => format!("{:?}", secret.fields.into_pairs()),
            Err(refusal) => format!("{refusal:?}"),
        };
        out.push_str(&format!("{question}: {answer}\n"));
    }
    channel.send(&ToSupervisor::Secrets { ask: 99 }).ok()?;
    let (ToGuest::Secrets { result, .. }, _) = channel.receive::<ToGuest>(None).ok()? else { return None };
    let names = result.ok()?.into_iter().map(|info| info.key).collect::<Vec<_>>().join(" ");
    out.push_str(&format!("listed: {names}\n"));
    Some(out)
}

/// The file that the attempts work on.
fn file_of(arguments: &[u8]) -> Option<Vec<u8>> {
    let value = ciborium::from_reader::<serde_json::Value, _>(arguments).ok()?;
    Some(value.get("file")?.as_str()?.as_bytes().to_vec())
}

/// Nobody is there any more to speak with, and the process goes on.
fn close_and_sleep(channel: Channel, sending: OwnedFd) -> ! {
    drop((channel, sending));
    loop {
        std::thread::sleep(Duration::from_mins(5));
    }
}

/// Send the broker what is no question; the supervisor ends this process for it.
fn break_the_broker(socket: i32, bytes: &[u8]) {
    write(socket, bytes);
    std::thread::sleep(Duration::from_mins(1));
}

/// Ask the broker as `act-guest` would after its own check, without making one: `OPERATION PATH`, or two paths.
fn ask_broker(question: &str, broker: Option<&mut Channel>) -> Option<String> {
    let words: Vec<&str> = question.split(' ').collect();
    let bytes = |path: &str| path.as_bytes().to_vec();
    let read = Opening { read: true, ..Opening::default() };
    let operation = match *words.as_slice() {
        ["read", path] => Operation::Open { path: bytes(path), opening: read },
        ["write", path] => Operation::Open { path: bytes(path), opening: Opening { write: true, ..read } },
        ["create", path] => {
            Operation::Open { path: bytes(path), opening: Opening { create: true, write: true, ..read } }
        }
        ["list", path] => Operation::List { path: bytes(path) },
        ["mkdir", path] => Operation::MakeDirectory { path: bytes(path) },
        ["rmdir", path] => Operation::RemoveDirectory { path: bytes(path) },
        ["unlink", path] => Operation::RemoveFile { path: bytes(path) },
        ["symlink", target, path] => Operation::MakeLink { target: target.to_owned(), path: bytes(path) },
        ["rename", from, to] => Operation::Rename { from: bytes(from), to: bytes(to) },
        ["link", from, to] => Operation::Link { from: bytes(from), to: bytes(to) },
        ["times", path] => Operation::SetTimes { path: bytes(path), access: (0, 0), modification: (0, 0) },
        _ => return None,
    };
    let broker = broker?;
    broker.send(&operation).ok()?;
    let (answer, files) = broker.receive_blocking::<FileAnswer>().ok()?;
    Some(match answer {
        FileAnswer::Done => "ok".to_owned(),
        FileAnswer::Opened => format!("ok, {} open", files.len()),
        FileAnswer::Entries(entries) => {
            let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
            names.sort();
            format!("ok, {}", names.join(" "))
        }
        FileAnswer::Denied => "denied".to_owned(),
        FileAnswer::Failed(errno) => outcome(errno),
    })
}

/// Make the attempts that the arguments name, in this process.
fn attempt(arguments: &[u8], mut broker: Option<&mut Channel>) -> String {
    let Ok(value) = ciborium::from_reader::<serde_json::Value, _>(arguments) else { return "arguments".into() };
    let text = |key: &str| value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let number = |key: &str| value.get(key)?.as_u64()?.try_into().ok();
    let (port, other) = (number("port").unwrap_or(0), number("other").unwrap_or(0));
    let places = Places { file: text("file"), procs: text("procs"), port, other };
    let names = value.get("names").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let lines = names.iter().filter_map(serde_json::Value::as_str).map(|name| {
        if let Some(question) = name.strip_prefix("broker ") {
            let answer = ask_broker(question, broker.as_deref_mut());
            return format!("{name}: {}", answer.as_deref().unwrap_or("no answer"));
        }
        let code = attempts::run(name, &places).map_or_else(rustix::io::Errno::raw_os_error, |()| 0);
        format!("{name}: {}", outcome(code))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn write(socket: i32, bytes: &[u8]) {
    // SAFETY: the buffer is as long as told; the descriptor is the channel's, which stays open.
    unsafe { libc::write(socket, bytes.as_ptr().cast(), bytes.len()) };
}

/// One message without an end.
fn flood(socket: i32) {
    let mut packet = vec![7_u8; PACKET];
    if let Some(mark) = packet.first_mut() {
        *mark = 1;
    }
    for _ in 0..1 << 14 {
        write(socket, &packet);
    }
}
