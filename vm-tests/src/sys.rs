//! The system calls that the standard library has no function for.

use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::fs::File;
use std::io::{Error, Result};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd as _, RawFd};

// Signatures and constants as in the headers of glibc and musl for 64-bit Linux.
unsafe extern "C" {
    fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn setrlimit(resource: c_int, limit: *const [u64; 2]) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    fn tcdrain(fd: c_int) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn reboot(how: c_int) -> c_int;
}

/// `SIGINT`
pub const INTERRUPT: i32 = 2;
/// `SIGKILL`
pub const KILL: i32 = 9;
/// `EAGAIN`
pub const AGAIN: i32 = 11;

/// Mount a file system that has no device.
pub fn mount_virtual(kind: &CStr, target: &CStr) -> Result<()> {
    // SAFETY: the strings live through the call and end in NUL; `data` may be null; no memory is kept by the kernel.
    check(unsafe { mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) })
}

/// Lift `RLIMIT_MEMLOCK`: before Linux 5.11 the memory of eBPF programs counts against it.
pub fn unlimited_memlock() -> Result<()> {
    const MEMLOCK: c_int = 8;
    let infinity = [u64::MAX; 2];
    // SAFETY: `struct rlimit` is two 64-bit numbers; the kernel only reads them, during the call.
    check(unsafe { setrlimit(MEMLOCK, &raw const infinity) })
}

/// Bring the network interface `lo` up.
pub fn loopback_up() -> Result<()> {
    const GET_FLAGS: c_ulong = 0x8913;
    const SET_FLAGS: c_ulong = 0x8914;
    const UP: u16 = 1;
    /// `struct ifreq`, seen through its member for flags.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let mut request = Request { name: [0; 16], flags: 0, rest: [0; 22] };
    for (to, from) in request.name.iter_mut().zip(b"lo") {
        *to = *from;
    }
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request has the 40 bytes that the kernel reads and writes, and it is not used elsewhere meanwhile.
    check(unsafe { ioctl(socket.as_raw_fd(), GET_FLAGS, &raw mut request) })?;
    request.flags |= UP;
    // SAFETY: as above.
    check(unsafe { ioctl(socket.as_raw_fd(), SET_FLAGS, &raw mut request) })
}

/// Wait until a serial port has sent everything.
pub fn drain(port: &File) -> Result<()> {
    let fd: RawFd = port.as_raw_fd();
    // SAFETY: the descriptor is open for as long as `port` is borrowed; no memory is passed.
    check(unsafe { tcdrain(fd) })
}

/// Send a signal to a process.
pub fn signal(pid: u32, number: i32) -> Result<()> {
    let pid = c_int::try_from(pid).map_err(|_| Error::other("no process has this id"))?;
    // SAFETY: no memory is passed; a process id of a child that was not waited for cannot mean another process.
    check(unsafe { kill(pid, number) })
}

/// Kill every process but this one. Called by PID 1 only.
pub fn kill_all_others() -> Result<()> {
    // SAFETY: no memory is passed; -1 is documented in kill(2) to leave PID 1 and the caller out.
    check(unsafe { kill(-1, KILL) })
}

/// Switch the machine off. Returns only where that is refused.
pub fn power_off() -> Error {
    const POWER_OFF: c_int = 0x4321_fedc;
    // SAFETY: no memory is passed; all file systems here live in memory, so nothing is lost.
    unsafe { reboot(POWER_OFF) };
    Error::last_os_error()
}

fn check(result: c_int) -> Result<()> {
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
