//! Compiled components: made by `act-compile` in its own lock-down, kept in a private cache, handed out as sealed memory.
//!
//! A cached file is `MAC ‖ code`: the keyed BLAKE3 of the code under a random key of this folder, bound to the file's name. A
//! file that was cut, changed, renamed or brought from another folder is not used. What the guest maps is never the
//! file but a sealed copy, so nobody can change it afterwards.

use crate::component::{Component, hex};
use crate::config::dirs;
use crate::exit::Failure;
use crate::sandbox::SandboxError;
use crate::sandbox::spawn::{Birth, Ended, Rlimits, open_sibling};
use crate::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, fstat, memfd_create, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use std::io::{Read as _, Seek as _, Write as _};
use std::time::{Duration, Instant};

const MAC: usize = 32;
/// Largest compiled component in bytes.
const MAX_CODE: u64 = 2 << 30;
/// What the compiler may use: memory for the largest components that people run.
const COMPILE_LIMITS: Rlimits = Rlimits { data: 4 << 30, files: 64, file_size: MAX_CODE, cpu: 600 };
/// How long one compilation may take.
const COMPILE_DEADLINE: Duration = Duration::from_mins(10);
/// Silence before people are told that a compilation is under way.
const PATIENCE: Duration = Duration::from_millis(700);

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
    let artifact = |code: &[u8], cached| sealed(code).map(|code| Artifact { code, cached }).map_err(Failure::failed);
    if let Some(cache) = cache.as_ref().filter(|_| !fresh) {
        match cache.load(&name) {
            Ok(Some(code)) => return artifact(&code, true),
            Ok(None) => {}
            Err(reason) => warn(&format!("cached code {name} is not used: {reason}")),
        }
    }
    let code = compile(component, compiler, signals)?;
    if let Some(cache) = &cache
        && let Err(reason) = cache.save(&name, &code)
    {
        warn(&format!("the compiled component could not be cached: {reason}"));
    }
    artifact(&code, false)
}

/// Digest of the component and identity of the compiler: another build of it never shares an entry.
fn entry_name(component: &Component, compiler: &OwnedFd) -> Result<String, Failure> {
    let stat = fstat(compiler).map_err(|e| Failure::failed(format!("act-compile: {e}")))?;
    let identity = format!("{}:{}:{}:{}", env!("CARGO_PKG_VERSION"), stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    let build = blake3::hash(identity.as_bytes());
    Ok(format!("{}-{}.cwasm", component.digest_hex(), hex(build.as_bytes().get(..8).unwrap_or_default())))
}

/// A memfd with the code, sealed against every change.
fn sealed(code: &[u8]) -> Result<OwnedFd, SandboxError> {
    let system = |call: &'static str| move |e: Errno| SandboxError::System { call, source: e.into() };
    let fd =
        memfd_create("act-code", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(system("memfd_create"))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(code).map_err(|source| SandboxError::System { call: "write to memfd", source })?;
    file.rewind().map_err(|source| SandboxError::System { call: "lseek", source })?;
    let fd = OwnedFd::from(file);
    // Readable for a guest that runs as another user.
    fchmod(&fd, Mode::from_raw_mode(0o444)).map_err(system("fchmod"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&fd, seals).map_err(system("F_ADD_SEALS"))?;
    Ok(fd)
}

/// Run `act-compile`: bytes in through its channel, code out through a pipe.
fn compile(component: &Component, compiler: OwnedFd, signals: &Signals) -> Result<Vec<u8>, Failure> {
    let system = |call: &'static str| move |e: Errno| Failure::failed(SandboxError::System { call, source: e.into() });
    let input = sealed(&component.bytes).map_err(Failure::failed)?;
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
    let mut told = false;
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
        if waited > PATIENCE && !told {
            told = true;
            let _ =
                writeln!(std::io::stderr(), "act: compiling {} (once; the result is cached) …", component.reference);
        }
        let tick = rustix::event::Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
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

/// The private folder of compiled components.
struct Cache {
    folder: OwnedFd,
    key: [u8; 32],
}

impl Cache {
    fn open() -> Result<Self, String> {
        let folder = crate::folder::make(&dirs::cache().ok_or("neither XDG_CACHE_HOME nor HOME is set")?)?;
        let key = key(&folder)?;
        Ok(Self { folder, key })
    }

    fn load(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let file = match openat(&self.folder, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
        {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.to_string()),
        };
        let mut bytes = Vec::new();
        let file = std::fs::File::from(file);
        if let Ok(metadata) = file.metadata() {
            bytes.reserve_exact(usize::try_from(metadata.len().min(MAX_CODE)).unwrap_or(0) + 1);
        }
        file.take(MAX_CODE + MAC as u64).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        let (mac, code) = bytes.split_at_checked(MAC).ok_or("it is cut short")?;
        // A comparison in constant time: `blake3::Hash`.
        if blake3::Hash::from_slice(mac).ok() != Some(self.mac(name, code)) {
            return Err("it is damaged, or was not made by this user's act".into());
        }
        bytes.drain(..MAC);
        Ok(Some(bytes))
    }

    fn mac(&self, name: &str, code: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(name.as_bytes());
        hasher.update(&[0]);
        hasher.update(code);
        hasher.finalize()
    }

    /// Write beside and rename, so that a reader sees the whole or nothing.
    fn save(&self, name: &str, code: &[u8]) -> Result<(), String> {
        let temporary = format!(".{name}.{}", rustix::process::getpid().as_raw_nonzero());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.folder, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(|e| e.to_string())?;
        let mut file = std::fs::File::from(file);
        let written = file.write_all(self.mac(name, code).as_bytes()).and_then(|()| file.write_all(code));
        let result = match written {
            Ok(()) => renameat(&self.folder, &temporary, &self.folder, name).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        if result.is_err() {
            let _ = unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        result
    }
}

/// The key of the cache, made at first use.
fn key(folder: &OwnedFd) -> Result<[u8; 32], String> {
    const NAME: &str = "key";
    let fail = |e: &dyn std::fmt::Display| format!("its {NAME}: {e}");
    for _ in 0..2 {
        match openat(folder, NAME, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) => {
                let mut key = [0u8; 32];
                let mut file = std::fs::File::from(file);
                return file.read_exact(&mut key).map(|()| key).map_err(|e| fail(&e));
            }
            Err(Errno::NOENT) => {}
            Err(e) => return Err(fail(&e)),
        }
        let mut key = [0u8; 32];
        let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).map_err(|e| fail(&e))?;
        if filled != key.len() {
            return Err(fail(&"no random bytes"));
        }
        let temporary = format!(".{NAME}.{}", rustix::process::getpid().as_raw_nonzero());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(folder, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(|e| fail(&e))?;
        let written = std::fs::File::from(file).write_all(&key);
        // `link` does not replace: of two first starts one wins, and the other reads its key.
        let linked = rustix::fs::linkat(folder, &temporary, folder, NAME, AtFlags::empty());
        let _ = unlinkat(folder, &temporary, AtFlags::empty());
        written.map_err(|e| fail(&e))?;
        match linked {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(fail(&e)),
        }
    }
    Err(fail(&"it keeps vanishing"))
}
