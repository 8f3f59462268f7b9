//! What was opened, as wasmtime-wasi's descriptors.

use act_files::{Opened, Opening};
use std::fs::File as StdFile;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, FsPerms, OpenMode};

/// `mutate`: whether the guest asked for a directory in which it may change things.
pub(super) fn descriptor(opened: Opened, opening: Opening, mutate: bool) -> Descriptor {
    match opened {
        Opened::Directory(directory) => Descriptor::Dir(self::directory(directory, mutate)),
        // wasmtime-wasi refuses every change through a descriptor whose permissions are read-only.
        Opened::File(file) => {
            let mut open = OpenMode::empty();
            open.set(OpenMode::READ, opening.reads());
            open.set(OpenMode::WRITE, opening.write);
            let permissions = if opening.write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            Descriptor::File(File::new(file.into(), permissions, open, true))
        }
    }
}

/// A directory descriptor. The permission is wasmtime-wasi's, whose operations on directories are all shadowed.
pub(super) fn directory(fd: StdFile, mutate: bool) -> Dir {
    let mut open = OpenMode::READ;
    open.set(OpenMode::WRITE, mutate);
    Dir::new(fd, FsPerms::ReadOnly, open, true)
}
