//! Opens and changes files for the child, where Landlock cannot say what the rules say: a deny inside an allowed tree,
//! globs, single files, what does not exist yet.
//!
//! The child asks over a socket of its own and gets a descriptor or an answer. Each path is resolved and judged here
//! again, by the same code and the same compiled policy as in the child, so that native code in the child gets no more
//! than the component may have. The thread holds no capability: the permissions of files bind it as they bind the child.

use crate::consent::Passes;
use act_files::{Answer, Fault, Files, Judge, Operation};
use act_paths::PATH_MAX;
use act_policy::{Engine, Reason, Request, Verdict};
use act_wire::{Channel, FileAnswer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Most bytes of a question: two paths, or a path and the text of a link.
const QUESTION: usize = 4 * PATH_MAX;
/// Refusals that wait for the trail; what comes on top is counted.
const WAITING: usize = 1024;
/// How long the child may leave an answer unread.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the trail should know.
#[derive(Debug)]
pub enum Refusal {
    /// The child asked for what the policy refuses: its own check does not work, or was taken over.
    Denied(Request, Verdict),
    /// The child sent what is no question.
    Broken(String),
}

/// The supervisor's handle on the broker. The thread ends when the child's end of the socket is closed.
#[derive(Debug)]
pub struct FileBroker {
    wake: Arc<OwnedFd>,
    refusals: Receiver<Refusal>,
    lost: Arc<AtomicU64>,
}

impl FileBroker {
    /// Serve the child at the other end of `socket`.
    pub fn start(engine: Arc<Engine>, passes: Passes, socket: OwnedFd) -> Result<Self, std::io::Error> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, refusals) = sync_channel(WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let judge = Refuser { engine, passes, sender, lost: Arc::clone(&lost), wake: Arc::clone(&wake) };
        let files = Files::for_another(judge.clone()).map_err(std::io::Error::other)?;
        let channel = Channel::new(socket, QUESTION).with_patience(PATIENCE);
        std::thread::Builder::new().name("files".into()).spawn(move || {
            if let Err(reason) = drop_capabilities().map_err(|e| e.to_string()).and_then(|()| serve(&files, channel)) {
                // With this it waits for room: the child has to be ended.
                let _ = judge.sender.send(Refusal::Broken(reason));
                let _ = rustix::io::write(&*judge.wake, &1u64.to_ne_bytes());
            }
        })?;
        Ok(Self { wake, refusals, lost })
    }

    /// What was refused since the last time, and how many refusals more found no room.
    pub fn refusals(&self) -> (Vec<Refusal>, u64) {
        let _ = rustix::io::read(&*self.wake, &mut [0u8; 8]);
        (self.refusals.try_iter().collect(), self.lost.swap(0, Ordering::Relaxed))
    }
}

impl AsFd for FileBroker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The child has none, and must not get at a file by ours. Of this thread alone: each has its own.
fn drop_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Until the child is gone; the error is what it did wrong.
fn serve(files: &Files<Refuser>, mut channel: Channel) -> Result<(), String> {
    loop {
        let operation = match channel.receive_blocking::<Operation>() {
            Ok((operation, sent)) if sent.is_empty() => operation,
            Ok(_) => return Err("a descriptor with a question about files".into()),
            Err(act_wire::ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let sent = match at_once(files.perform(&operation)) {
            Ok(Answer::Done) => channel.send(&FileAnswer::Done),
            Ok(Answer::Opened(opened)) => channel.send_with(&FileAnswer::Opened, &[opened.as_fd()]),
            Ok(Answer::Entries(entries)) => channel.send(&FileAnswer::Entries(entries)),
            Err(fault) => channel.send(&FileAnswer::from(fault)),
        };
        match sent {
            Ok(()) => {}
            Err(act_wire::ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Nothing here waits: the policy answers at once. A future that would wait is a refusal.
fn at_once<T>(future: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(Fault::Denied),
    }
}

/// The policy and the answers that were given; what it refuses is told to the main loop.
#[derive(Clone)]
struct Refuser {
    engine: Arc<Engine>,
    /// What was answered with yes.
    passes: Passes,
    sender: SyncSender<Refusal>,
    /// Refusals that found no room.
    lost: Arc<AtomicU64>,
    wake: Arc<OwnedFd>,
}

impl Refuser {
    fn lets_pass(&self, request: &Request, verdict: &Verdict) -> bool {
        self.engine.policy().passes(verdict) || self.passes.cover(request, verdict)
    }

    fn tell(&self, refusal: Refusal) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(refusal) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Judge for Refuser {
    async fn permit(&self, request: Request) -> bool {
        let verdict = self.engine.decide(&request);
        let passes = self.lets_pass(&request, &verdict);
        if !passes {
            self.tell(Refusal::Denied(request, verdict));
        }
        passes
    }

    fn judge(&self, request: Request) -> Verdict {
        let verdict = self.engine.decide(&request);
        if !self.lets_pass(&request, &verdict) {
            self.tell(Refusal::Denied(request, verdict));
        }
        verdict
    }

    fn peek(&self, request: &Request) -> Verdict {
        self.engine.decide(request)
    }

    fn refused(&self, request: Request, reason: Reason) {
        self.tell(Refusal::Denied(request, Verdict::deny(reason)));
    }

    /// The permissions of the file are the component's own business.
    fn kernel_refused(&self, _: Request, _: i32) {}

    fn whole_subtree_writable(&self, path: &[u8]) -> bool {
        self.engine.whole_subtree_writable(path)
    }
}

/// Whether the child does something in a place itself, or asks the broker.
pub fn opens_directly(subtree: &act_policy::Subtree) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let path: &[u8] = if subtree.path.is_empty() { b"/" } else { &subtree.path };
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
    // A single file could not be removed, and what is not there could not be made, but by rights over what is around it.
    subtree.exact && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
