//! The loaded programs.

use crate::attached::Attached;
use crate::maps::{self, Maps};
use crate::object::{self, Program, Reach};
use crate::{BpfError, Event, sys};
use aya::maps::{Map, MapData, RingBuf};
use rustix::fs::{fstat, fstatfs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// `CGROUP2_SUPER_MAGIC`.
const CGROUP2: rustix::fs::FsWord = 0x6367_7270;

/// Most events of one [`Guard::drain`]: more than the ring holds at once, so that a flood cannot keep the caller in it.
const DRAIN: usize = 4096;

/// act's eBPF programs, loaded once and attached to any number of cgroups.
///
/// It may be made on one thread and used from others. Dropping it detaches nothing: what is attached stays in force
/// until its cgroup is removed, and only the events end.
#[derive(Debug)]
pub struct Guard {
    programs: Vec<Program>,
    maps: Arc<Maps>,
    ring: Mutex<Ring>,
    /// A duplicate of the ring's descriptor, to be polled without its lock.
    poll: OwnedFd,
    reach: Reach,
}

struct Ring(RingBuf<MapData>);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Guard {
    /// Loads the programs and makes their maps, which are private to this process.
    ///
    /// Takes a few milliseconds with [`Reach::Rules`], half of one with [`Reach::Nothing`]. On kernels before 5.11, which count maps as locked memory, the soft limit
    /// `RLIMIT_MEMLOCK` of this process is raised when it is too small.
    #[doc(alias = "BPF_PROG_LOAD")]
    pub fn load(reach: Reach) -> Result<Self, BpfError> {
        let (maps, ring, programs) = match object::load(reach) {
            Err(BpfError::CreateMap { source, .. }) if denied(&source) && raise_memlock() => object::load(reach)?,
            loaded => loaded?,
        };
        let poll = ring.try_clone().map_err(|source| BpfError::Resource { step: "duplicate a descriptor", source })?;
        let data = MapData::from_fd(ring).map_err(BpfError::Ring)?;
        let ring = RingBuf::try_from(Map::RingBuf(data)).map_err(BpfError::Ring)?;
        Ok(Self { programs, maps: Arc::new(maps), ring: Mutex::new(Ring(ring)), poll, reach })
    }

    /// Attaches all programs to a cgroup, given its directory. Until [`Attached::configure`] they deny everything.
    ///
    /// They hold for child cgroups too, run beside programs of others (any denial counts), and stay until the cgroup is
    /// removed, whatever becomes of this process. When one of them cannot be attached, those before it are detached.
    #[doc(alias = "BPF_PROG_ATTACH")]
    pub fn attach(&self, cgroup: BorrowedFd<'_>) -> Result<Attached, BpfError> {
        let filesystem = fstatfs(cgroup).map_err(|errno| BpfError::Cgroup(errno.into()))?;
        let file = fstat(cgroup).map_err(|errno| BpfError::Cgroup(errno.into()))?;
        if filesystem.f_type != CGROUP2 || !rustix::fs::FileType::from_raw_mode(file.st_mode).is_dir() {
            return Err(BpfError::NotCgroup);
        }
        for (done, Program { hook, fd }) in self.programs.iter().enumerate() {
            if let Err(source) = sys::program_attach(cgroup, fd.as_fd(), hook.attach_type) {
                for Program { hook, fd } in self.programs.iter().take(done) {
                    // The error below says that nothing is guarded; a program left behind would only deny.
                    let _ = sys::program_detach(cgroup, fd.as_fd(), hook.attach_type);
                }
                return Err(BpfError::Attach { name: hook.name, source });
            }
        }
        // The inode of a cgroup's directory is its id, as `bpf_get_current_cgroup_id` gives it; kernfs does not use an
        // id twice in a boot.
        Ok(Attached::new(Arc::clone(&self.maps), file.st_ino, self.reach))
    }

    /// Readable when events wait.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }

    /// Hands over the events that wait, oldest first, and returns how many there were.
    ///
    /// At most 4,096 at a time, so that a flood does not hold the caller: go on while [`poll_fd`](Self::poll_fd) is
    /// readable.
    pub fn drain(&self, receive: &mut dyn FnMut(Event)) -> usize {
        // A receiver that panicked took its event out of the ring as a whole; the ring is as good as before.
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        while count < DRAIN {
            let Some(record) = ring.0.next() else { break };
            let event = maps::event(&record);
            drop(record);
            count += 1;
            if let Some(event) = event {
                receive(event);
            }
        }
        count
    }

    /// How many events were lost since the load because the ring was full. Verdicts do not depend on the ring.
    pub fn dropped(&self) -> Result<u64, BpfError> {
        self.maps.dropped()
    }
}

fn denied(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

/// Raises the soft limit on locked memory; `false` when that changes nothing.
fn raise_memlock() -> bool {
    let limit = getrlimit(Resource::Memlock);
    if limit.current == limit.maximum {
        return false;
    }
    setrlimit(Resource::Memlock, Rlimit { current: limit.maximum, maximum: limit.maximum }).is_ok()
}
