//! Recognises rows in the WAL that are too wide to be followed, before PostgreSQL's decoding assembles them.
//!
//! PostgreSQL logs the long values of a row first, in chunks, and then the row with pointers to them (TOAST). Decoding
//! keeps the chunks in memory until it reaches the row. It then allocates the decompressed length of every value, even
//! for tables that are not mirrored, before it calls the capture worker. So the worker asks this module first:
//!
//! ```text
//!   chunk, chunk, …  within the limit: decoded; beyond it: not passed to decoding
//!   row              within the limit: decoded; beyond it: decoded with invalid pointers, and its position is recorded
//! ```

use std::collections::HashMap;

/// The first two bytes of a pointer. The first byte distinguishes the pointer from other values. The second byte says
/// that it points to a TOAST table.
const POINTER: [u8; 2] = [if cfg!(target_endian = "big") { 0x80 } else { 0x01 }, 18];
/// The length of a pointer. After its first two bytes come the value's decompressed size, stored size and id, and the
/// id of the TOAST table.
const POINTER_BYTES: usize = 2 + 4 * 4;
const RAW_SIZE_AT: usize = 2;
const VALUE_AT: usize = 10;
/// An id that no value has.
const NO_VALUE: [u8; 4] = [0; 4];

#[derive(Debug)]
pub struct WideRows {
    /// The greatest number of bytes in a row.
    pub limit: u64,
    /// For each transaction (or subtransaction), the chunks that were logged before their row.
    pending: HashMap<u32, Pending>,
    /// The positions in the WAL of rows beyond the limit, each with its transaction.
    found: HashMap<u64, u32>,
}

#[derive(Debug, Default)]
struct Pending {
    bytes: u64,
    values: Vec<u32>,
    /// Whether a chunk was kept from decoding. Then the row cannot be assembled, even if the limit is raised before the
    /// row comes.
    kept_back: bool,
}

impl WideRows {
    pub fn new(limit: u64) -> WideRows {
        WideRows { limit, pending: HashMap::new(), found: HashMap::new() }
    }

    /// Called for a chunk of a value. Returns whether the chunk may be passed to decoding.
    pub fn chunk(&mut self, xid: u32, value: u32, bytes: usize) -> bool {
        let pending = self.pending.entry(xid).or_default();
        if pending.values.last() != Some(&value) {
            pending.values.push(value);
        }
        pending.bytes += bytes as u64;
        pending.kept_back |= pending.bytes > self.limit;
        !pending.kept_back
    }

    /// Whether this transaction has logged chunks for a row that has not come yet.
    pub fn awaits_row(&self, xid: u32) -> bool {
        !self.pending.is_empty() && self.pending.contains_key(&xid)
    }

    /// Called for rows that were logged at `lsn`; `rows` are their bytes. Makes the pointers of rows beyond the limit
    /// invalid. After the `last` rows, the chunks so far are no longer needed.
    pub fn rows(&mut self, xid: u32, lsn: u64, rows: &mut [u8], last: bool) {
        let Some(pending) = self.pending.get(&xid) else { return };
        let pointers: Vec<usize> = pointers(rows, &pending.values).collect();
        let raw_bytes: u64 = pointers.iter().map(|&at| u64::from(number(rows, at + RAW_SIZE_AT))).sum();
        if pending.kept_back || pending.bytes.max(raw_bytes) > self.limit {
            for at in pointers {
                rows[at + VALUE_AT..][..NO_VALUE.len()].copy_from_slice(&NO_VALUE);
            }
            self.found.insert(lsn, xid);
        }
        if last {
            self.pending.remove(&xid);
        }
    }

    /// Whether the rows that were logged at `lsn` exceed the limit.
    pub fn are_at(&self, lsn: u64) -> bool {
        !self.found.is_empty() && self.found.contains_key(&lsn)
    }

    /// Called with the oldest transaction that is still running. All earlier transactions have been decoded, so what is
    /// known about them is forgotten.
    pub fn oldest_running(&mut self, oldest: u32) {
        // The comparison is modulo 2^32, because transaction ids wrap around.
        let runs = |xid: u32| xid.wrapping_sub(oldest) as i32 >= 0;
        self.pending.retain(|&xid, _| runs(xid));
        self.found.retain(|_, &mut xid| runs(xid));
    }
}

/// The offsets of pointers to any of these values.
fn pointers<'a>(rows: &'a [u8], values: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
    let places = rows.windows(POINTER_BYTES).enumerate().filter(|(_, bytes)| bytes.starts_with(&POINTER));
    places.filter(|(_, bytes)| values.contains(&number(bytes, VALUE_AT))).map(|(at, _)| at)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with pointers to these values, each of which has a size, and with other bytes between them.
    fn row(values: &[(u32, u32)]) -> Vec<u8> {
        let mut row = vec![POINTER[0], 7];
        for &(value, raw_bytes) in values {
            row.extend(POINTER);
            for number in [raw_bytes, 9, value, 1234] {
                row.extend(number.to_ne_bytes());
            }
            row.push(POINTER[0]);
        }
        row
    }

    #[test]
    fn a_row_within_the_limit_is_left_alone() {
        let mut wide = WideRows::new(100);
        assert!(wide.chunk(5, 1, 40) && wide.chunk(5, 1, 40) && wide.chunk(5, 2, 20));
        assert!(wide.awaits_row(5) && !wide.awaits_row(6));
        let mut logged = row(&[(1, 80), (2, 20)]);
        wide.rows(5, 77, &mut logged, true);
        assert_eq!(logged, row(&[(1, 80), (2, 20)]));
        assert!(!wide.are_at(77) && !wide.awaits_row(5));
    }

    #[test]
    fn chunks_beyond_the_limit_are_kept_back_and_their_row_points_nowhere() {
        let mut wide = WideRows::new(100);
        assert!(wide.chunk(5, 1, 60) && wide.chunk(6, 3, 60), "each transaction for itself");
        assert!(!wide.chunk(5, 2, 41) && !wide.chunk(5, 2, 1));
        let mut logged = row(&[(1, 60), (2, 42), (3, 60)]);
        wide.rows(5, 77, &mut logged, true);
        assert_eq!(logged, row(&[(0, 60), (0, 42), (3, 60)]), "3 is an unchanged value");
        assert!(wide.are_at(77) && !wide.are_at(78));
        assert!(wide.chunk(5, 4, 100), "the next row starts from nothing");
    }

    #[test]
    fn a_row_that_lacks_chunks_is_too_wide_under_any_later_limit() {
        let mut wide = WideRows::new(100);
        assert!(wide.chunk(5, 1, 60) && !wide.chunk(5, 1, 60));
        wide.limit = 1000;
        assert!(!wide.chunk(5, 1, 60), "decoding would get a value with a hole");
        let mut logged = row(&[(1, 180)]);
        wide.rows(5, 77, &mut logged, true);
        assert_eq!(logged, row(&[(0, 180)]));
        assert!(wide.are_at(77));
        assert!(wide.chunk(5, 2, 500), "the next row has all its chunks");
    }

    #[test]
    fn what_is_small_only_while_compressed_is_too_wide() {
        let mut wide = WideRows::new(100);
        assert!(wide.chunk(5, 1, 4) && wide.chunk(5, 2, 4));
        let mut logged = row(&[(1, 60), (2, 60)]);
        wide.rows(5, 77, &mut logged, true);
        assert_eq!(logged, row(&[(0, 60), (0, 60)]));
        assert!(wide.are_at(77));
    }

    #[test]
    fn rows_that_are_logged_together_follow_all_their_chunks() {
        let mut wide = WideRows::new(100);
        wide.chunk(5, 1, 60);
        wide.chunk(5, 2, 60);
        let (mut first, mut second) = (row(&[(1, 60)]), row(&[(2, 60)]));
        wide.rows(5, 77, &mut first, false);
        wide.rows(5, 78, &mut second, true);
        assert_eq!((first, second), (row(&[(0, 60)]), row(&[(0, 60)])));
        assert!(wide.are_at(77) && wide.are_at(78) && !wide.awaits_row(5));
    }

    #[test]
    fn what_ended_without_its_row_is_forgotten() {
        let mut wide = WideRows::new(100);
        for xid in [u32::MAX - 1, 3] {
            wide.chunk(xid, 1, 200);
            wide.rows(xid, xid.into(), &mut row(&[(1, 200)]), true);
            wide.chunk(xid, 2, 200);
        }
        wide.oldest_running(2);
        assert!(!wide.awaits_row(u32::MAX - 1) && !wide.are_at((u32::MAX - 1).into()));
        assert!(wide.awaits_row(3) && wide.are_at(3));
    }
}
