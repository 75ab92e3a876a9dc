//! A histogram of measured times. Buckets are wider for longer times, so that the histogram stays small even for all
//! transactions of a run. Subtracting an earlier state of the same histogram gives the times since then.

use std::ops::{AddAssign, Sub};

/// The number of buckets between a value and its double. With 32, a value is known to 3 %.
const PER_DOUBLING: u64 = 32;
/// The number of buckets, which suffices for hours in microseconds.
const BUCKETS: usize = (PER_DOUBLING * 36) as usize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts a value in whole units, such as microseconds.
    pub fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper end of the bucket that contains this percentile; 0 if the histogram is empty.
    pub fn percentile(&self, share: f64) -> f64 {
        let rank = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let found = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        found.map_or(0.0, |bucket| end(bucket) as f64)
    }

    pub fn max(&self) -> f64 {
        self.percentile(1.0)
    }
}

impl AddAssign<&Histogram> for Histogram {
    fn add_assign(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }
}

/// The difference to `earlier`, an earlier state of the same histogram.
impl Sub<&Histogram> for &Histogram {
    type Output = Histogram;

    fn sub(self, earlier: &Histogram) -> Histogram {
        Histogram { counts: self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then).collect() }
    }
}

/// The bucket of a value. Each value below twice `PER_DOUBLING` has a bucket of its own. For larger values, the leading
/// binary digits select the bucket.
fn bucket(value: u64) -> usize {
    let doublings = (value / PER_DOUBLING).checked_ilog2().unwrap_or(0);
    let bucket = u64::from(doublings) * PER_DOUBLING + (value >> doublings);
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doublings = (bucket / PER_DOUBLING).saturating_sub(1);
    ((bucket - doublings * PER_DOUBLING + 1) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_bucket_and_in_no_other() {
        for value in (0..5000).chain([1 << 20, (1 << 30) + 12_345]) {
            let at = bucket(value);
            assert!(value <= end(at) && (at == 0 || value > end(at - 1)), "{value} in {at}");
            assert!(end(at) as f64 <= value as f64 * 1.04, "{value}: {}", end(at));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.max(), 0.0);
        (1..=1000).for_each(|value| histogram.add(value));
        let near = |share, value: f64| {
            let found: f64 = histogram.percentile(share);
            assert!((found / value - 1.0).abs() < 0.04, "{share}: {found}");
        };
        [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)].into_iter().for_each(|(share, value)| near(share, value));
    }

    #[test]
    fn what_came_later_can_be_told_apart() {
        let mut early = Histogram::default();
        early.add(7);
        let mut late = early.clone();
        late.add(70_000);
        let since = &late - &early;
        assert_eq!((since.count(), since.percentile(0.5) > 60_000.0), (1, true));
        let mut both = since.clone();
        both += &early;
        assert_eq!(both, late);
    }
}
