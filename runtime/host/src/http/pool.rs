//! Connections that wait for another request to the same place.
//!
//! A pool belongs to one instance of the component and goes with it. A connection gets into it when its response was
//! read to the end and nothing is left of its request; everything else closes it. It says nothing about whether a
//! request may be sent: that is judged first, with the address that the connection goes to.
//!
//! What a name resolved to is not used for longer than [`LIFETIME`]. A connection that does nothing holds one of the
//! slots, but takes none from a request: it is closed when one is needed.

use super::connection::Connection;
use super::target::Place;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Longest time without a request. Many servers close after less.
const IDLE: Duration = Duration::from_secs(15);
/// Longest time since it was opened; requests that are under way then come to their end.
const LIFETIME: Duration = Duration::from_mins(1);
/// Most connections that wait, to all places and to one.
const WAITING: usize = 32;
const WAITING_AT_ONE: usize = 8;

#[derive(Default)]
pub(super) struct Pool(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Those that have waited longest first.
    idle: VecDeque<Idle>,
    /// Requests that wait for a slot.
    wanted: usize,
    sweeping: bool,
}

struct Idle {
    place: Place,
    connection: Connection,
    until: Instant,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to `place` at an address that `suits`, if one is still good.
    pub(super) fn take(&self, place: &Place, mut suits: impl FnMut(IpAddr) -> bool) -> Option<Connection> {
        let mut inner = self.lock();
        let now = Instant::now();
        loop {
            let found = |idle: &Idle| idle.place == *place && suits(idle.connection.address);
            let last = inner.idle.iter().rposition(found)?;
            let Idle { connection, until, .. } = inner.idle.remove(last)?;
            if until > now && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    fn keep(self: &Arc<Self>, place: Place, connection: Connection) {
        let now = Instant::now();
        let until = (now + IDLE).min(connection.born + LIFETIME);
        let mut inner = self.lock();
        if inner.wanted > 0 || until <= now || !connection.is_ready() {
            return;
        }
        inner.sweep(now);
        let mut there = inner.idle.iter().enumerate().filter(|(_, idle)| idle.place == place).map(|(at, _)| at);
        let oldest = there.next();
        if let Some(oldest) = oldest.filter(|_| there.count() + 1 >= WAITING_AT_ONE) {
            inner.idle.remove(oldest);
        } else if inner.idle.len() >= WAITING {
            inner.idle.pop_front();
        }
        inner.idle.push_back(Idle { place, connection, until });
        if !inner.sweeping {
            inner.sweeping = true;
            self.clone().start_sweeping();
        }
    }

    /// Close those whose time is over, until none is left.
    fn start_sweeping(self: Arc<Self>) {
        let pool = Arc::downgrade(&self);
        tokio::spawn(async move {
            while let Some(next) = pool.upgrade().and_then(|pool| pool.sweep()) {
                sleep_until(next).await;
            }
        });
    }

    /// When to come again.
    fn sweep(&self) -> Option<Instant> {
        let mut inner = self.lock();
        inner.sweep(Instant::now());
        let next = inner.idle.iter().map(|idle| idle.until).min();
        inner.sweeping = next.is_some();
        next
    }

    /// Make room for a request that finds all slots taken. Until the result is dropped, none is kept for later.
    pub(super) fn make_room(&self) -> Wanted<'_> {
        let mut inner = self.lock();
        inner.wanted += 1;
        inner.idle.pop_front();
        Wanted(self)
    }
}

impl Inner {
    fn sweep(&mut self, now: Instant) {
        self.idle.retain(|idle| idle.until > now && idle.connection.is_ready());
    }
}

/// A request that waits for a slot.
pub(super) struct Wanted<'a>(&'a Pool);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.lock().wanted -= 1;
    }
}

/// A connection in use, and where it may go when it is not.
pub(super) struct Lease {
    pool: Arc<Pool>,
    place: Place,
    connection: Connection,
}

impl Lease {
    pub(super) fn new(pool: &Arc<Pool>, place: Place, connection: Connection) -> Self {
        Self { pool: pool.clone(), place, connection }
    }

    /// The exchange is over.
    pub(super) fn give_back(self) {
        let Self { pool, place, connection } = self;
        pool.keep(place, connection);
    }
}
