//! Datagrams that carry an address: `sendto`, `sendmsg`, each of `sendmmsg`, on connected sockets too.

use crate::sock_addr::{judge4, judge6};
use act_ebpf_common::{Direction, Hook};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

/// A datagram to an IPv4 address; a mapped address on an IPv6 socket comes here too.
#[cgroup_sock_addr(sendmsg4)]
pub fn sendmsg4(context: SockAddrContext) -> i32 {
    judge4(&context, Direction::Out, Hook::Sendmsg4)
}

/// A datagram to an IPv6 address.
#[cgroup_sock_addr(sendmsg6)]
pub fn sendmsg6(context: SockAddrContext) -> i32 {
    judge6(&context, Direction::Out, Hook::Sendmsg6)
}
