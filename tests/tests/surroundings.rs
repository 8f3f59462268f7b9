//! Surroundings that are not as they should be: closed descriptors, no home, a cache that cannot be used or was changed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_tests::{Guest, Run, Running, World, case, setpriv};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn world() -> Option<(World, PathBuf)> {
    let world = World::new()?;
    world.file("a.txt", "text of a");
    let component = world.pack(Guest::Files, &[("{D}/**", "rw")], &json!([]));
    Some((world, component))
}

fn command(world: &World, component: &Path) -> Command {
    world.call_command(component, "read_file", &json!({ "path": "{D}/a.txt" }), &["--allow", "fs={D}/**:ro"])
}

#[track_caller]
fn works(world: &World, component: &Path) -> Run {
    let run = Running::start(&mut command(world, component)).finish();
    run.is_clean().exits(0).prints("text of a");
    run
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(cache).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    found.retain(|p| p.extension().is_some_and(|e| e == "cwasm"));
    found.sort();
    found
}

#[test]
fn closed_descriptors() {
    let Some((world, component)) = world() else { return };
    works(&world, &component);
    let shell = |redirections: &str| {
        let mut sh = world.command(Path::new("/bin/sh"));
        let act = command(&world, &component);
        sh.arg("-c").arg(format!("exec \"$@\" {redirections}")).arg("sh").arg(act.get_program()).args(act.get_args());
        Running::start(&mut sh).finish()
    };
    for (redirections, seen) in
        [("<&-", true), ("2>&-", true), ("<&- 2>&-", true), (">&-", false), ("<&- >&- 2>&-", false)]
    {
        case(redirections);
        let run = shell(redirections);
        run.is_clean();
        // Rust opens the null device in their place, so that a closed output loses the text and fails nothing.
        assert!(matches!(run.code, Some(0 | 1)), "{:?} {}", run.code, run.err);
        assert_eq!(run.text() == "text of a", seen, "{}", run.text());
    }
    case("no file descriptor of the caller reaches the guest");
    let run = shell("7</etc/passwd 8>&1");
    run.is_clean().exits(0);
}

#[test]
fn homes() {
    let Some((world, component)) = world() else { return };
    for (name, value) in
        [("unset", None), ("empty", Some("")), ("relative", Some("home")), ("a file", Some("/etc/passwd"))]
    {
        case(&format!("HOME {name}"));
        let mut act = command(&world, &component);
        match value {
            Some(value) => act.env("HOME", value),
            None => act.env_remove("HOME"),
        };
        let run = Running::start(&mut act).finish();
        run.is_clean();
        // Where there is no place for the cache it is done without; where the configuration cannot be read nothing runs.
        match run.code {
            Some(0) => run.prints("text of a").says("audit: ⚠ no cache for compiled components: "),
            _ => run.one_error(2, "/etc/passwd"),
        };
    }
    assert_eq!(fs::read_dir(&world.home).unwrap().count(), 0, "HOME was used though it was not given");
    assert!(!world.path("home").exists());
}

#[test]
fn folders_that_the_cache_does_not_use() {
    let Some((world, component)) = world() else { return };
    let cache = world.home.join(".cache/act");
    let warning = "audit: ⚠ no cache for compiled components: ";

    case("a link");
    let real = world.home.join("real");
    fs::create_dir(&real).unwrap();
    fs::create_dir(cache.parent().unwrap()).unwrap();
    symlink(&real, &cache).unwrap();
    works(&world, &component).says(warning).says("is a link or no folder");
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0, "the link was followed");
    fs::remove_file(&cache).unwrap();

    for mode in [0o777, 0o720, 0o702] {
        case(&format!("mode {mode:o}"));
        let _ = fs::create_dir(&cache);
        fs::set_permissions(&cache, fs::Permissions::from_mode(mode)).unwrap();
        works(&world, &component).says(warning).says("does not belong to this user alone");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0, "the folder was used");
    }
    case("a file");
    fs::remove_dir(&cache).unwrap();
    fs::write(&cache, "").unwrap();
    works(&world, &component).says(warning);
    fs::remove_file(&cache).unwrap();

    case("a folder that cannot be written");
    let immutable = Path::new("/proc/act-tests-cannot-be-made");
    let mut act = command(&world, &component);
    let run = Running::start(act.env("XDG_CACHE_HOME", immutable)).finish();
    run.is_clean().exits(0).prints("text of a").says(warning);

    case("control: used, and without a warning");
    works(&world, &component).never_says("⚠ no cache");
    assert_eq!(entries(&cache).len(), 1);
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    let before = fs::metadata(&entries(&cache)[0]).unwrap().modified().unwrap();
    works(&world, &component);
    assert_eq!(fs::metadata(&entries(&cache)[0]).unwrap().modified().unwrap(), before, "compiled again");
}

/// Root reads and writes everything, so these run without its capabilities.
#[test]
fn files_without_permission() {
    let Some(setpriv) = setpriv() else { return };
    let Some((world, component)) = world() else { return };
    let run = || {
        let act = command(&world, &component);
        let mut command = world.command(&setpriv);
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(act.get_program()).args(act.get_args());
        Running::start(&mut command).finish()
    };
    case("a cache that cannot be written");
    let cache = world.home.join(".cache/act");
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o500)).unwrap();
    run().is_clean().exits(0).prints("text of a").says("audit: ⚠ no cache for compiled components: ");
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    case("a cache with a key that cannot be written");
    fs::write(cache.join("key"), [7; 32]).unwrap();
    run().is_clean().exits(0).prints("text of a").says("audit: ⚠ the compiled component could not be cached: ");
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    case("a configuration that cannot be read");
    let config = world.home.join(".config/act/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "[policy]\nfs = 'deny'\n").unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o000)).unwrap();
    run().one_error(2, "config.toml: Permission denied");
    case("a component that cannot be read");
    fs::remove_file(&config).unwrap();
    fs::set_permissions(&component, fs::Permissions::from_mode(0o000)).unwrap();
    run().one_error(1, "files.wasm: Permission denied");
}

/// What was noted of a file holds for that file as it was, and for nothing else.
#[test]
fn notes_about_files() {
    let Some((world, component)) = world() else { return };
    let cache = world.home.join(".cache/act");
    let notes = || {
        let all = fs::read_dir(&cache).unwrap().map(|e| e.unwrap().path());
        let mut notes: Vec<PathBuf> =
            all.filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("note-")).collect();
        notes.sort();
        notes
    };
    let digest = |run: &Run| run.err.split("sha256:").nth(1).unwrap()[..6].to_owned();
    let first = digest(&works(&world, &component));
    assert_eq!(notes().len(), 0, "noted of a file that was changed a moment ago");
    std::thread::sleep(Duration::from_secs(4));
    works(&world, &component);
    assert_eq!(notes().len(), 2);
    assert_eq!(digest(&works(&world, &component)), first);
    case("a note that was changed is not used");
    for note in notes() {
        let mut bytes = fs::read(&note).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&note, bytes).unwrap();
    }
    assert_eq!(digest(&works(&world, &component)), first);
    case("code that was changed, and its time put back");
    let entry = entries(&cache)[0].clone();
    let times = fs::metadata(&entry).unwrap();
    let mut bytes = fs::read(&entry).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&entry, &bytes).unwrap();
    let times = fs::FileTimes::new().set_modified(times.modified().unwrap());
    fs::File::options().write(true).open(&entry).unwrap().set_times(times).unwrap();
    works(&world, &component).says("⚠ cached code").says("it is damaged");
    case("another component in its place, of the same size and time");
    let mut new = fs::read(&component).unwrap();
    let version = new.windows(7).rposition(|bytes| bytes == b"version").unwrap() + b"version".len() + 1;
    assert_eq!(&new[version..version + 5], b"1.0.0");
    new[version] = b'2';
    let modified = fs::metadata(&component).unwrap().modified().unwrap();
    fs::write(&component, &new).unwrap();
    let times = fs::FileTimes::new().set_modified(modified);
    fs::File::options().write(true).open(&component).unwrap().set_times(times).unwrap();
    assert_ne!(digest(&works(&world, &component)), first);
}

/// The Python fixture takes some seconds to compile: of several first runs one does it.
#[test]
fn runs_at_once_share_one_compilation() {
    let Some(world) = World::new() else { return };
    let component = world.pack(Guest::Py, &[("{D}/**", "rw")], &json!([]));
    world.file("a.txt", "text of a");
    let start = || {
        Running::start(&mut world.call_command(
            &component,
            "read_file",
            &json!({ "path": "{D}/a.txt" }),
            &["--allow", "fs"],
        ))
    };
    let running = [start(), start(), start()];
    let runs = running.map(|run| run.finish_within(Duration::from_mins(3)));
    for run in &runs {
        run.is_clean().exits(0).prints("text of a");
    }
    let said = |what: &str| runs.iter().filter(|run| run.err.contains(what)).count();
    assert_eq!((said("act: compiling "), said("act: another run compiles ")), (1, 2), "{}", runs[0].err);
    assert_eq!(entries(&world.home.join(".cache/act")).len(), 1);
}

#[test]
fn entries_that_were_changed() {
    let Some((world, component)) = world() else { return };
    let cache = world.home.join(".cache/act");
    works(&world, &component);
    let entry = entries(&cache)[0].clone();
    let good = fs::read(&entry).unwrap();
    let other = world.pack(Guest::Files3, &[("{D}/**", "rw")], &json!([]));
    works(&world, &other);
    let second = entries(&cache).into_iter().find(|e| *e != entry).unwrap();
    let swapped = fs::read(&second).unwrap();

    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut first = good.clone();
    first[0] ^= 1;
    let rows: [(&str, Vec<u8>); 7] = [
        ("empty", vec![]),
        ("shorter than its MAC", good[..31].to_vec()),
        ("only its MAC", good[..32].to_vec()),
        ("cut", good[..good.len() - 1].to_vec()),
        ("a bit of the code", flipped),
        ("a bit of the MAC", first),
        ("the code of another component", swapped),
    ];
    for (name, bytes) in rows {
        case(name);
        fs::write(&entry, &bytes).unwrap();
        works(&world, &component).says("audit: ⚠ cached code ").says("is not used: ");
        assert_eq!(fs::read(&entry).unwrap().len(), good.len(), "it was not made again");
        works(&world, &component).never_says("⚠ cached code");
    }
    case("the entry and the key of another folder");
    let stolen = tempfile::tempdir().unwrap();
    let mut act = command(&world, &component);
    Running::start(act.env("XDG_CACHE_HOME", stolen.path())).finish().exits(0);
    fs::copy(&entries(&stolen.path().join("act"))[0], &entry).unwrap();
    works(&world, &component).says("is not used: ");
    case("a link in its place");
    fs::rename(&entry, cache.join("moved")).unwrap();
    symlink("moved", &entry).unwrap();
    works(&world, &component).says("is not used: ");
    case("a key that was cut");
    fs::write(cache.join("key"), "short").unwrap();
    works(&world, &component).says("⚠ no cache for compiled components: its key");
}

#[test]
fn first_runs_at_once() {
    let Some((world, component)) = world() else { return };
    let running: Vec<Running> = (0..4).map(|_| Running::start(&mut command(&world, &component))).collect();
    for run in running.into_iter().map(Running::finish) {
        run.is_clean().exits(0).prints("text of a").never_says("⚠ cached code");
    }
    let cache = world.home.join(".cache/act");
    let mut names: Vec<String> =
        fs::read_dir(&cache).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let known = |n: &str| n == "key" || n.starts_with("lock-") || n.starts_with("note-");
    names.retain(|n| n.starts_with('.') || !known(n) && !n.contains(".cwasm"));
    assert_eq!(names, Vec::<String>::new(), "left-overs");
    assert_eq!(entries(&cache).len(), 1);
    works(&world, &component).never_says("⚠ cached code");
}
