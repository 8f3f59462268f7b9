//! The `bpf(2)` calls, each behind a typed function, and the few other places that need `unsafe`.

use act_ebpf_common::{Event, Key4, Key6, Lpm, Policy, RuleSet};
use aya_obj::generated::bpf_insn;
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_ATTACH: libc::c_int = 8;
const BPF_PROG_DETACH: libc::c_int = 9;
/// Runs beside the programs of ancestors and of others. The attachment is the cgroup's, not a descriptor's.
const BPF_F_ALLOW_MULTI: u32 = 2;

/// A type whose bytes may be handed to the kernel and taken from it.
///
/// # Safety
///
/// The type has no padding, no pointers and no invalid bit patterns.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: repr(C) of integers; act-ebpf-common writes its padding out as fields and asserts its size.
unsafe impl Plain for Policy {}
// SAFETY: as Policy.
unsafe impl Plain for RuleSet {}
// SAFETY: as Policy.
unsafe impl Plain for Lpm<Key4> {}
// SAFETY: as Policy.
unsafe impl Plain for Lpm<Key6> {}
// SAFETY: as Policy.
unsafe impl Plain for Event {}

/// Head of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

/// Head of `union bpf_attr` for the element calls.
#[repr(C)]
struct Element {
    map_fd: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Head of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// Head of `union bpf_attr` for attach and detach.
#[repr(C)]
struct ProgAttach {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
}

/// Calls `bpf(2)` with the head of `union bpf_attr` that `command` reads.
///
/// # Safety
///
/// Every pointer in `attr` is to memory of the size that `command` reads or writes there, and stays so for the call.
unsafe fn bpf<A>(command: libc::c_int, attr: &A) -> io::Result<libc::c_long> {
    // SAFETY: the kernel copies size_of::<A>() bytes from `attr`, a live reference to a repr(C) struct without padding,
    // and takes what it does not cover for zero. The caller answers for the pointers inside.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`bpf`], for a command that returns a new descriptor.
///
/// # Safety
///
/// As [`bpf`], and `command` returns a descriptor that nobody else owns.
unsafe fn bpf_fd<A>(command: libc::c_int, attr: &A) -> io::Result<OwnedFd> {
    // SAFETY: passed on to the caller.
    let fd = unsafe { bpf(command, attr) }?;
    // SAFETY: the call succeeded, so this is a descriptor that the kernel just made for us (with O_CLOEXEC).
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

fn address<T: ?Sized>(value: *const T) -> u64 {
    value.cast::<u8>().addr() as u64
}

/// A name for listings, cut to the fifteen bytes that the kernel keeps.
fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (slot, byte) in bytes.iter_mut().take(15).zip(name.bytes()) {
        *slot = byte;
    }
    bytes
}

/// What `BPF_MAP_CREATE` is asked for.
pub(crate) struct MapSpec<'a> {
    pub(crate) name: &'a str,
    pub(crate) map_type: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
}

/// Makes a map.
pub(crate) fn map_create(spec: &MapSpec<'_>) -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: spec.map_type,
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        map_flags: spec.flags,
        inner_map_fd: 0,
        numa_node: 0,
        map_name: object_name(spec.name),
    };
    // SAFETY: the attributes hold no pointer, and the command returns a new descriptor.
    unsafe { bpf_fd(BPF_MAP_CREATE, &attr) }
}

/// A map whose keys are `K` and whose values are `V`.
#[derive(Debug)]
pub(crate) struct Map<K, V> {
    fd: OwnedFd,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Plain, V: Plain> Map<K, V> {
    /// Makes a map; the key and value sizes of `spec` are replaced by those of the types.
    pub(crate) fn create(spec: &MapSpec<'_>) -> io::Result<Self> {
        let spec = MapSpec { key_size: size_of::<K>() as u32, value_size: size_of::<V>() as u32, ..*spec };
        Ok(Self { fd: map_create(&spec)?, types: PhantomData })
    }

    /// Inserts or replaces.
    pub(crate) fn update(&self, key: &K, value: &V) -> io::Result<()> {
        let attr = self.element(key, std::ptr::from_ref(value));
        // SAFETY: the kernel reads the map's key_size and value_size from these pointers. `create` made the map with
        // the sizes of K and V, which are Plain, and no map used here is per CPU (those hold several values).
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attr) }.map(drop)
    }

    /// Removes.
    pub(crate) fn delete(&self, key: &K) -> io::Result<()> {
        let attr = self.element(key, std::ptr::null());
        // SAFETY: the kernel reads the map's key_size, the size of K, and no value.
        unsafe { bpf(BPF_MAP_DELETE_ELEM, &attr) }.map(drop)
    }

    /// Reads; `value` is what is overwritten.
    pub(crate) fn lookup(&self, key: &K, mut value: V) -> io::Result<V> {
        let attr = self.element(key, &raw mut value);
        // SAFETY: the kernel reads key_size and writes value_size bytes, the sizes of K and V. The value's pointer is
        // to our own copy, made from a `&raw mut`, and V takes any bytes.
        unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &attr) }?;
        Ok(value)
    }

    fn element(&self, key: &K, value: *const V) -> Element {
        Element {
            map_fd: raw(self.fd.as_fd()),
            reserved: 0,
            key: address(std::ptr::from_ref(key)),
            value: address(value),
            flags: 0,
        }
    }
}

impl<K, V> AsFd for Map<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What `BPF_PROG_LOAD` is asked for.
pub(crate) struct ProgramSpec<'a> {
    pub(crate) name: &'a str,
    pub(crate) program_type: u32,
    pub(crate) attach_type: u32,
    pub(crate) instructions: &'a [bpf_insn],
    pub(crate) license: &'a CStr,
}

/// Has a program verified, compiled and kept. With a non-empty `log`, the verifier writes there, ended by a zero byte.
pub(crate) fn program_load(spec: &ProgramSpec<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let attr = ProgLoad {
        prog_type: spec.program_type,
        insn_cnt: spec.instructions.len() as u32,
        insns: address(spec.instructions.as_ptr()),
        license: address(spec.license.as_ptr()),
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { address(log.as_mut_ptr()) },
        kern_version: 0,
        prog_flags: 0,
        prog_name: object_name(spec.name),
        prog_ifindex: 0,
        expected_attach_type: spec.attach_type,
    };
    // SAFETY: `insns` is to insn_cnt instructions of eight bytes each, `license` to a string ended by zero, `log_buf` to
    // log_size writable bytes that are borrowed mutably; all outlive the call. It returns a new descriptor.
    unsafe { bpf_fd(BPF_PROG_LOAD, &attr) }
}

/// Attaches a program to a cgroup, which then holds it until it is removed.
pub(crate) fn program_attach(cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>, attach_type: u32) -> io::Result<()> {
    let attr = ProgAttach {
        target_fd: raw(cgroup),
        attach_bpf_fd: raw(program),
        attach_type,
        attach_flags: BPF_F_ALLOW_MULTI,
    };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf(BPF_PROG_ATTACH, &attr) }.map(drop)
}

/// Takes back [`program_attach`].
pub(crate) fn program_detach(cgroup: BorrowedFd<'_>, program: BorrowedFd<'_>, attach_type: u32) -> io::Result<()> {
    let attr = ProgAttach { target_fd: raw(cgroup), attach_bpf_fd: raw(program), attach_type, attach_flags: 0 };
    // SAFETY: the attributes hold no pointer.
    unsafe { bpf(BPF_PROG_DETACH, &attr) }.map(drop)
}

/// Reads a value from the start of `bytes`; `None` when they are too few.
pub(crate) fn read_plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: there are size_of::<T>() bytes, read without regard to alignment, and a Plain type takes any of them.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}
