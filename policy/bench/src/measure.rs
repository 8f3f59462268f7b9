//! Clocks and percentiles.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Requests that one reading of the clock is spread over.
pub(crate) const BATCH: usize = 16;

/// Nanoseconds, sorted.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    /// The smallest time that at least `percent` of the times do not exceed.
    pub(crate) fn rank(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(rank).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Goes round and round through requests.
pub(crate) struct Round<'a, T> {
    requests: &'a [T],
    next: usize,
}

impl<'a, T> Round<'a, T> {
    pub(crate) const fn new(requests: &'a [T]) -> Self {
        Self { requests, next: 0 }
    }

    fn batch(&mut self, size: usize) -> &'a [T] {
        if self.next + size > self.requests.len() {
            self.next = 0;
        }
        let batch = self.requests.get(self.next..self.next + size).unwrap_or_default();
        self.next += size;
        batch
    }

    /// The time for each decision of one batch.
    pub(crate) fn time<R>(&mut self, size: usize, mut decide: impl FnMut(&T) -> R) -> f64 {
        let batch = self.batch(size);
        let start = Instant::now();
        for request in batch {
            black_box(decide(black_box(request)));
        }
        nanoseconds(start.elapsed()) / batch.len().max(1) as f64
    }
}

/// Rounds of one line.
const ROUNDS: u32 = 8;

/// Times of all rounds, and of the quietest: the one with the lowest 99th percentile, least hurt by other programs.
pub(crate) struct Rounds {
    pub(crate) all: Times,
    pub(crate) quietest: Times,
}

impl Rounds {
    /// Measures for `budget` in rounds of the same length.
    pub(crate) fn of(budget: Duration, mut time: impl FnMut() -> f64) -> Option<Self> {
        let rounds = (0..ROUNDS).map(|_| {
            let start = Instant::now();
            let mut times = vec![time()];
            while start.elapsed() < budget / ROUNDS {
                times.push(time());
            }
            times
        });
        let rounds: Vec<Times> = rounds.map(Times::of).collect();
        let all = Times::of(rounds.iter().flat_map(|round| &round.0).copied().collect());
        let quietest = rounds.into_iter().min_by(|a, b| a.rank(99).total_cmp(&b.rank(99)))?;
        Some(Self { all, quietest })
    }
}

/// What a reading of the clock costs by itself.
pub(crate) fn clock() -> f64 {
    Times::of((0..10_000).map(|_| nanoseconds(Instant::now().elapsed())).collect()).rank(50)
}

/// The middle one of some times; the work is repeated at least `least` times, and on while the budget lasts.
pub(crate) fn median<E>(
    budget: Duration,
    least: usize,
    mut work: impl FnMut() -> Result<Duration, E>,
) -> Result<f64, E> {
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < least || (start.elapsed() < budget && times.len() < 200) {
        times.push(nanoseconds(work()?));
    }
    Ok(Times::of(times).rank(50))
}

pub(crate) fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
