//! From an address, port and protocol to a verdict.

use crate::policy::configured;
use act_ebpf_common::address::{Words, destination4, destination6, embedded, mapped};
use act_ebpf_common::{Direction, Finding, Key4, Key6, Policy, Reason, RuleSet, SCOPE_BITS};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{LpmTrie, lpm_trie::Key};

/// A bound, not an allocation: tries grow by entry.
const MAX_PREFIXES: u32 = 1 << 20;

/// IPv4 prefixes of all cgroups.
#[map]
static RULES4: LpmTrie<Key4, RuleSet> = LpmTrie::with_max_entries(MAX_PREFIXES, 0);

/// IPv6 prefixes of all cgroups.
#[map]
static RULES6: LpmTrie<Key6, RuleSet> = LpmTrie::with_max_entries(MAX_PREFIXES, 0);

/// What is asked about an address.
#[derive(Clone, Copy)]
pub struct Query {
    /// Whether it is sent to or bound to.
    pub direction: Direction,
    /// Port in host order.
    pub port: u16,
    /// IANA number, in full.
    pub protocol: u32,
}

/// The verdict for an IPv4 address, which lies in memory as given.
#[inline(always)]
pub fn find4(policy: &Policy, addr: u32, query: Query) -> Finding {
    if !configured(policy) {
        return Finding::deny(Reason::Unconfigured);
    }
    let addr = if matches!(query.direction, Direction::Out) { destination4(addr) } else { addr };
    let key =
        Key4 { scope: policy.scope, direction: query.direction as u8, addr: addr.to_ne_bytes(), reserved: [0; 3] };
    match RULES4.get(Key::new(SCOPE_BITS + 32, key)) {
        Some(set) => set.judge(query.port, query.protocol),
        None => Finding::deny(Reason::NoRule),
    }
}

/// The verdict for an IPv6 address. A mapped one is judged as the IPv4 address it is; one that embeds an IPv4 address
/// is denied when a deny rule names that.
///
/// `read` fetches the address from where it lies, each time anew: the verifier forgets between two reads what it
/// learned from the first, so the ways through the lookup of the IPv4 address join into one behind it.
#[inline(always)]
pub fn find6(policy: &Policy, read: impl Fn() -> Words, query: Query) -> Finding {
    if !configured(policy) {
        return Finding::deny(Reason::Unconfigured);
    }
    let out = matches!(query.direction, Direction::Out);
    let addr = read();
    let inner = match mapped(&addr) {
        None if out => embedded(&addr),
        inner => inner,
    };
    if let Some(inner) = inner {
        let finding = find4(policy, inner, query);
        if finding.named() || mapped(&read()).is_some() {
            return finding;
        }
    }
    let addr = read();
    let key = Key6 {
        scope: policy.scope,
        direction: query.direction as u8,
        addr: bytes(if out { destination6(addr) } else { addr }),
        reserved: [0; 3],
    };
    match RULES6.get(Key::new(SCOPE_BITS + 128, key)) {
        Some(set) => set.judge(query.port, query.protocol),
        None => Finding::deny(Reason::NoRule),
    }
}

/// The bytes of an address, as they lie in memory.
#[inline(always)]
fn bytes(words: Words) -> [u8; 16] {
    // SAFETY: both types are sixteen bytes without padding, and every bit pattern is a value of both.
    unsafe { core::mem::transmute(words) }
}
