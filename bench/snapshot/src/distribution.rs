//! Distributions of updates over pages: DaMoN'12's seven, after Gray et al. (SIGMOD'94) with the parameters of
//! Cieslewicz and Ross (VLDB'07), and YCSB's keys.

use rand::Rng;
use rand::rngs::StdRng;

pub const PAGE: usize = 4096;
const ITEM: usize = 8;
const ITEMS_PER_PAGE: u64 = (PAGE / ITEM) as u64;

/// The number of pages that the moving cluster covers at a time.
const CLUSTER: u64 = 1024;
const ZIPF_EXPONENT: f64 = 0.5;
/// The skew of the self-similar distribution: with 0.2, a fifth of the pages gets four fifths of the updates.
const SELF_SIMILAR: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    Uniform,
    Sorted,
    HeavyHitter,
    RepeatedRuns,
    Zipf,
    SelfSimilar,
    MovingCluster,
}

impl Distribution {
    pub const ALL: [Distribution; 7] = [
        Distribution::Uniform,
        Distribution::Sorted,
        Distribution::HeavyHitter,
        Distribution::RepeatedRuns,
        Distribution::Zipf,
        Distribution::SelfSimilar,
        Distribution::MovingCluster,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Sorted => "sorted",
            Distribution::HeavyHitter => "heavy hitter",
            Distribution::RepeatedRuns => "repeated runs",
            Distribution::Zipf => "Zipf",
            Distribution::SelfSimilar => "self-similar",
            Distribution::MovingCluster => "moving cluster",
        }
    }

    pub fn named(name: &str) -> Option<Distribution> {
        Distribution::ALL.into_iter().find(|distribution| distribution.name() == name)
    }
}

/// An endless stream of updates. The distribution chooses the page; the item in the page is random.
///
/// The distributions "sorted" and "moving cluster" pass through all pages. They reach the end after as many updates as
/// there are items, and then begin again.
pub struct Updates {
    distribution: Distribution,
    pages: u64,
    done: u64,
    zipf: Zipf,
}

impl Updates {
    pub fn new(distribution: Distribution, bytes: usize) -> Updates {
        let pages = (bytes / PAGE) as u64;
        Updates { distribution, pages, done: 0, zipf: Zipf::new(pages, ZIPF_EXPONENT) }
    }

    /// The next update's offset in bytes.
    pub fn next(&mut self, random: &mut StdRng) -> usize {
        let page = self.page(random);
        self.done += 1;
        page as usize * PAGE + random.random_range(0..ITEMS_PER_PAGE) as usize * ITEM
    }

    fn page(&mut self, random: &mut StdRng) -> u64 {
        let (pages, all) = (self.pages, self.pages * ITEMS_PER_PAGE);
        match self.distribution {
            Distribution::Uniform => random.random_range(0..pages),
            Distribution::Sorted => self.done / ITEMS_PER_PAGE % pages,
            Distribution::HeavyHitter if random.random() => 0,
            Distribution::HeavyHitter => random.random_range(0..pages),
            Distribution::RepeatedRuns => self.done % pages,
            Distribution::Zipf => self.zipf.next(random),
            Distribution::SelfSimilar => {
                let power = SELF_SIMILAR.ln() / (1.0 - SELF_SIMILAR).ln();
                ((pages as f64 * random.random::<f64>().powf(power)) as u64).min(pages - 1)
            }
            Distribution::MovingCluster => {
                let cluster = CLUSTER.min(pages);
                let start = (pages - cluster) * (self.done % all) / all;
                start + random.random_range(0..cluster)
            }
        }
    }
}

/// A Zipf distribution of ranks from 0 on, in which smaller ranks are more frequent, by Gray et al.'s approximation.
pub struct Zipf {
    ranks: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    pub fn new(ranks: u64, exponent: f64) -> Zipf {
        let zeta = |n: u64| (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>();
        let (all, two) = (zeta(ranks), zeta(ranks.min(2)));
        let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - exponent)) / (1.0 - two / all);
        Zipf { ranks: ranks as f64, alpha: 1.0 / (1.0 - exponent), zeta: all, eta, second: two }
    }

    pub fn next(&self, random: &mut StdRng) -> u64 {
        let at: f64 = random.random();
        match at * self.zeta {
            below if below < 1.0 => 0,
            below if below < self.second => 1,
            _ => ((self.ranks * (self.eta * at - self.eta + 1.0).powf(self.alpha)) as u64).min(self.ranks as u64 - 1),
        }
    }
}

/// YCSB's distribution of keys: Zipf with YCSB's exponent. YCSB's hash scatters the popular keys over all records.
pub struct Keys {
    zipf: Zipf,
    records: u64,
}

impl Keys {
    pub fn new(records: u64) -> Keys {
        Keys { zipf: Zipf::new(records, 0.99), records }
    }

    pub fn next(&self, random: &mut StdRng) -> u64 {
        fnv(self.zipf.next(random)) % self.records
    }
}

fn fnv(value: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    value.to_le_bytes().iter().fold(start, |hash: u64, &byte| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const BYTES: usize = 8 << 20;

    /// The number of updates that hit each page.
    fn counts(distribution: Distribution, updates: usize) -> Vec<usize> {
        let mut random = StdRng::seed_from_u64(1);
        let mut stream = Updates::new(distribution, BYTES);
        let mut counts = vec![0; BYTES / PAGE];
        (0..updates).for_each(|_| counts[stream.next(&mut random) / PAGE] += 1);
        counts
    }

    fn pages_hit(distribution: Distribution, updates: usize) -> usize {
        counts(distribution, updates).iter().filter(|&&count| count > 0).count()
    }

    #[test]
    fn each_distribution_has_its_shape() {
        let pages = BYTES / PAGE;
        assert!(pages_hit(Distribution::Uniform, 20 * pages) == pages);
        assert_eq!(pages_hit(Distribution::Sorted, 5120), 10);
        assert_eq!(pages_hit(Distribution::RepeatedRuns, pages / 2), pages / 2);
        let heavy = counts(Distribution::HeavyHitter, 10_000)[0];
        assert!((4500..5500).contains(&heavy), "{heavy}");
        let similar = counts(Distribution::SelfSimilar, 100_000)[..pages / 5].iter().sum::<usize>();
        assert!((78_000..82_000).contains(&similar), "80 % of the updates go to 20 % of the pages, not {similar}");
        let moving = counts(Distribution::MovingCluster, 100_000);
        assert!(moving[..1024].iter().sum::<usize>() > 90_000 && moving[1500..].iter().sum::<usize>() == 0);
        let zipf = counts(Distribution::Zipf, 1_000_000);
        let ratio = zipf[0] as f64 / zipf[100] as f64;
        assert!((7.0..14.0).contains(&ratio), "the square root of 101, not {ratio}");
    }

    #[test]
    fn keys_are_scattered_but_skewed() {
        let mut random = StdRng::seed_from_u64(1);
        let keys = Keys::new(10_000);
        let mut counts = vec![0; 10_000];
        (0..100_000).for_each(|_| counts[keys.next(&mut random) as usize] += 1);
        let most = counts.iter().max().unwrap();
        assert!((5_000..20_000).contains(most), "{most}");
        assert!(counts[..100].iter().sum::<usize>() < 30_000);
    }
}
