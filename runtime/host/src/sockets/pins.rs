//! Which names led to which address, and which peers may answer.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// Most addresses, names of one address, and peers that are remembered; what comes later is simply not covered.
const ADDRESSES: usize = 4096;
const NAMES: usize = 64;
const PEERS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Pins {
    names: HashMap<IpAddr, Vec<String>>,
    peers: HashSet<SocketAddr>,
}

impl Pins {
    pub(super) fn pin(&mut self, host: &str, addresses: &[IpAddr]) {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        for address in addresses {
            let address = address.to_canonical();
            if self.names.len() >= ADDRESSES && !self.names.contains_key(&address) {
                continue;
            }
            let names = self.names.entry(address).or_default();
            if names.len() < NAMES && !names.contains(&host) {
                names.push(host.clone());
            }
        }
    }

    pub(super) fn names(&self, address: IpAddr) -> Vec<String> {
        self.names.get(&address.to_canonical()).cloned().unwrap_or_default()
    }

    /// Remember that datagrams to `peer` were allowed, so that its answers are.
    pub(super) fn approve(&mut self, peer: SocketAddr) {
        if self.peers.len() < PEERS {
            self.peers.insert(canonical(peer));
        }
    }

    pub(super) fn approved(&self, peer: SocketAddr) -> bool {
        self.peers.contains(&canonical(peer))
    }
}

fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}
