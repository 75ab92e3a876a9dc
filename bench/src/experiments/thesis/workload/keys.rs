//! YCSB's choice of keys: a few keys are drawn often, and these popular keys are scattered over the whole range.

use rand::Rng;
use rand::rngs::StdRng;

/// Skew of the Zipf distribution, as in YCSB.
const THETA: f64 = 0.99;

/// A generator of keys. It draws ranks of a Zipf distribution by Gray et al.'s method ("Quickly generating
/// billion-record synthetic databases"), and scatters them by a hash.
pub struct Keys {
    count: u64,
    zeta: f64,
    eta: f64,
}

impl Keys {
    pub fn new(count: u64) -> Keys {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let all = zeta(count);
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - THETA)) / (1.0 - zeta(2.min(count)) / all);
        Keys { count, zeta: all, eta }
    }

    /// A random key, below the number of keys.
    pub fn next(&self, random: &mut StdRng) -> u64 {
        scattered(self.rank(random.random())) % self.count
    }

    /// The rank for a number from 0 to 1; the least rank is the most frequent.
    fn rank(&self, drawn: f64) -> u64 {
        let share = drawn * self.zeta;
        if share < 1.0 {
            return 0;
        }
        if share < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.count - 1)
    }
}

/// FNV-1a of the rank's bytes.
fn scattered(rank: u64) -> u64 {
    rank.to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn few_keys_are_drawn_often_and_every_key_exists() {
        let keys = Keys::new(1000);
        let mut random = StdRng::seed_from_u64(1);
        let mut drawn = vec![0; 1000];
        for _ in 0..100_000 {
            drawn[keys.next(&mut random) as usize] += 1;
        }
        drawn.sort_unstable_by(|a, b| b.cmp(a));
        // With a Zipf distribution over a thousand keys, the first gets about an eighth of the draws.
        assert!((10_000..17_000).contains(&drawn[0]), "{}", drawn[0]);
        assert!(drawn.iter().take(100).sum::<i32>() > 50_000);
        assert_eq!((keys.rank(0.0), keys.rank(1.0) < 1000), (0, true));
    }
}
