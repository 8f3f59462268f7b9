//! `bind`. A port that `listen` or the first datagram takes for itself does not come here; see `egress`.

use crate::sock_addr::{judge4, judge6};
use act_ebpf_common::{Direction, Hook};
use aya_ebpf::macros::cgroup_sock_addr;
use aya_ebpf::programs::SockAddrContext;

/// `bind` to an IPv4 address. `0.0.0.0` is that, and port 0 the kernel's choice.
#[cgroup_sock_addr(bind4)]
pub fn bind4(context: SockAddrContext) -> i32 {
    judge4(&context, Direction::Bind, Hook::Bind4)
}

/// `bind` to an IPv6 address. A mapped address is judged as IPv4; embedded ones are not unwrapped: nothing is sent to
/// an address by binding to it.
#[cgroup_sock_addr(bind6)]
pub fn bind6(context: SockAddrContext) -> i32 {
    judge6(&context, Direction::Bind, Hook::Bind6)
}
