//! The programs on one cgroup, and its rules.

use crate::maps::{Maps, failed};
use crate::object::Reach;
use crate::table::Key;
use crate::{BpfError, NetEntry, NetTable};
use act_ebpf_common::{Policy, RuleSet};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

/// One guarded cgroup.
///
/// Dropping it changes nothing in the kernel: the last rules stay in force until the cgroup is removed. Their memory is
/// given back by [`retire`](Self::retire), else when the [`Guard`](crate::Guard) and all attachments are gone.
#[derive(Debug)]
pub struct Attached {
    maps: Arc<Maps>,
    cgroup: u64,
    keys: BTreeSet<Key>,
    reach: Reach,
}

impl Attached {
    pub(crate) fn new(maps: Arc<Maps>, cgroup: u64, reach: Reach) -> Self {
        Self { maps, cgroup, keys: BTreeSet::new(), reach }
    }

    /// Id of the cgroup, as in [`Event::cgroup`](crate::Event::cgroup).
    pub fn cgroup(&self) -> u64 {
        self.cgroup
    }

    /// Puts a table into force: its entries first, the policy record last. Before that everything is denied.
    ///
    /// A later call replaces the table, entries of [`allow`](Self::allow) included; everything is denied meanwhile. A
    /// table that is not valid changes nothing; after another error everything is denied.
    pub fn configure(&mut self, table: &NetTable) -> Result<(), BpfError> {
        if self.reach == Reach::Nothing && !table.entries.is_empty() {
            return Err(BpfError::NoRules);
        }
        // All of the table is checked before any of it is written.
        let entries = table
            .entries
            .iter()
            .map(|entry| Ok((entry.key(self.cgroup)?, entry.rule_set()?)))
            .collect::<Result<Vec<_>, BpfError>>()?;
        self.clear()?;
        for (key, set) in &entries {
            self.insert(*key, set)?;
        }
        let record = Policy { scope: self.cgroup.to_be_bytes(), flags: table.flags.bits(), reserved: 0 };
        self.maps.policy.update(&self.cgroup, &record).map_err(failed("POLICY", "update"))
    }

    /// Inserts one entry, or replaces the one with its direction and prefix. It is in force when this returns.
    pub fn allow(&mut self, entry: &NetEntry) -> Result<(), BpfError> {
        let set = entry.rule_set()?;
        self.insert(entry.key(self.cgroup)?, &set)
    }

    /// Denies everything from now on, and gives the memory of the rules back.
    ///
    /// To be called when the cgroup holds no process any more, and before it is removed: its sockets may outlive both,
    /// and must find a record that denies. A cgroup that is gone already is no error.
    pub fn retire(mut self) -> Result<(), BpfError> {
        self.clear()
    }

    fn insert(&mut self, key: Key, set: &RuleSet) -> Result<(), BpfError> {
        // Noted first: a key noted without an entry is harmless, an entry without a note would stay.
        self.keys.insert(key);
        match &key {
            Key::V4(key) => self.maps.rules4.update(key, set).map_err(failed("RULES4", "update")),
            Key::V6(key) => self.maps.rules6.update(key, set).map_err(failed("RULES6", "update")),
        }
    }

    /// Zeroes the record, then deletes the rules. The first error is returned after all was tried.
    fn clear(&mut self) -> Result<(), BpfError> {
        let denied = unless_gone(self.maps.policy.update(&self.cgroup, &Policy::default()));
        let mut result = denied.map_err(failed("POLICY", "update"));
        self.keys.retain(|key| {
            let deleted = match key {
                Key::V4(key) => unless_gone(self.maps.rules4.delete(key)).map_err(failed("RULES4", "delete from")),
                Key::V6(key) => unless_gone(self.maps.rules6.delete(key)).map_err(failed("RULES6", "delete from")),
            };
            let kept = deleted.is_err();
            if result.is_ok() {
                result = deleted;
            }
            kept
        });
        result
    }
}

/// What is not there any more needs not be taken away.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}
