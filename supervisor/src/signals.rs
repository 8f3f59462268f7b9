//! SIGINT, SIGTERM and SIGHUP as a descriptor, so that the loop ends a run in order.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Signals that ask the program to end.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Block the signals and take them as a descriptor. Call it before any thread is started, so that all inherit the
    /// mask; a guest child gets an empty mask of its own.
    pub fn take() -> std::io::Result<Self> {
        // SAFETY: the set is a local that the calls fill and read; signalfd returns a new descriptor that only we own.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(std::io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// Whether one has come. It stays so: whoever waits sees it.
    pub fn pending(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
