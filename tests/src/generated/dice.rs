//! Random choices. The same seed always gives the same choices.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

pub struct Dice(StdRng);

impl Dice {
    pub fn seeded(seed: u64) -> Dice {
        Dice(StdRng::seed_from_u64(seed))
    }

    pub fn chance(&mut self, one_in: u32) -> bool {
        self.below(one_in) == 0
    }

    pub fn below(&mut self, end: u32) -> u32 {
        self.0.random_range(0..end)
    }

    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list.choose(&mut self.0).expect("a list to pick from is not empty").clone()
    }

    /// Calls `make` a random number of times, from one to `most`, and returns the results.
    pub fn some<T>(&mut self, most: u32, mut make: impl FnMut(&mut Dice) -> T) -> Vec<T> {
        (0..=self.below(most)).map(|_| make(self)).collect()
    }
}
