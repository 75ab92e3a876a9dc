//! Random join orders, which show how good the estimates are.

use super::estimate::Graph;
use super::{Part, join_sides, scans};

/// Pseudo-random numbers from a seed (SplitMix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..many`; `many` is not 0.
    fn below(&mut self, many: usize) -> usize {
        (self.next() % many as u64) as usize
    }
}

/// Joins the relations of a connected component in random order. With a probability of one in four, the larger side (by
/// the estimates) becomes the build side, because estimates may be wrong.
pub fn connected<'a>(graph: &Graph<'a, '_>, relations: &[u16], dice: &mut Dice) -> Part<'a> {
    let mut parts = scans(graph, relations);
    while parts.len() > 1 {
        let pairs = (0..parts.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let linked: Vec<_> = pairs.filter(|&(i, j)| graph.is_linked(&parts[i].set, &parts[j].set)).collect();
        let (i, j) = if linked.is_empty() { (0, 1) } else { linked[dice.below(linked.len())] };
        let (later, earlier) = (parts.remove(j), parts.remove(i));
        let set = graph.join(&earlier.set, &later.set).0;
        let (small, large) = if later.set.rows < earlier.set.rows { (later, earlier) } else { (earlier, later) };
        let (build, probe) = if dice.below(4) == 0 { (large, small) } else { (small, large) };
        parts.push(Part { tree: join_sides(graph, build, probe, set.rows), set });
    }
    parts.remove(0)
}
