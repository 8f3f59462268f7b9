//! act's eBPF programs: what the processes of a sandboxed cgroup may do on the network.
//!
//! | program | sees | refuses with |
//! |---|---|---|
//! | [`sock_create`] | `socket` in the two internet families | `EPERM` |
//! | [`connect`] | `connect`, also by io_uring, `MSG_FASTOPEN` and MPTCP subflows | `EPERM` |
//! | [`sendmsg`] | every datagram that carries an address | `EPERM` |
//! | [`bind`] | `bind` | `EPERM` |
//! | [`egress`] | packets whose headers say more than those hooks were shown, and SYN-ACKs | the packet is dropped |
//!
//! [`closed`] has the same hooks for sandboxes that may reach nothing.
//!
//! All of them fail closed: a record that is not configured, an address without a rule, a header that cannot be read
//! is a denial. What they cannot see is held elsewhere: other socket families by seccomp, sockets made outside the
//! cgroup by starting the child in it with no descriptor, packet sockets by the lack of `CAP_NET_RAW`.
//!
//! Minimum kernel: 5.10 by the helpers used (ring buffer 5.8, 8-byte cgroup storage keys 5.9).
#![no_std]
#![feature(asm_experimental_arch)]

mod bind;
mod closed;
mod connect;
mod egress;
mod event;
mod lookup;
mod policy;
mod sendmsg;
mod sock_addr;
mod sock_create;

/// What the kernel is told: it offers the helpers used here only under a licence compatible with the GPL, as MIT is.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Never reached: no code path here panics, and the verifier would refuse the endless loop.
#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
