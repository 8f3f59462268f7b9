//! Compiled components: made by `act-compile` in its own lock-down, kept in the cache, handed out as sealed memory.

use crate::cache::{Cache, MAX_CODE, sealed};
use crate::component::{Component, hex};
use crate::exit::Failure;
use crate::sandbox::SandboxError;
use crate::sandbox::spawn::{Birth, Ended, Rlimits, open_sibling};
use crate::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// What the compiler may use: memory for the largest components that people run.
const COMPILE_LIMITS: Rlimits = Rlimits { data: 4 << 30, files: 64, file_size: MAX_CODE, cpu: 600 };
/// How long one compilation may take.
const COMPILE_DEADLINE: Duration = Duration::from_mins(10);
/// Silence before people are told that a compilation is under way.
const PATIENCE: Duration = Duration::from_millis(700);
/// How often they are told that it goes on.
const PROGRESS: Duration = Duration::from_secs(10);

/// A compiled component.
#[derive(Debug)]
pub struct Artifact {
    /// The code, in a sealed memfd.
    pub code: OwnedFd,
    /// Whether it came from the cache.
    pub cached: bool,
}

/// The compiled component; `fresh` leaves the cached one unread and replaces it. Problems of the cache are warnings: then
/// it is compiled anew.
pub fn artifact(
    component: &Component,
    fresh: bool,
    signals: &Signals,
    warn: &mut dyn FnMut(&str),
) -> Result<Artifact, Failure> {
    let compiler = open_sibling("act-compile").map_err(Failure::failed)?;
    let cache = match Cache::open() {
        Ok(cache) => Some(cache),
        Err(reason) => {
            warn(&format!("no cache for compiled components: {reason}"));
            None
        }
    };
    let name = entry_name(component, &compiler)?;
    if let Some(cache) = cache.as_ref().filter(|_| !fresh) {
        match cache.load(&name) {
            Ok(Some(code)) => return Ok(Artifact { code, cached: true }),
            Ok(None) => {}
            Err(reason) => warn(&format!("cached code {name} is not used: {reason}")),
        }
    }
    // Of several runs that need the same code one compiles it, and the others take it from the cache.
    let turn = cache.as_ref().map(|cache| turn(cache, &name, component, signals)).transpose()?.flatten();
    if let (Some(cache), Some(_), false) = (&cache, &turn, fresh)
        && let Ok(Some(code)) = cache.load(&name)
    {
        return Ok(Artifact { code, cached: true });
    }
    let code = compile(component, compiler, signals)?;
    if let Some(cache) = &cache
        && let Err(reason) = cache.save(&name, &code)
    {
        warn(&format!("the compiled component could not be cached: {reason}"));
    }
    let code = sealed(&code).map_err(Failure::failed)?;
    Ok(Artifact { code, cached: false })
}

/// How often a run looks whether it is its turn.
const TURN: Duration = Duration::from_millis(20);

/// Wait until no other run compiles this entry; it is this run's turn as long as the result lives. `None`: the folder
/// cannot be locked, and each compiles for itself.
fn turn(cache: &Cache, name: &str, component: &Component, signals: &Signals) -> Result<Option<OwnedFd>, Failure> {
    let Ok(lock) = cache.lock_file(name) else { return Ok(None) };
    let started = Instant::now();
    let mut told = false;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(lock)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Ok(None),
        }
        if started.elapsed() > PATIENCE && !std::mem::replace(&mut told, true) {
            let shown = &component.reference;
            let _ = writeln!(std::io::stderr(), "act: another run compiles {shown}, or one like it; waiting …");
        }
        // It may have been killed and stopped in the middle: then everybody compiles.
        if started.elapsed() > COMPILE_DEADLINE {
            return Ok(None);
        }
        let tick = Timespec::try_from(TURN).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&tick));
        if signals.pending() {
            return Err(Failure::interrupted());
        }
    }
}

/// Digest of the component and identity of the compiler: another build of it never shares an entry.
fn entry_name(component: &Component, compiler: &OwnedFd) -> Result<String, Failure> {
    let stat = fstat(compiler).map_err(|e| Failure::failed(format!("act-compile: {e}")))?;
    let identity = format!("{}:{}:{}:{}", env!("CARGO_PKG_VERSION"), stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    let build = blake3::hash(identity.as_bytes());
    Ok(format!("{}-{}.cwasm", component.digest_hex(), hex(build.as_bytes().get(..8).unwrap_or_default())))
}

/// Run `act-compile`: bytes in through its channel, code out through a pipe.
fn compile(component: &Component, compiler: OwnedFd, signals: &Signals) -> Result<Vec<u8>, Failure> {
    let system = |call: &'static str| move |e: Errno| Failure::failed(SandboxError::System { call, source: e.into() });
    let input = sealed(&component.bytes()?).map_err(Failure::failed)?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(system("pipe2"))?;
    let birth = Birth {
        program: compiler.as_fd(),
        name: c"act-compile",
        channel: input.as_fd(),
        output: Some(write.as_fd()),
        cgroup: None,
        uid: None,
        limits: COMPILE_LIMITS,
    };
    let child = birth.spawn().map_err(Failure::failed)?;
    drop(write);
    let mut pipe = std::fs::File::from(read);
    let started = Instant::now();
    let mut told = 0u32;
    let mut out = Vec::new();
    let mut buffer = vec![0u8; 1 << 16];
    loop {
        let waited = started.elapsed();
        if waited > COMPILE_DEADLINE || out.len() as u64 > MAX_CODE {
            child.kill();
            return Err(Failure::killed(format!(
                "{}: the compiler was stopped after {waited:.0?}",
                component.reference
            )));
        }
        if let Some(due) = waited.checked_sub(PATIENCE)
            && due >= told * PROGRESS
        {
            let since = if told > 0 { format!(" {} s", waited.as_secs()) } else { String::new() };
            told += 1;
            let shown = &component.reference;
            let _ = writeln!(std::io::stderr(), "act: compiling {shown} (once; the result is cached) …{since}");
        }
        let tick = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
        let mut fds = [PollFd::new(&pipe, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&tick));
        if signals.pending() {
            child.kill();
            return Err(Failure::interrupted());
        }
        if fds.first().is_none_or(|fd| fd.revents().is_empty()) {
            continue;
        }
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => out.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => {
                child.kill();
                return Err(Failure::failed(format!("the compiler's output: {e}")));
            }
        }
    }
    // Code and error message come through one pipe; the exit code tells which it was.
    let shown = &component.reference;
    match child.end() {
        Ok(Ended::Exit(0)) if !out.is_empty() => Ok(out),
        Ok(Ended::Exit(_)) => {
            /// Longest message that is shown, in characters.
            const LONGEST: usize = 500;
            let message: String = String::from_utf8_lossy(&out).trim().chars().take(LONGEST).collect();
            Err(Failure::failed(format!("{shown}: not a valid component: {}", act_policy::escape(&message))))
        }
        Ok(Ended::Signal(signal)) => Err(Failure::killed(format!("{shown}: signal {signal} killed the compiler"))),
        Ok(Ended::Hung) => Err(Failure::failed(format!("{shown}: the compiler did not end"))),
        Err(e) => Err(Failure::failed(format!("{shown}: the compiler: {e}"))),
    }
}
