//! Denials, on their way to the supervisor's audit.

use crate::policy::configured;
use act_ebpf_common::address::Words;
use act_ebpf_common::{Event, Finding, Hook, Policy};
use aya_ebpf::helpers::generated::{
    bpf_get_current_comm, bpf_get_current_pid_tgid, bpf_get_current_uid_gid, bpf_ktime_get_ns,
};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, RingBuf};

/// Events wait here: 256 KiB, about 2,900 of them.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(256 * 1024, 0);

/// How many events found the ring full.
#[map]
static DROPPED: Array<u64> = Array::with_max_entries(1, 0);

/// A denial that is to be reported.
pub struct Denial {
    /// Where.
    pub hook: Hook,
    /// `AF_INET` or `AF_INET6`, or what `socket` was asked for.
    pub family: u16,
    /// Socket type, at `sock_create`.
    pub socket_type: u8,
    /// IANA number.
    pub protocol: u32,
    /// Address as given; IPv4 mapped.
    pub addr: Words,
    /// Port in host order.
    pub port: u16,
    /// Verdict and rule.
    pub finding: Finding,
    /// Cgroup of the task or socket, where the policy record names none yet.
    pub cgroup: u64,
    /// Whether the current task made the request.
    pub by_task: bool,
}

/// Puts the denial into the ring, or counts it when the ring is full. The verdict does not depend on either.
#[inline(always)]
pub fn report(policy: &Policy, denial: &Denial) {
    let Some(mut slot) = EVENTS.reserve::<Event>(0) else {
        if let Some(count) = DROPPED.get_ptr_mut(0) {
            // SAFETY: the pointer is to the map's value, eight bytes aligned to eight. All writers are this one atomic
            // add (BPF_XADD, in every kernel), so no CPU loses the count of another; user space only reads.
            // core's atomics are no way to it: the BPF target says that it has none with a result.
            unsafe { core::arch::asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) count, in(reg) 1_u64) };
        }
        return;
    };
    let (pid, uid) = if denial.by_task {
        // SAFETY: helpers without arguments, offered to every program type used here.
        unsafe { (bpf_get_current_pid_tgid(), bpf_get_current_uid_gid() as u32) }
    } else {
        (0, u32::MAX)
    };
    let event: *mut Event = slot.as_mut_ptr();
    // INVARIANT: written field by field, by volatile stores of constant offset. A copy of a whole event on the stack
    // becomes a memcpy loop, which the verifier takes from loaders with CAP_PERFMON only; and reserved ring memory is
    // not zeroed, so each byte of the event, padding included, is written here.
    //
    // SAFETY: `event` points to size_of::<Event>() reserved bytes, aligned to eight, that only this program holds until
    // `submit`. `addr` and `comm` are sixteen bytes at offsets that are multiples of eight.
    unsafe {
        let cgroup = if configured(policy) { u64::from_be_bytes(policy.scope) } else { denial.cgroup };
        (&raw mut (*event).timestamp).write_volatile(bpf_ktime_get_ns());
        (&raw mut (*event).cgroup).write_volatile(cgroup);
        (&raw mut (*event).pid).write_volatile((pid >> 32) as u32);
        (&raw mut (*event).tid).write_volatile(pid as u32);
        (&raw mut (*event).uid).write_volatile(uid);
        (&raw mut (*event).rule).write_volatile(denial.finding.rule);
        (&raw mut (*event).protocol).write_volatile(denial.protocol);
        (&raw mut (*event).family).write_volatile(denial.family);
        (&raw mut (*event).port).write_volatile(denial.port);
        (&raw mut (*event).hook).write_volatile(denial.hook as u8);
        (&raw mut (*event).verdict).write_volatile(denial.finding.verdict);
        (&raw mut (*event).reason).write_volatile(denial.finding.reason as u8);
        (&raw mut (*event).socket_type).write_volatile(denial.socket_type);
        (&raw mut (*event).reserved).write_volatile(0);
        let addr = (&raw mut (*event).addr).cast::<u32>();
        addr.write_volatile(denial.addr[0]);
        addr.add(1).write_volatile(denial.addr[1]);
        addr.add(2).write_volatile(denial.addr[2]);
        addr.add(3).write_volatile(denial.addr[3]);
        let comm = (&raw mut (*event).comm).cast::<u64>();
        comm.write_volatile(0);
        comm.add(1).write_volatile(0);
        if denial.by_task {
            bpf_get_current_comm(comm.cast(), 16);
        }
    }
    slot.submit(0);
}
