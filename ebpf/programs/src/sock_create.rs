//! `socket` in the internet families: TCP and UDP as granted, nothing else.

use crate::event::{Denial, report};
use crate::policy;
use crate::sock_addr::{INET, INET6, current_cgroup, field};
use act_ebpf_common::{Finding, Hook, Policy, Reason, flags, protocol};
use aya_ebpf::macros::cgroup_sock;
use aya_ebpf::programs::SockContext;

const SOCK_STREAM: u32 = 1;
const SOCK_DGRAM: u32 = 2;
const TCP: u32 = protocol::TCP as u32;
const UDP: u32 = protocol::UDP as u32;

/// Lets a socket be made when it is plain TCP or UDP and the policy grants that protocol.
///
/// Raw sockets, ping sockets, UDP-Lite, SCTP and MPTCP (262: the protocol is compared in full) are refused always.
#[cgroup_sock(sock_create)]
pub fn sock_create(context: SockContext) -> i32 {
    let context = context.sock;
    let (family, kind, protocol) = (field!(context, family), field!(context, type_), field!(context, protocol));
    let policy = policy::current();
    let reason = match refusal(&policy, family, kind, protocol) {
        None => return 1,
        Some(reason) => reason,
    };
    report(
        &policy,
        &Denial {
            hook: Hook::SockCreate,
            family: family as u16,
            socket_type: kind as u8,
            protocol,
            addr: [0; 4],
            port: 0,
            finding: Finding::deny(reason),
            cgroup: current_cgroup(),
            by_task: true,
        },
    );
    0
}

#[inline(always)]
fn refusal(policy: &Policy, family: u32, kind: u32, protocol: u32) -> Option<Reason> {
    if !policy::configured(policy) {
        return Some(Reason::Unconfigured);
    }
    let internet = family == u32::from(INET) || family == u32::from(INET6);
    let tcp = kind == SOCK_STREAM && (protocol == 0 || protocol == TCP) && policy.flags & flags::ALLOW_TCP != 0;
    let udp = kind == SOCK_DGRAM && (protocol == 0 || protocol == UDP) && policy.flags & flags::ALLOW_UDP != 0;
    if internet && (tcp || udp) { None } else { Some(Reason::SocketKind) }
}
