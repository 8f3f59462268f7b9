//! What the policy asks about is answered by a human: at the terminal, or by the client's form.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Client, Guest, Server, World, case, typed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The end of the bar.
const BAR: &str = " s) ";

/// A world and a component that may read and write two files, if somebody says so.
fn world() -> Option<(World, PathBuf)> {
    let world = World::new()?;
    world.file("a.txt", "text of a");
    world.file("b.txt", "text of b");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    Some((world, component))
}

/// `act call` on a terminal, with these keys.
fn call(
    world: &World,
    component: &Path,
    tool: &str,
    arguments: &Value,
    flags: &[&str],
    keys: &[&str],
) -> Option<act_tests::Typed> {
    let arguments = world.fill(&arguments.to_string());
    let flags: Vec<String> = flags.iter().map(|flag| world.fill(flag)).collect();
    let mut all = vec!["call", component.to_str().unwrap(), tool, "--args", &arguments];
    all.extend(flags.iter().map(String::as_str));
    let answers: Vec<(&str, &str)> = keys.iter().map(|key| (BAR, *key)).collect();
    let run = typed(world, &all, &answers)?;
    assert!(run.echo, "the terminal was not put back: {}", run.shown);
    Some(run)
}

#[test]
fn each_key_at_the_terminal() {
    let Some((world, component)) = world() else { return };
    let read = json!({ "path": "{D}/a.txt" });
    let yes = world.fill("? ask-allow  wasi:filesystem  read {D}/a.txt   allowed by user");
    let no = world.fill("? ask-deny  wasi:filesystem  read {D}/a.txt   denied by user");
    for (keys, code, line) in [
        (&["y"][..], 0, yes.clone()),
        (&["a"], 0, format!("{yes}, for this session")),
        (&["n"], 4, no.clone()),
        (&["d"], 4, format!("{no}, for this session")),
        // Everything is shown, and asked again.
        (&["e", "y"], 0, yes.clone()),
        // What is no answer: another key, a line break, a paste, an arrow key, the end of input, a letter of two bytes.
        (&["x", "n"], 4, no.clone()),
        (&["\n", "Y", "y"], 0, yes.clone()),
        (&["yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", "n"], 4, no.clone()),
        (&["y\n", "n"], 4, no.clone()),
        (&["\u{1b}[A", "n"], 4, no.clone()),
        (&["\u{4}", "n"], 4, no.clone()),
        (&["é", "y"], 0, yes),
    ] {
        case(&format!("{keys:?}"));
        let Some(run) = call(&world, &component, "read_file", &read, &[], keys) else { return };
        assert_eq!(run.code, Some(code), "{}", run.shown);
        let told = run.shown.lines().any(|shown| shown.trim_end().starts_with(&format!("audit: {line}")));
        assert!(told, "{line}\n{}", run.shown);
        assert_eq!(run.shown.contains("text of a\r\n"), code == 0, "{}", run.shown);
        // What a lasting answer covers stands there before any key is pressed.
        let covers = world.fill("a and d cover: wasi:filesystem read {D}/a.txt, until this session ends");
        assert!(run.shown.find(&covers).unwrap() < run.shown.find("[y] once").unwrap(), "{}", run.shown);
        if keys[0] == "e" {
            assert!(run.shown.contains("why it is asked: needs an answer (mode ask)"), "{}", run.shown);
        }
    }
}

#[test]
fn an_interruption_ends_the_run_and_time_ends_the_question() {
    let Some((world, component)) = world() else { return };
    let read = json!({ "path": "{D}/a.txt" });
    let Some(run) = call(&world, &component, "read_file", &read, &[], &["\u{3}"]) else { return };
    assert_eq!((run.code, run.shown.contains("text of a")), (Some(5), false), "{}", run.shown);
    // Its own time stands still meanwhile.
    let flags = ["--consent-timeout", "1s", "--timeout", "500ms"];
    let run = call(&world, &component, "read_file", &read, &flags, &[]).unwrap();
    assert_eq!(run.code, Some(4), "{}", run.shown);
    assert!(run.shown.contains("timed out") && !run.shown.contains("denied by user"), "{}", run.shown);
}

#[test]
fn an_answer_is_about_one_action_on_one_thing() {
    let Some((world, component)) = world() else { return };
    case("reading is not writing");
    let write = json!({ "path": "{D}/a.txt", "text": "new" });
    let Some(run) = call(&world, &component, "write_file", &write, &[], &["n"]) else { return };
    assert!(
        run.code == Some(4) && run.shown.contains(&world.fill("wasi:filesystem  write {D}/a.txt")),
        "{}",
        run.shown
    );
    assert_eq!(world.read("a.txt"), "text of a");
    let run = call(&world, &component, "write_file", &write, &[], &["y"]).unwrap();
    assert_eq!((run.code, world.read("a.txt").as_str()), (Some(0), "new"), "{}", run.shown);
    case("looking is asked about as reading, for a yes to it is one to that");
    let run = call(&world, &component, "stat", &json!({ "path": "{D}/a.txt" }), &[], &["n"]).unwrap();
    assert!(run.shown.contains(&world.fill("wasi:filesystem  read {D}/a.txt")), "{}", run.shown);
    case("a yes for one path is none for another");
    let link = json!({ "from": "{D}/b.txt", "to": "{D}/c.txt" });
    let run = call(&world, &component, "hardlink", &link, &[], &["y", "n"]).unwrap();
    assert!(run.code == Some(4) && !world.path("c.txt").exists(), "{}", run.shown);
    case("what is refused anyway is never asked");
    for flags in [&["--deny", "fs={D}/a.txt"][..], &["--permission", "deny=read({D}/a.txt)"], &["--consent", "never"]] {
        let run = call(&world, &component, "read_file", &json!({ "path": "{D}/a.txt" }), flags, &[]).unwrap();
        assert!(run.code == Some(4) && !run.shown.contains("[y]"), "{}", run.shown);
    }
    let run = call(&world, &component, "read_file", &json!({ "path": "/etc/hostname" }), &[], &[]).unwrap();
    assert!(run.code == Some(4) && !run.shown.contains("[y]"), "{}", run.shown);
    case("a tool call");
    let flags = ["--allow", "fs", "--permission", "ask=tool(t.read_file)"];
    for (key, code) in [("y", 0), ("n", 4), ("\u{3}", 5)] {
        let run = call(&world, &component, "read_file", &json!({ "path": "{D}/a.txt" }), &flags, &[key]).unwrap();
        assert_eq!(run.code, Some(code), "{}", run.shown);
    }
}

#[test]
fn an_answer_opens_the_kernels_tables_for_that_port_alone() {
    let Some(world) = World::new() else { return };
    let (server, other) = (Server::start("127.0.0.1").unwrap(), Server::start("127.0.0.1").unwrap());
    let component = world.pack(Guest::Files, &[], &json!([{ "host": "127.0.0.1" }]));
    let connect = |server: &Server| json!({ "address": format!("127.0.0.1:{}", server.port()), "send": "hello" });
    let Some(run) = call(&world, &component, "tcp", &connect(&server), &[], &["y"]) else { return };
    assert_eq!((run.code, server.accepted()), (Some(0), 1), "{}", run.shown);
    let run = call(&world, &component, "tcp", &connect(&other), &[], &["n"]).unwrap();
    assert_eq!((run.code, other.accepted()), (Some(4), 0), "{}", run.shown);
}

/// A client whose user answers each form so; `None`: with an error.
struct Answering<'a> {
    client: Client,
    answer: &'a dyn Fn(&Value) -> Option<Value>,
    asked: Vec<Value>,
}

impl<'a> Answering<'a> {
    fn start(world: &World, component: &Path, flags: &[&str], answer: &'a dyn Fn(&Value) -> Option<Value>) -> Self {
        let client = Client::with_capabilities(world, component, flags, json!({ "elicitation": {} }));
        Self { client, answer, asked: Vec::new() }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.client.begin("tools/call", json!({ "name": tool, "arguments": arguments }));
        loop {
            let mut message = self.client.receive();
            if message["method"] == json!("elicitation/create") {
                let params = message["params"].take();
                let reply = match (self.answer)(&params) {
                    Some(result) => json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }),
                    None => {
                        json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32601, "message": "no" } })
                    }
                };
                self.asked.push(params);
                if !reply["result"]["silence"].is_boolean() {
                    self.client.send(&reply);
                }
            } else if message["id"] == json!(id) && message.get("method").is_none() {
                return message["result"].take();
            }
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as every answer is given")]
fn accept(answer: &str) -> Option<Value> {
    Some(json!({ "action": "accept", "content": { "answer": answer } }))
}

/// What a user answers to a form.
type Answer = fn(&Value) -> Option<Value>;

#[test]
fn the_clients_user_answers() {
    let Some((world, component)) = world() else { return };
    let read = || json!({ "path": world.fill("{D}/a.txt") });
    let cases: &[(&str, Answer, [bool; 2], usize, &str)] = &[
        ("once", |_| accept("once"), [true, true], 2, "? ask-allow  wasi:filesystem  read {D}/a.txt   allowed by user"),
        ("session", |_| accept("session"), [true, true], 1, "allowed by user, for this session"),
        ("deny", |_| accept("deny"), [false, false], 2, "? ask-deny  wasi:filesystem  read {D}/a.txt   denied by user"),
        ("deny-session", |_| accept("deny-session"), [false, false], 1, "denied by user before"),
        ("decline", |_| Some(json!({ "action": "decline" })), [false, false], 2, "denied by user"),
        ("cancel", |_| Some(json!({ "action": "cancel" })), [false, false], 2, "dismissed by user"),
        ("an error", |_| None, [false, false], 2, "the client could not ask"),
        ("no answer of the form", |_| accept("yes please"), [false, false], 2, "the client could not ask"),
        (
            "more than the form",
            |_| Some(json!({ "action": "accept", "content": { "answer": "once", "x": 1 } })),
            [false, false],
            2,
            "the client could not ask",
        ),
        ("silence", |_| Some(json!({ "silence": true })), [false, false], 2, "timed out"),
    ];
    for (name, answer, allowed, asked, line) in cases {
        case(name);
        let mut user = Answering::start(&world, &component, &["--consent-timeout", "700ms"], answer);
        for allowed in allowed {
            let result = user.call("read_file", read());
            assert_eq!(result["isError"] != json!(true), *allowed, "{result}");
            assert_eq!(result.to_string().contains("text of a"), *allowed, "{result}");
        }
        assert_eq!(user.asked.len(), *asked, "{:?}", user.asked);
        let form = &user.asked[0]["requestedSchema"];
        assert_eq!(form["required"], json!(["answer"]), "{form}");
        let message = user.asked[0]["message"].as_str().unwrap();
        assert!(message.contains(&world.fill("wasi:filesystem  read {D}/a.txt")), "{message}");
        let run = user.client.finish();
        run.exits(if allowed[1] { 0 } else { 4 }).says(&world.fill(line)).never_says("no prompt channel");
    }
    case("a client without forms is told apart from a refusal");
    let mut client = Client::start(&world, &component, &[]);
    assert_eq!(client.call("read_file", read(), None)["isError"], json!(true));
    let run = client.finish();
    run.exits(4).says("no prompt channel — every access will be denied: wasi:filesystem").never_says("by user");
}

#[test]
fn writing_is_asked_after_reading_was_allowed_for_the_session() {
    let Some((world, component)) = world() else { return };
    let first = |params: &Value| {
        let write = params["message"].as_str().unwrap().contains("write ");
        accept(if write { "deny" } else { "session" })
    };
    let mut user = Answering::start(&world, &component, &[], &first);
    let path = world.fill("{D}/a.txt");
    assert_ne!(user.call("read_file", json!({ "path": path }))["isError"], json!(true));
    assert_eq!(user.call("write_file", json!({ "path": path, "text": "W" }))["isError"], json!(true));
    assert_eq!((user.asked.len(), world.read("a.txt").as_str()), (2, "text of a"));
    // What was answered for the session holds for that path alone.
    user.call("read_file", json!({ "path": world.fill("{D}/b.txt") }));
    assert_eq!(user.asked.len(), 3);
    user.client.finish().exits(0);
}

/// A call that the client cancels stops, whatever the component does, and the next one works.
#[test]
fn a_cancelled_call_stops() {
    let Some((world, component)) = world() else { return };
    let mut client = Client::start(&world, &component, &["--allow", "fs"]);
    let read = json!({ "path": world.fill("{D}/a.txt") });
    assert_ne!(client.call("read_file", read.clone(), None)["isError"], json!(true));
    let id = client.begin("tools/call", json!({ "name": "spin", "arguments": {} }));
    let spinning = act_tests::process::spinning_guest(client.pid());
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    let limit = std::time::Duration::from_secs(20);
    act_tests::process::wait_until(limit, "the guest ends", || !act_tests::process::alive(spinning));
    assert_ne!(client.call("read_file", read, None)["isError"], json!(true));
    client.finish().exits(0).says("● spin  cancelled");
}
