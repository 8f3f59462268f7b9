//! The private cache: compiled components, and notes about files that were read before.
//!
//! An entry is `MAC ‖ code`: the keyed BLAKE3 of the code under a random key of this folder, bound to the entry's name. One that
//! was cut, changed, renamed or brought from another folder is not used. What the guest maps is never the file but a
//! sealed copy, so that nobody can change it afterwards.
//!
//! A note says something of a file that was read and checked as a whole, for as long as the kernel says that it is the
//! same file, unchanged ([`Identity`]): a component of 20 MB and 40 MB of code need not be hashed for every call. It is
//! authenticated like an entry. Who can replace a file without the kernel telling is this user, who is trusted.

use crate::component::hex;
use crate::config::dirs;
use crate::sandbox::SandboxError;
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, memfd_create, openat, renameat, sendfile,
    unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

const MAC: u64 = 32;
/// Largest compiled component in bytes.
pub const MAX_CODE: u64 = 2 << 30;
/// Largest note with its MAC: the manifest of a component and a little more.
const MAX_NOTE: u64 = 2 << 20;
/// Seconds after its last change before something is noted of a file.
const SETTLED: i64 = 2;
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The private folder of compiled components.
#[derive(Debug)]
pub struct Cache {
    folder: OwnedFd,
    key: [u8; 32],
}

impl Cache {
    /// Open the folder; it is made if it is missing.
    pub fn open() -> Result<Self, String> {
        let folder = crate::folder::make(&dirs::cache().ok_or("neither XDG_CACHE_HOME nor HOME is set")?)?;
        let key = key(&folder)?;
        Ok(Self { folder, key })
    }

    /// The folder, if there is one with a key already; nothing is made.
    pub fn existing() -> Option<Self> {
        let folder = crate::folder::open(&dirs::cache()?).ok()??;
        let key = read_key(&folder).ok()??;
        Some(Self { folder, key })
    }

    /// The code of an entry, in sealed memory.
    pub fn load(&self, name: &str) -> Result<Option<OwnedFd>, String> {
        let Some(file) = self.open_entry(name)? else { return Ok(None) };
        let identity = Identity::of(&file).map_err(|e| e.to_string())?;
        if self.recall(&identity).is_some_and(|noted| noted == name.as_bytes()) {
            return sealed_copy(&file, MAC, identity.size).map(Some).map_err(|e| e.to_string());
        }
        let mut bytes = Vec::new();
        bytes.reserve_exact(usize::try_from(identity.size.min(MAX_CODE)).unwrap_or(0) + 1);
        (&file).take(MAX_CODE + MAC).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        let (mac, code) = bytes.split_at_checked(MAC as usize).ok_or("it is cut short")?;
        // A comparison in constant time: `blake3::Hash`.
        if blake3::Hash::from_slice(mac).ok() != Some(self.mac(&[name.as_bytes(), code])) {
            return Err("it is damaged, or was not made by this user's act".into());
        }
        let sealed = sealed(code).map_err(|e| e.to_string())?;
        self.note(&file, &identity, name.as_bytes());
        Ok(Some(sealed))
    }

    fn open_entry(&self, name: &str) -> Result<Option<File>, String> {
        match openat(&self.folder, name, READ, Mode::empty()) {
            Ok(file) => Ok(Some(file.into())),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    /// What was noted of a file, if it is the file that it was then.
    pub fn recall(&self, identity: &Identity) -> Option<Vec<u8>> {
        let file = self.open_entry(&identity.note()).ok()??;
        let mut bytes = Vec::new();
        file.take(MAX_NOTE).read_to_end(&mut bytes).ok()?;
        let (mac, note) = bytes.split_at_checked(MAC as usize)?;
        let own = self.mac(&[b"note", &identity.bytes(), note]);
        (blake3::Hash::from_slice(mac).ok()? == own).then(|| note.to_vec())
    }

    /// Note something of a file that was read whole. Only of one that has not changed since, and not for a while: within one
    /// tick of the clock a second change would not be seen.
    pub fn note(&self, file: &File, identity: &Identity, note: &[u8]) {
        let same = Identity::of(file).is_ok_and(|now| now == *identity);
        if same && identity.is_settled() && note.len() as u64 + MAC <= MAX_NOTE {
            let mac = self.mac(&[b"note", &identity.bytes(), note]);
            // Without it the file is read again.
            let _ = self.write(&identity.note(), &[mac.as_bytes(), note]);
        }
    }

    /// A file to lock while an entry is made. One for each of a few: a file for every entry would stay behind for every
    /// component.
    pub fn lock_file(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = format!("lock-{}", name.get(..1).unwrap_or_default());
        openat(&self.folder, lock, flags, Mode::from_raw_mode(0o600))
    }

    /// Over all parts, each with its length before it.
    fn mac(&self, parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize()
    }

    /// Keep the code of an entry.
    pub fn save(&self, name: &str, code: &[u8]) -> Result<(), String> {
        self.write(name, &[self.mac(&[name.as_bytes(), code]).as_bytes(), code])
    }

    /// Write beside and rename, so that a reader sees the whole or nothing.
    fn write(&self, name: &str, parts: &[&[u8]]) -> Result<(), String> {
        let temporary = format!(".{name}.{}", rustix::process::getpid().as_raw_nonzero());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.folder, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(|e| e.to_string())?;
        let mut file = File::from(file);
        let result = match parts.iter().try_for_each(|part| file.write_all(part)) {
            Ok(()) => renameat(&self.folder, &temporary, &self.folder, name).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        if result.is_err() {
            let _ = unlinkat(&self.folder, &temporary, AtFlags::empty());
        }
        result
    }
}

/// Which file it is, and when it was changed last: `ctime` is the kernel's, nobody can set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// Bytes.
    pub size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// Of an open file.
    pub fn of(file: &File) -> std::io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    fn bytes(&self) -> [u8; 56] {
        let Self { device, inode, size, modified, changed } = self;
        let words = [*device, *inode, *size].map(u64::to_le_bytes);
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::to_le_bytes);
        let mut bytes = [0; 56];
        for (to, from) in bytes.chunks_exact_mut(8).zip(words.iter().chain(&times)) {
            to.copy_from_slice(from);
        }
        bytes
    }

    /// The name of the note about it.
    fn note(&self) -> String {
        let hash = blake3::hash(&self.bytes());
        format!("note-{}", hex(hash.as_bytes().get(..16).unwrap_or_default()))
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        i64::try_from(now).is_ok_and(|now| self.changed.0.saturating_add(SETTLED) < now)
    }
}

/// The key of the cache, made at first use.
fn key(folder: &OwnedFd) -> Result<[u8; 32], String> {
    let fail = |e: &dyn std::fmt::Display| format!("its {NAME}: {e}");
    for _ in 0..2 {
        if let Some(key) = read_key(folder)? {
            return Ok(key);
        }
        let mut key = [0u8; 32];
        let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).map_err(|e| fail(&e))?;
        if filled != key.len() {
            return Err(fail(&"no random bytes"));
        }
        let temporary = format!(".{NAME}.{}", rustix::process::getpid().as_raw_nonzero());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(folder, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(|e| fail(&e))?;
        let written = File::from(file).write_all(&key);
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

const NAME: &str = "key";

fn read_key(folder: &OwnedFd) -> Result<Option<[u8; 32]>, String> {
    let fail = |e: &dyn std::fmt::Display| format!("its {NAME}: {e}");
    match openat(folder, NAME, READ, Mode::empty()) {
        Ok(file) => {
            let mut key = [0u8; 32];
            File::from(file).read_exact(&mut key).map(|()| Some(key)).map_err(|e| fail(&e))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(fail(&e)),
    }
}

/// Sealed memory with these bytes.
pub fn sealed(bytes: &[u8]) -> Result<OwnedFd, SandboxError> {
    let mut memory = memory()?;
    memory.write_all(bytes).map_err(|source| SandboxError::System { call: "write to memfd", source })?;
    seal(memory)
}

/// Sealed memory with the bytes of a file from `from` up to `end`, without a detour through this process.
fn sealed_copy(file: &File, from: u64, end: u64) -> Result<OwnedFd, SandboxError> {
    let memory = memory()?;
    let mut at = from;
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        match sendfile(&memory, file, Some(&mut at), left) {
            Ok(0) => return Err(system("sendfile")(Errno::IO)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(system("sendfile")(errno)),
        }
    }
    seal(memory)
}

fn system(call: &'static str) -> impl Fn(Errno) -> SandboxError {
    move |errno| SandboxError::System { call, source: errno.into() }
}

fn memory() -> Result<File, SandboxError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    memfd_create("act-code", flags).map(File::from).map_err(system("memfd_create"))
}

fn seal(mut memory: File) -> Result<OwnedFd, SandboxError> {
    memory.rewind().map_err(|source| SandboxError::System { call: "lseek", source })?;
    let fd = OwnedFd::from(memory);
    // Readable for a guest that runs as another user.
    fchmod(&fd, Mode::from_raw_mode(0o444)).map_err(system("fchmod"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&fd, seals).map_err(system("F_ADD_SEALS"))?;
    Ok(fd)
}
