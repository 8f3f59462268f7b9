//! A forked child that confines itself and tells how one attempt ended.

/// Exit codes of the child beside an errno.
const CONFINE_FAILED: i32 = 254;

/// Run `confine`, then `attempt`, in a forked child. `Ok`: the attempt worked; `Err`: its errno.
///
/// `attempt` makes plain system calls only: the test program has threads, and a fork has one.
pub(crate) fn child(confine: impl FnOnce() -> bool, attempt: impl FnOnce() -> i64) -> Result<(), i32> {
    // SAFETY: the child only runs the two closures, which take no lock that another thread could hold at the fork
    // (glibc re-initializes malloc in the child), and leaves by `_exit` without running destructors of the parent.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        let code = if confine() {
            // SAFETY: `__errno_location` is valid in every thread.
            if attempt() >= 0 { 0 } else { unsafe { *libc::__errno_location() } }
        } else {
            CONFINE_FAILED
        };
        // SAFETY: ends the process.
        unsafe { libc::_exit(code) }
    }
    let mut status = 0;
    // SAFETY: `pid` is our child, `status` a valid int.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child was killed by signal {}", libc::WTERMSIG(status));
    match libc::WEXITSTATUS(status) {
        0 => Ok(()),
        CONFINE_FAILED => panic!("the child could not confine itself"),
        errno => Err(errno),
    }
}
