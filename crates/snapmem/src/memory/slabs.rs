//! Blocks from slabs. A slab has 2 MB, in a huge page if the kernel has one, and all its blocks have the same size.
//!
//! A scan reads one frame after the other. If frames lie in small pages at scattered addresses, a scan has little more
//! than half the speed, because the processor looks up the address of each page, and its read-ahead stops at the end of
//! each page.
//!
//! The first slab of each size consists of small pages, so that a process with little memory does not need a huge page
//! for every size. A slab returns to the system when all of its blocks are free. A new block comes from the first slab
//! with room, so that the last slabs become empty.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use parking_lot::Mutex;

use crate::memory::sys::Mapping;

const SLAB: usize = 2 << 20;
/// The sizes of blocks are powers of two, from this one up to half a slab.
const SMALLEST: usize = 4 << 10;
const SIZES: usize = (SLAB / SMALLEST).trailing_zeros() as usize;
const WORDS: usize = SLAB / SMALLEST / u64::BITS as usize;

static SHELVES: [Mutex<Shelf>; SIZES] = [const { Mutex::new(Shelf { slabs: Vec::new(), first_with_room: 0 }) }; SIZES];

/// Whether blocks of this size come from slabs.
pub(crate) fn are_for(bytes: usize) -> bool {
    let has_size = bytes.is_power_of_two() && (SMALLEST..SLAB).contains(&bytes);
    // Miri cannot map such memory.
    has_size && !cfg!(miri)
}

/// A block, and whether it is all zeros; `None` if the system has no memory.
pub(crate) fn take(bytes: usize) -> Option<(NonNull<u8>, bool)> {
    shelf(bytes).lock().take(bytes)
}

/// Frees a block.
///
/// # Safety
///
/// The block was taken with this size, and nobody uses it any more.
pub(crate) unsafe fn give_back(block: NonNull<u8>, bytes: usize) {
    shelf(bytes).lock().give_back(block, bytes);
}

fn shelf(bytes: usize) -> &'static Mutex<Shelf> {
    debug_assert!(are_for(bytes));
    &SHELVES[(bytes / SMALLEST).trailing_zeros() as usize]
}

/// The slabs with blocks of one size.
struct Shelf {
    /// The slabs in the order of their addresses.
    slabs: Vec<Slab>,
    /// All slabs before this index are full.
    first_with_room: usize,
}

struct Slab {
    memory: Mapping,
    free: Places,
    /// The blocks that were never handed out, and therefore are all zeros.
    untouched: Places,
}

impl Shelf {
    fn take(&mut self, bytes: usize) -> Option<(NonNull<u8>, bool)> {
        let from = self.first_with_room;
        let with_room = self.slabs[from..].iter().position(|slab| slab.free.first().is_some());
        self.first_with_room = match with_room {
            Some(at) => from + at,
            None => self.add(bytes)?,
        };
        let slab = &mut self.slabs[self.first_with_room];
        let place = slab.free.first()?;
        let is_zero = slab.untouched.has(place);
        slab.free.remove(place);
        slab.untouched.remove(place);
        Some((NonNull::new(slab.memory.part(place * bytes, bytes))?, is_zero))
    }

    /// Adds a slab, and returns its index.
    fn add(&mut self, bytes: usize) -> Option<usize> {
        self.slabs.try_reserve(1).ok()?;
        let memory = Mapping::aligned(SLAB, !self.slabs.is_empty()).ok()?;
        let all = Places::all(SLAB / bytes);
        let at = self.slabs.partition_point(|slab| slab.start() < memory.part(0, 0) as usize);
        self.slabs.insert(at, Slab { memory, free: all, untouched: all });
        Some(at)
    }

    fn give_back(&mut self, block: NonNull<u8>, bytes: usize) {
        let address = block.as_ptr() as usize;
        let at = self.slabs.partition_point(|slab| slab.start() <= address) - 1;
        let slab = &mut self.slabs[at];
        slab.free.add((address - slab.start()) / bytes);
        self.first_with_room = self.first_with_room.min(at);
        if slab.free == Places::all(SLAB / bytes) {
            self.slabs.remove(at);
        }
    }
}

impl Slab {
    fn start(&self) -> usize {
        self.memory.part(0, 0) as usize
    }
}

/// A set of blocks of a slab, by index.
#[derive(Clone, Copy, PartialEq)]
struct Places([u64; WORDS]);

impl Places {
    fn all(count: usize) -> Places {
        let mut places = Places([0; WORDS]);
        (0..count).for_each(|place| places.add(place));
        places
    }

    fn first(&self) -> Option<usize> {
        let (at, word) = self.0.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(at * u64::BITS as usize + word.trailing_zeros() as usize)
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    fn add(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn remove(&mut self, place: usize) {
        self.0[place / 64] &= !(1 << (place % 64));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn shelf() -> Shelf {
        Shelf { slabs: Vec::new(), first_with_room: 0 }
    }

    #[test]
    fn no_two_blocks_overlap_and_all_slabs_go_back() {
        for bytes in [SMALLEST, 64 << 10, SLAB / 2] {
            let mut shelf = shelf();
            let blocks: Vec<_> = (0..3 * SLAB / bytes + 1).map(|_| shelf.take(bytes).unwrap()).collect();
            assert!(blocks.iter().all(|(_, is_zero)| *is_zero));
            assert!(blocks.iter().all(|(block, _)| (block.as_ptr() as usize).is_multiple_of(bytes)));
            let starts: HashSet<_> = blocks.iter().map(|(block, _)| *block).collect();
            assert_eq!((starts.len(), shelf.slabs.len()), (blocks.len(), 4));
            for (block, _) in blocks {
                shelf.give_back(block, bytes);
            }
            assert!(shelf.slabs.is_empty());
        }
    }

    #[test]
    fn a_block_that_came_back_is_the_next_one_and_known_to_be_used() {
        let mut shelf = shelf();
        let bytes = 64 << 10;
        let blocks: Vec<_> = (0..4 * SLAB / bytes).map(|_| shelf.take(bytes).unwrap().0).collect();
        for &block in blocks.iter().step_by(7) {
            // SAFETY: it was taken, and is ours.
            unsafe { block.as_ptr().write_bytes(7, bytes) };
            shelf.give_back(block, bytes);
            assert_eq!(shelf.take(bytes), Some((block, false)));
        }
        for &block in blocks.iter().rev() {
            shelf.give_back(block, bytes);
        }
        assert!(shelf.slabs.is_empty());
    }
}
