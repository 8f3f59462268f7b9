//! The store's key in the kernel's keyring of this user: until a restart, or for a time (keyrings(7), Linux 2.6).

use super::file::{Id, Key};
use std::ffi::CString;
use std::io;
use zeroize::Zeroizing;

/// The process's own keyring, where a new key can be given its rights.
const PROCESS: i64 = -2;
/// The user's keyring, which all processes of the user share.
const USER: i64 = -4;
/// All rights for who possesses the key; looking at, reading and finding for every process of the user. Without the
/// latter the key could only be read below the login session that made it.
const RIGHTS: i64 = 0x3f00_0000 | 0x0001_0000 | 0x0002_0000 | 0x0008_0000;

/// The key, if the kernel has it. A keyring that cannot be used has none.
pub(super) fn find(id: &Id) -> Option<Key> {
    let serial = search(id)?;
    let mut key = Zeroizing::new([0u8; 32]);
    (read(serial, &mut *key).ok()? == key.len()).then_some(key)
}

/// Keep a key, for so many seconds where that is said.
pub(super) fn keep(id: &Id, key: &Key, seconds: Option<u32>) -> io::Result<()> {
    let serial = add(id, &**key)?;
    keyctl(libc::KEYCTL_SETPERM, [serial, RIGHTS, 0, 0])?;
    if let Some(seconds) = seconds {
        keyctl(libc::KEYCTL_SET_TIMEOUT, [serial, i64::from(seconds), 0, 0])?;
    }
    // A key of the same name in the user's keyring is replaced by it.
    keyctl(libc::KEYCTL_LINK, [serial, USER, 0, 0])?;
    Ok(())
}

/// Forget a key.
pub(super) fn forget(id: &Id) {
    if let Some(serial) = search(id) {
        let _ = keyctl(libc::KEYCTL_UNLINK, [serial, USER, 0, 0]);
    }
}

fn description(id: &Id) -> CString {
    CString::new(format!("act:secrets:{}", crate::component::hex(id))).unwrap_or_default()
}

fn answer(value: libc::c_long) -> io::Result<i64> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn add(id: &Id, payload: &[u8]) -> io::Result<i64> {
    let description = description(id);
    // SAFETY: add_key(2) reads two strings that end with NUL and `payload.len()` bytes, all alive and unchanged for the
    // whole call; the keyring is a number.
    answer(unsafe {
        let (kind, name) = (c"user".as_ptr(), description.as_ptr());
        libc::syscall(libc::SYS_add_key, kind, name, payload.as_ptr(), payload.len(), PROCESS)
    })
}

fn search(id: &Id) -> Option<i64> {
    let description = description(id);
    // SAFETY: KEYCTL_SEARCH (keyctl_search(3)) reads two strings that end with NUL, alive for the whole call; the other
    // arguments are numbers.
    let serial = answer(unsafe {
        let (kind, name) = (c"user".as_ptr(), description.as_ptr());
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_SEARCH, USER, kind, name, 0i64)
    });
    serial.ok()
}

fn read(serial: i64, out: &mut [u8]) -> io::Result<usize> {
    // SAFETY: KEYCTL_READ (keyctl_read(3)) writes at most `out.len()` bytes to `out`, which is borrowed for the call.
    let length =
        answer(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_READ, serial, out.as_mut_ptr(), out.len()) })?;
    Ok(usize::try_from(length).unwrap_or(usize::MAX))
}

/// An operation whose arguments are numbers only.
fn keyctl(operation: u32, [a, b, c, d]: [i64; 4]) -> io::Result<i64> {
    // SAFETY: the operations that the callers name (SETPERM, SET_TIMEOUT, LINK, UNLINK) take numbers and touch no memory
    // of this process.
    answer(unsafe { libc::syscall(libc::SYS_keyctl, operation, a, b, c, d) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_kept_found_and_forgotten() {
        let id = super::super::file::random().unwrap();
        let key: Key = Zeroizing::new([5; 32]);
        if let Err(e) = keep(&id, &key, Some(60)) {
            println!("skipped: the kernel's keyring cannot be used here: {e}");
            return;
        }
        assert_eq!(find(&id).as_deref(), Some(&[5; 32]));
        keep(&id, &Zeroizing::new([6; 32]), Some(60)).unwrap();
        assert_eq!(find(&id).as_deref(), Some(&[6; 32]));
        forget(&id);
        assert_eq!(find(&id), None);
        assert_eq!(find(&[0xee; 16]), None);
    }
}
