//! The old versions of pages that live snapshots still see.
//!
//! ```text
//!   snapshots    1           2           3
//!   page         |--- A -----------|--- B ----- now: C, born 3
//!                                  |           |
//!                   A: born 0, kept with 2     B: born 2, kept with 3
//! ```
//!
//! Snapshots are numbered from 1. A version of a page is born with the number of the last snapshot before it. All later
//! snapshots see the version, until the writer replaces it. A replaced version is kept with the newest snapshot that
//! sees it. When that snapshot ends, the version passes to the next older snapshot, if this one sees the version, too;
//! otherwise the version is free. So no count per page and snapshot is needed.

/// The live snapshots of a region, and a value for every replaced version that they see.
#[derive(Debug)]
pub(crate) struct History<T> {
    /// The number of snapshots taken so far.
    taken: u64,
    /// The live snapshots in the order of their numbers.
    live: Vec<Live<T>>,
}

#[derive(Debug)]
struct Live<T> {
    number: u64,
    kept: Vec<Version<T>>,
}

#[derive(Debug)]
struct Version<T> {
    born: u64,
    kept: T,
}

impl<T> History<T> {
    pub fn new() -> History<T> {
        History { taken: 0, live: Vec::new() }
    }

    /// The number of the newest snapshot, whether it is alive or not. A version that is made now is born with this
    /// number.
    pub fn now(&self) -> u64 {
        self.taken
    }

    /// The number of the newest live snapshot, or 0. That snapshot sees all versions that were born with a lower
    /// number.
    pub fn newest(&self) -> u64 {
        self.live.last().map_or(0, |live| live.number)
    }

    /// Begins a snapshot, and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.taken += 1;
        self.live.push(Live { number: self.taken, kept: Vec::new() });
        self.taken
    }

    /// Keeps a version that is being replaced, and that the newest live snapshot sees.
    pub fn displace(&mut self, born: u64, kept: T) {
        let newest = self.live.last_mut().expect("a live snapshot sees the version");
        debug_assert!(born < newest.number);
        newest.kept.push(Version { born, kept });
    }

    /// Ends a snapshot. `free` is called with the value of each version that no other snapshot sees.
    pub fn end(&mut self, number: u64, mut free: impl FnMut(T)) {
        let at = self.live.binary_search_by_key(&number, |live| live.number).expect("the snapshot is alive");
        let mut ended = self.live.remove(at).kept;
        match at.checked_sub(1).map(|older| &mut self.live[older]) {
            None => ended.into_iter().for_each(|version| free(version.kept)),
            Some(older) => {
                ended.extract_if(.., |version| older.number <= version.born).for_each(|version| free(version.kept));
                if older.kept.len() < ended.len() {
                    std::mem::swap(&mut older.kept, &mut ended);
                }
                older.kept.append(&mut ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// For each snapshot, the model records the version of each page that it sees. A version must be freed exactly when
    /// no live snapshot has a record of it.
    #[test]
    fn versions_are_freed_with_the_last_snapshot_that_sees_them() {
        const PAGES: usize = 6;
        for seed in 0..300 {
            let mut rnd = StdRng::seed_from_u64(seed);
            let mut history = History::new();
            let mut born = [0; PAGES];
            let mut current: [usize; PAGES] = std::array::from_fn(|page| page);
            let mut versions = PAGES;
            let mut displaced: Vec<usize> = Vec::new();
            let mut seen: BTreeMap<u64, [usize; PAGES]> = BTreeMap::new();
            for _ in 0..200 {
                match rnd.random_range(0..10) {
                    0..5 => {
                        let page = rnd.random_range(0..PAGES);
                        assert_eq!(
                            born[page] < history.newest(),
                            seen.values().any(|seen| seen[page] == current[page]),
                            "seed {seed}"
                        );
                        if born[page] < history.newest() {
                            history.displace(born[page], current[page]);
                            displaced.push(current[page]);
                            (current[page], born[page]) = (versions, history.now());
                            versions += 1;
                        }
                    }
                    5..8 => {
                        seen.insert(history.begin(), current);
                    }
                    _ => {
                        let Some(&number) = seen.keys().nth(rnd.random_range(0..seen.len().max(1))) else { continue };
                        seen.remove(&number);
                        let mut freed = Vec::new();
                        history.end(number, |version| freed.push(version));
                        freed.sort();
                        let gone = |version: &usize| !seen.values().flatten().any(|seen| seen == version);
                        let mut expected: Vec<_> = displaced.extract_if(.., |version| gone(version)).collect();
                        expected.sort();
                        assert_eq!(freed, expected, "seed {seed}");
                    }
                }
            }
        }
    }
}
