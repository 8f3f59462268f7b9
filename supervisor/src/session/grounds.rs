//! Whether the folders that a run was granted are still the ones that it began with.
//!
//! Landlock opens folders, not names. Where one is renamed away and another takes its place while the component runs, the
//! kernel keeps to the first, and refuses what the policy says of the name: the grant is stale.

use act_policy::KernelPlan;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

/// Device and inode.
type Identity = (u64, u64);

/// The folders that Landlock opened.
#[derive(Debug)]
pub(super) struct Grounds(Vec<(Vec<u8>, Option<Identity>)>);

impl Grounds {
    pub(super) fn new(plan: &KernelPlan) -> Self {
        Self(plan.files.iter().map(|subtree| (subtree.path.clone(), identity(&subtree.path))).collect())
    }

    /// The granted folder around a path whose place another one has taken.
    pub(super) fn replaced(&self, path: &[u8]) -> Option<&[u8]> {
        let around =
            |folder: &[u8]| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        let mut all = self.0.iter().filter(|(folder, _)| around(folder));
        all.find(|(folder, before)| identity(folder) != *before).map(|(folder, _)| folder.as_slice())
    }
}

fn identity(folder: &[u8]) -> Option<Identity> {
    let path = if folder.is_empty() { b"/" } else { folder };
    std::fs::symlink_metadata(OsStr::from_bytes(path)).ok().map(|found| (found.dev(), found.ino()))
}
