//! Packets on their way out: the floor under the socket hooks.
//!
//! The socket hooks judged the address of every plain TCP and UDP packet. Three things remain:
//! a packet whose headers name other hops than the call did, a packet of another protocol, and the answer to a
//! connection from outside. `EGRESS_ALL` adds the plain packets, so that rules changed later hold open flows too.

use crate::event::{Denial, report};
use crate::lookup::{Query, find6};
use crate::policy;
use crate::sock_addr::{INET, INET6, MAPPED};
use act_ebpf_common::address::Words;
use act_ebpf_common::{Direction, Finding, Hook, Policy, Reason, Verdict, flags, protocol};
use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::generated::{bpf_skb_cgroup_id, bpf_skb_load_bytes};
use aya_ebpf::macros::cgroup_skb;
use aya_ebpf::programs::SkBuffContext;
use core::mem::MaybeUninit;

const TCP: u32 = protocol::TCP as u32;
const UDP: u32 = protocol::UDP as u32;
/// SYN and ACK in the flags of a TCP header.
const SYN_ACK: u8 = 0x12;

/// What the IP header of a packet says.
struct Packet {
    family: u16,
    /// IPv4 protocol or IPv6 next header.
    protocol: u32,
    /// Destination; IPv4 mapped.
    addr: Words,
    /// Length of the IP header.
    header: u32,
    /// Why such a packet is never let go, if so.
    refused: Option<Reason>,
}

/// Lets a packet go, or drops it.
#[cgroup_skb(egress)]
pub fn egress(context: SkBuffContext) -> i32 {
    let policy = policy::current();
    let packet = read(&context);
    let (finding, port) = judge(&context, &policy, &packet);
    if finding.allows() { 1 } else { refuse(&context, &policy, packet, finding, port) }
}

/// Drops every packet.
#[cgroup_skb(egress)]
pub fn closed_egress(context: SkBuffContext) -> i32 {
    let policy = policy::current();
    refuse(&context, &policy, read(&context), policy::nothing(&policy), 0)
}

#[inline(always)]
fn refuse(context: &SkBuffContext, policy: &Policy, packet: Packet, finding: Finding, port: u16) -> i32 {
    // SAFETY: the context is the packet's own, as the helper wants it; there is a socket, else no hook would run.
    let cgroup = unsafe { bpf_skb_cgroup_id(context.as_ptr().cast()) };
    let Packet { family, protocol, addr, .. } = packet;
    report(
        policy,
        &Denial { hook: Hook::Egress, family, socket_type: 0, protocol, addr, port, finding, cgroup, by_task: false },
    );
    0
}

#[inline(always)]
fn judge(context: &SkBuffContext, policy: &Policy, packet: &Packet) -> (Finding, u16) {
    if !policy::configured(policy) {
        return (Finding::deny(Reason::Unconfigured), 0);
    }
    if let Some(reason) = packet.refused {
        return (Finding::deny(reason), 0);
    }
    let mut port = 0;
    if packet.protocol == TCP || packet.protocol == UDP {
        if packet.protocol == TCP && policy.flags & flags::ALLOW_LISTEN == 0 {
            match load::<u8>(context, packet.header + 13) {
                Some(bits) if bits & SYN_ACK != SYN_ACK => {}
                Some(_) => return (Finding::deny(Reason::Listen), 0),
                None => return (Finding::deny(Reason::Unreadable), 0),
            }
        }
        if policy.flags & flags::EGRESS_ALL == 0 {
            return (Finding { verdict: Verdict::Allow as u8, rule: 0, reason: Reason::Rule }, 0);
        }
        match load::<u16>(context, packet.header + 2) {
            Some(found) => port = u16::from_be(found),
            None => return (Finding::deny(Reason::Unreadable), 0),
        }
    }
    // Another protocol has no ports: `RuleSet::judge` answers with the default of the address.
    let query = Query { direction: Direction::Out, port, protocol: packet.protocol };
    let addr = &raw const packet.addr;
    // SAFETY: `addr` points to the packet's address on this stack; volatile so that it is read anew.
    (find6(policy, || unsafe { addr.read_volatile() }, query), port)
}

/// Reads the IP header. The packet comes from this host's stack: nothing of it lies behind the header that is short.
#[inline(always)]
fn read(context: &SkBuffContext) -> Packet {
    let mut packet = Packet { family: 0, protocol: 0, addr: [0; 4], header: 0, refused: Some(Reason::Unreadable) };
    let Some(first) = load::<u8>(context, 0) else { return packet };
    if first >> 4 == 4 {
        let (Some(protocol), Some(addr)) = (load::<u8>(context, 9), load(context, 16)) else { return packet };
        packet.family = INET;
        packet.protocol = u32::from(protocol);
        packet.addr = [0, 0, MAPPED, addr];
        packet.header = 20;
        // Whatever the hops are: no address that was judged explains them.
        packet.refused = if first == 0x45 { None } else { Some(Reason::SourceRoute) };
    } else if first >> 4 == 6 {
        let (Some(next), Some(addr)) = (load::<u8>(context, 6), load(context, 24)) else { return packet };
        packet.family = INET6;
        packet.protocol = u32::from(next);
        packet.addr = addr;
        packet.header = 40;
        // A routing header (43), or what may stand before one: hop-by-hop (0), destination options (60), fragment (44).
        packet.refused = if matches!(next, 0 | 43 | 44 | 60) { Some(Reason::SourceRoute) } else { None };
    }
    packet
}

/// Copies bytes out of the packet, which need not lie in one piece.
#[inline(always)]
fn load<T: Copy>(context: &SkBuffContext, offset: u32) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the helper writes exactly size_of::<T>() bytes to memory of that size, or reports an error.
    let error =
        unsafe { bpf_skb_load_bytes(context.as_ptr(), offset, value.as_mut_ptr().cast(), size_of::<T>() as u32) };
    // SAFETY: without an error all bytes are written, and T is a plain integer or array of them here.
    if error == 0 { Some(unsafe { value.assume_init() }) } else { None }
}
