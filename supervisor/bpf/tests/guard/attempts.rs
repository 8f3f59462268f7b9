//! The attempts of a hostile process. Each returns the error number of the first call that failed, or 0.

use rustix::net::{
    AddressFamily, Protocol, SendFlags, SocketFlags, SocketType, bind, connect, ipproto, listen, send, sendto,
    socket_with, sockopt,
};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};

pub(crate) const TCP: SocketType = SocketType::STREAM;
pub(crate) const UDP: SocketType = SocketType::DGRAM;

/// A socket address from text.
pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn errno<T>(result: rustix::io::Result<T>) -> i32 {
    result.err().map_or(0, rustix::io::Errno::raw_os_error)
}

/// The error number of the last libc call.
fn last(result: libc::c_long) -> i32 {
    if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

pub(crate) fn new(family: AddressFamily, kind: SocketType, protocol: u32) -> rustix::io::Result<OwnedFd> {
    socket_with(family, kind, SocketFlags::CLOEXEC, std::num::NonZeroU32::new(protocol).map(Protocol::from_raw))
}

/// A socket of the address's family.
pub(crate) fn socket_for(addr: SocketAddr, kind: SocketType) -> rustix::io::Result<OwnedFd> {
    new(if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }, kind, 0)
}

pub(crate) fn try_socket(family: AddressFamily, kind: SocketType, protocol: u32) -> i32 {
    errno(new(family, kind, protocol))
}

pub(crate) fn try_connect(addr: SocketAddr, kind: SocketType) -> i32 {
    errno(socket_for(addr, kind).and_then(|socket| connect(&socket, &addr)))
}

pub(crate) fn try_sendto(addr: SocketAddr) -> i32 {
    errno(socket_for(addr, UDP).and_then(|socket| sendto(&socket, b"x", SendFlags::empty(), &addr)))
}

/// `sendmsg`, which rustix offers with an address too.
pub(crate) fn try_sendmsg(addr: SocketAddr) -> i32 {
    let mut control = rustix::net::SendAncillaryBuffer::default();
    let data = [std::io::IoSlice::new(b"x")];
    errno(
        socket_for(addr, UDP)
            .and_then(|socket| rustix::net::sendmsg_addr(&socket, &addr, &data, &mut control, SendFlags::empty())),
    )
}

/// Connects a datagram socket to `first`, then sends to `second` with an address.
pub(crate) fn try_connected_elsewhere(first: SocketAddr, second: SocketAddr) -> i32 {
    errno(socket_for(first, UDP).and_then(|socket| {
        connect(&socket, &first)?;
        sendto(&socket, b"x", SendFlags::empty(), &second)
    }))
}

/// Connects to `first`, where it must work, and from there again to `second`.
pub(crate) fn try_reconnect(first: SocketAddr, second: SocketAddr) -> i32 {
    errno(socket_for(first, UDP).and_then(|socket| {
        connect(&socket, &first)?;
        connect(&socket, &second)?;
        send(&socket, b"x", SendFlags::empty())
    }))
}

/// An IPv4 address on an IPv6 datagram socket.
pub(crate) fn try_v4_on_v6(addr: SocketAddr) -> i32 {
    errno(new(AddressFamily::INET6, UDP, 0).and_then(|socket| sendto(&socket, b"x", SendFlags::empty(), &addr)))
}

fn in4(ip: Ipv4Addr, port: u16, family: AddressFamily) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: family.as_raw(),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    }
}

/// A datagram to an IPv4 address that claims no family, which the kernel takes for IPv4.
pub(crate) fn try_unspecified_family(ip: Ipv4Addr, port: u16) -> i32 {
    let socket = match new(AddressFamily::INET, UDP, 0) {
        Ok(socket) => socket,
        Err(error) => return error.raw_os_error(),
    };
    let addr = in4(ip, port, AddressFamily::UNSPEC);
    // SAFETY: one byte of data, and an address of the length given.
    last(unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            b"x".as_ptr().cast(),
            1,
            0,
            (&raw const addr).cast(),
            size_of_val(&addr) as libc::socklen_t,
        )
    } as libc::c_long)
}

/// Two datagrams in one call. Returns how many were sent, negative when none was.
pub(crate) fn sendmmsg_two(first: Ipv4Addr, second: Ipv4Addr, port: u16) -> i32 {
    let socket = new(AddressFamily::INET, UDP, 0).unwrap();
    let mut addrs = [in4(first, port, AddressFamily::INET), in4(second, port, AddressFamily::INET)];
    let mut data = libc::iovec { iov_base: b"x".as_ptr().cast_mut().cast(), iov_len: 1 };
    let data = &raw mut data;
    let mut messages = addrs.each_mut().map(|addr| {
        // SAFETY: all zeros is a message header without anything.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        message.msg_hdr.msg_name = (&raw mut *addr).cast();
        message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        message.msg_hdr.msg_iov = data;
        message.msg_hdr.msg_iovlen = 1;
        message
    });
    // SAFETY: two headers, whose addresses and data live on this stack.
    unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), 2, 0) }
}

/// Connects by sending.
pub(crate) fn try_fastopen(addr: SocketAddr) -> i32 {
    let flags = SendFlags::from_bits_retain(libc::MSG_FASTOPEN.cast_unsigned());
    errno(socket_for(addr, TCP).and_then(|socket| sendto(&socket, b"x", flags, &addr)))
}

/// Connects later, by the first write.
pub(crate) fn try_fastopen_connect(addr: SocketAddr) -> i32 {
    let socket = match socket_for(addr, TCP) {
        Ok(socket) => socket,
        Err(error) => return error.raw_os_error(),
    };
    match set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, &1_i32.to_ne_bytes()) {
        0 => errno(connect(&socket, &addr).and_then(|()| send(&socket, b"x", SendFlags::empty()))),
        error => error,
    }
}

fn set(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &[u8]) -> i32 {
    // SAFETY: `value` is as long as said.
    last(libc::c_long::from(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, value.as_ptr().cast(), value.len() as libc::socklen_t)
    }))
}

/// A datagram to `addr` by way of `hop`: a strict source route in the IPv4 options.
pub(crate) fn try_source_route(addr: SocketAddr, hop: Ipv4Addr) -> i32 {
    let socket = match new(AddressFamily::INET, UDP, 0) {
        Ok(socket) => socket,
        Err(error) => return error.raw_os_error(),
    };
    // Strict source and record route, length 7, next hop at 4; then the end of the options.
    let [a, b, c, d] = hop.octets();
    match set(&socket, libc::IPPROTO_IP, libc::IP_OPTIONS, &[0x89, 7, 4, a, b, c, d, 0]) {
        0 => errno(sendto(&socket, b"x", SendFlags::empty(), &addr)),
        error => error,
    }
}

/// A datagram to `addr` by way of `hop`: a type 4 routing header.
pub(crate) fn try_segment_route(addr: SocketAddr, hop: Ipv6Addr) -> i32 {
    let socket = match new(AddressFamily::INET6, UDP, 0) {
        Ok(socket) => socket,
        Err(error) => return error.raw_os_error(),
    };
    // Next header, length in eight bytes, type, segments left, last entry, flags, tag; then the segments, last first.
    let mut header = vec![0, 4, 4, 1, 1, 0, 0, 0];
    header.extend([0; 16]);
    header.extend(hop.octets());
    match set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RTHDR, &header) {
        0 => errno(sendto(&socket, b"x", SendFlags::empty(), &addr)),
        error => error,
    }
}

pub(crate) fn try_bind(addr: SocketAddr, kind: SocketType) -> i32 {
    errno(socket_for(addr, kind).and_then(|socket| {
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &addr)
    }))
}

/// Listens without `bind`, and says on which port.
pub(crate) fn listen_anywhere() -> rustix::io::Result<(OwnedFd, u16)> {
    let socket = new(AddressFamily::INET, TCP, ipproto::TCP.as_raw().get())?;
    listen(&socket, 8)?;
    let name = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, name.port()))
}
