//! From the identity's binary image to the slot.
//!
//! The index holds slots only; hashes and comparisons go through the columns, which the caller passes as functions. It is
//! cut into shards by the hash, so that growing never moves all of it at once.
//!
//! Under REPLICA IDENTITY FULL equal rows are interchangeable: the index holds the first of them, the others hang on it
//! as a chain, and the one to be changed next is always the first's neighbour, so that a million equal rows are no slower
//! than two.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use snapmem::{Charge, OutOfMemory, Pool};

use crate::column::Cell;

const SHARDS: usize = 256;
const END: u32 = u32::MAX;
const SLOT_BYTES: u64 = size_of::<u32>() as u64;

#[derive(Debug)]
pub struct KeyIndex {
    shards: Box<[HashTable<u32>]>,
    /// For rows that may repeat: by slot, the next equal row.
    next: Option<Vec<u32>>,
    hasher: RandomState,
    /// Bytes of all shards.
    shard_bytes: u64,
    charge: Charge,
    pool: Pool,
}

/// The key is there already.
#[derive(Debug)]
pub struct Duplicate;

impl KeyIndex {
    pub fn new(pool: &Pool, repeats: bool) -> KeyIndex {
        KeyIndex {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            next: repeats.then(Vec::new),
            hasher: RandomState::default(),
            shard_bytes: 0,
            charge: pool.charge(),
            pool: pool.clone(),
        }
    }

    #[inline]
    pub fn hash<'a>(&self, key: impl Iterator<Item = Cell<'a>>) -> u64 {
        hash(&self.hasher, key)
    }

    /// A row with this key.
    #[inline]
    pub fn find(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        let head = *self.shards[shard(hash)].find(hash, |&slot| equal(slot))?;
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
        self.make_room(hash, &key_of)?;
        self.make_chain_room(slot)?;
        let KeyIndex { shards, next, hasher, .. } = self;
        let rehash = |&slot: &u32| self::hash(hasher, key_of(slot));
        match (shards[shard(hash)].entry(hash, |&other| equal(other), rehash), next) {
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

    /// Removes `slot`, which [`KeyIndex::find`] returned and whose cells are still the same. Returns whether it was there.
    pub fn remove(&mut self, hash: u64, slot: u32, equal: impl Fn(u32) -> bool) -> bool {
        let shard = &mut self.shards[shard(hash)];
        let Ok(head) = shard.find_entry(hash, |&other| other == slot || equal(other)) else { return false };
        if let Some(next) = &mut self.next {
            let first = *head.get() as usize;
            if next[first] != END {
                let found = next[first] == slot;
                if found {
                    next[first] = next[slot as usize];
                }
                return found;
            }
        }
        let found = *head.get() == slot;
        if found {
            head.remove();
        }
        found
    }

    /// Room for one more row in its shard: claimed before it is allocated.
    #[inline]
    fn make_room<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        hash: u64,
        key_of: &impl Fn(u32) -> K,
    ) -> Result<(), OutOfMemory> {
        let full = &self.shards[shard(hash)];
        if full.len() < full.capacity() { Ok(()) } else { self.grow_shard(hash, key_of) }
    }

    #[cold]
    fn grow_shard<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        hash: u64,
        key_of: &impl Fn(u32) -> K,
    ) -> Result<(), OutOfMemory> {
        let shard = &mut self.shards[shard(hash)];
        let before = shard.allocation_size() as u64;
        // About what the doubled table takes, beside the old one.
        let wanted = 2 * before + 64;
        let others = self.charge.bytes() - self.shard_bytes;
        self.charge.set(others + self.shard_bytes + wanted)?;
        let rehash = |&slot: &u32| self::hash(&self.hasher, key_of(slot));
        let grown = shard.try_reserve(shard.capacity() + 1, rehash);
        self.shard_bytes += shard.allocation_size() as u64 - before;
        self.charge.set(others + self.shard_bytes)?;
        grown.map_err(|_| OutOfMemory { wanted, limit: self.pool.limit() })
    }

    /// An entry for `slot` in the chains.
    fn make_chain_room(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        let Some(next) = &mut self.next else { return Ok(()) };
        if (slot as usize) < next.len() {
            return Ok(());
        }
        let length = (slot as usize + 1).next_power_of_two();
        let wanted = (length - next.len()) as u64 * SLOT_BYTES;
        self.charge.set(self.charge.bytes() + wanted)?;
        let limit = self.pool.limit();
        next.try_reserve_exact(length - next.len()).map_err(|_| OutOfMemory { wanted, limit })?;
        next.resize(length, END);
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.charge.bytes()
    }
}

/// Taken from bits that the table inside a shard makes no use of.
#[inline]
fn shard(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
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
