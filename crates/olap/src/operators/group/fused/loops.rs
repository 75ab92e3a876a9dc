//! The loops over rows that compute sums.

use arrow_buffer::BooleanBuffer;
use colstore::fastest::{Loop, fastest};

/// The bits of a mask, 64 in each word.
pub fn words_of(mask: &BooleanBuffer) -> Vec<u64> {
    mask.bit_chunks().iter_padded().take(mask.len().div_ceil(64)).collect()
}

/// Gives the slot `other` to the rows whose bit in `words` is not set.
pub fn replace_others(slots: &mut [u16], words: &[u64], other: u16) {
    fastest(ReplaceOthers { slots, words, other });
}

/// Sets to 0 the values whose bit in `words` is not set.
pub fn clear_others(values: &mut [i64], words: &[u64]) {
    fastest(ClearOthers { values, words });
}

pub fn sum(values: &[i64]) -> i64 {
    fastest(Sum(values))
}

/// The sum of the lower 32 bits of all values, and of the upper 32 bits.
pub fn sum_halves(values: &[i64]) -> (i64, i64) {
    fastest(SumHalves(values))
}

/// The sum over the rows that have the slot.
pub fn sum_of(slot: u16, slots: &[u16], values: &[i64]) -> i64 {
    fastest(SumOf { slot, slots, values })
}

pub const LANES: usize = 4;

/// Adds values to the lanes of their slots. The lanes of a slot take turns. With a single lane, an addition would wait
/// for the previous one, because neighbouring rows often have the same slot.
pub fn add_to(lanes: &mut [[i64; LANES]], slots: &[u16], values: &[i64]) {
    for (row, (slot, value)) in slots.iter().zip(values).enumerate() {
        let lane = &mut lanes[*slot as usize][row % LANES];
        *lane = lane.wrapping_add(*value);
    }
}

struct ReplaceOthers<'a> {
    slots: &'a mut [u16],
    words: &'a [u64],
    other: u16,
}

impl Loop for ReplaceOthers<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let (whole, rest) = self.slots.as_chunks_mut::<64>();
        for (slots, word) in whole.iter_mut().zip(self.words).filter(|(_, word)| **word != u64::MAX) {
            for (part, slots) in slots.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let bits = (word >> (16 * part)) as u16;
                for (bit, slot) in slots.iter_mut().enumerate() {
                    *slot = if bits & 1 << bit == 0 { self.other } else { *slot };
                }
            }
        }
        for (bit, slot) in rest.iter_mut().enumerate() {
            *slot = if self.words[whole.len()] >> bit & 1 == 0 { self.other } else { *slot };
        }
    }
}

struct ClearOthers<'a> {
    values: &'a mut [i64],
    words: &'a [u64],
}

impl Loop for ClearOthers<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let (whole, rest) = self.values.as_chunks_mut::<64>();
        for (values, word) in whole.iter_mut().zip(self.words).filter(|(_, word)| **word != u64::MAX) {
            for (part, values) in values.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let bits = word >> (8 * part);
                for (bit, value) in values.iter_mut().enumerate() {
                    *value = if bits & 1 << bit == 0 { 0 } else { *value };
                }
            }
        }
        for (bit, value) in rest.iter_mut().enumerate() {
            *value &= -((self.words[whole.len()] >> bit & 1) as i64);
        }
    }
}

struct Sum<'a>(&'a [i64]);

impl Loop for Sum<'_> {
    type Result = i64;

    #[inline(always)]
    fn run(self) -> i64 {
        self.0.iter().fold(0, |sum, value| sum.wrapping_add(*value))
    }
}

struct SumHalves<'a>(&'a [i64]);

impl Loop for SumHalves<'_> {
    type Result = (i64, i64);

    #[inline(always)]
    fn run(self) -> (i64, i64) {
        let halves = |(low, high): (i64, i64), value: &i64| {
            (low.wrapping_add(value & 0xffff_ffff), high.wrapping_add(value >> 32))
        };
        self.0.iter().fold((0, 0), halves)
    }
}

struct SumOf<'a> {
    slot: u16,
    slots: &'a [u16],
    values: &'a [i64],
}

impl Loop for SumOf<'_> {
    type Result = i64;

    #[inline(always)]
    fn run(self) -> i64 {
        let rows = self.slots.iter().zip(self.values);
        rows.fold(0, |sum, (slot, value)| sum.wrapping_add(if *slot == self.slot { *value } else { 0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_for_every_row_and_no_other() {
        for rows in [0, 1, 8, 63, 64, 65, 200, 1024] {
            let wanted = |row: usize| row * 7 % 5 < 3 && !(64..128).contains(&row) || row > 900;
            let words = words_of(&BooleanBuffer::collect_bool(rows, wanted));
            let mut slots: Vec<u16> = (0..rows as u16).collect();
            replace_others(&mut slots, &words, 7000);
            let mut values: Vec<i64> = (0..rows as i64).map(|row| row - 500).collect();
            clear_others(&mut values, &words);
            for row in 0..rows {
                assert_eq!(slots[row], if wanted(row) { row as u16 } else { 7000 });
                assert_eq!(values[row], if wanted(row) { row as i64 - 500 } else { 0 });
            }
        }
    }

    #[test]
    fn sums_are_those_one_by_one() {
        for rows in [0, 1, 7, 64, 1000] {
            let values: Vec<i64> = (0..rows).map(|row: i64| (row - 300) * 0x0123_4567_89ab_cdef % (1 << 50)).collect();
            let slots: Vec<u16> = (0..rows).map(|row| (row % 3) as u16).collect();
            let of = |slot: u16| (0..).zip(&values).filter(move |(row, _)| row % 3 == i64::from(slot)).map(|(_, v)| v);
            assert_eq!(sum(&values), values.iter().sum::<i64>());
            assert_eq!(sum_of(2, &slots, &values), of(2).sum::<i64>());
            let (low, high) = sum_halves(&values);
            assert_eq!(i128::from(low) + (i128::from(high) << 32), values.iter().map(|v| i128::from(*v)).sum());
            let mut lanes = [[0; LANES]; 3];
            add_to(&mut lanes, &slots, &values);
            assert_eq!(lanes.map(|lanes| lanes.iter().sum::<i64>()), [0, 1, 2].map(|slot| of(slot).sum::<i64>()));
        }
    }
}
