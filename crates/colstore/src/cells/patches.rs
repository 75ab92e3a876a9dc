//! Older values that a private snapshot shows in place of newer ones.

use std::collections::HashMap;

use snapmem::{Charge, OutOfMemory, Pool};

use crate::base::chunk::{CHUNK_ROWS, split};
use crate::base::pick::Pick;

/// A row of the chunk, and the bytes of its older value.
pub type Patch = (u16, [u8; 16]);

#[derive(Debug)]
pub struct Patches {
    /// The patches of each chunk, in the order in which they were made.
    of: HashMap<usize, Vec<Patch>>,
    charge: Charge,
    pool: Pool,
}

impl Patches {
    pub fn new(pool: &Pool) -> Patches {
        Patches { of: HashMap::new(), charge: pool.charge(), pool: pool.clone() }
    }

    pub fn add(&mut self, slot: u32, image: u128) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(slot);
        let refused = |bytes: usize| OutOfMemory::Limit { wanted: bytes as u64, limit: self.pool.limit() };
        self.of.try_reserve(1).map_err(|_| refused(size_of::<Vec<Patch>>()))?;
        let patches = self.of.entry(chunk).or_default();
        if patches.len() == patches.capacity() {
            if patches.len() >= 2 * CHUNK_ROWS {
                keep_latest(patches);
            } else {
                let more = patches.len().max(4);
                let bytes = more * size_of::<Patch>();
                self.charge.set(self.charge.bytes() + bytes as u64)?;
                patches.try_reserve_exact(more).map_err(|_| refused(bytes))?;
            }
        }
        patches.push((row as u16, image.to_le_bytes()));
        Ok(())
    }

    pub fn of(&self, chunk: usize) -> &[Patch] {
        match self.of.is_empty() {
            true => &[],
            false => self.of.get(&chunk).map_or(&[], Vec::as_slice),
        }
    }
}

/// Replaces values by their patches. `values` are those of a chunk's first rows; patches of other rows are skipped.
pub fn put<T>(patches: &[Patch], values: &mut [T], of_image: impl Fn(u128) -> T) {
    for (row, image) in patches {
        if let Some(value) = values.get_mut(*row as usize) {
            *value = of_image(u128::from_le_bytes(*image));
        }
    }
}

/// Selects values of a chunk. If `pick` is a number of first rows, `values` has just these rows already.
pub fn picked<T: Copy>(values: Vec<T>, pick: Pick<'_>) -> Vec<T> {
    match pick {
        Pick::First(_) => values,
        Pick::Rows(_) => pick.map(|row| values[row]),
    }
}

/// Keeps only the last patch of each row.
fn keep_latest(patches: &mut Vec<Patch>) {
    let mut seen = vec![false; CHUNK_ROWS];
    patches.reverse();
    patches.retain(|(row, _)| !std::mem::replace(&mut seen[*row as usize], true));
    patches.reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_patch_of_a_row_counts_however_many_there_are() {
        let pool = Pool::new(1 << 30);
        let mut patches = Patches::new(&pool);
        assert!(patches.of(0).is_empty());
        for i in 0..100_000_u32 {
            patches.add(CHUNK_ROWS as u32 + i % 8000, i.into()).unwrap();
        }
        assert!(patches.of(0).is_empty() && patches.of(1).len() <= 2 * CHUNK_ROWS);
        let mut values = vec![0; CHUNK_ROWS];
        patches.of(1).iter().for_each(|(row, image)| values[*row as usize] = u128::from_le_bytes(*image));
        // Rows below 4,000 were patched once more than the rows from 4,000 on.
        let last = |row: usize| if row < 4000 { 96_000 + row } else { 88_000 + row };
        assert!((0..8000).all(|row| values[row] == last(row) as u128));
        drop(patches);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn they_stay_within_the_limit() {
        let pool = Pool::new(1000);
        let mut patches = Patches::new(&pool);
        let made = (0..1000).take_while(|i| patches.add(*i, 1).is_ok()).count();
        assert!((10..100).contains(&made), "{made} patches in 1000 bytes");
    }
}
