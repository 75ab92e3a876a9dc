//! The raw spread of integers and decimals, exactly: N·Σx² − (Σx)². The result is a numeric.
//! [`crate::functions::numerics`] computes variance and standard deviation from it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Decimal256Array, Int64Array};
use arrow_buffer::i256;
use arrow_schema::DataType;
use datafusion_common::error::{DataFusionError, Result};
use numeric::Numeric;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, State};
use crate::aggregates::sum::{Summand, too_wide};
use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::operand::for_number;
use crate::functions::numerics::Collected;

const RAW_WIDE: DataType = DataType::Decimal256(76, 0);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExactSpread {
    /// The scale of the values.
    pub scale: u8,
}

impl Function for ExactSpread {
    fn name(&self) -> &'static str {
        "exact_spread"
    }

    fn result_type(&self, _: &[DataType]) -> DataType {
        DataType::BinaryView
    }

    fn state_types(&self, _: &DataType) -> Vec<(&'static str, DataType)> {
        vec![("count", DataType::Int64), ("sum", RAW_DECIMAL), ("squares", RAW_WIDE)]
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(Over::new(self.clone(), result)))
    }
}

impl Fold for ExactSpread {
    type States = Vec<Moments>;

    fn start(&self) -> Moments {
        Moments::default()
    }

    fn add(&self, moments: &mut Vec<Moments>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let array = &values[0];
        for_number!(array.data_type(), T => {
            let values = array.as_primitive::<T>();
            let add = |group: usize, row: usize| moments[group].add(<T as Summand>::widen(values.value(row)));
            rows.visit(values.len(), values.nulls(), add)
        })
    }

    fn merge(&self, moments: &mut Vec<Moments>, columns: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let counts = columns[0].as_primitive::<Int64Type>().values();
        let sums = columns[1].as_primitive::<Decimal128Type>().values();
        let squares = columns[2].as_primitive::<Decimal256Type>().values();
        rows.visit(counts.len(), None, |group, row| moments[group].merge((counts[row], sums[row], squares[row])))
    }

    fn results(&self, moments: Vec<Moments>, _: &DataType) -> Result<ArrayRef> {
        let mut out = Collected::with_capacity(moments.len());
        for moments in &moments {
            out.push(moments.result(self.scale)?.as_ref());
        }
        Ok(out.finish())
    }

    fn partial(&self, moments: Vec<Moments>, _: &DataType) -> Result<Vec<ArrayRef>> {
        let squares: Vec<i256> = moments.iter().map(Moments::squares).collect::<Result<_>>()?;
        let sums = Decimal128Array::from_iter_values(moments.iter().map(|moments| moments.sum));
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(moments.iter().map(|moments| moments.count))),
            Arc::new(sums.with_data_type(RAW_DECIMAL)),
            Arc::new(Decimal256Array::from_iter_values(squares).with_data_type(RAW_WIDE)),
        ])
    }
}

impl State for Moments {}

#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    count: i64,
    sum: i128,
    /// The sum of squares is `narrow_squares` + `wide_squares`. Nearly all additions need only the 128 bits of
    /// `narrow_squares`.
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

    /// Subtracts a value that was added before.
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

    /// The raw spread of values with `scale` decimal places; `None` if there were no values.
    pub fn result(&self, scale: u8) -> Result<Option<Numeric>> {
        if self.count == 0 {
            return Ok(None);
        }
        let (count, sum) = (i256::from_i128(self.count.into()), i256::from_i128(self.sum));
        let of_squares = count.checked_mul(self.squares()?);
        let difference = of_squares.zip(sum.checked_mul(sum)).and_then(|(a, b)| a.checked_sub(b));
        numeric(difference.ok_or_else(too_wide)?, 2 * scale).map(Some)
    }
}

/// The numeric `number` / 10^`scale`. The number is not negative.
fn numeric(number: i256, scale: u8) -> Result<Numeric> {
    if let Some(number) = number.to_i128() {
        return Ok(Numeric::from_decimal(number, scale));
    }
    // Arrow writes such a number without regard to a width.
    let digits = format!("{:0>width$}", number.to_string(), width = scale as usize + 1);
    let (whole, behind) = digits.split_at(digits.len() - scale as usize);
    let text = if behind.is_empty() { whole.to_owned() } else { format!("{whole}.{behind}") };
    text.parse().map_err(|_| DataFusionError::Internal(format!("{text} is no numeric")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_spread_of_many_places_has_its_zeros() {
        let places = |number: i256, scale| numeric(number, scale).unwrap().to_string();
        // Beyond 128 bits, and below one.
        let number = i256::from_i128(i128::MAX).checked_mul(i256::from_i128(4)).unwrap();
        assert_eq!(places(number, 45), "0.000000680564733841876926926749214863536422908");
        assert_eq!(places(number, 38), "6.80564733841876926926749214863536422908");
    }
}
