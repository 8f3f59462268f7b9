//! The literal heads of path rules, with their links resolved once at start: rules are over the paths that the kernel
//! opens.

use act_policy::Policy;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// Resolve the links in every literal head. What does not exist yet keeps its text below what does.
pub(super) fn resolve_heads(policy: &mut Policy) {
    for head in policy.path_heads() {
        if !head.is_empty() {
            *head = resolve(head);
        }
    }
}

/// Resolve the links in an absolute path.
pub fn resolve(head: &[u8]) -> Vec<u8> {
    let path = Path::new(OsStr::from_bytes(head));
    let mut below: Vec<Vec<u8>> = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let mut resolved = real.into_os_string().into_vec();
            if resolved == b"/" {
                resolved.clear();
            }
            for name in below.iter().rev() {
                resolved.push(b'/');
                resolved.extend_from_slice(name);
            }
            return resolved;
        }
        if let Some(name) = ancestor.file_name() {
            below.push(name.as_bytes().to_vec());
        }
    }
    head.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_and_missing_names_kept() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("data")).unwrap();
        std::os::unix::fs::symlink("data", real.join("link")).unwrap();
        let text = |path: &str| real.join(path).into_os_string().into_vec();
        assert_eq!(resolve(&text("link")), text("data"));
        assert_eq!(resolve(&text("link/new/file")), text("data/new/file"));
        assert_eq!(resolve(&text("gone/file")), text("gone/file"));
    }
}
