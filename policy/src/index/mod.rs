//! Rules by what they name, so that a decision costs what the request holds and not how many rules there are.
//!
//! Every rule stands in one *list*: the ceiling, the allow or deny rules of a grant, or one of the permission lists of a
//! subject. An index answers for all lists at once which rule of each matches a request.

pub(crate) mod files;
pub(crate) mod net;
pub(crate) mod tools;

use crate::permission::{Answer, Level};
use crate::request::RuleId;
use std::collections::HashMap;

/// What rules name, to be looked up. Keys are few (a manifest and a configuration are bounded) and known before the first
/// request, so that a fast hash with a random seed will do.
type Names<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// How many lists there are.
const LISTS: usize = 14;

/// A list of rules with one meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// What the component declares.
    Declared,
    /// Allow rules of the grant.
    Allow,
    /// Deny rules of the grant.
    Deny,
    /// Allow rules of the managed layer's grant.
    ManagedAllow,
    /// Deny rules of the managed layer's grant.
    ManagedDeny,
    /// Permission rules of one subject with one answer.
    Permission(Level, Answer),
}

impl List {
    const fn number(self) -> usize {
        match self {
            Self::Declared => 0,
            Self::Allow => 1,
            Self::Deny => 2,
            Self::ManagedAllow => 3,
            Self::ManagedDeny => 4,
            Self::Permission(level, answer) => 5 + 3 * (level as usize) + answer as usize,
        }
    }

    /// Whether a match narrows. Such a list sees an address in every form; the others only as it is.
    pub(crate) const fn narrows(self) -> bool {
        matches!(self, Self::Deny | Self::ManagedDeny | Self::Permission(_, Answer::Deny | Answer::Ask))
    }
}

/// A rule of a list. `rank` is the closeness of its layer: of several matches the closest is named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) list: List,
    pub(crate) rule: RuleId,
    pub(crate) rank: u8,
}

/// The rule that matches, for each list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hits {
    found: [Option<(RuleId, u8)>; LISTS],
    /// One bit for each list: the request is a directory on the way to what a rule names.
    above: u16,
}

impl Hits {
    pub(crate) fn add(&mut self, listed: Listed) {
        if let Some(slot) = self.found.get_mut(listed.list.number())
            && slot.is_none_or(|(_, rank)| listed.rank > rank)
        {
            *slot = Some((listed.rule, listed.rank));
        }
    }

    pub(crate) fn add_above(&mut self, lists: u16) {
        self.above |= lists;
    }

    /// The rule of a list that matches.
    pub(crate) fn rule(&self, list: List) -> Option<RuleId> {
        self.found.get(list.number()).copied().flatten().map(|(rule, _)| rule)
    }

    /// Whether the request is a directory on the way to what a rule of the list names.
    pub(crate) fn is_above(&self, list: List) -> bool {
        self.above & bit(list) != 0
    }
}

/// The bit of a list in [`Hits::above`].
pub(crate) const fn bit(list: List) -> u16 {
    1 << list.number()
}
