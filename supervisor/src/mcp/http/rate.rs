//! How many requests a peer may send: a bucket for each address, as GCRA (ITU-T I.371) keeps it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Time that a request takes from a bucket: 50 in a second.
const INTERVAL: Duration = Duration::from_millis(20);
/// Requests that a full bucket holds.
const BURST: u32 = 100;
/// Most peers that are remembered. A peer that has been quiet for two seconds need not be.
const PEERS: usize = 4096;

/// The buckets of all peers.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// When the peer's bucket will be full again.
    full_at: HashMap<IpAddr, Instant>,
}

impl Rates {
    /// Whether a request of a peer may pass now; where there are too many peers, a new one may not.
    pub(super) fn take(&mut self, peer: IpAddr, now: Instant) -> bool {
        let peer = of(peer);
        if self.full_at.len() >= PEERS && !self.full_at.contains_key(&peer) {
            self.full_at.retain(|_, full_at| *full_at > now);
            if self.full_at.len() >= PEERS {
                return false;
            }
        }
        let full_at = self.full_at.entry(peer).or_insert(now);
        let later = (*full_at).max(now) + INTERVAL;
        if later.duration_since(now) > INTERVAL * BURST {
            return false;
        }
        *full_at = later;
        true
    }
}

/// One subscriber has a whole /64 of IPv6.
fn of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_so_many_in_a_second() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let passed = |rates: &mut Rates, peer: &str, now| (0..1000).filter(|_| rates.take(ip(peer), now)).count();
        assert_eq!(passed(&mut rates, "192.0.2.1", start), 100);
        assert_eq!(passed(&mut rates, "::ffff:192.0.2.1", start), 0);
        assert_eq!(passed(&mut rates, "192.0.2.2", start), 100);
        assert_eq!(passed(&mut rates, "2001:db8::1", start), 100);
        assert_eq!(passed(&mut rates, "2001:db8::ffff:2", start), 0);
        assert_eq!(passed(&mut rates, "2001:db8:0:1::1", start), 100);
        assert_eq!(passed(&mut rates, "192.0.2.1", start + Duration::from_secs(1)), 50);
        assert_eq!(passed(&mut rates, "192.0.2.1", start + Duration::from_mins(1)), 100);
    }

    #[test]
    fn many_peers_are_not_remembered_for_ever() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let peer = |n: usize| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        assert!((0..PEERS).all(|n| rates.take(peer(n), start)));
        assert!(!rates.take(peer(PEERS), start));
        assert!(rates.take(peer(0), start));
        assert!(rates.take(peer(PEERS), start + Duration::from_secs(2)));
        assert_eq!(rates.full_at.len(), 1);
    }
}
