//! File grants as Landlock rules: which descriptor gets which rights.

use crate::error::LockdownError;
use act_wire::FileGrant;
use landlock::{ABI, Access as _, AccessFs, BitFlags};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
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

/// The rule of a grant. `None`: it names no directory. Links were resolved by the supervisor: a link that is there now was
/// put there since.
pub(crate) fn rule(grant: &FileGrant, abi: ABI) -> Result<Option<Rule>, LockdownError> {
    let access = if grant.write { write(abi) } else { read(abi) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat2(CWD, &*grant.path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(place) => Ok(Some(Rule { place, access })),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(None),
        Err(source) => Err(LockdownError::Grant { path: grant.path.clone(), source }),
    }
}
