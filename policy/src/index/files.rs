//! Path patterns by their literal heads: a look-up costs the depth of the path.

use super::{Hits, Listed, Names, bit};
use crate::glob::PathGlob;
use crate::pattern::{Cover, PathPattern, PatternError, cover_below};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct FileIndex {
    places: Names<Box<[u8]>, Place>,
    /// Tails by their text: many heads have the same.
    tails: Names<String, Arc<PathGlob>>,
    /// By length in bytes, whether any head has it: other lengths need no look-up.
    lengths: Vec<bool>,
}

/// What is known of one directory or file.
#[derive(Debug, Default)]
struct Place {
    /// Rules whose head it is.
    entries: Vec<Entry>,
    /// Lists with a head strictly below it that speaks of reading, and of writing.
    above: [u16; 2],
}

#[derive(Debug)]
struct Entry {
    listed: Listed,
    speaks: Speaks,
    /// What follows the head; `None`: all below it.
    tail: Option<Arc<PathGlob>>,
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
pub(crate) fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let here = next?;
        next = here.iter().rposition(|b| *b == b'/').and_then(|slash| here.get(..slash));
        Some(here)
    })
}

impl FileIndex {
    pub(crate) fn add(&mut self, listed: Listed, speaks: Speaks, pattern: &PathPattern) -> Result<(), PatternError> {
        let entry = Entry { listed, speaks, tail: self.tail(pattern)? };
        self.place(&pattern.head).entries.push(entry);
        if self.lengths.len() <= pattern.head.len() {
            self.lengths.resize(pattern.head.len() + 1, false);
        }
        if let Some(length) = self.lengths.get_mut(pattern.head.len()) {
            *length = true;
        }
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
        Ok(())
    }

    fn tail(&mut self, pattern: &PathPattern) -> Result<Option<Arc<PathGlob>>, PatternError> {
        if let Some(known) = self.tails.get(&pattern.tail) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(tail) = pattern.glob()?.map(Arc::new) else { return Ok(None) };
        self.tails.insert(pattern.tail.clone(), Arc::clone(&tail));
        Ok(Some(tail))
    }

    fn place(&mut self, path: &[u8]) -> &mut Place {
        if !self.places.contains_key(path) {
            self.places.insert(path.into(), Place::default());
        }
        self.places.entry(path.into()).or_default()
    }

    /// The rules whose head is the path or above it, each with what of the path lies below the head.
    fn candidates<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = (&'a Entry, &'a [u8])> {
        let known = |head: &&[u8]| self.lengths.get(head.len()).copied().unwrap_or_default();
        let places = upwards(path).filter(known).filter_map(|head| Some((self.places.get(head)?, head.len())));
        places.flat_map(move |(place, head)| {
            // Without the slash between them.
            let below = path.get(head + 1..).unwrap_or_default();
            place.entries.iter().map(move |entry| (entry, below))
        })
    }

    /// The rules that cover a path, nearest head first among equally close layers.
    pub(crate) fn find(&self, path: &[u8], write: bool) -> Hits {
        let mut hits = Hits::default();
        // Only looking at metadata is allowed above what a rule names.
        if let Some(place) = self.places.get(path) {
            let [reads, _] = place.above;
            hits.add_above(reads);
        }
        for (entry, below) in self.candidates(path) {
            match cover_below(entry.tail.as_deref(), below) {
                Some(Cover::Full) if entry.speaks.of(write) => hits.add(entry.listed),
                Some(Cover::Ancestor) if entry.speaks.reads => hits.add_above(bit(entry.listed.list)),
                Some(Cover::Full | Cover::Ancestor) | None => {}
            }
        }
        hits
    }

    /// What the rules say of a directory and all that could ever be below it.
    pub(crate) fn area(&self, path: &[u8]) -> Area {
        let mut area = Area::default();
        if let Some(place) = self.places.get(path) {
            area.touched = place.above;
        }
        for (entry, below) in self.candidates(path) {
            let mask = bit(entry.listed.list);
            let (touched, covered) = match &entry.tail {
                None => (true, true),
                Some(tail) => {
                    let reach = tail.reach(below);
                    (reach.full || reach.on_the_way, reach.subtree)
                }
            };
            for (i, speaks) in [entry.speaks.reads, entry.speaks.writes].into_iter().enumerate() {
                if let (true, true, Some(lists)) = (speaks, touched, area.touched.get_mut(i)) {
                    *lists |= mask;
                }
                if let (true, true, Some(lists)) = (speaks, covered, area.covered.get_mut(i)) {
                    *lists |= mask;
                }
            }
        }
        area
    }
}

/// What the rules say of a directory and all below it: one bit for each list, for reading and for writing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Area {
    /// One rule covers all of it.
    covered: [u16; 2],
    /// A rule covers it, or could cover something below it.
    touched: [u16; 2],
}

impl Area {
    /// Whether one rule of one of these lists covers all of it.
    pub(crate) fn is_covered(self, lists: u16, write: bool) -> bool {
        either(self.covered, write) & lists != 0
    }

    /// Whether a rule of these lists covers it or could cover something below it.
    pub(crate) fn is_touched(self, lists: u16, write: bool) -> bool {
        either(self.touched, write) & lists != 0
    }
}

const fn either([reads, writes]: [u16; 2], write: bool) -> u16 {
    if write { writes } else { reads }
}
