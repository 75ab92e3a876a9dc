//! Chunks that were overwritten and may now be quiet, that is, no longer written to. Overwritten values may have needed
//! more bytes and wider bounds than the present ones do. So the idle writer checks quiet chunks, and recodes them if
//! that saves memory.
//!
//! ```text
//!   written -> restless ---- no write for four rounds, then eight ... ----> due: a column at a time -> forgotten
//! ```
//!
//! After each check, a chunk has to be quiet for longer before its next check. So a chunk that is written to now and
//! then is not recoded every time.

/// The time between two rounds.
pub const ROUND_MILLIS: u64 = 2000;
/// The binary logarithm of the number of rounds for which a chunk has to be quiet before its first check.
const FIRST_PATIENCE: u32 = 2;
/// The binary logarithm of the greatest number of rounds for which a chunk has to be quiet before a check.
pub const MOST_PATIENCE: u32 = 8;

#[derive(Debug, Default)]
pub struct Quiet {
    chunks: Vec<Chunk>,
    /// Chunks in which a value was overwritten since their last check.
    restless: Vec<u32>,
    /// Chunks that are to be checked.
    due: Vec<u32>,
    /// The next column to check in the last chunk of `due`.
    column: usize,
    /// The time of the next round or check, if there is any.
    next_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    is_restless: bool,
    /// Whether the chunk was written to since the last round.
    written: bool,
    quiet_rounds: u16,
    looks: u8,
}

impl Chunk {
    fn patience(self) -> u32 {
        (FIRST_PATIENCE + u32::from(self.looks)).min(MOST_PATIENCE)
    }
}

impl Quiet {
    pub fn grow(&mut self, chunks: usize) {
        self.chunks.resize(chunks, Chunk::default());
        for list in [&mut self.restless, &mut self.due] {
            list.reserve(chunks - list.len());
        }
    }

    #[inline]
    pub fn written(&mut self, chunk: usize) {
        let known = &mut self.chunks[chunk];
        known.written = true;
        if !known.is_restless {
            known.is_restless = true;
            self.restless.push(chunk as u32);
        }
    }

    /// The time at which [`Quiet::next`] has something to do.
    pub fn next_ms(&self) -> Option<u64> {
        self.next_ms
    }

    /// Schedules the next round, unless one is scheduled or no chunk was overwritten.
    pub fn expect_looks(&mut self, now_ms: u64) {
        if self.next_ms.is_none() && !self.restless.is_empty() {
            self.next_ms = Some(now_ms + ROUND_MILLIS);
        }
    }

    /// The next chunk to check, and one of its columns. `is_settled` says whether no snapshot needs an older version of
    /// any row of the chunk.
    pub fn next(&mut self, now_ms: u64, columns: usize, is_settled: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        if self.next_ms.is_none_or(|at| now_ms < at) {
            return None;
        }
        if self.due.is_empty() {
            self.begin_round(is_settled);
        }
        let found = self.due.last().filter(|_| columns > 0).map(|chunk| (*chunk as usize, self.column));
        self.column = if found.is_some() && self.column + 1 < columns { self.column + 1 } else { 0 };
        if self.column == 0 {
            self.due.pop();
        }
        self.next_ms = match (self.due.is_empty(), self.restless.is_empty()) {
            (false, _) => Some(now_ms),
            (true, false) => Some(now_ms + ROUND_MILLIS),
            (true, true) => None,
        };
        found
    }

    fn begin_round(&mut self, is_settled: impl Fn(usize) -> bool) {
        let Quiet { chunks, restless, due, .. } = self;
        restless.retain(|chunk| {
            let known = &mut chunks[*chunk as usize];
            let was_written = std::mem::take(&mut known.written);
            known.quiet_rounds = if was_written { 0 } else { known.quiet_rounds.saturating_add(1) };
            let is_due = known.quiet_rounds >= 1 << known.patience() && is_settled(*chunk as usize);
            if is_due {
                *known = Chunk { looks: known.looks.saturating_add(1), ..Chunk::default() };
                due.push(*chunk);
            }
            !is_due
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of a chunk and a column that are due for a check at this time.
    fn looked_at(quiet: &mut Quiet, now_ms: u64) -> Vec<(usize, usize)> {
        std::iter::from_fn(|| quiet.next(now_ms, 2, |_| true)).collect()
    }

    #[test]
    fn a_chunk_is_looked_at_when_it_is_quiet_and_each_time_later() {
        let mut quiet = Quiet::default();
        quiet.grow(3);
        let mut now_ms = 0;
        for wanted in [4, 8, 16, 32] {
            quiet.written(1);
            quiet.expect_looks(now_ms);
            // The first round finds that the chunk was written to before it, so that round does not count as quiet.
            let mut rounds = 0;
            let found = loop {
                now_ms = quiet.next_ms().unwrap();
                match looked_at(&mut quiet, now_ms) {
                    found if found.is_empty() => rounds += 1,
                    found => break found,
                }
            };
            assert_eq!((rounds, found), (wanted, vec![(1, 0), (1, 1)]));
            assert_eq!(quiet.next_ms(), None, "nothing is left");
        }
    }

    #[test]
    fn a_chunk_that_is_written_to_all_the_time_or_has_rows_to_take_back_is_left_alone() {
        let mut quiet = Quiet::default();
        quiet.grow(2);
        quiet.written(0);
        quiet.written(1);
        quiet.expect_looks(0);
        for round in 1..100 {
            quiet.written(0);
            assert_eq!(quiet.next(round * ROUND_MILLIS, 1, |_| false), None);
        }
        quiet.written(0);
        assert_eq!(quiet.next(100 * ROUND_MILLIS, 1, |_| true), Some((1, 0)));
        assert_eq!(quiet.next(100 * ROUND_MILLIS, 1, |_| true), None);
    }
}
