//! What the six hooks on socket addresses have in common.

use crate::event::{Denial, report};
use crate::lookup::{Query, find4, find6};
use crate::policy;
use act_ebpf_common::address::Words;
use act_ebpf_common::{Direction, Finding, Hook, Policy};
use aya_ebpf::helpers::generated::bpf_get_current_cgroup_id;
use aya_ebpf::programs::SockAddrContext;

/// `AF_INET`.
pub const INET: u16 = 2;
/// `AF_INET6`.
pub const INET6: u16 = 10;
/// Third word of a mapped IPv4 address.
pub const MAPPED: u32 = 0xffff_u32.to_be();

/// Let the call go on.
const PASS: i32 = 1;
/// Make it fail with `EPERM`.
const REFUSE: i32 = 0;

/// Reads one field of the context with a load of its own width: the kernel rewrites these loads one by one, and refuses
/// ones that the compiler merged or narrowed.
macro_rules! field {
    ($context:expr, $($field:tt)+) => {
        // SAFETY: the context is valid for the whole program, and the kernel allows this field to this hook.
        unsafe { (&raw const (*$context).$($field)+).read_volatile() }
    };
}
pub(crate) use field;

/// Judges an IPv4 address.
#[inline(always)]
pub fn judge4(context: &SockAddrContext, direction: Direction, hook: Hook) -> i32 {
    let context = context.sock_addr;
    let addr = field!(context, user_ip4);
    let query = query(context, direction);
    let policy = policy::current();
    let finding = find4(&policy, addr, query);
    if finding.allows() {
        return PASS;
    }
    refuse(&policy, INET, [0, 0, MAPPED, addr], query, hook, finding)
}

/// Denies whatever IPv4 address is asked for.
#[inline(always)]
pub fn close4(context: &SockAddrContext, direction: Direction, hook: Hook) -> i32 {
    let context = context.sock_addr;
    let addr = [0, 0, MAPPED, field!(context, user_ip4)];
    let policy = policy::current();
    refuse(&policy, INET, addr, query(context, direction), hook, policy::nothing(&policy))
}

/// Denies whatever IPv6 address is asked for.
#[inline(always)]
pub fn close6(context: &SockAddrContext, direction: Direction, hook: Hook) -> i32 {
    let context = context.sock_addr;
    let addr = [
        field!(context, user_ip6[0]),
        field!(context, user_ip6[1]),
        field!(context, user_ip6[2]),
        field!(context, user_ip6[3]),
    ];
    let policy = policy::current();
    refuse(&policy, INET6, addr, query(context, direction), hook, policy::nothing(&policy))
}

#[inline(always)]
fn refuse(policy: &Policy, family: u16, addr: Words, query: Query, hook: Hook, finding: Finding) -> i32 {
    let cgroup = current_cgroup();
    let Query { port, protocol, .. } = query;
    report(policy, &Denial { hook, family, socket_type: 0, protocol, addr, port, finding, cgroup, by_task: true });
    REFUSE
}

/// Judges an IPv6 address.
#[inline(always)]
pub fn judge6(context: &SockAddrContext, direction: Direction, hook: Hook) -> i32 {
    let context = context.sock_addr;
    let read = || -> Words {
        [
            field!(context, user_ip6[0]),
            field!(context, user_ip6[1]),
            field!(context, user_ip6[2]),
            field!(context, user_ip6[3]),
        ]
    };
    let query = query(context, direction);
    let policy = policy::current();
    let finding = find6(&policy, read, query);
    if finding.allows() {
        return PASS;
    }
    refuse(&policy, INET6, read(), query, hook, finding)
}

#[inline(always)]
fn query(context: *const aya_ebpf::bindings::bpf_sock_addr, direction: Direction) -> Query {
    // The port is sixteen bits in network order, in a field of thirty-two.
    let port = u16::from_be(field!(context, user_port) as u16);
    Query { direction, port, protocol: field!(context, protocol) }
}

/// Id of the current task's cgroup.
#[inline(always)]
pub fn current_cgroup() -> u64 {
    // SAFETY: a helper without arguments, offered to every program type that calls this.
    unsafe { bpf_get_current_cgroup_id() }
}
