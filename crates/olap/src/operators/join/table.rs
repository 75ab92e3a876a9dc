//! The hash table of a join, from words to rows of the build side. All threads fill and read the same table.
//!
//! ```text
//!   Direct    word -----------> head ----------------------> row
//!   Hashed    hash of a word -> head -> row and its word -> row and its word -> ...     one row for each word
//!
//!   both                                                     row -> another row with the same word -> ...
//! ```
//!
//! Rows are counted from 1; 0 stands for none. A row is inserted by one atomic exchange, so that threads need not wait
//! for each other. Rows with one word are linked among themselves, so that the chain of a head has only one entry for
//! them.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::words::NONE;

/// The greatest number of rows in a table.
pub const MOST_ROWS: usize = u32::MAX as usize - 1;

/// If at most this many words are possible for each row, and `FEW_HEADS` more, each possible word has its own head.
const HEADS_A_ROW: u64 = 8;
const FEW_HEADS: u64 = 1 << 14;

/// A table is crowded if a row shares its word with more than this many other rows on average.
const MANY: usize = 32;
/// The number of rows that are sampled to find out whether a table is crowded.
const ASKED: usize = 256;
const MOST_FOLLOWING: usize = 512;

#[derive(Debug)]
pub struct Table {
    finder: Finder,
    /// For each row, another row with the same word; empty if all words differ.
    links: Vec<AtomicU32>,
    repeats: AtomicBool,
}

#[derive(Debug)]
enum Finder {
    Direct { heads: Vec<AtomicU32> },
    Hashed { heads: Vec<AtomicU32>, entries: Vec<Entry>, shift: u32 },
}

/// A row in the chain of a head. The chain has one row for each word.
#[derive(Debug, Default)]
struct Entry {
    word: AtomicU64,
    next: AtomicU32,
}

impl Table {
    /// A table for `rows` rows with words below `limit`, if there is a limit.
    pub fn new(rows: usize, limit: Option<u64>) -> Table {
        let finder = match direct_heads(rows, limit) {
            Some(heads) => Finder::Direct { heads: zeros(heads) },
            None => {
                let heads = hashed_heads(rows);
                let entries = (0..rows).map(|_| Entry::default()).collect();
                Finder::Hashed { heads: zeros(heads), entries, shift: u64::BITS - heads.trailing_zeros() }
            }
        };
        Table { finder, links: zeros(rows), repeats: AtomicBool::new(false) }
    }

    /// The memory that [`Table::new`] needs.
    pub fn bytes(rows: usize, limit: Option<u64>) -> usize {
        let found = match direct_heads(rows, limit) {
            Some(heads) => heads * size_of::<AtomicU32>(),
            None => hashed_heads(rows) * size_of::<AtomicU32>() + rows * size_of::<Entry>(),
        };
        found + rows * size_of::<AtomicU32>()
    }

    /// The greatest memory that a table of this many rows can need, whatever the words are.
    pub fn most_bytes(rows: usize) -> usize {
        let direct = (HEADS_A_ROW as usize + 1) * rows + FEW_HEADS as usize;
        Table::bytes(rows, None).max(direct * size_of::<AtomicU32>())
    }

    /// Inserts rows. `first` is the number of the first one, counted from 0. `shared` says that other threads insert
    /// rows at the same time.
    pub fn insert(&self, first: usize, words: &[u64], shared: bool) {
        let rows = (first as u32 + 1..).zip(words.iter().copied()).filter(|(_, word)| *word != NONE);
        let repeats = match (&self.finder, shared) {
            (Finder::Direct { heads }, true) => self.insert_direct(heads, rows, exchanged),
            (Finder::Direct { heads }, false) => self.insert_direct(heads, rows, replaced),
            (Finder::Hashed { heads, entries, shift }, _) => self.insert_hashed(heads, entries, *shift, rows, shared),
        };
        if repeats {
            self.repeats.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn insert_direct(
        &self,
        heads: &[AtomicU32],
        rows: impl Iterator<Item = (u32, u64)>,
        put: impl Fn(&AtomicU32, u32) -> u32,
    ) -> bool {
        let mut repeats = false;
        for (row, word) in rows {
            let before = put(&heads[word as usize], row);
            self.link(row).store(before, Ordering::Relaxed);
            repeats |= before != 0;
        }
        repeats
    }

    #[inline]
    fn insert_hashed(
        &self,
        heads: &[AtomicU32],
        entries: &[Entry],
        shift: u32,
        rows: impl Iterator<Item = (u32, u64)>,
        shared: bool,
    ) -> bool {
        let mut repeats = false;
        for (row, word) in rows {
            let (head, entry) = (&heads[place(word, shift)], &entries[row as usize - 1]);
            entry.word.store(word, Ordering::Relaxed);
            loop {
                // Because of this load, all entries of the chain are visible as they were when the head was stored.
                let before = head.load(Ordering::Acquire);
                let same = found(entries, before, word);
                if same != 0 {
                    let link = if shared { exchanged } else { replaced }(self.link(same), row);
                    self.link(row).store(link, Ordering::Relaxed);
                    repeats = true;
                    break;
                }
                entry.next.store(before, Ordering::Relaxed);
                if !shared {
                    head.store(row, Ordering::Relaxed);
                    break;
                }
                if head.compare_exchange(before, row, Ordering::Release, Ordering::Relaxed).is_ok() {
                    break;
                }
            }
        }
        repeats
    }

    fn link(&self, row: u32) -> &AtomicU32 {
        &self.links[row as usize - 1]
    }

    /// Says that no more rows will be inserted.
    pub fn complete(&mut self) {
        if !*self.repeats.get_mut() {
            self.links = Vec::new();
        }
    }

    /// Whether no two rows have the same word, once the table is complete.
    pub fn is_unique(&self) -> bool {
        self.links.is_empty()
    }

    /// Whether many rows share their word with many other rows, judged by a sample.
    pub fn is_crowded(&self) -> bool {
        let rows = self.links.len();
        let asked = (1..=rows as u32).step_by(rows.div_ceil(ASKED).max(1));
        let others = |row| {
            let following = std::iter::successors(Some(row), |row| Some(self.next(*row)).filter(|next| *next != 0));
            following.skip(1).take(MOST_FOLLOWING).count()
        };
        // Only the rows linked behind each sampled row were counted. On average, as many rows are linked before it.
        asked.clone().map(others).sum::<usize>() > MANY / 2 * asked.count()
    }

    /// For each word, a row of the build side that has this word, or 0 if there is none.
    pub fn find(&self, words: &[u64], rows: &mut Vec<u32>) {
        rows.clear();
        match &self.finder {
            Finder::Direct { heads } => {
                let head = |word: &u64| heads.get(*word as usize).map_or(0, |head| head.load(Ordering::Relaxed));
                rows.extend(words.iter().map(head));
            }
            Finder::Hashed { heads, entries, shift } => {
                // All heads are loaded first, so that loads do not wait for each other.
                rows.extend(words.iter().map(|word| heads[place(*word, *shift)].load(Ordering::Relaxed)));
                for (row, word) in rows.iter_mut().zip(words) {
                    *row = found(entries, *row, *word);
                }
            }
        }
    }

    /// Another row with the same word as `row`, or 0 if there is none.
    #[inline]
    pub fn next(&self, row: u32) -> u32 {
        self.links.get(row as usize - 1).map_or(0, |link| link.load(Ordering::Relaxed))
    }
}

fn zeros(count: usize) -> Vec<AtomicU32> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}

fn direct_heads(rows: usize, limit: Option<u64>) -> Option<usize> {
    let most = (rows as u64).saturating_mul(HEADS_A_ROW) + FEW_HEADS;
    limit.filter(|limit| *limit <= most).map(|limit| limit as usize)
}

fn hashed_heads(rows: usize) -> usize {
    (rows + rows / 2).next_power_of_two().max(2)
}

#[inline]
fn place(word: u64, shift: u32) -> usize {
    ((word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// Finds the row with this word in the chain that begins with `row`. Returns 0 if there is none.
#[inline]
fn found(entries: &[Entry], mut row: u32, word: u64) -> u32 {
    while row != 0 {
        let entry = &entries[row as usize - 1];
        if entry.word.load(Ordering::Relaxed) == word {
            break;
        }
        row = entry.next.load(Ordering::Relaxed);
    }
    row
}

/// Puts a row into a place atomically, and returns the row that was there.
fn exchanged(place: &AtomicU32, row: u32) -> u32 {
    place.swap(row, Ordering::Relaxed)
}

/// Puts a row into a place that no other thread uses, and returns the row that was there.
fn replaced(place: &AtomicU32, row: u32) -> u32 {
    let before = place.load(Ordering::Relaxed);
    place.store(row, Ordering::Relaxed);
    before
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::thread;

    use super::*;

    fn rows_of(table: &Table, word: u64) -> Vec<u32> {
        let (mut rows, mut found) = (Vec::new(), Vec::new());
        table.find(&[word], &mut found);
        let mut row = found[0];
        while row != 0 {
            rows.push(row - 1);
            row = table.next(row);
        }
        rows.sort();
        rows
    }

    fn check(words: &[u64], limit: Option<u64>, threads: usize) {
        let mut table = Table::new(words.len(), limit);
        thread::scope(|scope| {
            for part in 0..threads {
                let (table, from) = (&table, part * words.len() / threads);
                let to = (part + 1) * words.len() / threads;
                scope.spawn(move || table.insert(from, &words[from..to], threads > 1));
            }
        });
        table.complete();
        let mut expected: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (row, word) in words.iter().enumerate().filter(|(_, word)| **word != NONE) {
            expected.entry(*word).or_default().push(row as u32);
        }
        for (word, rows) in &expected {
            assert_eq!(&rows_of(&table, *word), rows);
        }
        let others = (0..1000).chain([NONE, NONE - 1, 1 << 40]);
        assert!(others.filter(|word| !expected.contains_key(word)).all(|word| rows_of(&table, word).is_empty()));
        assert_eq!(table.is_unique(), expected.values().all(|rows| rows.len() == 1));
    }

    #[test]
    fn every_row_is_found_by_its_word() {
        for threads in [1, 2, 5] {
            let unique: Vec<u64> = (0..5000).map(|i| i * 7 % 5003).collect();
            let repeated: Vec<u64> = (0..5000).map(|i| if i % 9 == 0 { NONE } else { i % 613 }).collect();
            let far: Vec<u64> = (0..5000u64).map(|i| (i % 3000).wrapping_mul(0x1234_5678_9abc_def1)).collect();
            check(&unique, Some(5003), threads);
            check(&unique, None, threads);
            check(&repeated, Some(613), threads);
            check(&repeated, Some(1 << 50), threads);
            check(&far, None, threads);
            check(&[], Some(1), threads);
            check(&[], None, threads);
            check(&[NONE, NONE], Some(1), threads);
            check(&[0], Some(1), threads);
        }
    }

    #[test]
    fn threads_that_put_the_same_words_in_lose_no_row() {
        let words: Vec<u64> = (0..60_000).map(|i| i % 10).collect();
        for limit in [Some(10), None] {
            check(&words, limit, 6);
        }
    }

    #[test]
    fn rows_are_crowded_where_many_have_a_word() {
        for (words, crowded) in [(1, true), (100, true), (1000, false), (3000, false), (5000, false)] {
            for limit in [Some(5000), None] {
                let mut table = Table::new(5000, limit);
                table.insert(0, &(0..5000).map(|row| row % words).collect::<Vec<_>>(), false);
                table.complete();
                assert_eq!(table.is_crowded(), crowded, "{words}");
            }
        }
        // One word has many rows, the other words have one row each. Each look-up of the first word finds all its rows.
        let mut table = Table::new(5000, None);
        table.insert(0, &(0..5000).map(|row| if row % 5 == 0 { 0 } else { row }).collect::<Vec<_>>(), false);
        table.complete();
        assert!(table.is_crowded());
    }

    #[test]
    fn few_rows_with_words_far_apart_are_hashed() {
        assert!(matches!(Table::new(1000, Some(20_000)).finder, Finder::Direct { .. }));
        assert!(matches!(Table::new(1000, Some(30_000)).finder, Finder::Hashed { .. }));
        for (rows, limit) in [(0, Some(1)), (1000, Some(20_000)), (1000, Some(24_000)), (77, None), (0, None)] {
            assert!(Table::bytes(rows, limit) <= Table::most_bytes(rows), "{rows} {limit:?}");
        }
    }
}
