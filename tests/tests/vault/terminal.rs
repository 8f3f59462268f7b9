//! What is typed is not shown, and a terminal is left as it was.

use super::{SECRET, call, forget, store_file, vault, with_variables};
use act_tests::{Running, World, case, require};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What a terminal showed, how the program ended, and whether the terminal shows what is typed afterwards.
struct Typed {
    shown: String,
    code: Option<i32>,
    echo: bool,
}

/// Both ends of a new terminal.
fn terminal() -> (File, File) {
    let (mut master, mut slave) = (-1, -1);
    let (name, modes, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: openpty(3) writes two descriptors to two ints; null stands for what is not wanted.
    assert_eq!(unsafe { libc::openpty(&raw mut master, &raw mut slave, name, modes, size) }, 0);
    // SAFETY: both descriptors are new and belong to nobody else.
    unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) }
}

/// Run `act` on a terminal of its own and answer each prompt (its end, and what is typed then).
fn typed(world: &World, arguments: &[&str], answers: &[(&str, &str)]) -> Option<Typed> {
    let setsid = ["/usr/bin/setsid", "/bin/setsid"].iter().map(PathBuf::from).find(|p| p.is_file());
    let setsid = require(setsid.ok_or_else(|| "no setsid (util-linux) to give a program a terminal".to_owned()))?;
    let (master, slave) = terminal();
    let mut act = world.command(&setsid);
    let end = || Stdio::from(slave.try_clone().unwrap());
    act.args(["-c", "-w"]).arg(world.programs().join("act")).args(arguments);
    let mut running = Running::start_as_is(act.stdin(end()).stdout(end()).stderr(end()));
    let mut master = master;
    let mut reading = master.try_clone().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0u8; 4096];
        while let Ok(n @ 1..) = reading.read(&mut buffer) {
            if sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let until = Instant::now() + Duration::from_mins(1);
    let (mut shown, mut seen) = (String::new(), 0);
    let mut answers = answers.iter();
    let mut answer = answers.next();
    let code = loop {
        assert!(Instant::now() < until, "{shown}");
        if let Ok(bytes) = receiver.recv_timeout(Duration::from_millis(20)) {
            shown.push_str(&String::from_utf8_lossy(&bytes));
        } else if let Some(code) = running.ended() {
            break code;
        }
        if let Some((prompt, text)) = answer
            && shown.get(seen..).is_some_and(|new| new.ends_with(prompt))
        {
            seen = shown.len();
            master.write_all(text.as_bytes()).unwrap();
            answer = answers.next();
        }
    };
    assert!(answer.is_none(), "not asked for {answer:?}: {shown}");
    let echo = tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO);
    Some(Typed { shown, code, echo })
}

#[test]
fn secrets_and_passphrases_are_typed_unseen() {
    let Some((world, component)) = vault() else { return };
    let file = component.to_str().unwrap();
    let token = format!("{SECRET}\n");
    case("login asks for each field, then for a passphrase twice");
    let answers = [
        ("Token: ", token.as_str()),
        ("User name (optional): ", "somebody\n"),
        ("restart): ", "open sesame\n"),
        ("again: ", "open samese\n"),
        ("restart): ", "open sesame\n"),
        ("again: ", "open sesame\n"),
    ];
    let Some(run) = typed(&world, &["login", file, "--key", "acme"], &answers) else { return };
    assert_eq!(run.code, Some(0), "{}", run.shown);
    assert!(run.echo && run.shown.contains("acme: Acme API") && run.shown.contains("They differ."), "{}", run.shown);
    assert!(run.shown.contains("somebody"), "what is no secret is shown: {}", run.shown);
    for hidden in [SECRET, "sesame", "samese"] {
        assert!(!run.shown.contains(hidden), "{hidden}: {}", run.shown);
    }
    let get = call(&world, &component, "get", &json!({ "key": "acme" }), &["--allow", "creds"]);
    assert_eq!(get.exits(0).text(), format!("std:fields token=\"{SECRET}\" user=\"somebody\""));

    case("the passphrase opens it for others who have it");
    let phrase = world.file("phrase", "open sesame");
    with_variables(&world, &["secret", "list"], &[("ACT_PASSPHRASE_FILE", &phrase)]).exits(0).prints("acme");

    case("set asks for the field");
    let set = ["secret", "set", file, "--key", "spare", "--field", "token"];
    let run = typed(&world, &set, &[("token: ", "another\n")]).unwrap();
    assert!(run.code == Some(0) && run.echo && !run.shown.contains("another"), "{}", run.shown);

    case("nothing typed, a closed terminal, an interruption: nothing changes");
    let before = std::fs::read(store_file(&world)).unwrap();
    for (text, code) in [("\n", 2), ("\u{4}", 2), ("half\u{3}", 5)] {
        let run = typed(&world, &set, &[("token: ", text)]).unwrap();
        assert_eq!(run.code, Some(code), "{text:?}: {}", run.shown);
        assert!(run.echo && !run.shown.contains("half"), "{}", run.shown);
    }
    assert_eq!(std::fs::read(store_file(&world)).unwrap(), before);
    forget(&world);
}
