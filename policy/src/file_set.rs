//! Many path patterns, indexed by their literal heads: a look-up costs the depth of the path, not the number of rules.

use crate::pattern::{Cover, Matcher, PatternError};
use crate::request::RuleId;
use crate::rule::{Matches, Rule};
use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(crate) struct FileSet {
    entries: Vec<Entry>,
    /// Indexes of entries by head.
    heads: HashMap<Vec<u8>, Vec<usize>>,
    /// Every directory strictly above a head; the root is empty.
    above: HashSet<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    rule: RuleId,
    write: bool,
    matcher: Matcher,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileMatch {
    Full(RuleId),
    Ancestor,
    None,
}

/// A path and everything above it, nearest first; the root is empty.
fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let here = next?;
        next = here.iter().rposition(|b| *b == b'/').and_then(|slash| here.get(..slash));
        Some(here)
    })
}

impl FileSet {
    pub(crate) fn new<'a>(rules: impl Iterator<Item = (RuleId, &'a Rule)>) -> Result<Self, PatternError> {
        let mut set = Self::default();
        for (id, rule) in rules {
            let Matches::File { path, write } = &rule.matches else { continue };
            set.heads.entry(path.head.clone()).or_default().push(set.entries.len());
            for directory in upwards(&path.head).skip(1) {
                if !set.above.insert(directory.to_vec()) {
                    break;
                }
            }
            set.entries.push(Entry { rule: id, write: *write, matcher: Matcher::new(path)? });
        }
        Ok(set)
    }

    fn candidates<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a Entry> {
        let indexes = upwards(path).filter_map(|head| self.heads.get(head)).flatten();
        indexes.filter_map(|i| self.entries.get(*i))
    }

    /// The nearest rule that covers a path; `write` asks for rules that include writing.
    pub(crate) fn find(&self, path: &[u8], write: bool) -> FileMatch {
        let mut ancestor = self.above.contains(path);
        for entry in self.candidates(path) {
            match entry.matcher.cover(path) {
                Some(Cover::Full) if entry.write || !write => return FileMatch::Full(entry.rule),
                Some(Cover::Ancestor) => ancestor = true,
                Some(Cover::Full) | None => {}
            }
        }
        if ancestor { FileMatch::Ancestor } else { FileMatch::None }
    }

    /// Whether one writable rule covers a directory and all that could ever be below it.
    pub(crate) fn covers_subtree(&self, path: &[u8]) -> bool {
        self.candidates(path).any(|entry| entry.write && entry.matcher.covers_subtree(path))
    }

    /// Whether any rule covers a path or could cover something below it.
    pub(crate) fn touches(&self, path: &[u8]) -> bool {
        self.find(path, false) != FileMatch::None
    }
}
