//! The key index: it maps a key, the binary image of the identity's columns, to a slot.
//!
//! The index holds slots only. It hashes and compares keys in the columns, through functions that the caller passes.
//! The index is divided into shards by hash, so that it never has to be moved as a whole when it grows; a small index
//! has a single shard.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use snapmem::{Charge, OutOfMemory, Pool};

use crate::cells::column::Cell;

/// The number of shards, a power of two.
const SHARDS: usize = 256;
/// The greatest number of rows in a single shard.
const MAX_SINGLE: usize = 7 << 10;

#[derive(Debug)]
pub struct KeyIndex {
    /// One shard, or [`SHARDS`].
    shards: Vec<HashTable<u32>>,
    hasher: RandomState,
    charge: Charge,
    pool: Pool,
}

/// An error: another row already has this key.
#[derive(Debug)]
pub struct Duplicate;

impl KeyIndex {
    pub fn new(pool: &Pool) -> KeyIndex {
        KeyIndex {
            shards: vec![HashTable::new()],
            hasher: RandomState::default(),
            charge: pool.charge(),
            pool: pool.clone(),
        }
    }

    /// Makes room for `rows` rows in an empty index.
    pub fn expect(&mut self, rows: usize) -> Result<(), OutOfMemory> {
        let count = if rows > MAX_SINGLE { SHARDS } else { 1 };
        let refused = |wanted: u64| OutOfMemory::Limit { wanted, limit: self.pool.limit() };
        // A place in a table takes five bytes, and a table has at most 8/7 times 2 as many places as rows.
        let wanted = rows as u64 * 5 * 16 / 7;
        self.charge.set(wanted)?;
        let mut shards: Vec<HashTable<u32>> = (0..count).map(|_| HashTable::new()).collect();
        for shard in &mut shards {
            shard.try_reserve(rows / count, |_| 0).map_err(|_| refused(wanted))?;
        }
        self.shards = shards;
        self.charge.set(self.shards.iter().map(|shard| shard.allocation_size() as u64).sum())
    }

    #[inline]
    pub fn hash<'a>(&self, key: impl Iterator<Item = Cell<'a>>) -> u64 {
        hash(&self.hasher, key)
    }

    /// The slot of the row with this key.
    #[inline]
    pub fn find(&self, hash: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        self.shards[self.shard(hash)].find(hash, |&slot| equal(slot)).copied()
    }

    /// Adds `slot` under the key whose hash is `hash`. `key_of` returns the key's cells in any slot.
    pub fn insert<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        hash: u64,
        slot: u32,
        equal: impl Fn(u32) -> bool,
        key_of: impl Fn(u32) -> K,
    ) -> Result<Result<(), Duplicate>, OutOfMemory> {
        self.make_room(hash, &key_of)?;
        let shard = self.shard(hash);
        let KeyIndex { shards, hasher, .. } = self;
        let rehash = |&slot: &u32| self::hash(hasher, key_of(slot));
        match shards[shard].entry(hash, |&other| equal(other), rehash) {
            Entry::Vacant(entry) => {
                entry.insert(slot);
                Ok(Ok(()))
            }
            Entry::Occupied(_) => Ok(Err(Duplicate)),
        }
    }

    /// Removes `slot` from the index. Its key must be the one under which it was added, with this hash. Returns whether
    /// the slot was in the index.
    pub fn remove(&mut self, hash: u64, slot: u32) -> bool {
        let shard = self.shard(hash);
        match self.shards[shard].find_entry(hash, |&other| other == slot) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Makes room for one more row in its shard. The memory is charged to the pool before it is allocated.
    #[inline]
    fn make_room<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        hash: u64,
        key_of: &impl Fn(u32) -> K,
    ) -> Result<(), OutOfMemory> {
        let full = &self.shards[self.shard(hash)];
        if full.len() < full.capacity() {
            return Ok(());
        }
        if self.shards.len() == 1 && full.len() >= MAX_SINGLE {
            self.split(key_of)?;
            return self.make_room(hash, key_of);
        }
        self.grow_shard(hash, key_of)
    }

    /// Divides the single shard into [`SHARDS`] shards.
    #[cold]
    fn split<'a, K: Iterator<Item = Cell<'a>>>(&mut self, key_of: &impl Fn(u32) -> K) -> Result<(), OutOfMemory> {
        let single = std::mem::replace(&mut self.shards, (0..SHARDS).map(|_| HashTable::new()).collect());
        for slot in single.iter().flatten() {
            let hash = self.hash(key_of(*slot));
            let shard = self.shard(hash);
            if self.shards[shard].len() == self.shards[shard].capacity() {
                self.grow_shard(hash, key_of)?;
            }
            self.shards[shard].insert_unique(hash, *slot, |slot| self::hash(&self.hasher, key_of(*slot)));
        }
        let freed: u64 = single.iter().map(|shard| shard.allocation_size() as u64).sum();
        drop(single);
        self.charge.set(self.charge.bytes() - freed)
    }

    #[cold]
    fn grow_shard<'a, K: Iterator<Item = Cell<'a>>>(
        &mut self,
        hash: u64,
        key_of: &impl Fn(u32) -> K,
    ) -> Result<(), OutOfMemory> {
        let shard = self.shard(hash);
        let shard = &mut self.shards[shard];
        let before = shard.allocation_size() as u64;
        // The approximate size of the table after it has doubled. While it grows, the old and the new table exist
        // together.
        let (wanted, all) = (2 * before + 64, self.charge.bytes());
        self.charge.set(all + wanted)?;
        let rehash = |&slot: &u32| self::hash(&self.hasher, key_of(slot));
        // The table doubles its size.
        let grown = shard.try_reserve(1, rehash);
        self.charge.set(all + shard.allocation_size() as u64 - before)?;
        grown.map_err(|_| OutOfMemory::Limit { wanted, limit: self.pool.limit() })
    }

    /// The index of the shard for a hash. It uses bits of the hash that the hash table within a shard does not use.
    #[inline]
    fn shard(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
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
            Cell::Unholdable => state.write_u8(2),
            Cell::Fixed(image) => state.write_u128(image),
            Cell::Text(text) => {
                state.write(text);
                state.write_usize(text.len());
            }
        }
    }
    state.finish()
}
