//! Numbers groups by several integer keys. For most rows, this takes one comparison of words and one look-up.
//!
//! ```text
//!   keys of a row -> words -> hash -> place: upper half of the hash, number of the group -> the group's words
//! ```
//!
//! Places are probed linearly until an empty one is found; at least half of them are empty. They are in the order of
//! the hashes, so that growing reads and writes sequentially. The places that a batch needs are loaded together.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int16Array, Int32Array, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::EmitTo;
use datafusion_physical_plan::aggregates::group_values::GroupValues;

/// The numbering for keys of these types, if all are integers.
pub fn packed(keys: &Schema) -> Option<Box<dyn GroupValues>> {
    let types: Vec<DataType> = keys.fields().iter().map(|field| field.data_type().clone()).collect();
    if !types.iter().all(|ty| matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64)) {
        return None;
    }
    Some(match types.len() {
        2 => Box::new(Packed::<2>::new(types)),
        3 => Box::new(Packed::<3>::new(types)),
        4 => Box::new(Packed::<4>::new(types)),
        _ => return None,
    })
}

/// The keys of a group. A null key is 0, and its bit is set.
#[derive(Clone, Copy, PartialEq)]
struct Words<const N: usize> {
    keys: [i64; N],
    nulls: u8,
}

struct Packed<const N: usize> {
    types: Vec<DataType>,
    /// The groups in the order of their numbers.
    groups: Vec<Words<N>>,
    /// 2^`bits` places. 0 stands for an empty place. Otherwise the upper half of the place is the upper half of the
    /// hash, and the lower half is the group's number plus one.
    places: Vec<u64>,
    bits: u32,
    /// The packed keys of a batch's rows. `hashes` are the hashes of these keys, and `seen` the contents of the first
    /// place for each hash.
    rows: Vec<Words<N>>,
    hashes: Vec<u64>,
    seen: Vec<u64>,
}

/// A secret seed, so that nobody outside can choose keys with equal hashes.
static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
const FEWEST_PLACES: usize = 64;
const MOST_GROUPS: usize = u32::MAX as usize - 1;

impl<const N: usize> Words<N> {
    #[inline]
    fn hash(&self, seed: u64) -> u64 {
        let mix = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word).wrapping_mul(ODD);
            product as u64 ^ (product >> 64) as u64
        };
        let keys = self.keys.iter().fold(seed ^ u64::from(self.nulls), |hash, key| mix(hash, *key as u64));
        // Without this step, the last word would affect only some bits of the hash.
        mix(keys, seed.rotate_left(32))
    }
}

impl<const N: usize> Packed<N> {
    fn new(types: Vec<DataType>) -> Packed<N> {
        let (groups, places, rows, hashes, seen) = Default::default();
        Packed { types, groups, places, bits: 0, rows, hashes, seen }
    }

    fn read(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns[0].len();
        self.rows.clear();
        self.rows.resize(rows, Words { keys: [0; N], nulls: 0 });
        for (at, column) in columns.iter().enumerate() {
            let words = self.rows.iter_mut();
            match column.data_type() {
                DataType::Int16 => {
                    let keys = column.as_primitive::<Int16Type>().values();
                    words.zip(keys).for_each(|(words, key)| words.keys[at] = (*key).into());
                }
                DataType::Int32 => {
                    let keys = column.as_primitive::<Int32Type>().values();
                    words.zip(keys).for_each(|(words, key)| words.keys[at] = (*key).into());
                }
                DataType::Int64 => {
                    let keys = column.as_primitive::<Int64Type>().values();
                    words.zip(keys).for_each(|(words, key)| words.keys[at] = *key);
                }
                other => return Err(DataFusionError::Internal(format!("{other} is no integer"))),
            }
            if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
                for row in (!nulls.inner()).set_indices() {
                    self.rows[row].keys[at] = 0;
                    self.rows[row].nulls |= 1 << at;
                }
            }
        }
        Ok(())
    }

    /// Makes room for `more` groups.
    fn make_room(&mut self, more: usize) -> Result<()> {
        let most = self.groups.len() + more;
        if most > MOST_GROUPS {
            return Err(DataFusionError::ResourcesExhausted("more groups than can be numbered".into()));
        }
        if most * 2 <= self.places.len() {
            return Ok(());
        }
        let needed = (self.groups.len() * 4).max(most * 2).max(FEWEST_PLACES).next_power_of_two();
        let old = std::mem::replace(&mut self.places, vec![0; needed]);
        self.bits = needed.trailing_zeros();
        for place in old.into_iter().filter(|place| *place != 0) {
            self.put(place);
        }
        Ok(())
    }

    /// The first place for a hash. The content of a place can be given instead of the hash, because both have the same
    /// upper half.
    #[inline]
    fn first(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.bits)) as usize
    }

    /// Puts the content into the first empty place.
    #[inline]
    fn put(&mut self, place: u64) {
        let mut at = self.first(place);
        while self.places[at] != 0 {
            at = (at + 1) & (self.places.len() - 1);
        }
        self.places[at] = place;
    }

    /// The number of the group with these keys. Groups are numbered in the order of their first rows.
    #[inline]
    fn number(&mut self, words: &Words<N>, hash: u64) -> usize {
        let mut at = self.first(hash);
        loop {
            let place = self.places[at];
            if place == 0 {
                self.groups.push(*words);
                self.places[at] = upper(hash) | self.groups.len() as u64;
                return self.groups.len() - 1;
            }
            let group = (place as u32 - 1) as usize;
            if upper(place) == upper(hash) && self.groups[group] == *words {
                return group;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    fn arrays(&self, groups: &[Words<N>]) -> Vec<ArrayRef> {
        let array = |(at, ty): (usize, &DataType)| -> ArrayRef {
            let nulls = groups.iter().any(|words| words.nulls >> at & 1 != 0);
            let nulls = nulls.then(|| {
                NullBuffer::new(BooleanBuffer::collect_bool(groups.len(), |row| groups[row].nulls >> at & 1 == 0))
            });
            let keys = groups.iter().map(|words| words.keys[at]);
            match ty {
                // The keys came from arrays of these types.
                DataType::Int16 => Arc::new(Int16Array::new(keys.map(|key| key as i16).collect(), nulls)),
                DataType::Int32 => Arc::new(Int32Array::new(keys.map(|key| key as i32).collect(), nulls)),
                _ => Arc::new(Int64Array::new(keys.collect(), nulls)),
            }
        };
        self.types.iter().enumerate().map(array).collect()
    }
}

fn upper(hash: u64) -> u64 {
    hash >> 32 << 32
}

impl<const N: usize> GroupValues for Packed<N> {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        self.read(columns)?;
        self.make_room(self.rows.len())?;
        let (rows, mut hashes) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.hashes));
        let seed = *SEED;
        hashes.clear();
        hashes.extend(rows.iter().map(|words| words.hash(seed)));
        // These loads do not wait for each other. They bring the places into the processor's cache.
        self.seen.clear();
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(hashes.iter().map(|hash| self.places[self.first(*hash)]));
        self.seen = seen;
        groups.clear();
        groups.extend(rows.iter().zip(&hashes).map(|(words, hash)| self.number(words, *hash)));
        (self.rows, self.hashes) = (rows, hashes);
        Ok(())
    }

    fn size(&self) -> usize {
        let words = (self.groups.capacity() + self.rows.capacity()) * size_of::<Words<N>>();
        words + (self.places.capacity() + self.hashes.capacity() + self.seen.capacity()) * size_of::<u64>()
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn len(&self) -> usize {
        self.groups.len()
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let count = match emit_to {
            EmitTo::All => self.groups.len(),
            EmitTo::First(count) => count,
        };
        let rest = self.groups.split_off(count);
        let emitted = std::mem::replace(&mut self.groups, rest);
        // The remaining groups have new numbers now.
        self.places = Vec::new();
        self.make_room(0)?;
        for (number, words) in (1..).zip(std::mem::take(&mut self.groups)) {
            self.put(upper(words.hash(*SEED)) | number);
            self.groups.push(words);
        }
        Ok(self.arrays(&emitted))
    }

    fn clear_shrink(&mut self, rows: usize) {
        self.groups.clear();
        self.groups.shrink_to(rows);
        (self.places, self.rows, self.hashes, self.seen) = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::group::groups::same::Both;

    fn column(ty: &DataType, keys: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        match ty {
            DataType::Int16 => Arc::new(keys.map(|key| key.map(|key| key as i16)).collect::<Int16Array>()),
            DataType::Int32 => Arc::new(keys.map(|key| key.map(|key| key as i32)).collect::<Int32Array>()),
            _ => Arc::new(keys.collect::<Int64Array>()),
        }
    }

    #[test]
    fn groups_are_those_by_hash() {
        use DataType::{Int16, Int32, Int64};
        let wide = |row: i64| Some(row.wrapping_mul(0x1234_5678_9abc_def1));
        let ends = |row: i64| [Some(i64::MIN), Some(i64::MAX), None, Some(0), Some(-1)][row as usize % 5];
        let few = |row: i64| (row % 7 != 3).then_some(row % 4);
        let all: [&dyn Fn(i64) -> Option<i64>; 3] = [&wide, &ends, &few];
        for types in [vec![Int64, Int64], vec![Int32, Int64, Int16], vec![Int64, Int16, Int32, Int64]] {
            for shift in 0..3 {
                let mut both = Both::of(&types);
                for batch in 0..12 {
                    let rows = [8192, 1, 0, 3000][batch % 4];
                    let keys = |at: usize| {
                        let of = all[(at + shift) % 3];
                        (0..rows).map(move |row| of((row + batch as i64 * 1500) / (1 + at as i64)))
                    };
                    let columns = types.iter().enumerate().map(|(at, ty)| column(ty, keys(at)));
                    both.intern(&columns.collect::<Vec<_>>());
                    if batch == 6 {
                        both.emit(EmitTo::First(both.ours.len() / 3));
                    }
                }
                both.emit(EmitTo::All);
                both.intern(&types.iter().map(|ty| column(ty, (0..10).map(few))).collect::<Vec<_>>());
                both.emit(EmitTo::All);
            }
        }
    }

    #[test]
    fn null_is_another_key_than_zero() {
        let mut both = Both::of(&[DataType::Int64, DataType::Int32]);
        let zeros = || (0..4).map(|row| (row % 2 == 0).then_some(0));
        both.intern(&[column(&DataType::Int64, zeros()), column(&DataType::Int32, zeros().rev())]);
        assert_eq!(both.ours.len(), 2);
        both.emit(EmitTo::All);
    }

    #[test]
    fn memory_is_given_back() {
        let mut groups = Both::of(&[DataType::Int64, DataType::Int64]).ours;
        for batch in 0..100 {
            let keys = || column(&DataType::Int64, (batch * 1000..batch * 1000 + 1000).map(Some));
            groups.intern(&[keys(), keys()], &mut Vec::new()).unwrap();
        }
        assert!(groups.size() > 4_000_000);
        groups.clear_shrink(0);
        assert!(groups.is_empty() && groups.size() < 100_000, "{}", groups.size());
    }
}
