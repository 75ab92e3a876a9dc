//! A set of the keys of a build side, in which the key of each probe row is looked up.

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, PrimitiveArray};
use arrow_buffer::BooleanBuffer;
use datafusion_execution::memory_pool::MemoryReservation;

/// An exact set covers all numbers from the least key to the greatest. It may have this many bits for each key.
const EXACT_BITS: u64 = 32;
/// An exact set may always have this many bits.
const SHORT_LIST: u64 = 1 << 16;
#[derive(Debug)]
pub struct Members {
    low: i64,
    high: i64,
    /// The number of keys, with duplicates.
    count: u64,
    bits: Bits,
    _memory: MemoryReservation,
}

#[derive(Debug)]
enum Bits {
    /// One bit for each number from the least key on.
    Exact(Vec<u64>),
    /// A Bloom filter, with three bits of one word for each key. Other values may find their bits set, too.
    Bloom(Vec<u64>),
}

impl Members {
    /// The set of the keys of all partitions; `None` if there is no memory for it.
    pub fn of(parts: &[&[i64]], memory: MemoryReservation) -> Option<Members> {
        let keys = || parts.iter().copied().flatten();
        let count = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let (low, high) = keys().fold((i64::MAX, i64::MIN), |(low, high), key| (low.min(*key), high.max(*key)));
        let numbers = if count == 0 { 1 } else { high.abs_diff(low).saturating_add(1) };
        let is_dense = numbers <= (count * EXACT_BITS).max(SHORT_LIST);
        let words = match is_dense {
            true => numbers.div_ceil(64),
            false => (count / 4).next_power_of_two().max(SHORT_LIST / 64),
        } as usize;
        memory.try_grow(words * size_of::<u64>()).ok()?;
        let mut bits = vec![0; words];
        for key in keys() {
            match is_dense {
                true => {
                    let at = key.wrapping_sub(low) as u64;
                    bits[(at / 64) as usize] |= 1 << (at % 64);
                }
                false => {
                    let (word, mask) = bloom(*key, words);
                    bits[word] |= mask;
                }
            }
        }
        let bits = if is_dense { Bits::Exact(bits) } else { Bits::Bloom(bits) };
        Some(Members { low, high, count, bits, _memory: memory })
    }

    /// Whether some key may lie in a range.
    pub fn has_within(&self, low: i128, high: i128) -> bool {
        let (low, high) = (low.max(self.low.into()), high.min(self.high.into()));
        if low > high {
            return false;
        }
        match &self.bits {
            Bits::Bloom(_) => true,
            Bits::Exact(words) => {
                let (from, to) = ((low - i128::from(self.low)) as usize, (high - i128::from(self.low)) as usize);
                let (first, last) = (from / 64, to / 64);
                let of = |at: usize| {
                    let mut word = words[at];
                    word &= if at == first { u64::MAX << (from % 64) } else { u64::MAX };
                    word & if at == last { u64::MAX >> (63 - to % 64) } else { u64::MAX }
                };
                (first..=last).any(|at| of(at) != 0)
            }
        }
    }

    /// Whether the range has at least `times` numbers for each key. False if keys are far apart, because the values in
    /// the range may then be far apart, too.
    pub fn are_few_of(&self, low: i128, high: i128, times: u64) -> bool {
        matches!(self.bits, Bits::Exact(_)) && i128::from(self.count) * i128::from(times) <= high.saturating_sub(low)
    }

    /// The values that are keys, or may be.
    pub fn among<T: ArrowPrimitiveType<Native: Into<i64>>>(&self, array: &PrimitiveArray<T>) -> BooleanBuffer {
        let values = array.values();
        let found = match &self.bits {
            Bits::Exact(words) => {
                let span = self.high.wrapping_sub(self.low) as u64;
                BooleanBuffer::collect_bool(values.len(), |row| {
                    let at = values[row].into().wrapping_sub(self.low) as u64;
                    at <= span && words[(at / 64) as usize] >> (at % 64) & 1 != 0
                })
            }
            Bits::Bloom(words) => BooleanBuffer::collect_bool(values.len(), |row| {
                let (word, mask) = bloom(values[row].into(), words.len());
                words[word] & mask == mask
            }),
        };
        match array.nulls() {
            Some(known) => &found & known.inner(),
            None => found,
        }
    }
}

/// The index of a key's word among `words` words, a power of two, and a mask of three bits in this word.
#[inline]
fn bloom(key: i64, words: usize) -> (usize, u64) {
    let hash = (key as u64 ^ key as u64 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (hash as usize & (words - 1), 1 << (hash >> 58) | 1 << (hash >> 52 & 63) | 1 << (hash >> 46 & 63))
}
