//! Landlock in forked children, each attempt with and without it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use act_lockdown::{kernel_abi, landlock};
use act_wire::{FileGrant, Lockdown};
use common::child;
use std::ffi::CString;
use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

fn lockdown(grants: &[(&Path, bool)]) -> Lockdown {
    let files =
        grants.iter().map(|(path, write)| FileGrant { path: path.as_os_str().as_bytes().to_vec(), write: *write });
    Lockdown {
        files: files.collect(),
        connect_tcp: Some(vec![]),
        bind_tcp: Some(vec![]),
        seccomp: vec![],
        required: true,
    }
}

/// A kernel without Landlock cannot run these; say so.
fn skip(least: u32) -> bool {
    let abi = kernel_abi();
    if abi < least {
        println!("SKIP: Landlock ABI {abi}, {least} needed");
    }
    abi < least
}

fn open(path: &Path, flags: i32) -> impl FnOnce() -> i64 + use<> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a terminated string and numbers.
    move || unsafe { libc::open(path.as_ptr(), flags, 0o600) }.into()
}

fn under(lockdown: &Lockdown, attempt: impl FnOnce() -> i64) -> Result<(), i32> {
    child(|| landlock(lockdown).is_ok_and(|(abi, full)| abi == kernel_abi() && full == (abi >= 6)), attempt)
}

const DENIED: Result<(), i32> = Err(libc::EACCES);

#[test]
fn files_by_grant() {
    if skip(3) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    for d in ["rw", "ro", "no"] {
        fs::create_dir(top.join(d)).unwrap();
        fs::write(top.join(d).join("f"), "x").unwrap();
    }
    let (rw, ro) = (top.join("rw"), top.join("ro"));
    let plan = lockdown(&[(&rw, true), (&ro, false)]);
    let (read, write, create) = (libc::O_RDONLY, libc::O_WRONLY | libc::O_TRUNC, libc::O_CREAT | libc::O_WRONLY);
    for (path, flags, expected) in [
        ("rw/f", read, Ok(())),
        ("rw/f", write, Ok(())),
        ("rw/new", create, Ok(())),
        ("rw", read | libc::O_DIRECTORY, Ok(())),
        ("ro/f", read, Ok(())),
        ("ro", read | libc::O_DIRECTORY, Ok(())),
        ("ro/f", write, DENIED),
        ("ro/new", create, DENIED),
        ("no/f", read, DENIED),
        ("no/f", write, DENIED),
        (".", read | libc::O_DIRECTORY, DENIED),
    ] {
        let path = top.join(path);
        assert_eq!(child(|| true, open(&path, flags)), Ok(()), "{path:?} {flags:o} must work without Landlock");
        assert_eq!(under(&plan, open(&path, flags)), expected, "{path:?} {flags:o}");
    }
    // Looking is not judged by Landlock: layer 1 alone holds it.
    assert_eq!(under(&plan, open(&top.join("no/f"), libc::O_PATH)), Ok(()));
}

#[test]
fn execution_and_special_files_are_never_granted() {
    if skip(3) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::copy("/bin/true", top.join("true")).unwrap();
    let plan = lockdown(&[(&top, true), (Path::new("/"), true)]);
    let program = CString::new(top.join("true").as_os_str().as_bytes()).unwrap();
    let run = || {
        let (arguments, environment) = ([program.as_ptr(), std::ptr::null()], [std::ptr::null()]);
        // SAFETY: terminated strings and null-terminated arrays; on success the child becomes `true` and exits with 0.
        unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) }.into()
    };
    assert_eq!(child(|| true, run), Ok(()));
    assert_eq!(under(&plan, run), DENIED);
    for (name, kind) in [("fifo", libc::S_IFIFO), ("socket", libc::S_IFSOCK)] {
        let (free, held) = (top.join(format!("{name}1")), top.join(format!("{name}2")));
        let make = |path: &Path| {
            let path = CString::new(path.as_os_str().as_bytes()).unwrap();
            // SAFETY: a terminated string and numbers.
            move || unsafe { libc::mknod(path.as_ptr(), kind | 0o600, 0) }.into()
        };
        assert_eq!(child(|| true, make(&free)), Ok(()), "{name}");
        assert_eq!(under(&plan, make(&held)), DENIED, "{name}");
    }
}

/// The broker opens those: rights over one file or over nothing would have to be lent over what is around it.
#[test]
fn nothing_but_a_directory_is_opened() {
    if skip(3) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::write(top.join("one"), "x").unwrap();
    let plan = lockdown(&[(&top.join("one"), true), (&top.join("new/deep"), true)]);
    let (read, create) = (libc::O_RDONLY, libc::O_CREAT | libc::O_WRONLY);
    for (name, flags) in [("one", read), ("new", create)] {
        assert_eq!(child(|| true, open(&top.join(name), flags)), Ok(()), "{name} must work without Landlock");
        assert_eq!(under(&plan, open(&top.join(name), flags)), DENIED, "{name}");
    }
}

#[test]
fn a_link_in_a_grant_grants_nothing() {
    if skip(3) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    fs::create_dir(top.join("real")).unwrap();
    fs::write(top.join("real/f"), "x").unwrap();
    std::os::unix::fs::symlink("real", top.join("link")).unwrap();
    let plan = lockdown(&[(&top.join("link"), true)]);
    assert_eq!(under(&plan, open(&top.join("real/f"), libc::O_RDONLY)), DENIED);
}

fn connect(port: u16) -> impl FnOnce() -> i64 {
    move || {
        // SAFETY: an all-zero sockaddr_in is valid, and `address` is one of the length told.
        unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            let mut address: libc::sockaddr_in = std::mem::zeroed();
            address.sin_family = libc::AF_INET as u16;
            address.sin_port = port.to_be();
            address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
            libc::connect(fd, (&raw const address).cast(), 16).into()
        }
    }
}

#[test]
fn ports_by_list() {
    if skip(4) {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut plan = lockdown(&[]);
    assert_eq!(under(&plan, connect(port)), DENIED);
    plan.connect_tcp = Some(vec![port]);
    assert_eq!(under(&plan, connect(port)), Ok(()));
    plan.connect_tcp = Some(vec![port ^ 1]);
    assert_eq!(under(&plan, connect(port)), DENIED);
    plan.connect_tcp = None;
    assert_eq!(under(&plan, connect(port)), Ok(()));
}

#[test]
fn signals_and_abstract_sockets_stay_inside() {
    if skip(6) {
        return;
    }
    let name = format!("act-lockdown-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let dial = || if std::os::unix::net::UnixStream::connect_addr(&address).is_ok() { 0 } else { -1 };
    // SAFETY: signal 0 only asks whether it may be sent.
    let signal = || unsafe { libc::kill(libc::getppid(), 0) }.into();
    assert_eq!((child(|| true, dial), child(|| true, signal)), (Ok(()), Ok(())));
    let plan = lockdown(&[]);
    assert_eq!((under(&plan, dial), under(&plan, signal)), (Err(libc::EPERM), Err(libc::EPERM)));
}
