//! Accumulators indexed by key.
//!
//! Each key has a window, the range of its values so far. Each value in the window has a digit: 0 stands for null, 1
//! for the smallest value. The digits of a group's keys form the number of its slot. Windows grow with the keys; if
//! there would be too many slots, no more rows are accepted.
//!
//! Each slot has several sums, called lanes, which take turns. With a single sum, an addition would wait for the
//! previous one, because neighbouring rows often belong to the same group. Lanes have 64 bits. They are emptied into
//! totals of 128 bits before they could overflow.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Int16Array, Int32Array, Int64Array, PrimitiveArray};
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};

use crate::aggregates::sum::Summand;
use crate::base::arrow_form::RAW_DECIMAL;

/// The greatest number of slots: few enough for the processor's caches, and enough for the days of a few years.
const MAX_SLOTS: u64 = 4096;
const LANES: usize = 4;

type Lanes = [i64; LANES];

#[derive(Clone, Copy, PartialEq)]
struct Window {
    base: i64,
    /// The number of values, from `base` on, that have digits; 0 before the first value.
    values: u64,
}

impl Window {
    /// The window, widened to these values; `None` if it would be too wide.
    fn including(self, smallest: i64, largest: i64) -> Option<Window> {
        let (base, end) = match self.values {
            0 => (smallest, largest),
            n => (self.base.min(smallest), (self.base + (n as i64 - 1)).max(largest)),
        };
        let span = u64::try_from(end as i128 - base as i128).ok().filter(|span| *span < MAX_SLOTS)?;
        Some(Window { base, values: span + 1 })
    }

    fn digits(self) -> u64 {
        self.values + 1
    }

    fn value(self, digit: u64) -> Option<i64> {
        digit.checked_sub(1).map(|offset| self.base + offset as i64)
    }

    fn digit(self, value: Option<i64>) -> u64 {
        value.map_or(0, |v| (v - self.base) as u64 + 1)
    }
}

pub struct Slots {
    windows: Vec<Window>,
    rows: Vec<Lanes>,
    args: Vec<ArgumentSlots>,
    /// The slots of the current batch's rows. `same` is the slot of all these rows, if they have the same slot.
    current: Vec<u32>,
    same: Option<usize>,
}

#[derive(Default)]
struct ArgumentSlots {
    summed: bool,
    lanes: Vec<Lanes>,
    /// No lane's magnitude exceeds this bound at present.
    bound: u64,
    totals: Vec<i128>,
    nulls: Vec<i64>,
}

/// Runs `$body` with `$typed` as the array of integers of its type `$T`.
macro_rules! with_integers {
    ($array:expr, |$typed:ident: $T:ident| $body:expr) => {
        match $array.data_type() {
            DataType::Int16 => with_integers!(@ $array, Int16Type, $typed, $T, $body),
            DataType::Int32 => with_integers!(@ $array, Int32Type, $typed, $T, $body),
            DataType::Int64 => with_integers!(@ $array, Int64Type, $typed, $T, $body),
            other => Err(DataFusionError::Internal(format!("{other} is not an integer"))),
        }
    };
    (@ $array:expr, $type:ty, $typed:ident, $T:ident, $body:expr) => {{
        type $T = $type;
        let $typed = $array.as_primitive::<$T>();
        Ok($body)
    }};
}

impl Slots {
    pub fn new(keys: usize, args: impl Iterator<Item = bool>) -> Self {
        let mut slots = Slots {
            windows: vec![Window { base: 0, values: 0 }; keys],
            rows: vec![],
            args: args.map(|summed| ArgumentSlots { summed, ..Default::default() }).collect(),
            current: vec![],
            same: None,
        };
        slots.resize(1);
        slots
    }

    /// Widens the windows for these keys; `false` if there would be too many slots.
    pub fn make_room(&mut self, keys: &[ArrayRef]) -> Result<bool> {
        let mut windows = self.windows.clone();
        for (window, key) in windows.iter_mut().zip(keys) {
            let range: Option<(i64, i64)> = with_integers!(key, |key: T| range::<T>(key))?;
            let Some((smallest, largest)) = range else { continue };
            match window.including(smallest, largest) {
                Some(wider) => *window = wider,
                None => return Ok(false),
            }
        }
        // Each factor is at most MAX_SLOTS + 1, but the product of many could overflow.
        let slots = windows.iter().try_fold(1u64, |n, w| n.checked_mul(w.digits()).filter(|n| *n <= MAX_SLOTS));
        let Some(slots) = slots else { return Ok(false) };
        if windows != self.windows {
            self.rearrange(windows, slots as usize);
        }
        Ok(true)
    }

    /// Moves every group to its slot under new windows.
    fn rearrange(&mut self, windows: Vec<Window>, slots: usize) {
        let old = std::mem::replace(self, Slots::new(0, self.args.iter().map(|a| a.summed)));
        self.windows = windows;
        self.resize(slots);
        for from in old.occupied() {
            let values = (0..old.windows.len()).map(|key| old.key_value(key, from));
            let (mut to, mut stride) = (0, 1);
            for (window, value) in self.windows.iter().zip(values) {
                to += (window.digit(value) * stride) as usize;
                stride *= window.digits();
            }
            self.rows[to] = old.rows[from];
            for (arg, old) in self.args.iter_mut().zip(&old.args) {
                arg.nulls[to] = old.nulls[from];
                if arg.summed {
                    arg.totals[to] = old.total(from);
                }
            }
        }
    }

    fn resize(&mut self, slots: usize) {
        self.rows.resize(slots, Lanes::default());
        for arg in &mut self.args {
            arg.nulls.resize(slots, 0);
            if arg.summed {
                arg.lanes.resize(slots, Lanes::default());
                arg.totals.resize(slots, 0);
            }
        }
    }

    pub fn bytes(&self) -> usize {
        let slot = size_of::<Lanes>() + size_of::<i128>() + size_of::<i64>();
        self.rows.len() * slot * (1 + self.args.len()) + self.current.capacity() * size_of::<u32>()
    }

    /// Adds a batch's keys, for which [`Slots::make_room`] has made room.
    pub fn add_rows(&mut self, keys: &[ArrayRef]) -> Result<()> {
        let rows = keys[0].len();
        self.current.clear();
        self.current.resize(rows, 0);
        let mut stride = 1;
        for (window, key) in self.windows.iter().zip(keys) {
            with_integers!(key, |key: T| add_digits::<T>(key, *window, stride, &mut self.current))?;
            stride *= window.digits() as u32;
        }
        let first = self.current.first().copied().unwrap_or(0);
        let differ = self.current.iter().fold(0, |bits, slot| bits | (slot ^ first));
        self.same = (differ == 0).then_some(first as usize);
        match self.same {
            Some(slot) => self.rows[slot][0] += rows as i64,
            None => add_to_lanes(&mut self.rows, &self.current, |_| 1),
        }
        Ok(())
    }

    /// Adds an argument's values for the rows of [`Slots::add_rows`].
    pub fn add_argument(&mut self, index: usize, values: &ArrayRef) -> Result<()> {
        let arg = &mut self.args[index];
        let nulls = values.logical_nulls().filter(|n| n.null_count() > 0);
        if let Some(nulls) = &nulls {
            for (slot, valid) in self.current.iter().zip(nulls) {
                arg.nulls[*slot as usize] += !valid as i64;
            }
        }
        if !arg.summed {
            return Ok(());
        }
        with_integers!(values, |values: T| match nulls {
            None => arg.add::<T>(&self.current, self.same, values.values())?,
            Some(nulls) => {
                let slots = values.values().iter().zip(&nulls);
                let zeroed: Vec<_> = slots.map(|(value, valid)| if valid { *value } else { 0 }).collect();
                arg.add::<T>(&self.current, self.same, &zeroed)?;
            }
        })
    }

    pub fn occupied(&self) -> Vec<usize> {
        (0..self.rows.len()).filter(|slot| self.rows[*slot].iter().any(|n| *n > 0)).collect()
    }

    fn key_value(&self, key: usize, slot: usize) -> Option<i64> {
        let stride: u64 = self.windows[..key].iter().map(|w| w.digits()).product();
        self.windows[key].value(slot as u64 / stride % self.windows[key].digits())
    }

    pub fn key(&self, key: usize, slots: &[usize], ty: &DataType) -> Result<ArrayRef> {
        let values = slots.iter().map(|slot| self.key_value(key, *slot));
        // The values came from an array of this type, so they fit.
        Ok(match ty {
            DataType::Int16 => Arc::new(values.map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
            DataType::Int32 => Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
            DataType::Int64 => Arc::new(values.collect::<Int64Array>()),
            other => return Err(DataFusionError::Internal(format!("{other} is not an integer"))),
        })
    }

    pub fn row_counts(&self, slots: &[usize]) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(slots.iter().map(|slot| self.row_count(*slot)))))
    }

    pub fn counts(&self, arg: usize, slots: &[usize]) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(slots.iter().map(|slot| self.count(arg, *slot)))))
    }

    /// The sums of a column; null if all values were null.
    pub fn sums(&self, arg: usize, slots: &[usize]) -> Result<ArrayRef> {
        let sum = |slot: &usize| (self.count(arg, *slot) > 0).then(|| self.args[arg].total(*slot));
        Ok(Arc::new(slots.iter().map(sum).collect::<Decimal128Array>().with_data_type(RAW_DECIMAL)))
    }

    fn row_count(&self, slot: usize) -> i64 {
        self.rows[slot].iter().sum()
    }

    fn count(&self, arg: usize, slot: usize) -> i64 {
        self.row_count(slot) - self.args[arg].nulls[slot]
    }
}

impl ArgumentSlots {
    fn total(&self, slot: usize) -> i128 {
        self.lanes[slot].iter().map(|lane| *lane as i128).sum::<i128>() + self.totals[slot]
    }

    fn add<T: Summand64>(&mut self, slots: &[u32], same: Option<usize>, values: &[T::Native]) -> Result<()> {
        if let Some(slot) = same {
            self.totals[slot] += T::sum(values)?;
            return Ok(());
        }
        let Some(added) = T::bound(values).checked_mul(values.len() as u64).filter(|b| *b <= i64::MAX as u64) else {
            for (slot, value) in slots.iter().zip(values) {
                self.totals[*slot as usize] += T::widen(*value);
            }
            return Ok(());
        };
        if self.bound + added > i64::MAX as u64 {
            self.empty_lanes();
        }
        self.bound += added;
        add_to_lanes(&mut self.lanes, slots, |row| T::narrow(values[row]));
        Ok(())
    }

    fn empty_lanes(&mut self) {
        for (total, lanes) in self.totals.iter_mut().zip(&mut self.lanes) {
            *total += lanes.iter().map(|lane| *lane as i128).sum::<i128>();
            *lanes = Lanes::default();
        }
        self.bound = 0;
    }
}

/// Adds `value(row)` to the lanes of each row's slot.
fn add_to_lanes(lanes: &mut [Lanes], slots: &[u32], value: impl Fn(usize) -> i64) {
    for (row, slot) in slots.iter().enumerate() {
        lanes[*slot as usize][row % LANES] += value(row);
    }
}

/// The smallest and the largest value that is not null.
fn range<T: Summand64>(array: &PrimitiveArray<T>) -> Option<(i64, i64)> {
    let of = |values: &[T::Native]| {
        let first = *values.first()?;
        let (low, high) = values.iter().fold((first, first), |(low, high), v| (low.min(*v), high.max(*v)));
        Some((T::narrow(low), T::narrow(high)))
    };
    match array.nulls() {
        None => of(array.values()),
        Some(nulls) => {
            let runs = nulls.valid_slices().filter_map(|(start, end)| of(&array.values()[start..end]));
            runs.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        }
    }
}

fn add_digits<T: Summand64>(array: &PrimitiveArray<T>, window: Window, stride: u32, slots: &mut [u32]) {
    let digit = |value: T::Native| T::narrow(value).wrapping_sub(window.base) as u32 + 1;
    match array.nulls() {
        None => slots.iter_mut().zip(array.values()).for_each(|(slot, value)| *slot += digit(*value) * stride),
        Some(nulls) => {
            for ((slot, value), valid) in slots.iter_mut().zip(array.values()).zip(nulls) {
                *slot += if valid { digit(*value) * stride } else { 0 };
            }
        }
    }
}

/// Integers of at most 64 bits.
trait Summand64: Summand<Native: Ord> {
    fn narrow(value: Self::Native) -> i64;
    /// A bound of the values' magnitudes.
    fn bound(values: &[Self::Native]) -> u64;
}

impl Summand64 for Int16Type {
    fn narrow(value: i16) -> i64 {
        value as i64
    }

    fn bound(_: &[i16]) -> u64 {
        1 << 15
    }
}

impl Summand64 for Int32Type {
    fn narrow(value: i32) -> i64 {
        value as i64
    }

    fn bound(_: &[i32]) -> u64 {
        1 << 31
    }
}

impl Summand64 for Int64Type {
    fn narrow(value: i64) -> i64 {
        value
    }

    /// A power of two above the magnitudes of all values. It depends on the highest bit that differs from its value's
    /// sign bit.
    fn bound(values: &[i64]) -> u64 {
        let bits = values.iter().fold(0u64, |bits, value| bits | (value ^ (value >> 63)) as u64);
        1 << (u64::BITS - bits.leading_zeros())
    }
}
