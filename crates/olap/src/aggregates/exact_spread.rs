//! What variance and standard deviation of integers and decimals are made of, exactly: N·Σx² − (Σx)².
//!
//! It is wider than any number of a plan, and travels as text. PostgreSQL divides it and takes the root, so that digits
//! are its own.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Decimal256Array, Int64Array, StringViewArray};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

use crate::aggregates::sum::{Summand, included, too_wide};
use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::operand::for_number;

const RAW_WIDE: DataType = DataType::Decimal256(76, 0);

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExactSpread {
    signature: Signature,
}

impl ExactSpread {
    pub fn new() -> Self {
        ExactSpread { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ExactSpread {
    fn name(&self) -> &str {
        "exact_spread"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name, ty| Arc::new(Field::new(format!("{}[{name}]", args.name), ty, false));
        Ok(vec![field("count", DataType::Int64), field("sum", RAW_DECIMAL), field("squares", RAW_WIDE)])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(Moments::default())))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(PerGroup(vec![])))
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: i64,
    sum: i128,
    /// The sum of squares is both of these: nearly all additions stay within the narrow one.
    narrow_squares: i128,
    wide_squares: i256,
}

impl Moments {
    #[inline]
    pub fn add(&mut self, value: i128) -> Result<()> {
        self.count += 1;
        self.sum = self.sum.checked_add(value).ok_or_else(too_wide)?;
        let Some(square) = value.checked_mul(value) else {
            let value = i256::from_i128(value);
            let squares = value.checked_mul(value).and_then(|square| self.wide_squares.checked_add(square));
            self.wide_squares = squares.ok_or_else(too_wide)?;
            return Ok(());
        };
        let Some(squares) = self.narrow_squares.checked_add(square) else {
            self.wide_squares = self.squares()?;
            self.narrow_squares = square;
            return Ok(());
        };
        self.narrow_squares = squares;
        Ok(())
    }

    /// Takes back a value that was added.
    pub fn remove(&mut self, value: i128) -> Result<()> {
        let wide = i256::from_i128(value);
        let square = wide.checked_mul(wide).ok_or_else(too_wide)?;
        self.count -= 1;
        self.sum = self.sum.checked_sub(value).ok_or_else(too_wide)?;
        self.wide_squares = self.wide_squares.checked_sub(square).ok_or_else(too_wide)?;
        Ok(())
    }

    fn squares(&self) -> Result<i256> {
        self.wide_squares.checked_add(i256::from_i128(self.narrow_squares)).ok_or_else(too_wide)
    }

    fn merge(&mut self, (count, sum, squares): (i64, i128, i256)) -> Result<()> {
        self.count += count;
        self.sum = self.sum.checked_add(sum).ok_or_else(too_wide)?;
        self.wide_squares = self.wide_squares.checked_add(squares).ok_or_else(too_wide)?;
        Ok(())
    }

    /// `None`: no values.
    pub fn result(&self) -> Result<Option<String>> {
        if self.count == 0 {
            return Ok(None);
        }
        let (count, sum) = (i256::from_i128(self.count.into()), i256::from_i128(self.sum));
        let of_squares = count.checked_mul(self.squares()?);
        let difference = of_squares.zip(sum.checked_mul(sum)).and_then(|(a, b)| a.checked_sub(b));
        Ok(Some(difference.ok_or_else(too_wide)?.to_string()))
    }
}

/// Calls `visit` with each row and its value that is not null and passes the filter.
fn for_values(
    array: &ArrayRef,
    filter: Option<&BooleanArray>,
    mut visit: impl FnMut(usize, i128) -> Result<()>,
) -> Result<()> {
    for_number!(array.data_type(), T => {
        let values = array.as_primitive::<T>();
        let mut visit = |row: usize| visit(row, <T as Summand>::widen(values.value(row)));
        match included(array.nulls(), filter) {
            None => (0..array.len()).try_for_each(visit),
            Some(included) => included.valid_indices().try_for_each(&mut visit),
        }
    })
}

fn states(columns: &[ArrayRef]) -> impl Iterator<Item = (i64, i128, i256)> {
    let (counts, sums) = (columns[0].as_primitive::<Int64Type>(), columns[1].as_primitive::<Decimal128Type>());
    let squares = columns[2].as_primitive::<Decimal256Type>();
    let values = counts.values().iter().zip(sums.values()).zip(squares.values());
    values.map(|((&count, &sum), &squares)| (count, sum, squares))
}

fn as_states(moments: &[Moments]) -> Result<Vec<ArrayRef>> {
    let squares: Vec<i256> = moments.iter().map(Moments::squares).collect::<Result<_>>()?;
    let sums = Decimal128Array::from_iter_values(moments.iter().map(|moments| moments.sum));
    Ok(vec![
        Arc::new(Int64Array::from_iter_values(moments.iter().map(|moments| moments.count))),
        Arc::new(sums.with_data_type(RAW_DECIMAL)),
        Arc::new(Decimal256Array::from_iter_values(squares).with_data_type(RAW_WIDE)),
    ])
}

/// Of all rows.
#[derive(Debug)]
struct One(Moments);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_values(&values[0], None, |_, value| self.0.add(value))
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        states(columns).try_for_each(|state| self.0.merge(state))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.0.result()?))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.0.count)),
            ScalarValue::Decimal128(Some(self.0.sum), 38, 0),
            ScalarValue::Decimal256(Some(self.0.squares()?), 76, 0),
        ])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup(Vec<Moments>);

impl GroupsAccumulator for PerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.0.resize(total_groups, Moments::default());
        for_values(&values[0], filter, |row, value| self.0[groups[row]].add(value))
    }

    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.0.resize(total_groups, Moments::default());
        groups.iter().zip(states(columns)).try_for_each(|(&group, state)| self.0[group].merge(state))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let moments = emit_to.take_needed(&mut self.0);
        Ok(Arc::new(moments.iter().map(Moments::result).collect::<Result<StringViewArray>>()?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        as_states(&emit_to.take_needed(&mut self.0))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = PerGroup(vec![]);
        let rows = values[0].len();
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<Moments>()
    }
}
