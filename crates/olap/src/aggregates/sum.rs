//! The exact sum of integers and decimals.
//!
//! Totals and partial states are 128 bits wide, which no sum of 64-bit values leaves; decimals of 128 bits are added
//! with a check.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Int64Array, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use protocol::request::FailureKind;

use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::base::operand::for_number;

/// What the sum is returned as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SumType {
    Bigint,
    Decimal,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExactSum {
    result: SumType,
    signature: Signature,
}

impl ExactSum {
    pub fn new(result: SumType) -> Self {
        ExactSum { result, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        match self.result {
            SumType::Bigint => "exact_sum_bigint",
            SumType::Decimal => "exact_sum",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.result {
            SumType::Bigint => DataType::Int64,
            SumType::Decimal => RAW_DECIMAL,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", args.name), RAW_DECIMAL, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Total { result: self.result, sum: None }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(GroupTotals { result: self.result, sums: vec![], seen: vec![] }))
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
                // A batch would need 2^32 rows to leave 64 bits.
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
    /// Upper and lower halves are summed apart, in 64 bits each, so that the loop needs neither carry nor check.
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

/// The sum of all rows.
#[derive(Debug)]
struct Total {
    result: SumType,
    sum: Option<i128>,
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = &values[0];
        let sum = for_number!(values.data_type(), T => sum_of(values.as_primitive::<T>()))?;
        if let Some(sum) = sum {
            self.sum = Some(self.sum.unwrap_or(0).checked_add(sum).ok_or_else(too_wide)?);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.result {
            SumType::Bigint => ScalarValue::Int64(self.sum.map(bigint).transpose()?),
            SumType::Decimal => ScalarValue::Decimal128(self.sum, 38, 0),
        })
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128(self.sum, 38, 0)])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// So many groups are summed, and counted, in lanes.
pub const FEW_GROUPS: usize = 16;
pub const LANES: usize = 4;

/// The sums of groups.
struct GroupTotals {
    result: SumType,
    sums: Vec<i128>,
    /// Groups that have a value.
    seen: Vec<bool>,
}

impl GroupTotals {
    fn add<T: Summand>(&mut self, values: &ArrayRef, groups: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        let values = values.as_primitive::<T>();
        let included = included(values.nulls(), filter);
        let in_lanes = included.is_none() && self.sums.len() <= FEW_GROUPS && groups.len() > FEW_GROUPS * LANES;
        if in_lanes && self.add_in_lanes::<T>(values.values(), groups).is_some() {
            return Ok(());
        }
        let mut overflow = false;
        let mut add = |group: usize, value: T::Native| {
            let (sum, over) = self.sums[group].overflowing_add(T::widen(value));
            self.sums[group] = sum;
            self.seen[group] = true;
            overflow |= over;
        };
        match included {
            None => groups.iter().zip(values.values()).for_each(|(&group, &value)| add(group, value)),
            Some(included) => included.valid_indices().for_each(|row| add(groups[row], values.value(row))),
        }
        if overflow { Err(too_wide()) } else { Ok(()) }
    }

    /// Of few groups the same one comes again and again, and each addition would wait for the one before. `None`: a lane has
    /// no room for its sum, and nothing was added.
    fn add_in_lanes<T: Summand>(&mut self, values: &[T::Native], groups: &[usize]) -> Option<()> {
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
        let totals = self.sums.iter().zip(&lanes).map(together).collect::<Option<Vec<i128>>>();
        self.sums = totals.filter(|_| !overflow)?;
        self.seen.iter_mut().zip(lanes).for_each(|(own, (_, seen))| *own |= seen.contains(&true));
        Some(())
    }

    fn take(&mut self, emit_to: EmitTo) -> Decimal128Array {
        let (sums, seen) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.seen));
        Decimal128Array::new(sums.into(), Some(NullBuffer::from(seen))).with_data_type(RAW_DECIMAL)
    }
}

/// Rows that count: those that are not null and pass the filter; `None`: all.
pub fn included(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passing = filter.map(|f| match f.nulls() {
        None => NullBuffer::new(f.values().clone()),
        Some(nulls) => NullBuffer::new(f.values() & nulls.inner()),
    });
    NullBuffer::union(nulls, passing.as_ref()).filter(|n| n.null_count() > 0)
}

impl GroupsAccumulator for GroupTotals {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.sums.resize(total_groups, 0);
        self.seen.resize(total_groups, false);
        for_number!(values[0].data_type(), T => self.add::<T>(&values[0], groups, filter))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(values, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.take(emit_to);
        Ok(match self.result {
            SumType::Decimal => Arc::new(sums),
            SumType::Bigint => {
                Arc::new(sums.iter().map(|sum| sum.map(bigint).transpose()).collect::<Result<Int64Array>>()?)
            }
        })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(self.take(emit_to))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Ok(vec![states_of_rows(&values[0], filter)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}

/// The partial sum of each row on its own.
pub fn states_of_rows(values: &ArrayRef, filter: Option<&BooleanArray>) -> Result<ArrayRef> {
    fn widened<T: Summand>(array: &ArrayRef, filter: Option<&BooleanArray>) -> Result<ArrayRef> {
        let array = array.as_primitive::<T>();
        let sums: Vec<i128> = array.values().iter().map(|&v| T::widen(v)).collect();
        let nulls = included(array.nulls(), filter);
        Ok(Arc::new(Decimal128Array::new(sums.into(), nulls).with_data_type(RAW_DECIMAL)))
    }
    for_number!(values.data_type(), T => widened::<T>(values, filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_few_groups_are_those_of_many() {
        let value = |row: usize| (row as i128 * 7919 - 30_000).pow(3);
        for (groups, rows) in [(1, 8192), (4, 8191), (FEW_GROUPS, 200), (FEW_GROUPS + 1, 5000), (3, 7)] {
            let sums = || GroupTotals { result: SumType::Decimal, sums: vec![], seen: vec![] };
            let values: ArrayRef = Arc::new(Decimal128Array::from_iter_values((0..rows).map(value)));
            let of: Vec<usize> = (0..rows).map(|row| row * row % groups / 2).collect();
            let (mut together, mut alone) = (sums(), sums());
            for _ in 0..3 {
                together.update_batch(std::slice::from_ref(&values), &of, None, groups).unwrap();
                for (row, group) in of.iter().enumerate() {
                    alone.update_batch(&[values.slice(row, 1)], &[*group], None, groups).unwrap();
                }
            }
            assert_eq!(together.take(EmitTo::All), alone.take(EmitTo::All));
        }
        let mut full = GroupTotals { result: SumType::Decimal, sums: vec![], seen: vec![] };
        let most: ArrayRef = Arc::new(Decimal128Array::from_iter_values(vec![i128::MAX / 100; 8192]));
        assert!(full.update_batch(&[most], &[0; 8192], None, 1).is_err());
        // Each lane alone has no room, but they are taken from each other.
        let mut even = GroupTotals { result: SumType::Decimal, sums: vec![], seen: vec![] };
        let most = (0..8192).map(|row| if row % 2 == 0 { i128::MAX / 100 } else { -(i128::MAX / 100) });
        let most: ArrayRef = Arc::new(Decimal128Array::from_iter_values(most));
        even.update_batch(&[most], &[0; 8192], None, 1).unwrap();
        assert_eq!(even.sums, [0]);
    }
}
