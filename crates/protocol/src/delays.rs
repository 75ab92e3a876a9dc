//! Percentiles, which summarise many delays.

/// Percentiles by the nearest-rank method: each percentile is one of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    pub count: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

impl Percentiles {
    /// The percentiles; `None` if there are no values.
    pub fn of(values: &[u64]) -> Option<Percentiles> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let max = *sorted.last()?;
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100) - 1];
        Some(Percentiles { count: sorted.len() as u64, p50: rank(50), p90: rank(90), p99: rank(99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values() {
        assert_eq!(Percentiles::of(&[]), None);
        assert_eq!(Percentiles::of(&[7]), Some(Percentiles { count: 1, p50: 7, p90: 7, p99: 7, max: 7 }));
        let values: Vec<u64> = (1..=1000).rev().collect();
        let expected = Percentiles { count: 1000, p50: 500, p90: 900, p99: 990, max: 1000 };
        assert_eq!(Percentiles::of(&values), Some(expected));
        let expected = Percentiles { count: 3, p50: 20, p90: 30, p99: 30, max: 30 };
        assert_eq!(Percentiles::of(&[30, 10, 20]), Some(expected));
    }
}
