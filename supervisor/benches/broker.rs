//! What it costs to have a file opened by the broker, beside opening it in place by the same code.
//!
//! `cargo bench -p act-supervisor --bench broker`. Both take turns, so that what else the machine does hits both alike.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench ends by panicking")]

use act_files::{Files, Judge, Opening, Operation};
use act_policy::{Engine, Flag, Layers, Manifest, Policy, Reason, Request, Shorthand, Verdict};
use act_supervisor::broker::files::FileBroker;
use act_supervisor::consent::Passes;
use act_wire::{Channel, FileAnswer};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::unix::ffi::OsStrExt as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const TURNS: usize = 200;
const OPENS: u32 = 100;

/// The policy in place, as the child has it.
struct InPlace(Arc<Engine>);

impl Judge for InPlace {
    async fn permit(&self, request: Request) -> bool {
        self.0.decide(&request).allowed()
    }

    fn judge(&self, request: Request) -> Verdict {
        self.0.decide(&request)
    }

    fn peek(&self, request: &Request) -> Verdict {
        self.0.decide(request)
    }

    fn refused(&self, _: Request, _: Reason) {}

    fn kernel_refused(&self, _: Request, _: i32) {}

    fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        self.0.whole_subtree_writable(path)
    }
}

fn engine(folder: &str) -> Arc<Engine> {
    let json = serde_json::json!({ "std": { "name": "bench", "version": "1", "capabilities": {
        "wasi:filesystem": { "constraints": [{ "path": "/**", "mode": "rw" }] } } } });
    let mut cbor = Vec::new();
    ciborium::into_writer(&json, &mut cbor).unwrap();
    let manifest = Manifest::decode(&cbor, None).unwrap();
    let anchors = act_policy::Anchors::default();
    let flag = |flag, token: String| Shorthand::parse(flag, &token, &anchors).unwrap();
    let flags = [flag(Flag::Allow, format!("fs={folder}/**")), flag(Flag::Deny, format!("fs={folder}/secret/**"))];
    let layers = Layers { flags: &flags, ..Layers::default() };
    Arc::new(Engine::compile(Policy::resolve(&manifest, &layers).unwrap().0).unwrap())
}

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing waits here"),
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).unwrap().as_secs_f64() * 1e6 / f64::from(OPENS)
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    let file = top.join("file");
    std::fs::write(&file, "text").unwrap();
    let engine = engine(top.to_str().unwrap());
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let _broker = FileBroker::start(Arc::clone(&engine), Passes::default(), ours).unwrap();
    let mut channel = Channel::new(theirs, 1 << 20);
    let here = Files::new(InPlace(engine)).unwrap();
    let opening = Opening { read: true, ..Opening::default() };
    let operation = Operation::Open { path: file.as_os_str().as_bytes().to_vec(), opening };
    let (mut direct, mut brokered) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let start = Instant::now();
        for _ in 0..OPENS {
            now(here.perform(&operation)).unwrap();
        }
        direct.push(start.elapsed());
        let start = Instant::now();
        for _ in 0..OPENS {
            channel.send(&operation).unwrap();
            let (answer, files) = channel.receive_blocking::<FileAnswer>().unwrap();
            assert!(matches!(answer, FileAnswer::Opened) && files.len() == 1);
        }
        brokered.push(start.elapsed());
    }
    let (direct, brokered) = (median(direct), median(brokered));
    println!("open in place {direct:.1} µs, by the broker {brokered:.1} µs: {:.2} times", brokered / direct);
}
