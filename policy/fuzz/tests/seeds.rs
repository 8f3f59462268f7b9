//! The properties on the seeds, without libFuzzer.

use std::path::Path;

/// Every file of a target's corpus.
fn each(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 2, "{} has {} seeds", folder.display(), files.len());
    for file in files {
        eprintln!("{}", file.display());
        check(&std::fs::read(&file).unwrap());
    }
}

fn texts(target: &str, check: impl Fn(&str)) {
    each(target, |bytes| check(std::str::from_utf8(bytes).unwrap()));
}

#[test]
fn grant() {
    texts("grant", act_policy_fuzz::grant);
}

#[test]
fn shorthand() {
    texts("shorthand", act_policy_fuzz::shorthand);
}

#[test]
fn rules() {
    texts("rules", act_policy_fuzz::rules);
}

#[test]
fn config() {
    texts("config", act_policy_fuzz::config);
}

#[test]
fn manifest() {
    each("manifest", act_policy_fuzz::manifest);
}

#[test]
fn host() {
    texts("host", act_policy_fuzz::host);
}

#[test]
fn path() {
    texts("path", act_policy_fuzz::path);
}
