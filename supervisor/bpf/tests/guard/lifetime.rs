//! How an attachment begins and ends.

use crate::attempts::*;
use crate::lab::{Lab, PORT, Puppet, skip};
use act_bpf::{BpfError, Capability, Direction, Flags, Guard, NetEntry, NetTable, Reach, Unavailable, Verdict, probe};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

fn allow_all() -> NetTable {
    NetTable {
        flags: Flags { tcp: true, udp: true, ..Flags::default() },
        entries: vec![NetEntry {
            direction: Direction::Out,
            addr: "0.0.0.0".parse().unwrap(),
            prefix: 1,
            ranges: Vec::new(),
            default_verdict: Verdict::Allow,
            default_rule: 1,
        }],
    }
}

/// Ids of the programs on a cgroup, of one attach type.
fn attached_ids(cgroup: BorrowedFd<'_>, attach_type: u32) -> Vec<u32> {
    const BPF_PROG_QUERY: libc::c_int = 16;
    let mut ids = [0_u32; 64];
    // target_fd, attach_type; query_flags, attach_flags; prog_ids; prog_cnt.
    let mut attr = [
        u64::from(cgroup.as_raw_fd().cast_unsigned()) | u64::from(attach_type) << 32,
        0,
        ids.as_mut_ptr().addr() as u64,
        ids.len() as u64,
    ];
    // SAFETY: `prog_ids` points to as many ids as `prog_cnt` says.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, attr.as_mut_ptr(), size_of_val(&attr)) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    ids[..attr[3] as u32 as usize].to_vec()
}

/// Whether a program still exists.
fn exists(id: u32) -> bool {
    const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
    let attr = [u64::from(id), 0];
    // SAFETY: no pointers; the descriptor is closed at once.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, BPF_PROG_GET_FD_BY_ID, attr.as_ptr(), size_of_val(&attr));
        fd >= 0 && libc::close(fd as libc::c_int) == 0
    }
}

/// The loader is killed: its child stays held. The cgroup is removed: all is gone.
#[test]
fn outlives_the_loader() {
    let Some(lab) = Lab::open() else { return };
    let cgroup = lab.cgroup();
    let (denied, allowed) = (SocketAddr::from(([200, 0, 0, 1], PORT)), SocketAddr::from(([8, 8, 8, 8], PORT)));
    let held = Puppet::start(Some(&cgroup), |step| try_connect(if step == 0 { denied } else { allowed }, TCP));
    assert_eq!((held.step(0), held.step(1)), (0, 0));
    let loader = Puppet::start(None, |_| {
        let guard = Guard::load(Reach::Rules).unwrap();
        let mut attached = cgroup.attach(&guard);
        attached.configure(&allow_all()).unwrap();
        std::mem::forget((guard, attached));
        0
    });
    assert_eq!(loader.step(0), 0);
    assert_eq!((held.step(0), held.step(1)), (libc::EPERM, 0));
    drop(loader); // SIGKILL
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!((held.step(0), held.step(1)), (libc::EPERM, 0), "after the loader's death");
    }

    let types = [1, 2, 8, 9, 10, 11, 14, 15];
    let ids: Vec<u32> = types.iter().flat_map(|t| attached_ids(cgroup.fd(), *t)).collect();
    assert_eq!(ids.len(), 8);
    assert!(ids.iter().all(|id| exists(*id)));
    drop(held);
    let path = cgroup.path().to_owned();
    drop(cgroup);
    assert!(!path.exists());
    let deadline = Instant::now() + Duration::from_secs(10);
    while ids.iter().any(|id| exists(*id)) {
        assert!(Instant::now() < deadline, "programs are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Dropping the guard and the attachment detaches nothing.
#[test]
fn outlives_its_owner() {
    let Some(lab) = Lab::open() else { return };
    let cgroup = lab.cgroup();
    let addr = SocketAddr::from(([200, 0, 0, 1], PORT));
    let puppet = Puppet::start(Some(&cgroup), |_| try_connect(addr, TCP));
    assert_eq!(puppet.step(0), 0);
    let guard = Guard::load(Reach::Rules).unwrap();
    let mut attached = cgroup.attach(&guard);
    attached.configure(&allow_all()).unwrap();
    drop((guard, attached));
    assert_eq!(puppet.step(0), libc::EPERM);
}

/// A guard is made on one thread and used on another; its cgroup may go before it is retired.
#[test]
fn moves_between_threads_and_survives_its_cgroup() {
    fn shared<T: Send + Sync>() {}
    shared::<Guard>();
    let Some(lab) = Lab::open() else { return };
    let guard = std::thread::spawn(|| Guard::load(Reach::Rules)).join().unwrap().unwrap();
    let cgroup = lab.cgroup();
    let mut attached = cgroup.attach(&guard);
    attached.configure(&allow_all()).unwrap();
    drop(cgroup);
    attached.retire().unwrap();
}

/// Only directories of cgroup v2 are taken.
#[test]
fn refuses_other_descriptors() {
    let Some(lab) = Lab::open() else { return };
    let guard = Guard::load(Reach::Rules).unwrap();
    let cgroup = lab.cgroup();
    let procs = File::open(cgroup.path().join("cgroup.procs")).unwrap();
    for file in [File::open("/").unwrap(), File::open("/proc/self").unwrap(), procs] {
        assert!(matches!(guard.attach(file.as_fd()), Err(BpfError::NotCgroup)), "{file:?}");
    }
    assert!(cgroup.try_attach(&guard).is_ok());
    assert!(matches!(cgroup.try_attach(&guard), Err(BpfError::Attach { .. })), "a second time");
    assert_eq!(attached_ids(cgroup.fd(), 10).len(), 1, "a failed attach must not detach what was there before");
}

/// What is missing is named.
#[test]
fn probes() {
    if !rustix::process::geteuid().is_root() {
        skip("needs root");
        return;
    }
    probe().unwrap();
    for (lost, expected) in [
        (CapabilitySet::NET_ADMIN, Capability::NetAdmin),
        (CapabilitySet::PERFMON, Capability::Perfmon),
        (CapabilitySet::BPF, Capability::Bpf),
    ] {
        let puppet = Puppet::start(None, |_| {
            let have = capabilities(None).unwrap();
            let effective = have.effective - lost - CapabilitySet::SYS_ADMIN;
            let sets = CapabilitySets { effective, permitted: effective, inheritable: CapabilitySet::empty() };
            set_capabilities(None, sets).unwrap();
            match probe() {
                Err(Unavailable::Capabilities { missing, .. }) if missing == [expected] => 0,
                Ok(()) => 1,
                Err(error) => {
                    eprintln!("{expected}: {error}: {:?}", std::error::Error::source(&error));
                    2
                }
            }
        });
        assert_eq!(puppet.step(0), 0, "without {expected}");
    }
}
