//! The exact sum of integers and decimals.
//!
//! Totals and partial states have 128 bits, which no sum of 64-bit values exceeds. Decimals of 128 bits are added with
//! an overflow check.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use protocol::request::FailureKind;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, Values, included};
use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::base::operand::for_number;

/// A sum, by the type of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExactSum {
    Bigint,
    Decimal,
}

impl Function for ExactSum {
    fn name(&self) -> &'static str {
        match self {
            ExactSum::Bigint => "exact_sum_bigint",
            ExactSum::Decimal => "exact_sum",
        }
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        match self {
            ExactSum::Bigint => DataType::Int64,
            ExactSum::Decimal => RAW_DECIMAL,
        }
    }

    fn state_types(&self, _: &DataType) -> Vec<(&'static str, DataType)> {
        vec![("sum", RAW_DECIMAL)]
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(*self, result)))
    }
}

type Sums = Values<i128>;

impl Fold for ExactSum {
    type States = Sums;

    fn start(&self) -> i128 {
        0
    }

    fn add(&self, sums: &mut Sums, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        for_number!(values[0].data_type(), T => match rows {
            Rows::OfOne => add_all(sums, values[0].as_primitive::<T>()),
            Rows::OfGroups(groups, filter) => add_by_group(sums, values[0].as_primitive::<T>(), groups, filter),
        })
    }

    fn results(&self, sums: Sums, result: &DataType) -> Result<ArrayRef> {
        let bigint = |(sum, seen): (&i128, bool)| seen.then(|| bigint(*sum)).transpose();
        match self {
            ExactSum::Decimal => Ok(self.partial(sums, result)?.remove(0)),
            ExactSum::Bigint => {
                Ok(Arc::new(sums.values.iter().zip(sums.seen).map(bigint).collect::<Result<Int64Array>>()?))
            }
        }
    }

    fn partial(&self, sums: Sums, _: &DataType) -> Result<Vec<ArrayRef>> {
        let sums = Decimal128Array::new(sums.values.into(), Some(NullBuffer::from(sums.seen)));
        Ok(vec![Arc::new(sums.with_data_type(RAW_DECIMAL))])
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        _: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let sums = for_number!(values[0].data_type(), T => widened::<T>(&values[0], filter))?;
        Ok(vec![sums])
    }
}

pub fn too_wide() -> DataFusionError {
    QueryError(FailureKind::DecimalTooWide).into()
}

fn bigint(sum: i128) -> Result<i64> {
    i64::try_from(sum).map_err(|_| QueryError(FailureKind::BigintOutOfRange).into())
}

/// Numbers that are summed.
pub trait Summand: ArrowPrimitiveType {
    fn sum(values: &[Self::Native]) -> Result<i128>;
    fn widen(value: Self::Native) -> i128;
}

macro_rules! small_summand {
    ($ty:ty) => {
        impl Summand for $ty {
            fn sum(values: &[Self::Native]) -> Result<i128> {
                // A batch would need 2^32 rows to exceed 64 bits.
                Ok(values.iter().map(|&v| v as i64).sum::<i64>() as i128)
            }
            fn widen(value: Self::Native) -> i128 {
                value as i128
            }
        }
    };
}

small_summand!(Int16Type);
small_summand!(Int32Type);

impl Summand for Int64Type {
    /// Upper and lower halves are summed separately, in 64 bits each, so that the loop needs neither carry nor check.
    fn sum(values: &[i64]) -> Result<i128> {
        let (mut high, mut low) = (0i64, 0u64);
        for &value in values {
            high += value >> 32;
            low += value as u64 & 0xffff_ffff;
        }
        Ok(((high as i128) << 32) + low as i128)
    }

    fn widen(value: i64) -> i128 {
        value as i128
    }
}

impl Summand for Decimal128Type {
    fn sum(values: &[i128]) -> Result<i128> {
        values.iter().try_fold(0i128, |sum, &value| sum.checked_add(value)).ok_or_else(too_wide)
    }

    fn widen(value: i128) -> i128 {
        value
    }
}

fn sum_of<T: Summand>(array: &PrimitiveArray<T>) -> Result<Option<i128>> {
    if array.null_count() == array.len() {
        return Ok(None);
    }
    let Some(nulls) = array.nulls().filter(|n| n.null_count() > 0) else {
        return T::sum(array.values()).map(Some);
    };
    let mut sum = 0i128;
    for (start, end) in nulls.valid_slices() {
        sum = sum.checked_add(T::sum(&array.values()[start..end])?).ok_or_else(too_wide)?;
    }
    Ok(Some(sum))
}

/// Adds all values to the sum of the only group.
fn add_all<T: Summand>(sums: &mut Sums, values: &PrimitiveArray<T>) -> Result<()> {
    if let Some(sum) = sum_of(values)? {
        sums.values[0] = sums.values[0].checked_add(sum).ok_or_else(too_wide)?;
        sums.seen[0] = true;
    }
    Ok(())
}

/// Up to this number of groups, each group has several sums or counts, called lanes, to which its rows are added in
/// turn.
pub const FEW_GROUPS: usize = 16;
pub const LANES: usize = 4;

/// Adds to the sums of groups.
fn add_by_group<T: Summand>(
    sums: &mut Sums,
    values: &PrimitiveArray<T>,
    groups: &[usize],
    filter: Option<&BooleanArray>,
) -> Result<()> {
    let included = included(values.nulls(), filter);
    let in_lanes = included.is_none() && sums.values.len() <= FEW_GROUPS && groups.len() > FEW_GROUPS * LANES;
    if in_lanes && add_in_lanes::<T>(sums, values.values(), groups).is_some() {
        return Ok(());
    }
    let mut overflow = false;
    let mut add = |group: usize, value: T::Native| {
        let (sum, over) = sums.values[group].overflowing_add(T::widen(value));
        sums.values[group] = sum;
        sums.seen[group] = true;
        overflow |= over;
    };
    match included {
        None => groups.iter().zip(values.values()).for_each(|(&group, &value)| add(group, value)),
        Some(included) => included.valid_indices().for_each(|row| add(groups[row], values.value(row))),
    }
    if overflow { Err(too_wide()) } else { Ok(()) }
}

/// Adds values of few groups. Each group has several sums, called lanes, which take turns. With a single sum, an
/// addition would wait for the previous one, because consecutive rows often belong to the same group. Returns `None` if
/// a lane has overflowed; nothing was added then.
fn add_in_lanes<T: Summand>(own: &mut Sums, values: &[T::Native], groups: &[usize]) -> Option<()> {
    let mut lanes = [([0i128; LANES], [false; LANES]); FEW_GROUPS];
    let mut overflow = false;
    for (row, (group, value)) in groups.iter().zip(values).enumerate() {
        let ((sums, seen), lane) = (&mut lanes[group % FEW_GROUPS], row % LANES);
        let (sum, over) = sums[lane].overflowing_add(T::widen(*value));
        (sums[lane], seen[lane]) = (sum, true);
        overflow |= over;
    }
    let together = |(own, (sums, _)): (&i128, &([i128; LANES], _))| {
        sums.iter().try_fold(*own, |total, sum| total.checked_add(*sum))
    };
    let totals = own.values.iter().zip(&lanes).map(together).collect::<Option<Vec<i128>>>();
    own.values = totals.filter(|_| !overflow)?;
    own.seen.iter_mut().zip(lanes).for_each(|(own, (_, seen))| *own |= seen.contains(&true));
    Some(())
}

/// Converts each number into a sum of its own.
fn widened<T: Summand>(array: &ArrayRef, filter: Option<&BooleanArray>) -> Result<ArrayRef> {
    let array = array.as_primitive::<T>();
    let sums: Vec<i128> = array.values().iter().map(|&v| T::widen(v)).collect();
    let nulls = included(array.nulls(), filter);
    Ok(Arc::new(Decimal128Array::new(sums.into(), nulls).with_data_type(RAW_DECIMAL)))
}

#[cfg(test)]
mod tests {
    use datafusion_expr::{EmitTo, GroupsAccumulator};

    use super::*;

    #[test]
    fn sums_of_few_groups_are_those_of_many() {
        let value = |row: usize| (row as i128 * 7919 - 30_000).pow(3);
        for (groups, rows) in [(1, 8192), (4, 8191), (FEW_GROUPS, 200), (FEW_GROUPS + 1, 5000), (3, 7)] {
            let sums = || Over::new(ExactSum::Decimal, RAW_DECIMAL);
            let values: ArrayRef = Arc::new(Decimal128Array::from_iter_values((0..rows).map(value)));
            let of: Vec<usize> = (0..rows).map(|row| row * row % groups / 2).collect();
            let (mut together, mut alone) = (sums(), sums());
            for _ in 0..3 {
                together.update_batch(std::slice::from_ref(&values), &of, None, groups).unwrap();
                for (row, group) in of.iter().enumerate() {
                    alone.update_batch(&[values.slice(row, 1)], &[*group], None, groups).unwrap();
                }
            }
            assert_eq!(together.evaluate(EmitTo::All).unwrap().as_ref(), alone.evaluate(EmitTo::All).unwrap().as_ref());
        }
        let mut full = Over::new(ExactSum::Decimal, RAW_DECIMAL);
        let most: ArrayRef = Arc::new(Decimal128Array::from_iter_values(vec![i128::MAX / 100; 8192]));
        assert!(full.update_batch(&[most], &[0; 8192], None, 1).is_err());
        // Each lane alone overflows, but the positive and the negative lanes cancel out.
        let mut even = Over::new(ExactSum::Decimal, RAW_DECIMAL);
        let most = (0..8192).map(|row| if row % 2 == 0 { i128::MAX / 100 } else { -(i128::MAX / 100) });
        let most: ArrayRef = Arc::new(Decimal128Array::from_iter_values(most));
        even.update_batch(&[most], &[0; 8192], None, 1).unwrap();
        assert_eq!(even.states.values, [0]);
    }
}
