//! Permission rules: grammar, order, subjects, layers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::{
    Access, Call, Case, Config, Decision, Engine, Explanation, KernelPlan, Layer, Layers, Manifest, Permissions,
    Policy, Reason, Request,
};
use common::built;
use common::{ANCHORS, Operator, decide, declares_files, file, manifest, resolve, word};

/// The engine for an agent's own doings under a configuration.
fn agent(text: &str, client: Option<&str>) -> Engine {
    let config = Config::parse(text, "config.toml", Layer::User, &ANCHORS).unwrap();
    let layers = Layers { user: Some(&config.section), client, workspace_root: Some("/ws"), ..Layers::default() };
    let policy = Policy::of_agent(&layers).0;
    built::agent(&policy, text, client);
    Engine::compile(policy).unwrap()
}

/// What an agent is told about a call: the decision and the rule's text.
fn asked(engine: &Engine, call: &str) -> (Decision, String) {
    let call = Call::parse(call, &ANCHORS).unwrap();
    let explanation = Explanation::new(&call, engine, None);
    let request = call.request(engine.policy());
    assert_eq!(explanation.verdict, engine.decide(&request).decision);
    built::compare(engine, &call, &explanation);
    (explanation.verdict, explanation.rule.map(|rule| rule.text).unwrap_or_default())
}

fn rows(config: &str, cases: &[(&str, &str, &str)]) {
    let engine = agent(config, None);
    for (call, decision, rule) in cases {
        let (found, by) = asked(&engine, call);
        let found = format!("{found:?}").to_lowercase();
        assert_eq!((found.as_str(), by.as_str()), (*decision, *rule), "{call} under {config}");
    }
}

#[test]
fn the_floor_speaks_for_the_agent() {
    rows(
        "",
        &[
            ("read(./notes.txt)", "allow", "read(./**)"),
            ("read(/etc/passwd)", "deny", ""),
            ("write(./a/b)", "allow", "write(./**)"),
            ("write(/tmp/x)", "deny", ""),
            ("spawn(cmd: git push)", "allow", "spawn(*)"),
            ("tool(sqlite.query)", "allow", "tool(*)"),
            ("net(domain: docs.rs)", "deny", ""),
            ("creds(github)", "deny", ""),
            ("ui(band)", "deny", ""),
        ],
    );
    // An allow or an ask replaces the floor of its aspect, a deny only narrows it.
    rows(
        "[permissions]\nallow = [\"read(/data/**)\"]\n",
        &[
            ("read(/data/x)", "allow", "read(/data/**)"),
            ("read(./notes.txt)", "deny", ""),
            ("write(./a)", "allow", "write(./**)"),
        ],
    );
    rows(
        "[permissions]\ndeny = [\"read(./.env)\"]\n",
        &[("read(./.env)", "deny", "read(./.env)"), ("read(./notes.txt)", "allow", "read(./**)")],
    );
    rows(
        "[permissions]\nask = [\"read(./secret/**)\"]\n",
        &[("read(./notes.txt)", "deny", ""), ("read(./secret/k)", "ask", "read(./secret/**)")],
    );
}

#[test]
fn every_deny_first_then_ask_then_allow() {
    rows(
        r#"[permissions]
deny = ["read(./**/*.key)", "net(domain: 10.0.0.0/8)"]
ask = ["read(./src/**)", "net(domain: *)"]
allow = ["read(./src/main.rs)", "read(./**)", "net(domain: docs.rs)", "net(domain: *.example.com:443)"]
"#,
        &[
            ("read(./src/a.key)", "deny", "read(./**/*.key)"),
            // Specificity carves nothing out.
            ("read(./src/main.rs)", "ask", "read(./src/**)"),
            ("read(./README.md)", "allow", "read(./**)"),
            ("net(domain: docs.rs)", "ask", "net(domain: *)"),
            ("net(domain: 10.1.2.3:80)", "deny", "net(domain: 10.0.0.0/8)"),
            ("net(domain: [::ffff:10.1.2.3])", "deny", "net(domain: 10.0.0.0/8)"),
            ("net(domain: [64:ff9b::a01:203])", "deny", "net(domain: 10.0.0.0/8)"),
        ],
    );
    rows(
        "[permissions]\nallow = [\"net(domain: *.example.com:443)\", \"net(domain: docs.rs)\"]\n",
        &[
            ("net(domain: a.example.com:443)", "allow", "net(domain: *.example.com:443)"),
            ("net(domain: a.example.com:80)", "deny", ""),
            ("net(domain: example.com:443)", "allow", "net(domain: *.example.com:443)"),
            ("net(domain: notexample.com:443)", "deny", ""),
            ("net(domain: DOCS.rs.)", "allow", "net(domain: docs.rs)"),
        ],
    );
}

#[test]
fn actions_stand_for_rules() {
    let config = "[permissions]\nshell = \"deny\"\nnetwork = \"ask\"\npush = \"ask\"\ncommit = \"allow\"\npr = \"deny\"\nallow = [\"tool(*)\"]\n";
    rows(
        config,
        &[
            ("tool(builtin.bash)", "deny", "shell: tool(builtin.bash)"),
            ("net(domain: x.org)", "ask", "network: net(domain: *)"),
            ("tool(git.push)", "ask", "push: tool(git.push)"),
            ("tool(git.commit)", "allow", "commit: tool(git.commit)"),
            ("tool(git.pr)", "deny", "pr: tool(git.pr)"),
        ],
    );
    let engine = agent(config, None);
    let text = Explanation::new(&Call::parse("tool(git.push)", &ANCHORS).unwrap(), &engine, None).text();
    assert!(text.contains("by ask `push: tool(git.push)` [user] config.toml:4\n"), "{text}");
}

#[test]
fn an_empty_alternative_matches_nothing_more_and_nothing_less() {
    rows(
        "[permissions]\ndeny = [\"creds({,x}y)\"]\nallow = [\"creds(*)\"]\n",
        &[
            ("creds(y)", "deny", "creds({,x}y)"),
            ("creds(xy)", "deny", "creds({,x}y)"),
            ("creds(x)", "allow", "creds(*)"),
        ],
    );
}

#[test]
fn a_wildcard_stands_for_a_character() {
    rows(
        "[permissions]\ndeny = [\"creds(pin-?)\", \"creds([é-ö])\", \"creds([!a]!)\"]\nallow = [\"creds(*)\"]\n",
        &[
            ("creds(pin-1)", "deny", "creds(pin-?)"),
            ("creds(pin-é)", "deny", "creds(pin-?)"),
            ("creds(pin-𝄞)", "deny", "creds(pin-?)"),
            ("creds(pin-12)", "allow", "creds(*)"),
            ("creds(ê)", "deny", "creds([é-ö])"),
            ("creds(e)", "allow", "creds(*)"),
            ("creds(€!)", "deny", "creds([!a]!)"),
            ("creds(a!)", "allow", "creds(*)"),
        ],
    );
}

#[test]
fn commands_are_words() {
    rows(
        r#"[permissions]
deny = ["spawn(cmd: git push)", "spawn(cmd: /usr/bin/curl)", "spawn(cmd: rm * \"a b\")"]
allow = ["spawn(*)"]
"#,
        &[
            ("spawn(cmd: git push)", "deny", "spawn(cmd: git push)"),
            ("spawn(cmd: git push --force origin)", "deny", "spawn(cmd: git push)"),
            ("spawn(cmd: /usr/bin/git push)", "deny", "spawn(cmd: git push)"),
            ("spawn(cmd: git \"push --force\")", "allow", "spawn(*)"),
            ("spawn(cmd: git pushx)", "allow", "spawn(*)"),
            ("spawn(cmd: gitpush)", "allow", "spawn(*)"),
            ("spawn(cmd: git)", "allow", "spawn(*)"),
            ("spawn(cmd: /usr/bin/curl http://x)", "deny", "spawn(cmd: /usr/bin/curl)"),
            ("spawn(cmd: /opt/curl)", "allow", "spawn(*)"),
            ("spawn(cmd: rm -r \"a b\")", "deny", "spawn(cmd: rm * \"a b\")"),
            ("spawn(cmd: rm -r a b)", "allow", "spawn(*)"),
        ],
    );
}

#[test]
fn dots_in_tool_names_never_widen() {
    let engine = |config: &str| agent(config, None);
    let tool = |engine: &Engine, component: &str, tool: &str| {
        decide(engine, &Request::Tool { component: component.into(), tool: tool.into() }).decision
    };
    let allow = engine("[permissions]\nallow = [\"tool(a.b.c)\", \"tool(\\\"x.y\\\".*)\"]\n");
    assert_eq!(tool(&allow, "a", "b.c"), Decision::Allow);
    assert_eq!(tool(&allow, "a.b", "c"), Decision::Deny);
    assert_eq!(tool(&allow, "x.y", "z"), Decision::Allow);
    assert_eq!(tool(&allow, "x", "y.z"), Decision::Deny);
    let deny = engine("[permissions]\ndeny = [\"tool(a.b.c)\", \"tool(x.*)\", \"tool(*.drop_*)\"]\n");
    for (component, name) in [("a", "b.c"), ("a.b", "c"), ("x", "t"), ("x.y", "t"), ("db", "drop_table")] {
        assert_eq!(tool(&deny, component, name), Decision::Deny, "{component} {name}");
    }
    assert_eq!(tool(&deny, "db", "query"), Decision::Allow);
}

#[test]
fn placements() {
    rows(
        "[permissions]\nallow = [\"ui(pane.right)\"]\n",
        &[("ui(pane.right)", "allow", "ui(pane.right)"), ("ui(band)", "deny", "")],
    );
    rows(
        "[permissions]\nallow = [\"ui(*)\"]\nask = [\"ui(footer)\"]\n",
        &[("ui(hidden)", "allow", "ui(*)"), ("ui(footer)", "ask", "ui(footer)")],
    );
}

fn component(config: &str, declared: &Manifest, flags: &[&str]) -> Engine {
    resolve(declared, &Operator { config, flags, ..Operator::default() }).0
}

#[test]
fn written_rules_of_the_agent_bind_components_and_the_floor_does_not() {
    let declared = declares_files(&[("/data/**", "rw"), ("/ws/**", "rw")]);
    let read = |config: &str, path: &str| {
        let engine = component(config, &declared, &["+fs"]);
        let verdict = file(&engine, Access::Read, path);
        (word(verdict), verdict.reason)
    };
    // No rules at all: the grant decides.
    assert_eq!(read("", "/data/x").0, "allow");
    let deny = "[permissions]\ndeny = [\"read(/data/secret/**)\"]\n";
    assert_eq!(read(deny, "/data/secret/k").0, "rule");
    assert_eq!(read(deny, "/data/x").0, "allow");
    let ask = "[permissions]\nallow = [\"read(/data/**)\"]\nask = [\"read(/data/a)\"]\n";
    assert_eq!(read(ask, "/data/a"), ("ask", Reason::AskRule));
    // An allow passes its own gate only: the ceiling and the grant stand.
    assert_eq!(read("[permissions]\nallow = [\"read(/**)\"]\n", "/etc/passwd").0, "ceiling");
    let denied = component("[permissions]\nallow = [\"read(/**)\"]\n", &declared, &["+fs", "-fs=/data/x"]);
    assert_eq!(word(file(&denied, Access::Read, "/data/x")), "rule");
    let asked = component("[permissions]\nallow = [\"read(/**)\"]\n", &declared, &[]);
    assert_eq!(word(file(&asked, Access::Read, "/data/x")), "ask");
    // Read is not write.
    let write = "[permissions]\ndeny = [\"write(/data/**)\"]\n";
    assert_eq!(read(write, "/data/x").0, "allow");
    assert_eq!(word(file(&component(write, &declared, &["+fs"]), Access::Write, "/data/x")), "rule");
}

#[test]
fn rules_of_a_component_refuse_what_they_do_not_list() {
    let declared = declares_files(&[("/data/**", "rw"), ("/other/**", "rw")]);
    let config = "[permissions]\nallow = [\"read(./**)\"]\n[permissions.subject.\"ext:t\"]\nallow = [\"read(/data/**)\"]\n[permissions.subject.\"ext:u\"]\ndeny = [\"read(/**)\"]\n";
    let engine = component(config, &declared, &["+fs"]);
    assert_eq!(word(file(&engine, Access::Read, "/data/x")), "allow");
    let refused = file(&engine, Access::Read, "/other/x");
    assert_eq!((word(refused), refused.reason), ("deny", Reason::NoRuleAllows));
    // Nothing is listed for writing, so that the grant decides.
    assert_eq!(word(file(&engine, Access::Write, "/other/x")), "allow");
    assert_eq!(word(file(&engine, Access::Stat, "/")), "allow");
    assert_eq!(word(file(&engine, Access::List, "/")), "ceiling");
    let plan = KernelPlan::new(&engine);
    assert!(plan.files.iter().all(|subtree| !subtree.exact), "{:?}", plan.files);
}

#[test]
fn clients_only_narrow() {
    let config = "[permissions.subject.\"agent:ide\"]\nallow = [\"read(./src/**)\"]\ndeny = [\"spawn(cmd: git)\"]\n";
    let read = |client, call| asked(&agent(config, client), call).0;
    assert_eq!(read(None, "read(./notes.txt)"), Decision::Allow);
    assert_eq!(read(Some("other"), "read(./notes.txt)"), Decision::Allow);
    assert_eq!(read(Some("ide"), "read(./notes.txt)"), Decision::Deny);
    assert_eq!(read(Some("ide"), "read(./src/a.rs)"), Decision::Allow);
    assert_eq!(read(Some("ide"), "read(/etc/passwd)"), Decision::Deny);
    assert_eq!(read(Some("ide"), "spawn(cmd: git log)"), Decision::Deny);
    // A subject without rules about an aspect inherits.
    assert_eq!(read(Some("ide"), "write(./a)"), Decision::Allow);
}

#[test]
fn all_layers_are_judged_together_and_the_closest_is_named() {
    let declared = declares_files(&[("/data/**", "rw")]);
    let operator = Operator {
        config: "trusted-workspaces = [\"/ws\"]\n[permissions]\ndeny = [\"read(/data/s/**)\"]\n[profile.p.permissions]\nallow = [\"read(/data/s/ok)\"]\n",
        profile: Some("p"),
        workspace: Some("[permissions]\ndeny = [\"read(/data/s/k)\"]\n"),
        managed: Some("[permissions]\ndeny = [\"read(/data/s/k)\", \"tool(t.rm)\"]\n"),
        flags: &["+fs"],
        ..Operator::default()
    };
    let engine = resolve(&declared, &operator).0;
    let reason = |path: &str| engine.policy().reason(&file(&engine, Access::Read, path));
    assert_eq!(reason("/data/s/k"), "denied by read(/data/s/k) (workspace, .act/config.toml:2)");
    assert_eq!(reason("/data/s/ok"), "denied by read(/data/s/**) (user, config.toml:3)");
    assert_eq!(word(decide(&engine, &Request::Tool { component: "t".into(), tool: "rm".into() })), "rule");
    assert_eq!(word(decide(&engine, &Request::Tool { component: "t".into(), tool: "ls".into() })), "allow");
}

#[test]
fn the_managed_layer_bounds_and_attempts_to_relax_it_are_told() {
    let declared = declares_files(&[("/data/**", "rw")]);
    let with = |managed: &'static str, flags: &'static [&'static str], config: &'static str| {
        let (engine, warnings) =
            resolve(&declared, &Operator { managed: Some(managed), flags, config, ..Operator::default() });
        let warnings: Vec<String> = warnings.into_iter().map(|w| w.0).collect();
        (engine, warnings.join("\n"))
    };
    let (engine, warnings) = with(
        "[policy.fs]\nmode = \"open\"\ndeny = [{ path = \"/data/s/**\" }]\n",
        &["+fs=/data/s/k", "+fs=/data/x"],
        "",
    );
    assert_eq!(word(file(&engine, Access::Read, "/data/s/k")), "rule");
    assert_eq!(word(file(&engine, Access::Read, "/data/x")), "allow");
    assert!(warnings.contains("/data/s/k (cli, <command line> --allow fs=/data/s/k) cannot relax the managed deny /data/s/** (managed, managed.toml:3)"), "{warnings}");
    assert!(!warnings.contains("/data/x"), "{warnings}");
    let (engine, warnings) = with("[policy]\nfs = \"deny\"\n", &["+fs"], "");
    assert_eq!(file(&engine, Access::Read, "/data/x").reason, Reason::Managed);
    assert!(warnings.contains("mode open of wasi:filesystem (cli, <command line> --allow fs) cannot relax the managed mode deny (managed, managed.toml:2)"), "{warnings}");
    // A managed layer never grants, and asks whatever the grant says.
    assert_eq!(word(file(&with("[policy]\nfs = \"open\"\n", &[], "").0, Access::Read, "/data/x")), "ask");
    let (engine, _) = with("[policy]\nfs = \"ask\"\n", &["+fs"], "consent = \"always\"\n");
    let verdict = file(&engine, Access::Read, "/data/x");
    assert_eq!((verdict.reason, engine.policy().passes(&verdict)), (Reason::ManagedAsk, false));
    let allowlist = "[policy.fs]\nmode = \"allowlist\"\nallow = [{ path = \"/data/a/**\", mode = \"ro\" }]\n";
    let (engine, _) = with(allowlist, &["+fs"], "");
    assert_eq!(word(file(&engine, Access::Read, "/data/a/x")), "allow");
    assert_eq!(file(&engine, Access::Write, "/data/a/x").reason, Reason::Managed);
    assert_eq!(file(&engine, Access::Read, "/data/b").reason, Reason::Managed);
    let plan = KernelPlan::new(&engine);
    assert_eq!(plan.files.iter().map(|s| (s.path.as_slice(), s.write)).collect::<Vec<_>>(), [(&b"/data/a"[..], false)]);
    let rules = "[permissions]\ndeny = [\"net(domain: *.evil.org)\", \"read(/data/s/**)\"]\n";
    let (_, warnings) = with(
        rules,
        &["+fs"],
        "[permissions]\nallow = [\"net(domain: a.evil.org)\", \"read(/data/s/x)\", \"read(/data/t)\"]\n",
    );
    assert_eq!(warnings.lines().count(), 2, "{warnings}");
    assert!(warnings.contains("read(/data/s/x) (user, config.toml:2) cannot relax the managed deny read(/data/s/**) (managed, managed.toml:2)"), "{warnings}");
}

#[test]
fn consent_is_bounded_by_the_managed_layer() {
    let declared = declares_files(&[("/data/**", "rw")]);
    let passes = |managed: Option<&'static str>, config: &'static str, profile: Option<&'static str>| {
        let engine = resolve(&declared, &Operator { config, profile, managed, ..Operator::default() }).0;
        let verdict = file(&engine, Access::Read, "/data/x");
        assert_eq!(word(verdict), "ask");
        (engine.policy().passes(&verdict), engine.policy().never_asks())
    };
    assert_eq!(passes(None, "", None), (false, false));
    assert_eq!(passes(None, "consent = \"always\"\n", None), (true, false));
    assert_eq!(passes(None, "consent = \"always\"\n[profile.p]\nconsent = \"never\"\n", Some("p")), (false, true));
    assert_eq!(passes(Some("consent = \"once\"\n"), "consent = \"always\"\n", None), (false, false));
    assert_eq!(passes(Some("consent = \"never\"\n"), "", None), (false, true));
    assert_eq!(passes(Some("consent = \"always\"\n"), "", None), (false, false));
    // What consent lets pass, the kernel lets pass too.
    let plan = |config| KernelPlan::new(&resolve(&declared, &Operator { config, ..Operator::default() }).0).files.len();
    assert_eq!((plan("consent = \"always\"\n"), plan("")), (1, 0));
}

#[test]
fn malformed_rules() {
    for (rules, words) in [
        (
            r#"deny = ["reed(./x)"]"#,
            "config.toml:2: unknown aspect `reed` (known: read, write, spawn, net, creds, tool, ui) (`reed(./x)`)",
        ),
        (
            r#"denies = ["read(./x)"]"#,
            "config.toml:2: unknown key `denies` in permissions (known: allow, ask, deny, subject, and shell,",
        ),
        (r#"deny = ["read ./x"]"#, "not of the form aspect(scope)"),
        (r#"deny = ["read(./x"]"#, "no closing bracket"),
        (r#"deny = ["read()"]"#, "empty scope"),
        (r#"deny = ["read(./a, ./b)"]"#, "a second pattern"),
        (r#"deny = ["read(x)"]"#, "a path starts with ./ (the workspace), / or ~/"),
        (r#"deny = ["read(./[)"]"#, "invalid glob"),
        (r#"deny = ["net(docs.rs)"]"#, "`docs.rs` without its key: write net(domain: docs.rs)"),
        (r#"deny = ["net(host: docs.rs)"]"#, "unknown key `host` (known: domain)"),
        (r#"deny = ["net(domain: a, domain: b)"]"#, "a second pattern"),
        (r#"deny = ["net(domain: 10.0.0.1/8)"]"#, "write 10.0.0.0/8"),
        (r#"deny = ["net(domain: a.*.b)"]"#, "only a leading `*.` is a wildcard"),
        (r#"deny = ["net(domain: a:0)"]"#, "`0` is not a port"),
        (r#"deny = ["spawn(git)"]"#, "`git` without its key"),
        (r#"deny = ["spawn(cmd: ./x)"]"#, "a command is a name or an absolute path"),
        (r#"deny = ["spawn(cmd: git \"x)"]"#, "an unclosed quote"),
        (r#"deny = ["tool(bash)"]"#, "a tool is named id.tool"),
        (
            r#"deny = ["ui(top)"]"#,
            "unknown placement `top` (known: pane.right, pane.left, band, inline, footer, hidden, *)",
        ),
        (r#"push = "maybe""#, "`push` is \"allow\", \"ask\" or \"deny\""),
        (r#"deny = "read(./x)""#, "expected a list"),
        (
            "[permissions.subject.\"bot:x\"]\n",
            "config.toml:3: unknown subject `bot:x` (agent, agent:<client> or ext:<component>)",
        ),
        (
            "[permissions.subject.agent]\ndeny = []\n[permissions.subject.\"ext:a\".subject]\n",
            "a subject inside a subject",
        ),
    ] {
        let text = format!("[permissions]\n{rules}");
        let text = if rules.starts_with('[') { format!("\n\n{rules}") } else { text };
        let error = Config::parse(&text, "config.toml", Layer::User, &ANCHORS).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{rules}: {error}");
        built::refuses(&[], &text, words);
    }
    for (text, words) in [
        ("policy = {}\n", "config.toml:1: unknown key `policy` in a workspace's configuration (known: permissions)"),
        ("consent = \"always\"\n", "unknown key `consent`"),
    ] {
        let error = Config::parse(text, "config.toml", Layer::Workspace, &ANCHORS).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    for (text, words) in [
        ("consent = \"sometimes\"\n", "config.toml:1: consent is \"once\", \"always\" or \"never\", not `sometimes`"),
        ("consent-timeout = \"0s\"\n", "consent-timeout is a time"),
        ("trusted-workspaces = [\"proj\"]\n", "absolute or starts with ~/"),
        ("[profile.p.metadata]\nx = 1.5\n", "whole numbers"),
    ] {
        let error = Config::parse(text, "config.toml", Layer::User, &ANCHORS).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
        built::refuses(&[], text, words);
    }
    for (flag, words) in [
        ("read(./x)", "unknown list `read(./x)`"),
        ("drop=read(./x)", "unknown list `drop`: allow, ask or deny"),
        ("deny=reed(x)", "--permission 'deny=reed(x)': unknown aspect"),
    ] {
        let error = Permissions::parse_flag(flag, &ANCHORS).unwrap_err();
        assert!(error.contains(words) || flag == "read(./x)" && error.contains("write LIST=RULE"), "{flag}: {error}");
        if error.contains(words) {
            built::refuses(&["--permission", flag], "", words);
        }
    }
}

#[test]
fn calls_are_never_patterns() {
    for (text, words) in [
        ("read(./*)", "a pattern"),
        ("read(./{a,b})", "a pattern"),
        ("net(domain: *.x.org)", "a pattern"),
        ("tool(*)", "a pattern"),
        ("reed(x)", "unknown aspect"),
        ("spawn(cmd: *)", "a pattern"),
        ("spawn(cmd:)", "empty command"),
        ("", "not of the form"),
    ] {
        let error = Call::parse(text, &ANCHORS).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn operations_are_read_exactly_or_not_at_all() {
    for (text, words) in [
        ("stat(./*)", "a pattern: one call is explained"),
        ("list(x)", "a path starts with ./"),
        ("stat()", "empty scope: write stat(/path)"),
        ("stat(/x", "no closing bracket"),
        ("connect(db.local:80)", "`db.local:80` is no address with a port"),
        ("connect(10.0.0.1)", "is no address with a port"),
        ("connect(10.0.0.1:80/sctp)", "unknown protocol `sctp`: tcp or udp"),
        ("connect(10.0.0.1:80 db.local)", "`db.local` is not name=…"),
        ("bind(10.0.0.1:80 name=x)", "`name=x` after the end"),
        ("listen(10.0.0.1:80/udp)", "only TCP listens"),
        ("lookup(db.local)", "unknown class `db.local`"),
        ("lookup(fs db.local)", "`wasi:filesystem` looks up no names"),
        ("lookup(http)", "no name"),
        ("http(https://a.test)", "no URL"),
        ("http(GET a.test)", "no scheme"),
        ("http(GET ftp://a.test)", "unknown scheme `ftp`: http or https"),
        ("http(GET https://:80)", "no host"),
        ("http(GET https://a.test:x)", "`x` is not a port"),
        ("http(GET https://a.test address=b)", "`b` is no address"),
        ("http(GET https://a.test at=10.0.0.1)", "`at=10.0.0.1` is not address=…"),
        ("consent(db:drop)", "no key"),
        ("consent(db:drop k table)", "`table` is not NAME=VALUE"),
        ("consent(db:drop \"k)", "an unclosed quote"),
        ("consent(db:drop a\tb)", "control characters"),
        ("reed(/x)", "an operation of a component: stat(/path), list(/path), connect("),
    ] {
        let error = Call::parse(text, &ANCHORS).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let request = |text: &str| {
        let call = Call::parse(text, &ANCHORS).unwrap();
        assert!(call.operation, "{text}");
        call.request(agent("", None).policy())
    };
    let http = |host: &str, port, address: Option<&str>| Request::Http {
        method: "POST".into(),
        scheme: "https".into(),
        host: host.into(),
        port,
        address: address.map(|address| address.parse().unwrap()),
    };
    // No rule is about a path, so that one may be there.
    assert_eq!(request("http(POST https://a.test/v1/x?y=z)"), http("a.test", 443, None));
    assert_eq!(request("http(POST https://a.test:8443 address=10.0.0.1)"), http("a.test", 8443, Some("10.0.0.1")));
    assert_eq!(request("http(POST https://[::1]:8443)"), http("[::1]", 8443, None));
    assert_eq!(request("http(POST https://[::1])"), http("[::1]", 443, None));
    let consent = Request::Consent {
        class: "db:drop".into(),
        key: "two words".into(),
        arguments: vec![("table".into(), "a=b".into()), ("key".into(), String::new())],
    };
    assert_eq!(request("consent(db:drop \"two words\" table=a=b key=)"), consent);
    assert_eq!(request("stat(./sub)"), Request::File { access: Access::Stat, path: b"/ws/sub".to_vec() });
}

#[test]
fn explanations_have_their_form() {
    let engine = agent("\n\n\n\n\n[permissions]\ndeny = [\"read(./.env)\"]\n", None);
    let text = |call: &str| Explanation::new(&Call::parse(call, &ANCHORS).unwrap(), &engine, None).text();
    assert_eq!(
        text("read(./notes.txt)"),
        "read(./notes.txt) for agent: Allow — `read(./**)` in the allow list\n  \
         by allow `read(./**)` [built-in] <built-in default>:2\n  \
         considered deny `read(./.env)` [user] config.toml:7\n"
    );
    assert_eq!(
        text("read(./.env)"),
        "read(./.env) for agent: Deny — `read(./.env)` in the deny list\n  \
         by deny `read(./.env)` [user] config.toml:7\n  \
         considered allow `read(./**)` [built-in] <built-in default>:2\n"
    );
    assert!(text("net(domain: docs.rs)").starts_with("net(domain: docs.rs) for agent: Deny — no rule allows it\n"));
    let declared = manifest(r#"{"wasi:filesystem": {"constraints": [{"path": "/data/**", "mode": "ro"}]}}"#);
    let config = "[policy.fs]\nmode = \"allowlist\"\nallow = [{ path = \"/data/a/**\", mode = \"rw\" }]\n";
    let engine = component(config, &declared, &[]);
    let plan = KernelPlan::new(&engine);
    let text = |call: &str| Explanation::new(&Call::parse(call, &ANCHORS).unwrap(), &engine, Some(&plan)).text();
    assert_eq!(
        text("read(/data/a/x)"),
        "read(/data/a/x) for ext:t: Allow — `/data/a/**` in the allow list\n  \
         by allow `/data/a/**` [user] config.toml:3\n  \
         ceiling says allow: under `/data/**` (component, act:component)\n  \
         grant says allow: under `/data/a/**` (mode allowlist; user, config.toml:3)\n"
    );
    assert_eq!(
        text("write(/data/a/x)"),
        "write(/data/a/x) for ext:t: Deny — outside ceiling\n  \
         ceiling says deny: outside ceiling\n  \
         grant says allow: under `/data/a/**` (mode allowlist; user, config.toml:3)\n  \
         enforced by host check, broker, Landlock\n"
    );
    assert_eq!(
        text("read(/data/b)"),
        "read(/data/b) for ext:t: Deny — not granted\n  \
         ceiling says allow: under `/data/**` (component, act:component)\n  \
         grant says deny: not granted (mode allowlist; user, config.toml:1)\n  \
         enforced by host check, broker, Landlock\n"
    );
}

#[test]
fn case_files() {
    let engine = agent("", None);
    let cases = Case::parse(
        "[[case]]\nrequest = \"read(./a)\"\nexpect = \"allow\"\nrule = \"read(./**)\"\n[[case]]\nrequest = \"read(/a)\"\nexpect = \"allow\"\n[[case]]\nrequest = \"read(/a)\"\nexpect = \"deny\"\nreason = \"no rule\"\n",
        "cases.toml",
    )
    .unwrap();
    let misses: Vec<Option<String>> = cases
        .iter()
        .map(|case| case.miss(&Explanation::new(&Call::parse(&case.request, &ANCHORS).unwrap(), &engine, None)))
        .collect();
    assert_eq!(misses, [None, Some("expected allow, found deny: no rule allows it".into()), None]);
    for (text, words) in [
        ("[[case]]\nexpect = \"deny\"\n", "cases.toml:1: a case without `request`"),
        ("[[case]]\nrequest = \"x\"\nexpect = \"no\"\n", "expect is \"allow\""),
        ("[[case]]\nrequst = \"x\"\n", "cases.toml:2: unknown key `requst` in a case (known: request"),
        ("[[cases]]\n", "unknown key `cases` (known: case)"),
        ("", "no [[case]]"),
    ] {
        let error = Case::parse(text, "cases.toml").unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}
