//! Resolution in a real directory tree: links of every kind, `..`, errors, odd names, and a racing rename.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use act_paths::{Follow, MAX_LINKS, ResolveError, Resolved, Resolver};
use proptest::prelude::*;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

struct Tree {
    _dir: tempfile::TempDir,
    top: PathBuf,
    resolver: Resolver,
}

impl Tree {
    /// `top/data` is what a guest holds; `top/other` lies beside it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for d in ["data/sub/deep", "other/inner"] {
            fs::create_dir_all(top.join(d)).unwrap();
        }
        for f in ["data/a.txt", "data/sub/b.txt", "other/s.txt"] {
            fs::write(top.join(f), f).unwrap();
        }
        for (target, link) in [
            ("a.txt", "data/in"),
            ("../other/s.txt", "data/out"),
            ("../other", "data/outdir"),
            ("out", "data/chain"),
            ("loop", "data/loop"),
            ("missing/x", "data/dangling"),
            ("../other/new", "data/create"),
            ("sub/", "data/slash"),
        ] {
            symlink(target, top.join(link)).unwrap();
        }
        symlink(top.join("other/s.txt"), top.join("data/abs")).unwrap();
        symlink("/", top.join("data/root")).unwrap();
        Self { _dir: dir, top, resolver: Resolver::new().unwrap() }
    }

    fn hold(&self, path: impl AsRef<Path>) -> OwnedFd {
        open(self.top.join(path), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    fn at(&self, base: &str, path: &[u8], follow: Follow) -> Result<Resolved, ResolveError> {
        self.resolver.resolve(self.hold(base).as_fd(), path, follow)
    }

    fn below(&self, path: &str) -> Vec<u8> {
        self.top.join(path).into_os_string().into_vec()
    }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// The kernel's path of the pinned parent, by another way than the crate's.
fn real_parent(resolved: &Resolved) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", resolved.parent().as_raw_fd())).unwrap()
}

#[test]
fn where_paths_lead() {
    use Follow::{No, Yes};
    let tree = Tree::new();
    for (path, follow, expected) in [
        ("a.txt", Yes, "data/a.txt"),
        ("new", Yes, "data/new"),
        ("./sub//b.txt", Yes, "data/sub/b.txt"),
        ("sub/../a.txt", Yes, "data/a.txt"),
        (".", Yes, "data"),
        ("sub/deep/..", Yes, "data/sub"),
        ("in", Yes, "data/a.txt"),
        ("in", No, "data/in"),
        ("out", Yes, "other/s.txt"),
        ("out", No, "data/out"),
        ("abs", Yes, "other/s.txt"),
        ("chain", Yes, "other/s.txt"),
        ("outdir", No, "data/outdir"),
        ("outdir/", No, "other"),
        ("outdir/s.txt", No, "other/s.txt"),
        ("outdir/inner/..", No, "other"),
        ("outdir/../data/a.txt", Yes, "data/a.txt"),
        ("outdir/../x", Yes, "x"),
        ("create", Yes, "other/new"),
        ("slash", Yes, "data/sub"),
        ("slash/b.txt", Yes, "data/sub/b.txt"),
    ] {
        let got = tree.at("data", path.as_bytes(), follow).unwrap_or_else(|e| panic!("{path}: {e:?}"));
        assert_eq!(text(got.path()), text(&tree.below(expected)), "{path} {follow:?}");
        let joined = match got.name() {
            b"." => real_parent(&got),
            name => real_parent(&got).join(OsStr::from_bytes(name)),
        };
        assert_eq!(joined.as_os_str().as_bytes(), got.path(), "{path} {follow:?}");
    }
    assert_eq!(tree.at("data", b"root", Yes).unwrap().path(), b"/");
    assert_eq!(tree.at("data", b"root/proc/..", Yes).unwrap().path(), b"/");
}

#[test]
fn errors_say_how_far_the_path_was_known() {
    use Follow::{No, Yes};
    let tree = Tree::new();
    let long = "n".repeat(5000);
    for (path, follow, errno, reached) in [
        ("missing/x", Yes, Errno::NOENT, "data/missing/x"),
        ("missing/../a.txt", Yes, Errno::NOENT, "data/missing"),
        ("outdir/gone/x/y", Yes, Errno::NOENT, "other/gone/x/y"),
        ("a.txt/x", Yes, Errno::NOTDIR, "data/a.txt/x"),
        ("a.txt/", Yes, Errno::NOTDIR, "data/a.txt"),
        ("outdir/s.txt/x", No, Errno::NOTDIR, "other/s.txt/x"),
        ("loop", Yes, Errno::LOOP, "data/loop"),
        ("loop/x", No, Errno::LOOP, "data/loop/x"),
        ("dangling", Yes, Errno::NOENT, "data/missing/x"),
        ("..", Yes, Errno::PERM, ""),
        ("../other/s.txt", Yes, Errno::PERM, "other/s.txt"),
        ("sub/../../other", Yes, Errno::PERM, "other"),
        ("/a.txt", Yes, Errno::PERM, "data/a.txt"),
        ("", Yes, Errno::NOENT, "data"),
        ("a\0b", Yes, Errno::INVAL, "data/a\0b"),
        (&long, Yes, Errno::NAMETOOLONG, &format!("data/{}", &long[..4096])),
    ] {
        let got = tree.at("data", path.as_bytes(), follow).map(|r| text(r.path())).unwrap_err();
        let expected = tree.below(reached);
        let expected = expected.strip_suffix(b"/").unwrap_or(&expected);
        assert_eq!((got.errno, text(&got.reached)), (errno, text(expected)), "{path:?}");
    }
}

#[test]
fn a_held_root_takes_absolute_paths_and_keeps_dotdot_inside() {
    let tree = Tree::new();
    for prefix in ["", "/", "//", "/../../"] {
        let path = format!("{prefix}{}", text(&tree.below("data/out")).trim_start_matches('/'));
        let got = tree.resolver.resolve(tree.hold("/").as_fd(), path.as_bytes(), Follow::Yes).unwrap();
        assert_eq!(text(got.path()), text(&tree.below("other/s.txt")), "{path}");
    }
}

#[test]
fn directories_left_by_dotdot_are_told() {
    let tree = Tree::new();
    let got = tree.at("data", b"outdir/inner/../../data/a.txt", Follow::Yes).unwrap();
    let left: Vec<_> = got.left().iter().map(|p| text(p)).collect();
    // The link's own `..` leaves data; the guest's leave inner and other.
    assert_eq!(left, ["data", "other/inner", "other"].map(|p| text(&tree.below(p))));
    assert_eq!(tree.at("data", b"sub/b.txt", Follow::Yes).unwrap().left().len(), 0);
}

#[test]
fn forty_links_pass_and_one_more_does_not() {
    let tree = Tree::new();
    symlink("a.txt", tree.top.join("data/l0")).unwrap();
    for n in 1..=MAX_LINKS {
        symlink(format!("l{}", n - 1), tree.top.join(format!("data/l{n}"))).unwrap();
    }
    let ends = |n: u32| tree.at("data", format!("l{n}").as_bytes(), Follow::Yes).map(|r| text(r.path()));
    assert_eq!(ends(MAX_LINKS - 1).unwrap(), text(&tree.below("data/a.txt")));
    assert_eq!(ends(MAX_LINKS).unwrap_err().errno, Errno::LOOP);
}

#[test]
fn names_need_not_be_utf8() {
    let tree = Tree::new();
    let name = OsStr::from_bytes(b"od\xffd");
    fs::create_dir(tree.top.join("data").join(name)).unwrap();
    fs::write(tree.top.join("data").join(name).join("f"), "").unwrap();
    symlink(name, tree.top.join("data/toodd")).unwrap();
    let got = tree.at("data", b"toodd/f", Follow::Yes).unwrap();
    assert!(got.path().ends_with(b"data/od\xffd/f"));
    assert!(tree.at("data", b"od\xffd", Follow::Yes).unwrap().path().ends_with(b"od\xffd"));
}

#[test]
fn a_magic_link_is_only_its_text() {
    let tree = Tree::new();
    let held = tree.hold("other");
    symlink(format!("/proc/self/fd/{}", held.as_raw_fd()), tree.top.join("data/magic")).unwrap();
    let got = tree.at("data", b"magic/s.txt", Follow::Yes).unwrap();
    assert_eq!(text(got.path()), text(&tree.below("other/s.txt")));
    // The text of a pipe's link names nothing; the kernel would have jumped to the pipe.
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    symlink(format!("/proc/self/fd/{}", reader.as_raw_fd()), tree.top.join("data/pipe")).unwrap();
    let got = tree.at("data", b"pipe", Follow::Yes).unwrap();
    assert!(text(got.path()).contains("/pipe:["), "{}", text(got.path()));
    assert_eq!(rustix::fs::statat(got.parent(), got.name(), rustix::fs::AtFlags::empty()).unwrap_err(), Errno::NOENT);
}

#[test]
fn a_removed_directory_is_no_place() {
    let tree = Tree::new();
    let held = tree.hold("other/inner");
    fs::remove_dir(tree.top.join("other/inner")).unwrap();
    assert_eq!(tree.resolver.path_of(held.as_fd()).unwrap_err(), Errno::NOENT);
    assert_eq!(tree.resolver.resolve(held.as_fd(), b"x", Follow::Yes).unwrap_err().errno, Errno::NOENT);
    fs::create_dir(tree.top.join("other/x (deleted)")).unwrap();
    let held = tree.hold("other/x (deleted)");
    assert_eq!(text(&tree.resolver.path_of(held.as_fd()).unwrap()), text(&tree.below("other/x (deleted)")));
}

#[test]
fn the_path_of_a_held_directory_follows_a_rename() {
    let tree = Tree::new();
    let held = tree.hold("data/sub");
    fs::rename(tree.top.join("data/sub"), tree.top.join("other/sub")).unwrap();
    let got = tree.resolver.resolve(held.as_fd(), b"b.txt", Follow::Yes).unwrap();
    assert_eq!(text(got.path()), text(&tree.below("other/sub/b.txt")));
}

#[test]
fn what_is_pinned_is_what_is_opened() {
    let tree = Tree::new();
    let got = tree.at("data", b"a.txt", Follow::Yes).unwrap();
    let pinned = rustix::fs::openat(got.parent(), got.name(), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).unwrap();
    fs::remove_file(tree.top.join("data/a.txt")).unwrap();
    symlink("../other/s.txt", tree.top.join("data/a.txt")).unwrap();
    let file = tree.resolver.reopen(pinned.as_fd(), OFlags::RDONLY).unwrap();
    assert_eq!(std::io::read_to_string(fs::File::from(file)).unwrap(), "data/a.txt");
}

/// A link that flips between inside and outside while it is resolved: the path told is always the parent pinned.
#[test]
fn a_racing_rename_never_mixes_path_and_place() {
    let tree = Tree::new();
    fs::create_dir(tree.top.join("data/good")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (good, bad) = (tree.top.join("data/spot"), tree.top.join("data/next"));
            let mut flip = false;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                symlink(if flip { "good" } else { "../other" }, &bad).unwrap();
                fs::rename(&bad, &good).unwrap();
                flip = !flip;
            }
        });
        let held = tree.hold("data");
        let (mut inside, mut outside) = (0, 0);
        for _ in 0..20_000 {
            let Ok(got) = tree.resolver.resolve(held.as_fd(), b"spot/f", Follow::Yes) else { continue };
            let real = real_parent(&got).join("f").into_os_string().into_vec();
            assert_eq!(text(got.path()), text(&real));
            *(if real.ends_with(b"good/f") { &mut inside } else { &mut outside }) += 1;
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(inside > 0 && outside > 0, "the race did not happen: {inside} {outside}");
    });
}

proptest! {
    /// Whatever the text, a result is the kernel's own path of the pinned parent and the name, and agrees with
    /// `realpath` where the place exists.
    #[test]
    fn the_path_is_the_real_path(parts in prop::collection::vec(
        prop::sample::select(vec!["a.txt", "sub", "deep", "..", ".", "", "out", "outdir", "inner", "chain", "loop",
            "abs", "root", "missing", "slash", "dangling", "s.txt"]), 1..7), follow in any::<bool>()) {
        let tree = Tree::new();
        let path = parts.join("/");
        let follow = if follow { Follow::Yes } else { Follow::No };
        let Ok(got) = tree.at("data", path.as_bytes(), follow) else { return Ok(()) };
        let joined = match got.name() {
            b"." => real_parent(&got),
            name => real_parent(&got).join(OsStr::from_bytes(name)),
        };
        prop_assert_eq!(joined.as_os_str().as_bytes(), got.path());
        let named = tree.top.join("data").join(path.trim_start_matches('/'));
        if let (Follow::Yes, Ok(real), false) = (follow, named.canonicalize(), path.starts_with('/')) {
            prop_assert_eq!(real.as_os_str().as_bytes(), got.path());
        }
    }
}
