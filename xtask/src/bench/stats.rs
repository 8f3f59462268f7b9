//! Median and 95th percentile.

use std::time::Duration;

pub(super) struct Summary {
    pub(super) median: Duration,
    /// The smallest time that at least 95 % of the times do not exceed.
    pub(super) p95: Duration,
}

impl Summary {
    /// `None` if there are no times.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort();
        let rank = |percent: usize| times.get((times.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Self { median: rank(50)?, p95: rank(95)? })
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;
    use std::time::Duration;

    fn of(milliseconds: &[u64]) -> Option<(u128, u128)> {
        let times = milliseconds.iter().copied().map(Duration::from_millis).collect();
        Summary::of(times).map(|s| (s.median.as_millis(), s.p95.as_millis()))
    }

    #[test]
    fn ranks() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some((7, 7)));
        assert_eq!(of(&[3, 1, 2]), Some((2, 3)));
        assert_eq!(of(&(1..=100).collect::<Vec<_>>()), Some((50, 95)));
    }
}
