//! The maps that all attachments of one [`Guard`](crate::Guard) share.

use crate::BpfError;
use crate::sys::{self, Map, MapSpec, Plain};
use act_ebpf_common::{Event, Key4, Key6, Lpm, Policy, RuleSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

/// What the attachments write and the supervisor reads.
#[derive(Debug)]
pub(crate) struct Maps {
    /// By cgroup id. The object declares the sixteen-byte key of old kernels, one record per hook; the eight-byte one
    /// (Linux 5.9) makes one record serve all hooks, so there is no moment where one is configured and another not.
    pub(crate) policy: Map<u64, Policy>,
    pub(crate) rules4: Map<Lpm<Key4>, RuleSet>,
    pub(crate) rules6: Map<Lpm<Key6>, RuleSet>,
    dropped: Map<u32, u64>,
}

impl Maps {
    /// Makes the maps as the object describes them, and the ring buffer, which is handed to its reader.
    pub(crate) fn create(object: &aya_obj::Object) -> Result<(Self, OwnedFd), BpfError> {
        let events = spec(object, "EVENTS")?;
        let maps = Self {
            policy: typed(object, "POLICY")?,
            rules4: typed(object, "RULES4")?,
            rules6: typed(object, "RULES6")?,
            dropped: typed(object, "DROPPED")?,
        };
        let ring = sys::map_create(&events).map_err(|source| BpfError::CreateMap { name: "EVENTS", source })?;
        Ok((maps, ring))
    }

    /// Descriptor of a map by its name in the object.
    pub(crate) fn fd(&self, name: &str) -> Option<RawFd> {
        let fd = match name {
            "POLICY" => self.policy.as_fd(),
            "RULES4" => self.rules4.as_fd(),
            "RULES6" => self.rules6.as_fd(),
            "DROPPED" => self.dropped.as_fd(),
            _ => return None,
        };
        Some(fd.as_raw_fd())
    }

    /// How many events found the ring full.
    pub(crate) fn dropped(&self) -> Result<u64, BpfError> {
        self.dropped.lookup(&0, 0).map_err(failed("DROPPED", "read"))
    }
}

/// An error of a map call, for `map_err`.
pub(crate) fn failed(name: &'static str, step: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |source| BpfError::Map { name, step, source }
}

fn typed<K: Plain, V: Plain>(object: &aya_obj::Object, name: &'static str) -> Result<Map<K, V>, BpfError> {
    let spec = spec(object, name)?;
    if spec.value_size as usize != size_of::<V>() || (spec.key_size as usize != size_of::<K>() && name != "POLICY") {
        return Err(BpfError::Mismatch { name, problem: "has keys or values of another size" });
    }
    Map::create(&spec).map_err(|source| BpfError::CreateMap { name, source })
}

fn spec(object: &aya_obj::Object, name: &'static str) -> Result<MapSpec<'static>, BpfError> {
    let map = object.maps.get(name).ok_or(BpfError::Mismatch { name, problem: "is missing" })?;
    Ok(MapSpec {
        name,
        map_type: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: map.max_entries(),
        flags: map.map_flags(),
    })
}

/// Reads the event in one record of the ring.
pub(crate) fn event(record: &[u8]) -> Option<crate::Event> {
    crate::Event::decode(&sys::read_plain::<Event>(record)?)
}
