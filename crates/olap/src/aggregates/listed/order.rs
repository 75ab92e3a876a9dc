//! Orders of rows. If a single column decides the order, and its values can be mapped to integers, the integers are
//! compared. Otherwise the bytes of keys are compared.

use std::cmp::Ordering;
use std::hash::Hash;
use std::mem::size_of;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use hashbrown::HashSet;

use super::list_of::Sorted;
use crate::base::keys::{KeyRows, Keys};
use crate::functions::numbers::floats::canonical;

pub enum Order {
    /// No order: rows stay as they arrived.
    Arrival,
    Numbers(Vec<u64>),
    Keys(KeyRows),
}

/// The sign bit. Flipping it maps signed numbers to unsigned numbers in the same order.
const SIGN: u64 = 1 << 63;

impl Order {
    pub fn of(keys: &[Sorted], columns: &[ArrayRef]) -> Result<Order> {
        if keys.is_empty() || columns.is_empty() {
            return Ok(Order::Arrival);
        }
        if let [key] = keys
            && let Some(mut numbers) = numbers(&columns[key.column])
        {
            if key.options.descending {
                numbers.iter_mut().for_each(|number| *number = !*number);
            }
            return Ok(Order::Numbers(numbers));
        }
        let arrays: Vec<ArrayRef> = keys.iter().map(|key| canonical_floats(&columns[key.column])).collect();
        let parts: Vec<_> = keys.iter().map(|key| (key.locale, key.options)).collect();
        Ok(Order::Keys(Keys::of_arrays(&arrays, &parts)?))
    }

    /// The approximate number of bytes that sorting needs for each row, in addition to the row's values.
    pub fn bytes_of_row(keys: &[Sorted]) -> usize {
        let pair = size_of::<(u64, u32)>();
        match keys {
            [] => size_of::<u32>(),
            keys => size_of::<u32>() + pair + keys.len() * 2 * size_of::<u64>(),
        }
    }

    /// Sorts rows; equal rows keep their order.
    pub fn sort(&self, rows: &mut [u32]) {
        match self {
            Order::Arrival => {}
            Order::Numbers(numbers) => {
                let mut pairs = pairs(numbers, rows);
                pairs.sort_unstable();
                rows.iter_mut().zip(pairs).for_each(|(row, (_, sorted))| *row = sorted);
            }
            Order::Keys(keys) => rows.sort_unstable_by(|a, b| compare(keys, *a, *b)),
        }
    }

    /// The row at the sorted position `place`, counted from 0, and the row after it. The second is `None` at the last
    /// position.
    pub fn at(&self, rows: &mut [u32], place: usize) -> (u32, Option<u32>) {
        match self {
            Order::Arrival => (rows[place], rows.get(place + 1).copied()),
            Order::Numbers(numbers) => {
                let mut pairs = pairs(numbers, rows);
                let (_, (_, row), behind) = pairs.select_nth_unstable(place);
                (*row, behind.iter().min().map(|(_, row)| *row))
            }
            Order::Keys(keys) => {
                let (_, row, behind) = rows.select_nth_unstable_by(place, |a, b| compare(keys, *a, *b));
                (*row, behind.iter().copied().min_by(|a, b| compare(keys, *a, *b)))
            }
        }
    }

    pub fn are_equal(&self, a: u32, b: u32) -> bool {
        match self {
            Order::Arrival => false,
            Order::Numbers(numbers) => numbers[a as usize] == numbers[b as usize],
            Order::Keys(keys) => keys.row(a as usize) == keys.row(b as usize),
        }
    }

    /// The sorted rows; if `distinct`, only the first of several equal rows.
    pub fn arranged<'a>(&self, rows: &'a mut [u32], distinct: bool) -> &'a [u32] {
        // Equal rows are removed before the sort: texts may take long to compare, but equal ones are found quickly.
        let rows = match (distinct, self) {
            (false, _) | (true, Order::Arrival) => rows,
            (true, Order::Numbers(numbers)) => first_of_equal(rows, |row| numbers[row as usize]),
            (true, Order::Keys(keys)) => first_of_equal(rows, |row| keys.bytes(row as usize)),
        };
        self.sort(rows);
        rows
    }
}

fn first_of_equal<K: Eq + Hash>(rows: &mut [u32], key: impl Fn(u32) -> K) -> &mut [u32] {
    let (mut seen, mut kept) = (HashSet::new(), 0);
    for at in 0..rows.len() {
        let row = rows[at];
        if seen.insert(key(row)) {
            rows[kept] = row;
            kept += 1;
        }
    }
    &mut rows[..kept]
}

fn compare(keys: &KeyRows, a: u32, b: u32) -> Ordering {
    keys.row(a as usize).cmp(&keys.row(b as usize)).then(a.cmp(&b))
}

fn pairs(numbers: &[u64], rows: &[u32]) -> Vec<(u64, u32)> {
    rows.iter().map(|row| (numbers[*row as usize], *row)).collect()
}

/// Numbers that have the order of the values; `None` if there is a null, or if no such numbers exist.
fn numbers(array: &ArrayRef) -> Option<Vec<u64>> {
    if array.null_count() > 0 {
        return None;
    }
    let signed = |number: i64| number as u64 ^ SIGN;
    Some(match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().values().iter().map(|&i| signed(i.into())).collect(),
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|&i| signed(i.into())).collect(),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().iter().map(|&i| signed(i)).collect(),
        DataType::Float64 => {
            let ordered = |float: f64| {
                let bits = canonical(float).to_bits() as i64;
                // The bits of negative floats have the reverse order, so all of them except the sign are inverted.
                signed(bits ^ ((bits >> 63) as u64 >> 1) as i64)
            };
            array.as_primitive::<Float64Type>().values().iter().map(|&f| ordered(f)).collect()
        }
        _ => return None,
    })
}

/// Floats in a form in which equal values have equal bits.
fn canonical_floats(array: &ArrayRef) -> ArrayRef {
    match array.as_primitive_opt::<Float64Type>() {
        Some(floats) => Arc::new(floats.unary::<_, Float64Type>(canonical) as Float64Array),
        None => array.clone(),
    }
}
