//! Path patterns by their literal heads: a look-up costs the depth of the path.

use super::{Hits, List, Listed, bit};
use crate::pattern::{Cover, Matcher, PathPattern, PatternError};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct FileIndex {
    entries: Vec<Entry>,
    places: HashMap<Box<[u8]>, Place>,
}

/// What is known of one directory or file.
#[derive(Debug, Default)]
struct Place {
    /// Entries whose head it is.
    entries: Vec<u32>,
    /// Lists with a head strictly below it that speaks of reading, and of writing.
    above: [u16; 2],
}

#[derive(Debug)]
struct Entry {
    listed: Listed,
    speaks: Speaks,
    matcher: Matcher,
}

/// Which operations a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaks {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Speaks {
    pub(crate) const BOTH: Self = Self { reads: true, writes: true };

    const fn of(self, write: bool) -> bool {
        if write { self.writes } else { self.reads }
    }
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

impl FileIndex {
    pub(crate) fn add(&mut self, listed: Listed, speaks: Speaks, pattern: &PathPattern) -> Result<(), PatternError> {
        let entry = Entry { listed, speaks, matcher: Matcher::new(pattern)? };
        let number = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.place(&pattern.head).entries.push(number);
        let mask = [speaks.reads, speaks.writes].map(|speaks| if speaks { bit(listed.list) } else { 0 });
        for directory in upwards(&pattern.head).skip(1) {
            let place = self.place(directory);
            let before = place.above;
            for (above, mask) in place.above.iter_mut().zip(mask) {
                *above |= mask;
            }
            // Whatever is marked here is marked all the way up.
            if place.above == before {
                break;
            }
        }
        self.entries.push(entry);
        Ok(())
    }

    fn place(&mut self, path: &[u8]) -> &mut Place {
        if !self.places.contains_key(path) {
            self.places.insert(path.into(), Place::default());
        }
        self.places.entry(path.into()).or_default()
    }

    fn candidates<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a Entry> {
        let places = upwards(path).filter_map(|head| self.places.get(head));
        places.flat_map(|place| &place.entries).filter_map(|number| self.entries.get(*number as usize))
    }

    /// The rules that cover a path, nearest head first among equally close layers.
    pub(crate) fn find(&self, path: &[u8], write: bool) -> Hits {
        let mut hits = Hits::default();
        // Only looking at metadata is allowed above what a rule names.
        if let Some(place) = self.places.get(path) {
            let [reads, _] = place.above;
            hits.add_above(reads);
        }
        for entry in self.candidates(path) {
            match entry.matcher.cover(path) {
                Some(Cover::Full) if entry.speaks.of(write) => hits.add(entry.listed),
                Some(Cover::Ancestor) if entry.speaks.reads => hits.add_above(bit(entry.listed.list)),
                Some(Cover::Full | Cover::Ancestor) | None => {}
            }
        }
        hits
    }

    /// Whether one rule of a list covers a directory and all that could ever be below it.
    pub(crate) fn covers_subtree(&self, list: List, path: &[u8], write: bool) -> bool {
        let mut of_list = self.candidates(path).filter(|e| e.listed.list == list && e.speaks.of(write));
        of_list.any(|entry| entry.matcher.covers_subtree(path))
    }

    /// Whether any rule of a list covers a path or could cover something below it.
    pub(crate) fn touches(&self, list: List, path: &[u8], write: bool) -> bool {
        let below = self.places.get(path).is_some_and(|place| {
            let [reads, writes] = place.above;
            (if write { writes } else { reads }) & bit(list) != 0
        });
        let mut of_list = self.candidates(path).filter(|e| e.listed.list == list && e.speaks.of(write));
        of_list.any(|entry| entry.matcher.cover(path).is_some()) || below
    }
}
