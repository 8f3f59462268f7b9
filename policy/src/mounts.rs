//! Mounts: which host directory stands behind a directory that a component sees.
//!
//! A component names guest paths; rules, audit and kernel know host paths only. Each guest directory here is handed to the
//! component opened, so that a path is rewritten by what it is relative to, before any check.

use crate::node::{Node, NodeError};
use std::collections::HashSet;

/// `params` of `wasi:filesystem`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// `mounts`: guest path and host path.
    pub binds: Vec<(String, String)>,
    /// `mount-root`: guest path that shows the host's root.
    pub root: Option<String>,
}

impl Mounts {
    /// Guest directories with the host directory behind each. Without any mount the host's root is seen as it is.
    pub fn views(&self) -> Vec<(&str, &str)> {
        let binds = self.binds.iter().map(|(guest, host)| (guest.as_str(), host.as_str()));
        let root = self.root.as_deref().or(self.binds.is_empty().then_some("/"));
        binds.chain(root.map(|guest| (guest, "/"))).collect()
    }

    pub(crate) fn read(params: Option<&Node>) -> Result<Self, NodeError> {
        let Some(params) = params else { return Ok(Self::default()) };
        let mut mounts = Self::default();
        for mount in params.get("mounts").map_or(Ok(&[][..]), |m| m.list("mounts"))? {
            let side = |key: &str| mount.get(key).ok_or_else(|| NodeError::new(0, format!("a mount without `{key}`")));
            mounts.binds.push((directory(side("guest")?)?, directory(side("host")?)?));
        }
        mounts.root = params.get("mount-root").map(directory).transpose()?;
        let mut seen = HashSet::new();
        for (guest, _) in mounts.views() {
            if !seen.insert(guest) {
                return Err(NodeError::new(0, format!("two mounts at `{guest}`")));
            }
        }
        Ok(mounts)
    }
}

/// An absolute path without a final slash, but for the root.
fn directory(node: &Node) -> Result<String, NodeError> {
    let text = node.text("a mount")?;
    let plain =
        text.starts_with('/') && !text.contains(char::is_control) && text.split('/').all(|c| c != "." && c != "..");
    if !plain {
        let message = format!("`{}` is not an absolute path without `.` and `..`", text.escape_debug());
        return Err(NodeError::new(0, message));
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
    Ok(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_of_the_host() {
        for (params, expected) in [
            ("{}", &[("/", "/")][..]),
            (r#"{"mount-root": "/host"}"#, &[("/host", "/")]),
            (r#"{"mounts": [{"guest": "/data/", "host": "//srv/x"}]}"#, &[("/data", "/srv/x")]),
            (
                r#"{"mounts": [{"guest": "/a", "host": "/b"}, {"guest": "/a/b", "host": "/"}], "mount-root": "/"}"#,
                &[("/a", "/b"), ("/a/b", "/"), ("/", "/")],
            ),
        ] {
            let mounts = Mounts::read(Some(&Node::from_json(params).unwrap())).unwrap();
            assert_eq!(mounts.views(), expected, "{params}");
        }
        for params in [
            r#"{"mount-root": "a"}"#,
            r#"{"mount-root": "/a/../b"}"#,
            r#"{"mount-root": "/a", "mounts": [{"guest": "//a/", "host": "/b"}]}"#,
            r#"{"mounts": [{"guest": "/a"}]}"#,
            r#"{"mounts": [{"guest": "/a", "host": "/x\u0000"}]}"#,
            r#"{"mounts": {}}"#,
        ] {
            assert!(Mounts::read(Some(&Node::from_json(params).unwrap())).is_err(), "{params}");
        }
    }
}
