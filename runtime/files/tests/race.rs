//! Somebody swaps what a path names while it is opened, renamed or made: nothing denied is read or moved (F02, F04 of the
//! hostile corpus).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use act_files::{Answer, Files, Judge, Opened, Opening, Operation};
use act_paths::Follow;
use act_policy::{Access, Decision, Reason, Request, Verdict};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

/// Swaps that an attempt has to stand.
const FLIPS: u32 = 100_000;
/// Opens that are made at least, whatever the number of swaps.
const OPENS: u32 = 20_000;

/// Refuses all below one folder, and renaming a folder at all.
struct Deny(PathBuf);

impl Deny {
    fn decide(&self, request: &Request) -> Verdict {
        let Request::File { path, .. } = request else { return Verdict::deny(Reason::Malformed) };
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let allowed = Verdict { decision: Decision::Allow, reason: Reason::Allowed, rule: None };
        if path.starts_with(&self.0) { Verdict::deny(Reason::NotGranted) } else { allowed }
    }
}

impl Judge for Deny {
    async fn permit(&self, request: Request) -> bool {
        self.decide(&request).allowed()
    }

    fn judge(&self, request: Request) -> Verdict {
        self.decide(&request)
    }

    fn peek(&self, request: &Request) -> Verdict {
        self.decide(request)
    }

    fn refused(&self, _: Request, _: Reason) {}

    fn kernel_refused(&self, _: Request, _: i32) {}

    fn whole_subtree_writable(&self, _: &[u8]) -> bool {
        false
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing waits here"),
    }
}

/// A folder with `open/f`, and `secret/f`, which is denied.
fn world() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    for (name, text) in [("open", "public"), ("secret", "SECRET")] {
        fs::create_dir(top.join(name)).unwrap();
        fs::write(top.join(name).join("f"), text).unwrap();
    }
    (folder, top)
}

fn text(file: OwnedFd) -> String {
    let mut text = String::new();
    File::from(file).read_to_string(&mut text).unwrap();
    text
}

/// Flip `link` between the two folders while `open` runs; what it read, by text.
fn under_flips(top: &Path, mut open: impl FnMut() -> Option<String>) -> (u32, u32, u32) {
    let (stop, flips) = (AtomicBool::new(false), AtomicU32::new(0));
    let (mut public, mut secret, mut opens) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for to in ["open", "secret"] {
                    let next = top.join("next");
                    symlink(to, &next).unwrap();
                    fs::rename(&next, top.join("link")).unwrap();
                    flips.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        while opens < OPENS || flips.load(Ordering::Relaxed) < FLIPS {
            opens += 1;
            match open().as_deref() {
                Some("public") => public += 1,
                Some(_) => secret += 1,
                None => {}
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} flips, {opens} opens: {public} public, {secret} secret", flips.load(Ordering::Relaxed));
    (public, secret, opens)
}

#[test]
fn a_link_that_is_swapped_leaks_nothing() {
    let (_folder, top) = world();
    symlink("open", top.join("link")).unwrap();
    let read = Opening { read: true, ..Opening::default() };
    let path = top.join("link/f");
    let bytes = path.as_os_str().as_bytes();
    let root = File::open("/").unwrap();

    let files = Files::new(Deny(top.join("secret"))).unwrap();
    let (public, secret, _) = under_flips(&top, || match now(files.open(&root, bytes, Follow::Yes, read)) {
        Ok(Opened::File(file)) => Some(text(file)),
        Ok(Opened::Directory(_)) | Err(_) => None,
    });
    assert!(public > 0 && secret == 0, "direct: {public} {secret}");

    let broker = Files::for_another(Deny(top.join("secret"))).unwrap();
    let operation = Operation::Open { path: bytes.to_vec(), opening: read };
    let (public, secret, _) = under_flips(&top, || match now(broker.perform(&operation)) {
        Ok(Answer::Opened(file)) => Some(text(file)),
        Ok(_) | Err(_) => None,
    });
    assert!(public > 0 && secret == 0, "brokered: {public} {secret}");

    // What a check by name and an open by name give: the same attempt works.
    let judge = Deny(top.join("secret"));
    let (_, secret, _) = under_flips(&top, || {
        let real = fs::canonicalize(&path).ok()?;
        let request = Request::File { access: Access::Read, path: real.as_os_str().as_bytes().to_vec() };
        judge.decide(&request).allowed().then(|| fs::read_to_string(&path).ok()).flatten()
    });
    assert!(secret > 0, "the race was never lost: this test proves nothing");
}

/// A folder that takes the place of the file is never renamed: its content was not judged.
#[test]
fn a_folder_in_the_place_of_a_file_is_not_renamed() {
    let (_folder, top) = world();
    let (spare, place, aim) = (top.join("spare"), top.join("open/x"), top.join("open/aim"));
    fs::create_dir(&spare).unwrap();
    fs::write(spare.join("inside"), "x").unwrap();
    let broker = Files::for_another(Deny(top.join("secret"))).unwrap();
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let operation = Operation::Rename { from: bytes(&place), to: bytes(&aim) };
    let stop = AtomicBool::new(false);
    let mut moved = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // The folder, then a file in its place.
                if fs::rename(&spare, &place).is_ok() {
                    fs::rename(&place, &spare).unwrap();
                }
                _ = fs::write(&place, "file");
                _ = fs::remove_file(&place);
            }
        });
        for _ in 0..OPENS {
            moved += u32::from(now(broker.perform(&operation)).is_ok());
            assert!(!aim.is_dir(), "a folder was renamed");
            _ = fs::remove_file(&aim);
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{moved} files renamed");
    assert!(moved > 0, "the race never let a file through: this test proves nothing");
}
