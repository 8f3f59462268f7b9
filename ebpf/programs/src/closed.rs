//! The same hooks where nothing is granted: each use of an address is denied and reported. There is nothing to look up, so
//! the verifier is done with them in a fraction of the time.

use crate::sock_addr::{close4, close6};
use act_ebpf_common::{Direction, Hook};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

/// `connect` of an IPv4 socket.
#[cgroup_sock_addr(connect4)]
pub fn closed_connect4(context: SockAddrContext) -> i32 {
    close4(&context, Direction::Out, Hook::Connect4)
}

/// `connect` of an IPv6 socket.
#[cgroup_sock_addr(connect6)]
pub fn closed_connect6(context: SockAddrContext) -> i32 {
    close6(&context, Direction::Out, Hook::Connect6)
}

/// A datagram with an IPv4 address.
#[cgroup_sock_addr(sendmsg4)]
pub fn closed_sendmsg4(context: SockAddrContext) -> i32 {
    close4(&context, Direction::Out, Hook::Sendmsg4)
}

/// A datagram with an IPv6 address.
#[cgroup_sock_addr(sendmsg6)]
pub fn closed_sendmsg6(context: SockAddrContext) -> i32 {
    close6(&context, Direction::Out, Hook::Sendmsg6)
}

/// `bind` to an IPv4 address.
#[cgroup_sock_addr(bind4)]
pub fn closed_bind4(context: SockAddrContext) -> i32 {
    close4(&context, Direction::Bind, Hook::Bind4)
}

/// `bind` to an IPv6 address.
#[cgroup_sock_addr(bind6)]
pub fn closed_bind6(context: SockAddrContext) -> i32 {
    close6(&context, Direction::Bind, Hook::Bind6)
}
