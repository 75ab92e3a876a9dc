//! From the identity's binary image to the slot.
//!
//! The table holds slots only; hashes and comparisons go through the columns, which the caller passes as functions.
//! Under REPLICA IDENTITY FULL equal rows are interchangeable: the table holds the first of them, the others hang on it
//! as a chain, and the one to be changed next is always the first's neighbour, so that a million equal rows are no slower
//! than two.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use snapmem::{Charge, OutOfMemory, Pool};
use std::hash::{BuildHasher, Hasher};

use crate::column::Cell;

const END: u32 = u32::MAX;
const SLOT_BYTES: u64 = size_of::<u32>() as u64;

#[derive(Debug)]
pub struct KeyIndex {
    heads: HashTable<u32>,
    /// For rows that may repeat: by slot, the next equal row.
    next: Option<Vec<u32>>,
    hasher: RandomState,
    charge: Charge,
}

/// The key is there already.
#[derive(Debug)]
pub struct Duplicate;

impl KeyIndex {
    pub fn new(pool: &Pool, repeats: bool) -> KeyIndex {
        KeyIndex {
            heads: HashTable::new(),
            next: repeats.then(Vec::new),
            hasher: RandomState::default(),
            charge: pool.charge(),
        }
    }

    #[inline]
    pub fn hash<'a>(&self, key: impl Iterator<Item = Cell<'a>>) -> u64 {
        hash(&self.hasher, key)
    }

    /// A row with this key.
    #[inline]
    pub fn find(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        let head = *self.heads.find(hash, |&slot| equal(slot))?;
        match &self.next {
            Some(next) if next[head as usize] != END => Some(next[head as usize]),
            _ => Some(head),
        }
    }

    /// Adds `slot`. `key_of` gives the identity's cells of a slot.
    pub fn insert<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        hash: u64,
        slot: u32,
        equal: impl Fn(u32) -> bool,
        key_of: impl Fn(u32) -> K,
    ) -> Result<Result<(), Duplicate>, OutOfMemory> {
        self.make_room(slot, &key_of)?;
        let KeyIndex { heads, next, hasher, .. } = self;
        let rehash = |&slot: &u32| self::hash(hasher, key_of(slot));
        match (heads.entry(hash, |&other| equal(other), rehash), next) {
            (Entry::Vacant(entry), next) => {
                entry.insert(slot);
                if let Some(next) = next {
                    next[slot as usize] = END;
                }
            }
            (Entry::Occupied(head), Some(next)) => {
                let head = *head.get() as usize;
                next[slot as usize] = next[head];
                next[head] = slot;
            }
            (Entry::Occupied(_), None) => return Ok(Err(Duplicate)),
        }
        Ok(Ok(()))
    }

    /// Removes `slot`, whose cells must still be those it was added with. Returns whether it was there.
    pub fn remove(&mut self, hash: u64, slot: u32, equal: impl Fn(u32) -> bool) -> bool {
        let Ok(entry) = self.heads.find_entry(hash, |&other| other == slot || equal(other)) else { return false };
        let head = *entry.get();
        let Some(next) = &mut self.next else {
            entry.remove();
            return head == slot;
        };
        if head == slot {
            match next[slot as usize] {
                END => drop(entry.remove()),
                heir => *entry.into_mut() = heir,
            }
            return true;
        }
        let mut before = head as usize;
        while next[before] != slot {
            if next[before] == END {
                return false;
            }
            before = next[before] as usize;
        }
        next[before] = next[slot as usize];
        true
    }

    /// Room for one more row: claimed before it is allocated.
    fn make_room<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        slot: u32,
        key_of: &impl Fn(u32) -> K,
    ) -> Result<(), OutOfMemory> {
        let chain = self.next.as_ref().map_or(0, |next| next.len().max(slot as usize + 1).next_power_of_two() as u64);
        if self.heads.len() == self.heads.capacity() {
            let grown = 2 * self.heads.allocation_size() as u64 + 64;
            // While it grows, old and new table are there.
            self.charge.set(chain * SLOT_BYTES + grown + self.heads.allocation_size() as u64)?;
            let more = self.heads.capacity() + 1;
            let hasher = &self.hasher;
            self.heads.try_reserve(more, |&slot| hash(hasher, key_of(slot))).map_err(|_| self.exhausted(grown))?;
            self.charge.set(chain * SLOT_BYTES + self.heads.allocation_size() as u64)?;
        }
        if let Some(next) = &self.next
            && slot as usize >= next.len()
        {
            let more = chain as usize - next.len();
            self.charge.set(chain * SLOT_BYTES + self.heads.allocation_size() as u64)?;
            let exhausted = self.exhausted(more as u64 * SLOT_BYTES);
            if let Some(next) = &mut self.next {
                next.try_reserve_exact(more).map_err(|_| exhausted)?;
                next.resize(chain as usize, END);
            }
        }
        Ok(())
    }

    fn exhausted(&self, wanted: u64) -> OutOfMemory {
        OutOfMemory { wanted, limit: self.charge.bytes() }
    }

    pub fn bytes(&self) -> u64 {
        self.charge.bytes()
    }
}

fn hash<'a>(hasher: &RandomState, key: impl Iterator<Item = Cell<'a>>) -> u64 {
    let mut state = hasher.build_hasher();
    for cell in key {
        match cell {
            Cell::Null => state.write_u8(1),
            Cell::Poison => state.write_u8(2),
            Cell::Fixed(image) => state.write_u128(image),
            Cell::Text(text) => {
                state.write(text);
                state.write_usize(text.len());
            }
        }
    }
    state.finish()
}
