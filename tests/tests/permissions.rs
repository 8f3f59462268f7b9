//! Permission rules by the built program: explained, tested, judged over tool calls and over what the calls do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Run, Running, World, case, require, root};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A world with a configuration, a component named `t` that declares the world, and two files.
fn world(config: &str) -> Option<(World, PathBuf)> {
    let world = World::new()?;
    configure(&world, config);
    world.file("a.txt", "text of a");
    world.file("secret/k", "the secret");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    Some((world, component))
}

fn configure(world: &World, config: &str) {
    fs::create_dir_all(world.home.join(".config/act")).unwrap();
    fs::write(world.home.join(".config/act/config.toml"), world.fill(config)).unwrap();
}

fn read(world: &World, component: &Path, file: &str, flags: &[&str]) -> Run {
    world.call(component, "read_file", &json!({ "path": file }), flags)
}

fn explain(world: &World, flags: &[&str]) -> Run {
    world.run(&[&["permissions", "explain"], flags].concat())
}

#[test]
fn the_seed_pages_examples_run_as_written() {
    let Some(world) = World::new() else { return };
    explain(&world, &["read(./notes.txt)"]).exits(0).prints("read(./notes.txt) for agent: Allow — `read(./**)` in the allow list\n  by allow `read(./**)` [built-in] <built-in default>:2");
    configure(
        &world,
        "consent = \"once\"\n[permissions]\ndeny  = [\"creds(*)\"]\nask   = [\"write(./**)\", \"spawn(*)\", \"net(domain: *)\"]\nallow = [\"read(./**)\"]\npush  = \"ask\"\n[permissions.subject.\"ext:sqlite\"]\nallow = [\"read(/data/**)\"]\n",
    );
    for (call, verdict, rule) in [
        ("creds(github)", "Deny", "deny `creds(*)` [user] ~/.config/act/config.toml:3"),
        ("write(./x)", "Ask", "ask `write(./**)` [user] ~/.config/act/config.toml:4"),
        ("spawn(cmd: git status)", "Ask", "ask `spawn(*)` [user] ~/.config/act/config.toml:4"),
        ("net(domain: docs.rs)", "Ask", "ask `net(domain: *)` [user] ~/.config/act/config.toml:4"),
        ("read(./x)", "Allow", "allow `read(./**)` [user] ~/.config/act/config.toml:5"),
        ("tool(git.push)", "Ask", "ask `push: tool(git.push)` [user] ~/.config/act/config.toml:6"),
    ] {
        let run = explain(&world, &[call]);
        run.exits(0).prints(&format!("{call} for agent: {verdict} — ")).prints(&format!("\n  by {rule}"));
    }
    // The rule of the key replaced the floor of its aspect.
    explain(&world, &["tool(sqlite.query)"]).exits(0).prints("for agent: Deny — no rule allows it");
}

#[test]
fn explain_with_a_component_tells_both_gates_and_who_holds_it() {
    let Some((world, component)) = world("[permissions]\ndeny = [\"read({D}/secret/**)\"]\n") else { return };
    let shown = component.to_str().unwrap();
    let asked = |call: &str, flags: &[&str]| explain(&world, &[&[call, "--component", shown], flags].concat());
    asked("read(/etc/passwd)", &["--allow", "fs"])
        .exits(0)
        .prints("read(/etc/passwd) for ext:t: Deny — outside ceiling")
        .prints("  ceiling says deny: outside ceiling")
        .prints("  enforced by host check, broker, Landlock");
    asked("read({D}/secret/k)", &["--allow", "fs"])
        .prints("for ext:t: Deny — `read(")
        .prints("[user] ~/.config/act/config.toml:2")
        // The tree around it is not opened by Landlock, but file by file by the broker.
        .prints("  enforced by host check, broker, Landlock");
    asked("read({D}/a.txt)", &["--allow", "fs"]).prints("for ext:t: Allow — ");
    asked("read({D}/a.txt)", &[]).prints("for ext:t: Ask — ").prints("grant says ask");
    asked("read({D}/a.txt)", &["--deny", "fs"])
        .prints("for ext:t: Deny — not granted")
        .prints("(mode deny; cli, <command line> --deny fs)");
    asked("net(domain: docs.rs)", &[]).prints("Deny — outside ceiling").prints("enforced by");
    case("a link is judged where it leads");
    std::os::unix::fs::symlink("secret/k", world.path("link")).unwrap();
    asked("read({D}/link)", &["--allow", "fs"]).prints("for ext:t: Deny — ");
    case("JSON");
    let json = asked("read({D}/secret/k)", &["--allow", "fs", "--json"]);
    let value: Value = serde_json::from_str(&json.exits(0).text()).unwrap();
    assert_eq!((&value["verdict"], &value["subject"]), (&json!("deny"), &json!("ext:t")));
    assert_eq!((&value["rule"]["layer"], &value["rule"]["line"]), (&json!("user"), &json!(2)));
    assert_eq!(value["enforced_by"], json!(["host-check", "broker", "landlock"]));
    case("one operation, as exactly as it is judged");
    asked("stat({D}/secret)", &["--allow", "fs"]).prints(&world.fill("stat({D}/secret) for ext:t: Deny — `read("));
    asked("list({D})", &["--allow", "fs"]).prints(&world.fill("list({D}) for ext:t: Allow — "));
    asked("http(POST https://a.test)", &[]).prints("Deny — outside ceiling").prints("  enforced by host check");
    explain(&world, &["stat({D}/a.txt)"]).exits(2).says("an operation of a component: name its file with --component");
    explain(&world, &["http(POST a.test)", "--component", shown]).exits(2).says("no scheme");
    case("what cannot be asked");
    for (arguments, what) in [
        (&["read(./*)"][..], "a pattern"),
        (&["reed(./x)"], "unknown aspect `reed`"),
        (&["read(./x)", "--subject", "ext:t"], "--component"),
        (&["read(./x)", "--subject", "ext:other", "--component", shown], "is called t"),
        (&["read(./x)", "--subject", "bot"], "unknown subject"),
    ] {
        explain(&world, arguments).exits(2).says(what);
    }
}

#[test]
fn what_is_explained_is_what_happens() {
    let config = "[permissions]\ndeny = [\"read({D}/secret/**)\"]\nask = [\"read({D}/asked)\"]\n";
    let Some((world, component)) = world(config) else { return };
    world.file("asked", "asked");
    let shown = component.to_str().unwrap().to_owned();
    for (file, flags, verdict) in [
        ("{D}/a.txt", &["--allow", "fs"][..], "Allow"),
        ("{D}/secret/k", &["--allow", "fs"], "Deny"),
        ("{D}/asked", &["--allow", "fs"], "Ask"),
        ("{D}/asked", &["--allow", "fs", "--consent", "always"], "Ask"),
        ("{D}/secret/k", &["--allow", "fs", "--consent", "always"], "Deny"),
        ("{D}/a.txt", &[], "Ask"),
        ("{D}/a.txt", &["--consent", "always"], "Ask"),
        ("{D}/a.txt", &["--permission", "deny=read({D}/a.txt)", "--allow", "fs"], "Deny"),
        ("/etc/passwd", &["--allow", "fs", "--consent", "always"], "Deny"),
    ] {
        case(&format!("{file} {flags:?}"));
        let call = format!("read({file})");
        let explained = explain(&world, &[&[call.as_str(), "--component", shown.as_str()], flags].concat());
        explained.exits(0).prints(&format!("for ext:t: {verdict} — "));
        let passes = verdict == "Allow" || verdict == "Ask" && flags.contains(&"always");
        let run = read(&world, &component, file, flags);
        assert_eq!(run.code, Some(if passes { 0 } else { 4 }), "{}", run.err);
        match verdict {
            "Deny" => run.says("✗ deny  wasi:filesystem  read "),
            "Ask" if !passes => run.says("? ask-deny  wasi:filesystem  ").says("no prompt channel"),
            _ => run.never_says("deny  wasi:filesystem"),
        };
    }
    read(&world, &component, "{D}/secret/k", &["--allow", "fs"])
        .says("denied by read(")
        .says("(user, ~/.config/act/config.toml:2)");
    case("consent never");
    read(&world, &component, "{D}/a.txt", &["--consent", "never"]).exits(4).says("consent never");
    read(&world, &component, "{D}/a.txt", &["--consent", "maybe"]).exits(2).says("maybe");
}

/// A descriptor for reading and writing reads, and so does what is moved or linked to where reading is allowed.
#[test]
fn a_read_rule_holds_by_whatever_way() {
    let Some((world, component)) = world("[permissions]\ndeny = [\"read({D}/secret/**)\"]\n") else { return };
    let open = |path: &str, flags: &str| ("open", json!({ "path": format!("{{D}}/{path}"), "flags": flags }));
    let two = |from: &str, to: &str| json!({ "from": format!("{{D}}/{from}"), "to": format!("{{D}}/{to}") });
    let rows = [
        (open("secret/k", "read"), false),
        (open("secret/k", "write"), true),
        (open("secret/k", "read,write"), false),
        (open("secret/new", "create,read,write"), false),
        (open("secret/new", "create,write"), true),
        // Neither reading nor writing was asked for: such a descriptor reads.
        (open("secret/new", "truncate"), false),
        (("rename", two("secret/k", "k")), false),
        (("hardlink", two("secret/k", "k")), false),
        (("rename", two("secret", "public")), false),
        (("rename", two("a.txt", "secret/a.txt")), true),
    ];
    for ((tool, arguments), passes) in &rows {
        case(&format!("{tool} {arguments}"));
        let run = world.call(&component, tool, arguments, &["--allow", "fs"]);
        assert_eq!(run.code, Some(if *passes { 0 } else { 4 }), "{}", run.err);
        assert!(world.path("secret/k").exists() && !world.path("k").exists());
    }
    case("control: without the rule all of it works");
    configure(&world, "");
    world.file("a.txt", "text of a");
    for ((tool, arguments), _) in rows.iter().filter(|((tool, _), _)| *tool == "open" || *tool == "hardlink") {
        world.call(&component, tool, arguments, &["--allow", "fs"]).exits(0);
    }
}

#[test]
fn tool_calls_are_judged_before_the_component_runs() {
    let Some((world, component)) = world("") else { return };
    let allow = &["--allow", "fs"];
    read(&world, &component, "{D}/a.txt", allow).exits(0).prints("text of a");
    configure(&world, "[permissions]\ndeny = [\"tool(t.read_file)\"]\n");
    let run = read(&world, &component, "{D}/a.txt", allow);
    run.exits(4)
        .says("✗ deny  tool  call t.read_file   denied by tool(t.read_file) (user, ~/.config/act/config.toml:2)")
        .says("● read_file  denied ")
        .says("Error: std:capability-denied: the policy does not let the tool `read_file` be called")
        .never_says("isolation");
    assert_eq!(run.text(), "");
    world.call(&component, "list_dir", &json!({ "path": "{D}" }), allow).never_says("✗ deny  tool");
    configure(&world, "[permissions]\nask = [\"tool(*)\"]\n");
    read(&world, &component, "{D}/a.txt", allow)
        .exits(4)
        .says("? ask-deny  tool  call t.read_file   no prompt channel");
    read(&world, &component, "{D}/a.txt", &["--allow", "fs", "--consent", "always"]).exits(0).prints("text of a");
    configure(&world, "[permissions]\nallow = [\"tool(other.*)\"]\n");
    read(&world, &component, "{D}/a.txt", allow).exits(4).says("no rule allows it");
}

#[test]
fn case_files_are_run() {
    let Some((world, component)) = world("[permissions]\ndeny = [\"read(./.env)\"]\n") else { return };
    let component = component.to_str().unwrap();
    let file = |text: &str| world.file("cases.toml", world.fill(text)).to_str().unwrap().to_owned();
    let good = file(&format!(
        "[[case]]\nrequest = \"read(./.env)\"\nexpect = \"deny\"\nrule = \"read(./.env)\"\n[[case]]\nrequest = \"read(./a)\"\nexpect = \"allow\"\n[[case]]\nrequest = \"read(/etc/passwd)\"\ncomponent = \"{component}\"\nexpect = \"deny\"\nreason = \"outside ceiling\"\n"
    ));
    world
        .run(&["permissions", "test", &good])
        .exits(0)
        .prints("ok    read(./.env) for agent")
        .prints("3 passed, 0 failed");
    let bad = file(
        "[[case]]\nrequest = \"read(./.env)\"\nexpect = \"allow\"\n[[case]]\nrequest = \"read(./a)\"\nexpect = \"allow\"\n",
    );
    world
        .run(&["permissions", "test", &bad])
        .exits(1)
        .prints("FAIL  read(./.env) for agent")
        .prints(":1: expected allow, found deny: denied by read(./.env)")
        .prints("1 passed, 1 failed");
    let broken = file("[[case]]\nrequest = \"read(./*)\"\nexpect = \"allow\"\n");
    world.run(&["permissions", "test", &broken]).exits(2).says("cases.toml:1: ").says("a pattern");
    world.run(&["permissions", "test", "/nonexistent"]).exits(2).says("/nonexistent");
}

#[test]
fn a_workspace_speaks_only_where_it_is_trusted() {
    let Some((world, component)) = world("") else { return };
    world.file(".act/config.toml", world.fill("[permissions]\ndeny = [\"read({D}/a.txt)\"]\n"));
    let flags = &["--allow", "fs"];
    let run = read(&world, &component, "{D}/a.txt", flags);
    run.exits(0).says(".act/config.toml is not read: to trust it, add \"");
    configure(&world, "trusted-workspaces = [\"{D}\"]\n");
    let run = read(&world, &component, "{D}/a.txt", flags);
    run.exits(4).says("denied by read(").says("(workspace, ").never_says("is not read");
    case("the rules of a trusted workspace cannot be rewritten by what they bind");
    let arguments = json!({ "path": "{D}/.act/config.toml", "text": "" });
    world.call(&component, "write_file", &arguments, flags).exits(4).says("✗ deny  wasi:filesystem  write ");
    case("its own faults are told by their place");
    world.file(".act/config.toml", "[permissions]\ndeny = [\"reed(./x)\"]\n");
    read(&world, &component, "{D}/a.txt", flags).exits(2).says("config.toml:2: unknown aspect `reed`");
}

#[test]
fn metadata_of_a_profile_goes_with_calls() {
    let Some((world, component)) =
        world("[profile.p.metadata]\n\"std:locale\" = \"de\"\n[profile.p.policy]\nfs = \"open\"\n")
    else {
        return;
    };
    read(&world, &component, "{D}/a.txt", &["--profile", "p"]).exits(0).prints("text of a");
    configure(&world, "[profile.p.metadata]\nx = 1.5\n");
    read(&world, &component, "{D}/a.txt", &["--profile", "p"]).exits(2).says("config.toml:2: metadata holds");
}

/// `act` with `managed` as the machine's `/etc/act/managed.toml`: in a mount namespace with an `/etc` of its own.
fn with_managed(world: &World, prepare: &str, arguments: &[&str]) -> Run {
    let script =
        format!("mount -t tmpfs -o mode=755 none /etc && mkdir -m 755 /etc/act && {prepare} && exec \"$0\" \"$@\"");
    let mut command = world.command(Path::new("/usr/bin/unshare"));
    command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &world.fill(&script)]);
    command.arg(world.programs().join("act")).args(arguments.iter().map(|a| world.fill(a)));
    Running::start(&mut command).finish()
}

#[test]
fn the_managed_file_bounds_everyone_and_must_be_roots() {
    let Some(()) = require(root()) else { return };
    let Some((world, component)) = world("") else { return };
    let component = component.to_str().unwrap();
    let arguments = world.fill(r#"{"path": "{D}/secret/k"}"#);
    let call = ["call", component, "read_file", "--args", &arguments, "--allow", "fs", "--allow", "http"];
    world.run(&call).exits(0).prints("the secret");
    let rules = world.file(
        "managed",
        world.fill("consent = \"once\"\n[permissions]\ndeny = [\"read({D}/secret/**)\"]\n[policy]\nhttp = \"deny\"\n"),
    );
    let install = format!("cp {} /etc/act/managed.toml && chmod 644 /etc/act/managed.toml", rules.display());
    let run = with_managed(&world, &install, &call);
    run.exits(4)
        .says("denied by read(")
        .says("(managed, /etc/act/managed.toml:3)")
        .says("mode open of wasi:http (cli, <command line> --allow http) cannot relax the managed mode deny (managed, /etc/act/managed.toml:5)");
    case("an attempt to relax it is told with both places");
    let relax = [&call[..], &["--permission", "allow=read({D}/secret/k)"]].concat();
    with_managed(&world, &install, &relax).exits(4).says("cannot relax the managed deny read(");
    case("consent is bounded");
    let asked =
        ["call", component, "read_file", "--args", &world.fill(r#"{"path": "{D}/a.txt"}"#), "--consent", "always"];
    world.run(&asked).exits(0);
    with_managed(&world, &install, &asked).exits(4).says("no prompt channel");
    case("one that others could have written stops everything");
    for (change, what) in [
        ("chown 1000 /etc/act/managed.toml", "belongs to user 1000"),
        ("chmod 666 /etc/act/managed.toml", "mode 666"),
        ("chmod 777 /etc/act", "/etc/act: it belongs to"),
        ("mv /etc/act/managed.toml /etc/act/x && ln -s x /etc/act/managed.toml", "/etc/act/managed.toml: "),
        ("rm /etc/act/managed.toml && mkfifo /etc/act/managed.toml", "/etc/act/managed.toml: "),
        (
            "echo 'profile = 1' > /etc/act/managed.toml",
            "/etc/act/managed.toml:1: unknown key `profile` in the managed configuration",
        ),
    ] {
        let run = with_managed(&world, &format!("{install} && {change}"), &call);
        run.exits(2).says(what);
    }
}
