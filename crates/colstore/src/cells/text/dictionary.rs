//! The distinct texts of a chunk, numbered. A snapshot holds the texts that existed when it was taken.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use snapmem::{Charge, OutOfMemory, Pool};

use super::heap::{Heap, Place};

/// The capacity of a new dictionary.
const FEWEST: usize = 4;
const GROWTH: usize = 4;
/// The greatest number of texts in a dictionary.
pub const MOST: usize = 2048;

#[derive(Debug)]
pub struct Dictionary {
    entries: Entries,
    codes: HashTable<u16>,
    charge: Charge,
    limit: u64,
}

/// For each code, the place of its text in the chunk's heap. Existing entries do not change; new ones are appended.
#[derive(Clone, Debug)]
pub struct Entries {
    places: Arc<[AtomicU64]>,
    len: usize,
}

impl Entries {
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn place(&self, code: usize) -> Place {
        // A relaxed load suffices: these entries were handed to their holder after they had been written.
        let place = self.places[code].load(Ordering::Relaxed);
        Place { block: (place >> 32) as u32, offset: place as u32 }
    }
}

impl Dictionary {
    pub fn new(pool: &Pool) -> Dictionary {
        let entries = Entries { places: Arc::new([]), len: 0 };
        Dictionary { entries, codes: HashTable::new(), charge: pool.charge(), limit: pool.limit() }
    }

    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len
    }

    /// The code of a text, if it has one.
    #[inline]
    pub fn code(&self, text: &[u8], heap: &Heap, hasher: &RandomState) -> Option<u16> {
        let is_it = |code: &u16| heap.text(self.entries.place(*code as usize)) == text;
        self.codes.find(hasher.hash_one(text), is_it).copied()
    }

    /// Adds a text that has no code yet. Its record is at `place`. Returns the new code.
    pub fn add(&mut self, place: Place, heap: &Heap, hasher: &RandomState) -> Result<u16, OutOfMemory> {
        let Entries { places, len } = &self.entries;
        let code = *len;
        if code == places.len() {
            self.grow()?;
        }
        let hash = |code: &u16, entries: &Entries| hasher.hash_one(heap.text(entries.place(*code as usize)));
        let before = self.codes.allocation_size();
        let entries = &self.entries;
        let refused = |wanted: usize| OutOfMemory::Limit { wanted: wanted as u64, limit: self.limit };
        self.codes.try_reserve(1, |code| hash(code, entries)).map_err(|_| refused(2 * before))?;
        let more = self.codes.allocation_size() - before;
        self.charge.set(self.charge.bytes() + more as u64)?;
        self.entries.places[code].store(u64::from(place.block) << 32 | u64::from(place.offset), Ordering::Relaxed);
        self.entries.len += 1;
        let entries = &self.entries;
        let own = hash(&(code as u16), entries);
        self.codes.insert_unique(own, code as u16, |code| hash(code, entries));
        Ok(code as u16)
    }

    /// Copies the places into a longer list. Snapshots keep the old list.
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let Entries { places, len } = &self.entries;
        let room = (places.len() * GROWTH).clamp(FEWEST, MOST);
        let bytes = (room - places.len()) * size_of::<AtomicU64>();
        self.charge.set(self.charge.bytes() + bytes as u64)?;
        let old = places.iter().map(|place| place.load(Ordering::Relaxed));
        let longer = old.chain(std::iter::repeat(0)).take(room).map(AtomicU64::new).collect();
        self.entries = Entries { places: longer, len: *len };
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.charge.bytes()
    }
}
