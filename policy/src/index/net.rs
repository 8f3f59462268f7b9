//! Network rules by what they name: exact names, suffixes, address ranges.

use super::{Hits, List, Listed, Names};
use crate::request::Protocol;
use crate::rule::{Matches, Target};
use ipnet::{IpNet, Ipv4Net};
use std::borrow::Cow;
use std::net::IpAddr;

/// What the network rules are asked about: a connection, a name to be looked up, an HTTP request, or for the kernel's
/// tables all addresses of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetQuery<'a> {
    /// Which rules speak of it.
    pub(crate) kind: NetKind<'a>,
    /// The address, or the whole range.
    pub(crate) range: Option<IpNet>,
    /// Whether the guest named the address itself. One that a name resolved to is allowed by the name alone.
    pub(crate) literal: bool,
    /// Whether it may have spelled it as an IPv4-mapped address, which is a host of its own for HTTP.
    pub(crate) mapped: bool,
    /// The IPv4 address that the address embeds: it can only be denied by it.
    pub(crate) embedded: Option<Ipv4Net>,
    /// `None`: no port yet, as for a look-up.
    pub(crate) port: Option<u16>,
    /// Canonical names.
    pub(crate) names: &'a [Cow<'a, str>],
}

/// The kind of a [`NetQuery`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetKind<'a> {
    /// `wasi:sockets`
    Socket(Option<Protocol>),
    /// `wasi:http`; method and scheme, `None` where any will do.
    Http(Option<(&'a str, &'a str)>),
    /// Permission rules alone.
    Any,
}

/// A range of addresses with the rules that name exactly it.
#[derive(Debug)]
struct Range {
    net: IpNet,
    /// The smallest range around it.
    parent: Option<u32>,
    entries: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    listed: Listed,
    /// The next rule about the same name or suffix.
    next: Option<u32>,
    matches: Matches,
}

#[derive(Debug, Default)]
pub(crate) struct NetIndex {
    entries: Vec<Entry>,
    /// Rules without a target, and `*`.
    any: Vec<u32>,
    /// The first rule about each name; the others follow by [`Entry::next`].
    names: Names<Box<str>, u32>,
    suffixes: Names<Box<str>, u32>,
    /// By length in bytes, whether any suffix has it: other lengths need no look-up.
    suffix_lengths: Vec<bool>,
    /// In the order of the first address, wide ranges first; IPv4 before IPv6.
    ranges: Vec<Range>,
}

impl NetIndex {
    pub(crate) fn new(rules: impl Iterator<Item = (Listed, Matches)>) -> Self {
        let entries = rules.map(|(listed, matches)| Entry { listed, next: None, matches });
        let mut index = Self { entries: entries.collect(), ..Self::default() };
        let mut ranges: Vec<(IpNet, u32)> = Vec::new();
        // From the last to the first, so that the first of a name heads its chain.
        for (number, entry) in index.entries.iter_mut().enumerate().rev() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            match target(&entry.matches) {
                Some(Target::Any) => index.any.push(number),
                // Such a rule grants nothing, and denies whatever the rest of it says.
                None if entry.listed.list.narrows() => index.any.push(number),
                None => {}
                Some(Target::Name(name)) => entry.next = index.names.insert(name.as_str().into(), number),
                Some(Target::Suffix(suffix)) => {
                    if index.suffix_lengths.len() <= suffix.len() {
                        index.suffix_lengths.resize(suffix.len() + 1, false);
                    }
                    if let Some(length) = index.suffix_lengths.get_mut(suffix.len()) {
                        *length = true;
                    }
                    entry.next = index.suffixes.insert(suffix.as_str().into(), number);
                }
                Some(Target::Range(net)) => ranges.push((*net, number)),
                Some(Target::Mapped(address)) => ranges.push((IpNet::from(IpAddr::V4(*address)), number)),
            }
        }
        index.any.reverse();
        ranges.sort_by_key(|(net, number)| (net.network(), net.prefix_len(), *number));
        for (net, number) in ranges {
            match index.ranges.last_mut() {
                Some(last) if last.net == net => last.entries.push(number),
                _ => {
                    let mut parent = index.ranges.len().checked_sub(1);
                    while let Some(range) = parent.and_then(|p| index.ranges.get(p)) {
                        if range.net.contains(&net) {
                            break;
                        }
                        parent = range.parent.map(|p| p as usize);
                    }
                    let parent = parent.and_then(|p| u32::try_from(p).ok());
                    index.ranges.push(Range { net, parent, entries: vec![number] });
                }
            }
        }
        index
    }

    /// All ranges that rules name.
    pub(crate) fn named_ranges(&self) -> impl Iterator<Item = IpNet> {
        self.ranges.iter().map(|range| range.net)
    }

    /// Everything that a rule of any list says of the addresses of a range, by the range or by these names.
    pub(crate) fn rules_about<'a>(&'a self, query: &'a NetQuery<'_>) -> impl Iterator<Item = &'a Matches> {
        let embedded = query.embedded.map(IpNet::V4);
        let of_ranges = self.around(query.range).chain(self.around(embedded));
        let numbered = self.any.iter().chain(of_ranges).filter_map(|number| self.entries.get(*number as usize));
        numbered.chain(self.by_name(query.names)).map(|entry| &entry.matches)
    }

    pub(crate) fn find(&self, query: &NetQuery<'_>) -> Hits {
        let mut hits = Hits::default();
        let mut add = |entry: &Entry, of: fn(List) -> bool| {
            let Listed { list, .. } = entry.listed;
            if of(list) && holds(&entry.matches, query, list.narrows()) {
                hits.add(entry.listed);
            }
        };
        let entry = |number: &u32| self.entries.get(*number as usize);
        for entry in self.any.iter().filter_map(entry).chain(self.by_name(query.names)) {
            add(entry, |_| true);
        }
        for entry in self.around(query.range).filter_map(entry) {
            add(entry, if query.literal { |_| true } else { List::narrows });
        }
        for entry in self.around(query.embedded.map(IpNet::V4)).filter_map(entry) {
            add(entry, List::narrows);
        }
        hits
    }

    fn by_name<'a>(&'a self, names: &'a [Cow<'_, str>]) -> impl Iterator<Item = &'a Entry> {
        let heads = names.iter().flat_map(|name| {
            let above = name.match_indices('.').filter_map(|(dot, _)| name.get(dot + 1..));
            let known = |suffix: &&str| self.suffix_lengths.get(suffix.len()).copied().unwrap_or_default();
            let suffixes = std::iter::once(&**name).chain(above).filter(known);
            let suffixes = suffixes.filter_map(|suffix| self.suffixes.get(suffix));
            self.names.get(&**name).into_iter().chain(suffixes)
        });
        heads.flat_map(|head| {
            let entry = |number: u32| self.entries.get(number as usize);
            std::iter::successors(entry(*head), move |here| entry(here.next?))
        })
    }

    /// The entries of all ranges that hold a whole range, narrow ones first.
    fn around(&self, range: Option<IpNet>) -> impl Iterator<Item = &u32> {
        let before = range.map_or(0, |range| {
            let key = (range.network(), range.prefix_len());
            self.ranges.partition_point(|r| (r.net.network(), r.net.prefix_len()) <= key)
        });
        let mut next = before.checked_sub(1);
        std::iter::from_fn(move || {
            let here = self.ranges.get(next?)?;
            next = here.parent.map(|p| p as usize);
            Some(here)
        })
        .filter(move |here| range.is_some_and(|range| here.net.contains(&range)))
        .flat_map(|here| &here.entries)
    }
}

fn target(matches: &Matches) -> Option<&Target> {
    match matches {
        Matches::Socket { target, .. } | Matches::Host { target, .. } => Some(target),
        Matches::Http { target, .. } => target.as_ref(),
        _ => None,
    }
}

/// Whether the rest of a rule holds, once its target does. Where the query leaves something open, a rule that allows
/// counts if it could hold, and one that narrows only if it holds whatever the open part is.
fn holds(matches: &Matches, query: &NetQuery<'_>, narrows: bool) -> bool {
    match (matches, query.kind) {
        (Matches::Socket { ports, protocols, .. }, NetKind::Socket(protocol)) => {
            let port = match query.port {
                Some(port) => ports.contains(port),
                None => !narrows || ports.is_any(),
            };
            let protocol = match protocol {
                Some(protocol) => protocols.is_empty() || protocols.contains(&protocol),
                None => !narrows || protocols.is_empty(),
            };
            port && protocol
        }
        (Matches::Http { target: Some(Target::Mapped(_)), .. }, NetKind::Http(_)) if !query.mapped => false,
        (Matches::Http { scheme: only, methods, ports, .. }, NetKind::Http(asked)) => {
            let port = match query.port {
                Some(port) => ports.contains(port),
                None => !narrows || ports.is_any(),
            };
            let rest = match asked {
                Some((method, scheme)) => {
                    only.as_deref().is_none_or(|s| s == scheme)
                        && (methods.is_empty() || methods.iter().any(|m| m == method))
                }
                None => !narrows || only.is_none() && methods.is_empty(),
            };
            port && rest
        }
        (Matches::Host { port: only, .. }, _) => match (query.port, only) {
            (_, None) => true,
            (Some(port), Some(only)) => port == *only,
            (None, Some(_)) => !narrows,
        },
        _ => false,
    }
}

/// The parts of a query that an address decides: the form that the kernel acts on, and what it embeds.
pub(crate) fn forms(address: IpAddr) -> (IpNet, Option<Ipv4Net>) {
    let address = crate::host::effective_address(address);
    let embedded = match address {
        IpAddr::V6(v6) => crate::host::embedded_ipv4(v6).map(Ipv4Net::from),
        IpAddr::V4(_) => None,
    };
    (IpNet::from(address), embedded)
}
