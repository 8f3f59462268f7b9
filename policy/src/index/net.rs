//! Network rules by what they name: exact names, suffixes, address ranges.

use super::{Hits, List, Listed};
use crate::request::Protocol;
use crate::rule::{Matches, Target};
use ipnet::{IpNet, Ipv4Net};
use std::collections::HashMap;
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
    pub(crate) names: &'a [String],
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

#[derive(Debug, Default)]
pub(crate) struct NetIndex {
    entries: Vec<(Listed, Matches)>,
    /// Rules without a target, and `*`.
    any: Vec<u32>,
    names: HashMap<String, Vec<u32>>,
    suffixes: HashMap<String, Vec<u32>>,
    /// By length in bytes, whether any suffix has it: other lengths need no look-up.
    suffix_lengths: Vec<bool>,
    /// In the order of the first address, wide ranges first; IPv4 before IPv6.
    ranges: Vec<Range>,
}

impl NetIndex {
    pub(crate) fn new(rules: impl Iterator<Item = (Listed, Matches)>) -> Self {
        let mut index = Self::default();
        let mut ranges: Vec<(IpNet, u32)> = Vec::new();
        for (listed, matches) in rules {
            let number = u32::try_from(index.entries.len()).unwrap_or(u32::MAX);
            match target(&matches) {
                Some(Target::Any) => index.any.push(number),
                // Such a rule grants nothing, and denies whatever the rest of it says.
                None if listed.list.narrows() => index.any.push(number),
                None => {}
                Some(Target::Name(name)) => index.names.entry(name.clone()).or_default().push(number),
                Some(Target::Suffix(suffix)) => {
                    index.suffixes.entry(suffix.clone()).or_default().push(number);
                    if index.suffix_lengths.len() <= suffix.len() {
                        index.suffix_lengths.resize(suffix.len() + 1, false);
                    }
                    if let Some(length) = index.suffix_lengths.get_mut(suffix.len()) {
                        *length = true;
                    }
                }
                Some(Target::Range(net)) => ranges.push((*net, number)),
                Some(Target::Mapped(address)) => ranges.push((IpNet::from(IpAddr::V4(*address)), number)),
            }
            index.entries.push((listed, matches));
        }
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
        let numbers = self.any.iter().chain(self.by_name(query.names));
        let numbers = numbers.chain(self.around(query.range)).chain(self.around(embedded));
        numbers.filter_map(|number| self.entries.get(*number as usize)).map(|(_, matches)| matches)
    }

    pub(crate) fn find(&self, query: &NetQuery<'_>) -> Hits {
        let mut hits = Hits::default();
        let mut add = |number: &u32, of: fn(List) -> bool| {
            if let Some((listed, matches)) = self.entries.get(*number as usize)
                && of(listed.list)
                && holds(matches, query, listed.list.narrows())
            {
                hits.add(*listed);
            }
        };
        for number in self.any.iter().chain(self.by_name(query.names)) {
            add(number, |_| true);
        }
        for number in self.around(query.range) {
            add(number, if query.literal { |_| true } else { List::narrows });
        }
        for number in self.around(query.embedded.map(IpNet::V4)) {
            add(number, List::narrows);
        }
        hits
    }

    fn by_name<'a>(&'a self, names: &'a [String]) -> impl Iterator<Item = &'a u32> {
        names.iter().flat_map(|name| {
            let above = name.match_indices('.').filter_map(|(dot, _)| name.get(dot + 1..));
            let known = |suffix: &&str| self.suffix_lengths.get(suffix.len()).copied().unwrap_or_default();
            let suffixes = std::iter::once(name.as_str()).chain(above).filter(known);
            let suffixes = suffixes.filter_map(|suffix| self.suffixes.get(suffix));
            self.names.get(name).into_iter().chain(suffixes).flatten()
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
