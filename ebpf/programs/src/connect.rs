//! `connect`: also by io_uring, `MSG_FASTOPEN`, `TCP_FASTOPEN_CONNECT` and the subflows of MPTCP, which all run this hook.

use crate::sock_addr::{judge4, judge6};
use act_ebpf_common::{Direction, Hook};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

/// `connect` of an IPv4 socket.
#[cgroup_sock_addr(connect4)]
pub fn connect4(context: SockAddrContext) -> i32 {
    judge4(&context, Direction::Out, Hook::Connect4)
}

/// `connect` of an IPv6 socket. A mapped address comes here too.
#[cgroup_sock_addr(connect6)]
pub fn connect6(context: SockAddrContext) -> i32 {
    judge6(&context, Direction::Out, Hook::Connect6)
}
