//! Listing a directory: judged every time, and only what the policy lets the guest see.

use super::act::Files;
use super::fault::Fault;
use crate::gate::file;
use act_policy::{Access, Decision};
use rustix::fs::{AtFlags, FileType, RawDir, statat};
use std::fs::File;
use std::mem::MaybeUninit;

/// One entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: FileType,
}

impl Files {
    /// Judge the listing of an open directory; returns its path.
    pub(crate) async fn may_list(&self, dir: &File) -> Result<Vec<u8>, Fault> {
        let path = self.path_of(dir)?;
        self.permit(Access::List, &path).await?;
        Ok(path)
    }

    pub(crate) fn kernel_refused_list(&self, path: &[u8]) {
        self.gate.kernel_refused(file(Access::List, path), rustix::io::Errno::ACCESS.raw_os_error());
    }

    /// Whether an entry of the directory `path` is shown.
    pub(crate) fn shows(&self, path: &[u8], name: &str) -> bool {
        let mut entry = path.to_vec();
        if !entry.ends_with(b"/") {
            entry.push(b'/');
        }
        entry.extend_from_slice(name.as_bytes());
        self.gate.peek(&file(Access::Stat, &entry)).decision != Decision::Deny
    }

    /// All entries that are shown. Names that are not UTF-8 cannot be told to a component and are left out.
    pub(crate) async fn list(&self, dir: &File) -> Result<Vec<Entry>, Fault> {
        let path = self.may_list(dir).await?;
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::openat(dir, ".", flags, rustix::fs::Mode::empty());
        let listed = self.kernel(Access::List, &path, opened)?;
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut raw = RawDir::new(&listed, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || !self.shows(&path, name) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => statat(&listed, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            entries.push(Entry { name: name.to_owned(), kind });
        }
        Ok(entries)
    }
}
