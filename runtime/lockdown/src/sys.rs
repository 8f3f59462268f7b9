//! The raw system calls of this crate, each behind a typed function.

use crate::error::LockdownError;
use rustix::io::Errno;

/// Most instructions of a program (`BPF_MAXINSNS`).
pub(crate) const INSTRUCTIONS: usize = 4096;

/// The Landlock ABI of the kernel, 0 for none (`landlock_create_ruleset` with the version flag, Linux 5.13).
pub(crate) fn landlock_version() -> u32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with the version flag the kernel demands a null pointer and a size of 0, reads no memory and makes no
    // descriptor.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// Install a seccomp program on all threads of the process.
///
/// Each number is one `sock_filter`: code in the bits 0 to 15, `jt` in 16 to 23, `jf` in 24 to 31, `k` in 32 to 63. Sets
/// `no_new_privs` first, as the kernel demands of an unprivileged caller.
#[doc(alias = "SECCOMP_SET_MODE_FILTER")]
pub fn seccomp(program: &[u64]) -> Result<(), LockdownError> {
    if program.is_empty() || program.len() > INSTRUCTIONS {
        return Err(LockdownError::Program { instructions: program.len() });
    }
    rustix::thread::set_no_new_privs(true)
        .map_err(|source| LockdownError::System { call: "prctl(PR_SET_NO_NEW_PRIVS)", source })?;
    let mut filter: Vec<_> = program.iter().map(|&number| unpack(number)).collect();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: `program` points to `len` initialized instructions that live until after the call; the length was checked
    // against the kernel's bound, which fits u16. The kernel copies and verifies the program and writes to no memory of
    // ours.
    let thread = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            std::ptr::from_ref(&program),
        )
    };
    match thread {
        0 => Ok(()),
        thread if thread > 0 => Err(LockdownError::Thread { thread }),
        _ => {
            let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
            Err(LockdownError::System { call: "seccomp(SECCOMP_SET_MODE_FILTER)", source: errno })
        }
    }
}

pub(crate) fn pack(code: u16, jt: u8, jf: u8, k: u32) -> u64 {
    u64::from(code) | u64::from(jt) << 16 | u64::from(jf) << 24 | u64::from(k) << 32
}

fn unpack(number: u64) -> libc::sock_filter {
    libc::sock_filter {
        code: number as u16,
        jt: (number >> 16) as u8,
        jf: (number >> 24) as u8,
        k: (number >> 32) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_lossless() {
        let filter = unpack(pack(0x1234, 0x56, 0x78, 0x9abc_def0));
        assert_eq!((filter.code, filter.jt, filter.jf, filter.k), (0x1234, 0x56, 0x78, 0x9abc_def0));
    }

    #[test]
    fn programs_out_of_bounds_are_refused() {
        for program in [vec![], vec![0; INSTRUCTIONS + 1]] {
            assert!(matches!(seccomp(&program), Err(LockdownError::Program { .. })));
        }
    }
}
