//! File grants as Landlock rules: which descriptor gets which rights.

use crate::error::LockdownError;
use act_wire::FileGrant;
use landlock::{ABI, Access as _, AccessFs, BitFlags};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// A place and the rights below it.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) place: OwnedFd,
    pub(crate) access: BitFlags<AccessFs>,
}

/// Reading below a directory. Never execution.
fn read(abi: ABI) -> BitFlags<AccessFs> {
    (AccessFs::ReadFile | AccessFs::ReadDir) & AccessFs::from_all(abi)
}

/// Reading and writing below a directory. Never devices, sockets or FIFOs; moving between directories from ABI 2 on.
fn write(abi: ABI) -> BitFlags<AccessFs> {
    let write = AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::MakeSym
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir
        | AccessFs::Refer;
    read(abi) | write & AccessFs::from_all(abi)
}

/// One file.
fn file(abi: ABI, writable: bool) -> BitFlags<AccessFs> {
    let write = if writable { AccessFs::WriteFile | AccessFs::Truncate } else { BitFlags::EMPTY };
    (write | AccessFs::ReadFile) & AccessFs::from_all(abi)
}

/// For the directory above what does not exist yet: enough to make it and fill it, nothing that takes away.
fn create(abi: ABI) -> BitFlags<AccessFs> {
    let make = AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::WriteFile | AccessFs::Truncate;
    read(abi) | make & AccessFs::from_all(abi)
}

/// The rule of a grant. `None`: it names a special file, a link, or nothing that could be created.
pub(crate) fn rule(grant: &FileGrant, abi: ABI) -> Result<Option<Rule>, LockdownError> {
    let failed = |source| LockdownError::Grant { path: grant.path.clone(), source };
    match pin(&grant.path) {
        Ok(place) => {
            let kind = FileType::from_raw_mode(fstat(&place).map_err(failed)?.st_mode);
            Ok(match kind {
                FileType::Directory => Some(if grant.write { write(abi) } else { read(abi) }),
                FileType::RegularFile => Some(file(abi, grant.write)),
                _ => None,
            }
            .map(|access| Rule { place, access }))
        }
        Err(Errno::NOENT | Errno::NOTDIR) if grant.write => {
            Ok(ancestor(&grant.path).map_err(failed)?.map(|place| Rule { place, access: create(abi) }))
        }
        // Links were resolved by the supervisor: a link that is there now was put there since.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

/// The nearest directory above `path` that exists; never `/`, whose subtree is everything.
fn ancestor(path: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let mut path = path;
    while let Some(slash) = path.iter().rposition(|&b| b == b'/').filter(|&slash| slash > 0) {
        path = path.get(..slash).unwrap_or_default();
        match pin(path) {
            Ok(place) => {
                let kind = FileType::from_raw_mode(fstat(&place)?.st_mode);
                return Ok((kind == FileType::Directory).then_some(place));
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(Errno::LOOP | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}

fn pin(path: &[u8]) -> Result<OwnedFd, Errno> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
