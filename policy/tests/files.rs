//! File decisions: one line, one case, positive and negative.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use act_policy::Access::{self, List, Read, Stat, Write};
use act_policy::{KernelPlan, Request};
use common::{Operator, declares_files, engine, file, manifest, resolve, word};

fn check(declared: &[(&str, &str)], flags: &[&str], cases: &[(Access, &str, &str)]) {
    let engine = engine(&declares_files(declared), flags);
    for (access, path, expected) in cases {
        let verdict = file(&engine, *access, path);
        let reason = engine.policy().reason(&verdict);
        assert_eq!(word(verdict), *expected, "{access} {path} under {flags:?}: {reason}");
        // What explains is what decides: the reason names the rule that the verdict carries.
        if *expected == "rule" {
            let rule = engine.policy().rule(verdict.rule.unwrap()).unwrap();
            assert!(reason.contains(&rule.text) && reason.contains("<command line>"), "{reason}");
        }
    }
}

const ALL: &[(&str, &str)] = &[("/**", "rw")];

#[test]
fn a_plain_path_is_the_file_and_all_below() {
    check(
        ALL,
        &["+fs=/tmp/work"],
        &[
            (List, "/tmp/work", "allow"),
            (Read, "/tmp/work/sub/f", "allow"),
            (Write, "/tmp/work/sub/f", "allow"),
            (Read, "/tmp/other", "grant"),
            (Read, "/tmp/work2/f", "grant"),
            (Stat, "/tmp", "allow"),
            (Stat, "/", "allow"),
            (List, "/tmp", "grant"),
            (List, "/", "grant"),
            (Read, "/tmp", "grant"),
            (Stat, "/etc", "grant"),
        ],
    );
}

#[test]
fn a_deny_inside_an_allow() {
    for flags in [["+fs=/home/a/**", "-fs=/home/a/.ssh/**"], ["-fs=/home/a/.ssh/**", "+fs=/home/a/**"]] {
        check(
            ALL,
            &flags,
            &[
                (Read, "/home/a/project/x", "allow"),
                (Read, "/home/a/.ssh/id", "rule"),
                (Stat, "/home/a/.ssh", "rule"),
                (Read, "/home/a/.sshx", "allow"),
            ],
        );
    }
    check(ALL, &["-fs=/home/a/.ssh/**", "+fs=/home/a/.ssh/id"], &[(Read, "/home/a/.ssh/id", "rule")]);
    check(
        &[("/s/**", "rw"), ("/t/**", "rw")],
        &["+fs", "-fs=/s/**:ro"],
        &[(Write, "/s/x", "rule"), (Read, "/s/x", "rule"), (Write, "/t/x", "allow")],
    );
    // The engine judges by such a grant; the program refuses it, for it covers the program's own folders.
    check(ALL, &["+fs", "-fs=/s/**"], &[(Write, "/s/x", "rule"), (Write, "/t/x", "allow")]);
}

#[test]
fn globs() {
    check(
        ALL,
        &["+fs=/home/a/{projects,work}/**"],
        &[
            (Read, "/home/a/projects/x", "allow"),
            (Read, "/home/a/work/d/r", "allow"),
            (List, "/home/a/work", "allow"),
            (Read, "/home/a/downloads/x", "grant"),
            (Stat, "/home/a", "allow"),
            (List, "/home/a", "grant"),
        ],
    );
    check(
        ALL,
        &["+fs=/tmp/work/**/*.db"],
        &[
            (Read, "/tmp/work/a/b.db", "allow"),
            (Read, "/tmp/work/b.db", "allow"),
            (Read, "/tmp/work/a/b.txt", "grant"),
            (Stat, "/tmp/work/a", "allow"),
            (List, "/tmp/work/a", "grant"),
        ],
    );
    check(
        ALL,
        &["+fs=/tmp/*.db"],
        &[(Read, "/tmp/foo.db", "allow"), (Read, "/tmp/a/foo.db", "grant"), (Stat, "/tmp/a", "grant")],
    );
    // Two stars inside a name are stars that stop at the slash.
    check(
        ALL,
        &["+fs=/d/a**b/c"],
        &[(Read, "/d/axb/c", "allow"), (Stat, "/d/axb", "allow"), (Stat, "/d/x/y", "grant")],
    );
    check(ALL, &["+fs=/tmp/sub?x.db"], &[(Read, "/tmp/sub/x.db", "grant"), (Read, "/tmp/sub1x.db", "allow")]);
    // A wildcard stands for a character, of however many bytes; a byte that belongs to none is one by itself.
    check(
        ALL,
        &["+fs=/d/**", "-fs=/d/?", "-fs=/d/[!a]x", "-fs=/e/*.k"],
        &[
            (Read, "/d/a", "rule"),
            (Read, "/d/é", "rule"),
            (Read, "/d/𝄞", "rule"),
            (Read, "/d/éa", "allow"),
            (Read, "/d/éx", "rule"),
            (Read, "/d/ax", "allow"),
        ],
    );
    check(ALL, &["+fs=/d/?"], &[(Read, "/d/é", "allow"), (Read, "/d/éé", "grant")]);
    check(ALL, &["+fs=/d/{**,x}", "-fs=/d/e/{k/,l}"], &[(List, "/d", "allow"), (Read, "/d/e/k", "rule")]);
    check(ALL, &["+fs=/tmp/[ab].txt"], &[(Read, "/tmp/a.txt", "allow"), (Read, "/tmp/c.txt", "grant")]);
}

#[test]
fn a_single_file() {
    check(
        ALL,
        &["+fs=/tmp/work/db.sqlite"],
        &[
            (Read, "/tmp/work/db.sqlite", "allow"),
            (Read, "/tmp/work/other.txt", "grant"),
            (Stat, "/tmp/work", "allow"),
            (Stat, "/tmp", "allow"),
            (List, "/tmp/work", "grant"),
        ],
    );
}

#[test]
fn the_ceiling_is_exact() {
    check(
        &[("/data/**", "rw")],
        &["+fs=/**"],
        &[
            (Read, "/data/a", "allow"),
            (Read, "/other/s", "ceiling"),
            (Write, "/other/s", "ceiling"),
            (Read, "/data-secret/x", "ceiling"),
        ],
    );
    check(
        &[("/data/**", "rw")],
        &["+fs=/data-secret/**"],
        &[(Read, "/data-secret/x", "ceiling"), (Read, "/data/x", "grant")],
    );
    check(
        &[("/d/*.txt", "ro")],
        &["+fs=/d/**"],
        &[(Read, "/d/a.txt", "allow"), (Read, "/d/s/x.db", "ceiling"), (Write, "/d/a.txt", "ceiling")],
    );
    check(
        &[("/tmp/**", "ro")],
        &["+fs=/tmp/**:rw", "+fs=/home/**:rw"],
        &[(Read, "/tmp/x", "allow"), (Write, "/tmp/x", "ceiling"), (Read, "/home/x", "ceiling")],
    );
    check(
        &[("~/notes/**", "ro")],
        &["+fs=/**"],
        &[(Read, "/home/a/notes/x", "allow"), (Read, "/home/b/notes/x", "ceiling")],
    );
    check(&[("**/*.md", "ro")], &["+fs"], &[(Read, "/any/where/x.md", "allow"), (Read, "/any/where/x.txt", "ceiling")]);
}

#[test]
fn modes() {
    let ask: &[&str] = &[];
    check(
        &[("/tmp/**", "rw")],
        ask,
        &[(Read, "/tmp/x", "ask"), (Read, "/etc/passwd", "ceiling"), (Stat, "/", "allow"), (List, "/", "ceiling")],
    );
    check(ALL, &["+fs=/a/**:ro"], &[(Read, "/a/x", "allow"), (Write, "/a/x", "grant")]);
    check(ALL, &["-fs"], &[(Read, "/a", "grant"), (Stat, "/", "grant")]);
    check(ALL, &["+fs", "-fs"], &[(Read, "/a", "grant")]);
    check(ALL, &["+fs=/a", "-fs"], &[(Read, "/a", "grant")]);
    let narrowed = Operator {
        grants: &[r#"{"fs": {"mode": "ask", "allow": [{"path": "/a/**", "mode": "ro"}]}}"#],
        ..Operator::default()
    };
    let engine = resolve(&declares_files(ALL), &narrowed).0;
    assert_eq!(word(file(&engine, Read, "/a/x")), "ask");
    assert_eq!(word(file(&engine, Read, "/b/x")), "grant");
    assert_eq!(word(file(&engine, Write, "/a/x")), "grant");
}

#[test]
fn undeclared_and_empty_declarations_are_hard_denies() {
    for capabilities in ["{}", r#"{"wasi:filesystem": {}}"#, r#"{"wasi:filesystem": {"constraints": []}}"#] {
        let engine = engine(&manifest(capabilities), &["+fs"]);
        assert_eq!(word(file(&engine, Stat, "/")), "ceiling", "{capabilities}");
    }
}

#[test]
fn paths_that_no_kernel_resolves_are_refused() {
    let engine = engine(&declares_files(ALL), &["+fs"]);
    for path in ["", "a", "//a", "/a/", "/a/../b", "/a/./b", "/a\0b"] {
        assert_eq!(word(file(&engine, Read, path)), "deny", "{path:?}");
    }
    let bytes = Request::File { access: Read, path: b"/a/\xff\xfe".to_vec() };
    assert!(engine.decide(&bytes).allowed());
}

#[test]
fn layers() {
    let tree = "[policy.fs]\nmode = \"allowlist\"\nallow = [{ path = \"/d/**\", mode = \"rw\" }]\ndeny = [\n  { path = \"/d/secret/**\" },\n]\n";
    let read = |operator: Operator<'_>, path: &str| {
        let declared = ["/a/**", "/b/**", "/d/**", "/e/**"].map(|path| (path, "rw"));
        let (engine, warnings) = resolve(&declares_files(&declared), &operator);
        let verdict = file(&engine, Read, path);
        (word(verdict), engine.policy().reason(&verdict), warnings)
    };
    let with = |flags| Operator { config: tree, flags, ..Operator::default() };
    assert_eq!(read(with(&[]), "/d/x").0, "allow");
    let (decision, reason, _) = read(with(&[]), "/d/secret/k");
    assert_eq!((decision, reason.as_str()), ("rule", "denied by /d/secret/** (user, config.toml:5)"));
    assert_eq!(read(with(&["+fs=/d/**"]), "/d/secret/k").0, "rule");
    assert_eq!(read(with(&["+fs=/e/**"]), "/d/x").0, "grant");
    let (decision, _, warnings) = read(with(&["+fs"]), "/d/secret/k");
    assert_eq!(decision, "allow");
    assert!(warnings[0].0.contains("drops the deny rule /d/secret/** (user, config.toml:5)"), "{warnings:?}");
    assert_eq!(read(with(&["-fs=/d/sub/**"]), "/d/x").0, "allow");
    assert_eq!(read(with(&["-fs=/d/sub/**"]), "/d/sub/x").0, "rule");
    let defaults = |config, flags| Operator { config, flags, ..Operator::default() };
    assert_eq!(read(defaults("[policy]\ndefault = \"deny\"\n", &["-fs=/x"]), "/d/x").0, "grant");
    assert_eq!(read(defaults("[policy]\ndefault = \"open\"\n", &[]), "/d/x").0, "allow");
    assert_eq!(read(defaults("[policy]\n", &[]), "/d/x").0, "ask");
    assert_eq!(
        read(defaults("[policy]\n\"wasi:*\" = \"deny\"\n\"wasi:filesystem\" = \"open\"\n", &[]), "/d/x").0,
        "allow"
    );
    assert_eq!(read(defaults("[policy]\n\"*\" = \"deny\"\n\"wasi:*\" = \"open\"\n", &[]), "/d/x").0, "allow");
    assert_eq!(read(defaults("[policy]\ndefault = \"deny\"\n\"*\" = \"open\"\n", &[]), "/d/x").0, "allow");
    let profiles = "[policy]\ndefault = \"deny\"\n[profile.p.policy]\nfs = \"open\"\n[profile.q]\n";
    let profile = |name| Operator { config: profiles, profile: Some(name), ..Operator::default() };
    assert_eq!(read(profile("p"), "/d/x").0, "allow");
    assert_eq!(read(profile("q"), "/d/x").0, "grant");
    let rule =
        |path: &str| format!(r#"{{"fs": {{"mode": "allowlist", "allow": [{{"path": "{path}", "mode": "ro"}}]}}}}"#);
    let (first, second) = (rule("/a/**"), rule("/b/**"));
    let grants = [first.as_str(), second.as_str()];
    let both = |flags| Operator { grants: &grants, flags, ..Operator::default() };
    assert_eq!(read(both(&[]), "/a/x").0, "grant");
    assert_eq!(read(both(&["+fs=/a/x"]), "/a/x").0, "allow");
    assert_eq!(read(both(&["+fs=/a/x"]), "/b/x").0, "allow");
}

#[test]
fn renames_of_directories_stay_inside_one_rule() {
    let cases: &[(&[&str], &str, bool)] = &[
        (&["+fs=/d/**"], "/d/a", true),
        (&["+fs"], "/d/a", true),
        (&["+fs=/d/**", "-fs=/d/a/secret/**"], "/d/a", false),
        (&["+fs=/d/**", "-fs=/d/a/secret/**"], "/d/b", true),
        (&["+fs=/d/**", "-fs=/d/**/*.key"], "/d/b", false),
        (&["+fs=/d/*", "+fs=/d/a/**:ro"], "/d/a", false),
        (&["+fs=/d/{a,b}/**"], "/d/a/x", true),
        (&["+fs=/d/**/*.db"], "/d/a", false),
        (&[], "/d/a", false),
    ];
    for (flags, path, expected) in cases {
        let engine = engine(&declares_files(ALL), flags);
        assert_eq!(engine.whole_subtree_writable(path.as_bytes()), *expected, "{flags:?} {path}");
    }
}

#[test]
fn kernel_subtrees() {
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);
    let cases: &[Case<'_>] = &[
        (&[("/d/**", "rw")], &["+fs"], "/d rw"),
        (&[("/d/**", "rw")], &["+fs=/**:ro"], "/d ro"),
        (&[("/d/**", "ro")], &["+fs=/d/x/**"], "/d/x ro"),
        (&[("/d/**", "rw")], &["+fs=/e/**"], ""),
        (&[("/d/**", "rw"), ("/d/r/**", "ro")], &["+fs"], "/d rw"),
        (&[("/d/**", "ro"), ("/d/w/**", "rw")], &["+fs"], "/d ro, /d/w rw"),
        (&[("/d/**/*.db", "ro")], &["+fs"], "/d ro~"),
        (&[("/d/**", "rw")], &["+fs", "-fs=/d/s/**"], "/d rw~"),
        (&[("/d/**", "rw")], &["+fs", "-fs=/e/**"], "/d rw"),
        (&[("/d/**", "rw")], &[], ""),
    ];
    for (declared, flags, expected) in cases {
        let plan = KernelPlan::new(&engine(&declares_files(declared), flags));
        let shown: Vec<String> = plan
            .files
            .iter()
            .map(|s| {
                format!(
                    "{} {}{}",
                    String::from_utf8_lossy(&s.path),
                    if s.write { "rw" } else { "ro" },
                    if s.exact { "" } else { "~" }
                )
            })
            .collect();
        assert_eq!(shown.join(", "), *expected, "{declared:?} {flags:?}");
    }
}
