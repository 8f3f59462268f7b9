//! The policy record of the cgroup a program is attached to.

use act_ebpf_common::{Finding, Policy, Reason, flags};
use aya_ebpf::macros::map;
#[expect(deprecated, reason = "its successor is keyed by the task's cgroup, which egress has none of")]
use aya_ebpf::maps::CgroupStorage;

/// One [`Policy`] per attached cgroup. The loader makes it with a key of eight bytes, so that all hooks share it.
#[map]
#[expect(deprecated, reason = "see the import")]
static POLICY: CgroupStorage<Policy> = CgroupStorage::new();

/// The record of the cgroup that this program is attached to, which a process in a child cgroup cannot change.
#[inline(always)]
pub fn current() -> Policy {
    // SAFETY: bpf_get_local_storage never fails: the kernel refuses to attach a program without its storage. The
    // pointer is valid until the program returns (RCU), and user space replaces the record as a whole
    // (cgroup_storage_update_elem), so the copy is consistent.
    unsafe { *POLICY.get_ptr_mut() }
}

/// Whether the record is filled.
#[inline(always)]
pub fn configured(policy: &Policy) -> bool {
    policy.flags & flags::CONFIGURED != 0
}

/// The finding where no address is reachable.
#[inline(always)]
pub fn nothing(policy: &Policy) -> Finding {
    Finding::deny(if configured(policy) { Reason::NoRule } else { Reason::Unconfigured })
}
