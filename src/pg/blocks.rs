//! The blocks of a table, and which of them were changed since a WAL position.

use pgrx::prelude::*;

use super::relation::OpenRelation;

/// The length of a page's header before its content, MAXALIGN(SizeOfPageHeaderData).
const PAGE_HEAD: usize = 24;
/// The number of bits that a visibility map has for each block. The first one says that all rows are visible.
const BITS_PER_BLOCK: usize = 2;
/// The number of blocks that one page of a visibility map is about.
const BLOCKS_PER_MAP_PAGE: u32 = ((pg_sys::BLCKSZ as usize - PAGE_HEAD) * 8 / BITS_PER_BLOCK) as u32;

/// The number of blocks that are examined between two calls of `looked`.
const LOOKED_AT_ONCE: u32 = 64;

/// The blocks among the first `blocks` of a table that were perhaps changed behind `threshold`, in ascending order.
/// Each run of them is its first block and the number of blocks. `looked` is told now and then how many blocks were
/// examined, and may end the search with an error.
///
/// Each change of a row sets the LSN of its page. A block whose LSN is 0 was perhaps changed, because extending a table
/// is not logged.
pub fn changed_since<E>(
    relation: &OpenRelation,
    blocks: u32,
    threshold: u64,
    mut looked: impl FnMut(u32) -> Result<(), E>,
) -> Result<Vec<(u32, u32)>, E> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let strategy = Strategy::bulk_read();
    for first in (0..blocks).step_by(BLOCKS_PER_MAP_PAGE as usize) {
        let map = MapPage::read(relation, first, threshold);
        for block in first..blocks.min(first + BLOCKS_PER_MAP_PAGE) {
            if map.as_ref().is_some_and(|map| map.is_all_visible(block - first)) {
                continue;
            }
            pgrx::check_for_interrupts!();
            if block % LOOKED_AT_ONCE == 0 {
                looked(block)?;
            }
            let lsn = block_lsn(relation, block, &strategy);
            if (1..=threshold).contains(&lsn) {
                continue;
            }
            match runs.last_mut() {
                Some((start, count)) if *start + *count == block => *count += 1,
                _ => runs.push((block, 1)),
            }
        }
    }
    Ok(runs)
}

/// A page of a visibility map that was not changed behind the threshold. So a block that it marks as all-visible was
/// not changed either: a change clears the mark, and setting the mark again would have changed the page's LSN.
struct MapPage(Vec<u8>);

impl MapPage {
    /// The page that is about `block` and the following blocks.
    fn read(relation: &OpenRelation, block: u32, threshold: u64) -> Option<MapPage> {
        let mut buffer = pg_sys::InvalidBuffer as pg_sys::Buffer;
        // SAFETY: the relation is open and locked. The call pins the page, if the map has it. Bits and LSN are read
        // under the page's lock, so they belong together.
        unsafe {
            pg_sys::visibilitymap_get_status(relation.as_ptr(), block, &mut buffer);
            if buffer == pg_sys::InvalidBuffer as pg_sys::Buffer {
                return None;
            }
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let lsn = pg_sys::BufferGetLSNAtomic(buffer);
            let page = std::slice::from_raw_parts(pg_sys::BufferGetPage(buffer).cast::<u8>(), pg_sys::BLCKSZ as usize);
            let copy = (1..=threshold).contains(&lsn).then(|| MapPage(page[PAGE_HEAD..].to_vec()));
            pg_sys::UnlockReleaseBuffer(buffer);
            copy
        }
    }

    /// Whether all rows of a block are visible to everybody. Blocks are counted from the first one of the page.
    fn is_all_visible(&self, block: u32) -> bool {
        let bit = block as usize * BITS_PER_BLOCK;
        self.0[bit / 8] & 1 << (bit % 8) != 0
    }
}

/// The LSN of a block's page.
fn block_lsn(relation: &OpenRelation, block: u32, strategy: &Strategy) -> u64 {
    // SAFETY: the relation is open and locked, and has this block, because only a stronger lock lets blocks be removed.
    unsafe {
        let (fork, mode) = (pg_sys::ForkNumber::MAIN_FORKNUM, pg_sys::ReadBufferMode::RBM_NORMAL);
        let buffer = pg_sys::ReadBufferExtended(relation.as_ptr(), fork, block, mode, strategy.0);
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let lsn = pg_sys::BufferGetLSNAtomic(buffer);
        pg_sys::UnlockReleaseBuffer(buffer);
        lsn
    }
}

/// The way in which many blocks are read, so that they do not displace others from the buffers.
struct Strategy(pg_sys::BufferAccessStrategy);

impl Strategy {
    fn bulk_read() -> Strategy {
        // SAFETY: the function allocates a plain structure.
        Strategy(unsafe { pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_BULKREAD) })
    }
}

impl Drop for Strategy {
    fn drop(&mut self) {
        // While an error unwinds, the memory is left to the end of the transaction.
        if !std::thread::panicking() {
            // SAFETY: made by `bulk_read`, and freed once.
            unsafe { pg_sys::FreeAccessStrategy(self.0) };
        }
    }
}
