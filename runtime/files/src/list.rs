//! Listing a directory: judged every time, and only what the policy lets be seen.

use crate::fault::Fault;
use crate::files::Files;
use crate::judge::{Judge, file};
use crate::remote::{Answer, Operation};
use act_policy::{Access, Decision};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::mem::MaybeUninit;

/// Most bytes of one listing, each entry with [`ENTRY`] besides its name.
pub const MAX_LISTING: usize = 32 << 20;
/// What an entry weighs besides its name.
const ENTRY: usize = 64;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
}

/// Kind of a file, as directories tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are what they are called")]
pub enum Kind {
    RegularFile,
    Directory,
    Symlink,
    BlockDevice,
    CharacterDevice,
    Fifo,
    Socket,
    Unknown,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::RegularFile,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharacterDevice,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::Unknown => Self::Unknown,
        }
    }
}

impl<J: Judge> Files<J> {
    /// Whether an entry of the directory `path` is shown.
    fn shows(&self, path: &[u8], name: &str) -> bool {
        let mut entry = path.to_vec();
        if !entry.ends_with(b"/") {
            entry.push(b'/');
        }
        entry.extend_from_slice(name.as_bytes());
        self.judge.peek(&file(Access::Stat, &entry)).decision != Decision::Deny
    }

    /// All entries that are shown. Names that are not UTF-8 cannot be told to a component and are left out.
    pub async fn list(&self, dir: &File) -> Result<Vec<Entry>, Fault> {
        let path = self.path_of(dir)?;
        self.permit(Access::List, &path).await?;
        if let Some(answer) = self.elsewhere(&[&path], false, || Operation::List { path: path.clone() }) {
            let Answer::Entries(mut entries) = answer? else { return Err(Errno::PROTO.into()) };
            // The broker has judged them, too; what this process may show is its own decision.
            entries.retain(|entry| self.shows(&path, &entry.name));
            return Ok(entries);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(dir, ".", flags, Mode::empty());
        let listed = self.kernel(Access::List, &path, opened)?;
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut raw = RawDir::new(&listed, &mut buffer);
        let mut entries = Vec::new();
        let mut bytes = 0;
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || !self.shows(&path, name) {
                continue;
            }
            bytes += name.len() + ENTRY;
            if bytes > MAX_LISTING {
                return Err(Errno::OVERFLOW.into());
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&listed, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            entries.push(Entry { name: name.to_owned(), kind: kind.into() });
        }
        Ok(entries)
    }
}
