//! Totals: sums in 64 bits for a chunk, and in 128 bits for all chunks.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Int64Array};
use datafusion_common::error::Result;

use super::loops::{self, LANES};
use super::slots::Slots;
use crate::aggregates::sum::too_wide;
use crate::base::arrow_form::RAW_DECIMAL;

/// Up to this number of slots, each slot's values are summed in a separate pass over all rows.
const FEW: usize = 8;

/// The totals of each group.
#[derive(Default)]
pub struct Totals {
    pub rows: Vec<i64>,
    /// For each sum, the totals of all groups.
    sums: Vec<Vec<i128>>,
    /// For each list of columns in `Shape::ways`, the number of null rows in each group.
    nulls: Vec<Vec<i64>>,
}

impl Totals {
    pub fn new(sums: usize, ways: usize) -> Totals {
        Totals { rows: Vec::new(), sums: vec![Vec::new(); sums], nulls: vec![Vec::new(); ways] }
    }

    pub fn make_room(&mut self, groups: usize) {
        self.rows.resize(groups, 0);
        self.sums.iter_mut().for_each(|sums| sums.resize(groups, 0));
        self.nulls.iter_mut().for_each(|nulls| nulls.resize(groups, 0));
    }

    pub fn bytes(&self) -> usize {
        self.rows.capacity() * (size_of::<i64>() * (1 + self.nulls.len()) + size_of::<i128>() * self.sums.len())
    }

    pub fn add(&mut self, sum: usize, group: usize, value: i128) -> Result<()> {
        let total = &mut self.sums[sum][group];
        *total = total.checked_add(value).ok_or_else(too_wide)?;
        Ok(())
    }

    pub fn count_rows(&mut self, slots: &Slots) {
        for slot in &slots.present {
            self.rows[slots.group_of(*slot)] += i64::from(slots.counts[usize::from(*slot)]);
        }
    }

    /// Adds the null rows of each slot. `way` is an index in `Shape::ways`.
    pub fn count_nulls(&mut self, way: usize, nulls: &[u32], slots: &Slots) {
        for slot in &slots.present {
            self.nulls[way][slots.group_of(*slot)] += i64::from(nulls[usize::from(*slot)]);
        }
    }

    pub fn row_counts(&self) -> ArrayRef {
        Arc::new(Int64Array::from(self.rows.clone()))
    }

    fn values(&self, way: usize, group: usize) -> i64 {
        self.rows[group] - self.nulls[way][group]
    }

    /// For each group, the number of rows that are not null. `way` is an index in `Shape::ways`.
    pub fn counts(&self, way: usize) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..self.rows.len()).map(|group| self.values(way, group))))
    }

    /// A sum of each group; null if all values were null.
    pub fn sums(&self, sum: usize, way: usize) -> ArrayRef {
        let of_group = |(group, sum): (usize, &i128)| (self.values(way, group) > 0).then_some(*sum);
        let sums = self.sums[sum].iter().enumerate().map(of_group);
        Arc::new(sums.collect::<Decimal128Array>().with_data_type(RAW_DECIMAL))
    }
}

/// The number of null rows in each slot. A bit of `valid` is set if the row is not null; there may be more bits than
/// rows.
pub fn nulls_of(valid: &[u64], slots: &Slots) -> Vec<u32> {
    let mut counts = vec![0u32; slots.counts.len()];
    for (first, word) in (0..slots.rows()).step_by(64).zip(valid) {
        let mut nulls = !word;
        while nulls != 0 {
            let row = first + nulls.trailing_zeros() as usize;
            if row < slots.rows() {
                counts[usize::from(slots.of(row))] += 1;
            }
            nulls &= nulls - 1;
        }
    }
    counts
}

/// A sum over the rows of a chunk, slot by slot.
#[derive(Default)]
pub struct ChunkSum {
    manner: Manner,
    /// Whether the lower and the upper 32 bits of values are summed separately, because a sum of undivided values might
    /// overflow.
    halves: bool,
    low: Vec<[i64; LANES]>,
    high: Vec<[i64; LANES]>,
    half: Vec<i64>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Manner {
    /// All rows have one slot.
    #[default]
    One,
    /// One sum for each slot that is present.
    Few,
    /// One sum for each slot.
    Many,
}

impl ChunkSum {
    /// Begins a chunk. Its values lie between these bounds, which tell whether their sum fits 64 bits.
    pub fn begin(&mut self, slots: &Slots, (low, high): (i64, i64)) {
        let largest = low.unsigned_abs().max(high.unsigned_abs());
        self.halves = largest.checked_mul(slots.rows() as u64).is_none_or(|most| most > i64::MAX as u64);
        let (manner, sums) = match slots.present.len() {
            0 | 1 if !slots.has_others() => (Manner::One, 1),
            few if few <= FEW => (Manner::Few, few),
            _ => (Manner::Many, slots.counts.len()),
        };
        self.manner = manner;
        self.low.clear();
        self.low.resize(sums, [0; LANES]);
        self.high.clear();
        self.high.resize(if self.halves { sums } else { 0 }, [0; LANES]);
    }

    pub fn bytes(&self) -> usize {
        (self.low.capacity() + self.high.capacity()) * size_of::<[i64; LANES]>()
            + self.half.capacity() * size_of::<i64>()
    }

    /// Adds values of rows, from row `first` on.
    pub fn add(&mut self, slots: &Slots, first: usize, values: &[i64]) {
        let of = slots.of_rows(first, values.len());
        match self.halves {
            false => add(self.manner, &mut self.low, of, &slots.present, values),
            true if self.manner == Manner::One => {
                let (low, high) = loops::sum_halves(values);
                self.low[0][0] += low;
                self.high[0][0] += high;
            }
            true => {
                self.half.clear();
                self.half.extend(values.iter().map(|value| value & 0xffff_ffff));
                add(self.manner, &mut self.low, of, &slots.present, &self.half);
                self.half.clear();
                self.half.extend(values.iter().map(|value| value >> 32));
                add(self.manner, &mut self.high, of, &slots.present, &self.half);
            }
        }
    }

    /// The sum of `slot`, which is element `at` of the slots that are present.
    pub fn of(&self, at: usize, slot: u16) -> i128 {
        let at = if self.manner == Manner::Many { usize::from(slot) } else { at };
        let of = |lanes: &[i64; LANES]| lanes.iter().map(|lane| i128::from(*lane)).sum::<i128>();
        of(&self.low[at]) + (self.high.get(at).map_or(0, of) << 32)
    }
}

fn add(manner: Manner, sums: &mut [[i64; LANES]], slots: &[u16], present: &[u16], values: &[i64]) {
    match manner {
        Manner::One => sums[0][0] += loops::sum(values),
        Manner::Few => {
            for (sum, slot) in sums.iter_mut().zip(present) {
                sum[0] += loops::sum_of(*slot, slots, values);
            }
        }
        Manner::Many => loops::add_to(sums, slots, values),
    }
}
