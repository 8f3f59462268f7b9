//! A path as a queue of components that remember who wrote them.

use std::collections::VecDeque;

/// Who wrote a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The guest's own text.
    Guest,
    /// The target of a symbolic link.
    Link,
}

/// One component that still has to be walked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    pub(crate) name: Vec<u8>,
    pub(crate) origin: Origin,
}

/// What is left to walk.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    queue: VecDeque<Component>,
}

impl Pending {
    /// Put the components of `path` in front of the rest. Empty components and `.` are dropped.
    pub(crate) fn prepend(&mut self, path: &[u8], origin: Origin) {
        for name in path.split(|&b| b == b'/').rev().filter(|name| !matches!(*name, b"" | b".")) {
            self.queue.push_front(Component { name: name.to_vec(), origin });
        }
    }

    pub(crate) fn next(&mut self) -> Option<Component> {
        self.queue.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// `known`, then `name`, then all that is left up to the first `..`: the place that an error speaks of.
    pub(crate) fn reach(&self, known: &[u8], name: &[u8]) -> Vec<u8> {
        let mut path = join(known, name);
        for component in self.queue.iter().take_while(|c| c.name != b"..") {
            path = join(&path, &component.name);
        }
        path
    }
}

/// `dir` and one component, with exactly one slash between; `.` is the directory itself.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if name == b"." || name.is_empty() {
        return dir.to_vec();
    }
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The parent of an absolute path without `.` and `..`; `/` is its own.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&b| b == b'/') {
        None | Some(0) => b"/",
        Some(end) => path.get(..end).unwrap_or(b"/"),
    }
}

/// Whether the text asks for a directory: it ends with a slash, or with `.` or `..` as a component.
pub(crate) fn wants_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || matches!(path.rsplit(|&b| b == b'/').next(), Some(b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_to_components() {
        let mut pending = Pending::default();
        pending.prepend(b"/a//./b/..", Origin::Guest);
        pending.prepend(b"x/", Origin::Link);
        assert_eq!(pending.reach(b"/", b"n"), b"/n/x/a/b");
        let names: Vec<_> = std::iter::from_fn(|| pending.next()).map(|c| (c.name, c.origin)).collect();
        let expected =
            [(&b"x"[..], Origin::Link), (b"a", Origin::Guest), (b"b", Origin::Guest), (b"..", Origin::Guest)];
        assert_eq!(names, expected.map(|(n, o)| (n.to_vec(), o)));
    }

    #[test]
    fn joins_and_parents() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"/a", b"."), b"/a");
        assert_eq!((parent(b"/a/b"), parent(b"/a"), parent(b"/")), (&b"/a"[..], &b"/"[..], &b"/"[..]));
    }

    #[test]
    fn directory_wishes() {
        for (path, wish) in [("a", false), ("a/", true), ("a/.", true), ("..", true), (".", true), ("a..", false)] {
            assert_eq!(wants_directory(path.as_bytes()), wish, "{path}");
        }
    }
}
