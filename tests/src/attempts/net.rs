//! Attempts to reach something over the network.

use super::{Outcome, Places, done};
use rustix::io::Errno;

const HOME: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// An IPv4 address, or the same inside an IPv6 address (`::ffff:a.b.c.d`).
fn address(ip: [u8; 4], port: u16, mapped: bool) -> Vec<u8> {
    let mut bytes = vec![0_u8; if mapped { 28 } else { 16 }];
    let family = if mapped { libc::AF_INET6 } else { libc::AF_INET };
    bytes[..2].copy_from_slice(&(family.cast_unsigned() as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    if mapped {
        bytes[18..20].fill(0xff);
        bytes[20..24].copy_from_slice(&ip);
    } else {
        bytes[4..8].copy_from_slice(&ip);
    }
    bytes
}

/// A socket, closed in the end.
fn with_socket(family: i32, kind: i32, work: impl FnOnce(i32) -> Outcome) -> Outcome {
    // SAFETY: takes numbers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) };
    done(fd.into())?;
    let outcome = work(fd);
    // SAFETY: ours, used no more.
    unsafe { libc::close(fd) };
    outcome
}

fn connect(kind: i32, ip: [u8; 4], port: u16, mapped: bool) -> Outcome {
    let to = address(ip, port, mapped);
    with_socket(if mapped { libc::AF_INET6 } else { libc::AF_INET }, kind, |fd| {
        raw!(libc::SYS_connect, fd, to.as_ptr(), to.len())
    })
}

fn send(kind: i32, ip: [u8; 4], port: u16, mapped: bool, flags: i32) -> Outcome {
    let to = address(ip, port, mapped);
    with_socket(if mapped { libc::AF_INET6 } else { libc::AF_INET }, kind, |fd| {
        raw!(libc::SYS_sendto, fd, c"x".as_ptr(), 1, flags, to.as_ptr(), to.len())
    })
}

fn send_many(port: u16) -> Outcome {
    let mut to = address([127, 0, 0, 1], port, false);
    let mut letter = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: all-zero is a valid header without address or buffers.
    let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
    (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut letter, 1);
    (message.msg_hdr.msg_name, message.msg_hdr.msg_namelen) = (to.as_mut_ptr().cast(), 16);
    with_socket(libc::AF_INET, libc::SOCK_DGRAM, |fd| raw!(libc::SYS_sendmmsg, fd, &raw mut message, 1, 0))
}

fn set_option(kind: i32, level: i32, option: i32, value: [u8; 4]) -> Outcome {
    with_socket(libc::AF_INET, kind, |fd| raw!(libc::SYS_setsockopt, fd, level, option, value.as_ptr(), 4))
}

fn bind() -> Outcome {
    let to = address([127, 0, 0, 1], 40001, false);
    with_socket(libc::AF_INET, libc::SOCK_STREAM, |fd| raw!(libc::SYS_bind, fd, to.as_ptr(), 16))
}

/// Try one attempt.
pub(super) fn run(name: &str, places: &Places) -> Outcome {
    match name {
        "connect 127.0.0.1" => connect(libc::SOCK_STREAM, HOME, places.port, false),
        "connect 127.0.0.2" => connect(libc::SOCK_STREAM, OTHER, places.port, false),
        "connect ::ffff:127.0.0.2" => connect(libc::SOCK_STREAM, OTHER, places.port, true),
        "connect another port" => connect(libc::SOCK_STREAM, HOME, places.other, false),
        "connect a datagram socket" => connect(libc::SOCK_DGRAM, HOME, places.port, false),
        "datagram" => send(libc::SOCK_DGRAM, HOME, places.port, false, 0),
        "datagram to ::ffff:127.0.0.1" => send(libc::SOCK_DGRAM, HOME, places.port, true, 0),
        "sendmmsg" => send_many(places.port),
        "MSG_FASTOPEN" => send(libc::SOCK_STREAM, HOME, places.port, false, libc::MSG_FASTOPEN),
        "TCP_FASTOPEN_CONNECT" => {
            set_option(libc::SOCK_STREAM, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, [1, 0, 0, 0])
        }
        // Four times "no operation", where a source route could be.
        "IP_OPTIONS" => set_option(libc::SOCK_STREAM, libc::IPPROTO_IP, libc::IP_OPTIONS, [1; 4]),
        "listen" => with_socket(libc::AF_INET, libc::SOCK_STREAM, |fd| raw!(libc::SYS_listen, fd, 1)),
        "bind" => bind(),
        _ => Err(Errno::NOSYS),
    }
}
