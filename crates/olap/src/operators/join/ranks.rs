//! Ranks: integers that grow with the values. A value between two others has a rank between theirs, or equal to one of
//! them.
//!
//! | values | rank | can different values have equal ranks? |
//! |---|---|---|
//! | integers, dates, points in time, decimals of one scale | the value itself | no |
//! | floats | the position in PostgreSQL's order of floats | no |
//! | wider decimals, or decimals of two scales; intervals | the rank of the nearest float | yes |
//! | texts, bytes, numerics of any length | the first eight bytes | yes |

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, Int64Array, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Schema};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use plan::float_order;

/// The way in which values become ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ranking {
    /// The values themselves.
    Own,
    /// Decimals, multiplied by this factor, so that both sides have the same scale.
    Scaled(i128),
}

/// The computation of a value's rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ranked {
    /// The last expression is the value that is ranked. The others are evaluated only because their errors come before
    /// its error.
    pub args: Vec<Arc<dyn PhysicalExpr>>,
    pub ranking: Ranking,
    /// The rank of all rows in a batch if one of the rows raises an error. The condition itself raises the error when
    /// it is evaluated.
    pub otherwise: i64,
}

impl PhysicalExpr for Ranked {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let values: Result<Vec<_>> = self.args.iter().map(|arg| arg.evaluate(batch)).collect();
        let ranks = match values.ok().and_then(|mut values| values.pop()) {
            Some(values) => ranks(&values.into_array(rows)?, self.ranking)?,
            None => Int64Array::from_value(self.otherwise, rows),
        };
        Ok(ColumnarValue::Array(Arc::new(ranks)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, args: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Ranked { args, ..Ranked::clone(&self) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.args.last().map_or(Ok(()), |arg| write!(f, "{arg}"))
    }
}

fn ranks(values: &ArrayRef, ranking: Ranking) -> Result<Int64Array> {
    Ok(match (values.data_type(), ranking) {
        (DataType::Int16, Ranking::Own) => of::<Int16Type>(values, i64::from),
        (DataType::Int32, Ranking::Own) => of::<Int32Type>(values, i64::from),
        (DataType::Int64, Ranking::Own) => values.as_primitive::<Int64Type>().clone(),
        (DataType::Float64, Ranking::Own) => of::<Float64Type>(values, float_order::rank),
        (DataType::Decimal128(..), Ranking::Own) => of::<Decimal128Type>(values, |value| of_wide(value, 1)),
        (DataType::Int64, Ranking::Scaled(times)) => of::<Int64Type>(values, |value| of_wide(value.into(), times)),
        (DataType::Decimal128(..), Ranking::Scaled(times)) => {
            of::<Decimal128Type>(values, |value| of_wide(value, times))
        }
        (DataType::Utf8View, Ranking::Own) => {
            values.as_string_view().iter().map(|text| text.map(|text| of_bytes(text.as_bytes()))).collect()
        }
        (DataType::BinaryView, Ranking::Own) => {
            values.as_binary_view().iter().map(|bytes| bytes.map(of_bytes)).collect()
        }
        (other, _) => return Err(DataFusionError::Internal(format!("{other} has no ranks"))),
    })
}

fn of<T: ArrowPrimitiveType>(values: &ArrayRef, rank: impl Fn(T::Native) -> i64) -> Int64Array {
    let values: &PrimitiveArray<T> = values.as_primitive();
    values.unary(rank)
}

/// The rank of the float that is nearest to `value * times`. Rounding the product, or limiting it to 128 bits, never
/// reverses the order of two values.
fn of_wide(value: i128, times: i128) -> i64 {
    float_order::rank(value.saturating_mul(times) as f64)
}

fn of_bytes(bytes: &[u8]) -> i64 {
    let mut first = [0; 8];
    let count = bytes.len().min(first.len());
    first[..count].copy_from_slice(&bytes[..count]);
    // Maps unsigned numbers to signed ones in the same order.
    (u64::from_be_bytes(first) ^ 1 << 63) as i64
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryViewArray, Decimal128Array, Float64Array, Int32Array, StringViewArray};

    use super::*;

    fn ranks_of(values: impl arrow_array::Array + 'static, ranking: Ranking) -> Vec<Option<i64>> {
        let values: ArrayRef = Arc::new(values);
        ranks(&values, ranking).unwrap().iter().collect()
    }

    #[test]
    fn a_greater_value_has_no_lesser_rank() {
        let strictly = [
            ranks_of(Int32Array::from(vec![i32::MIN, -1, 0, i32::MAX]), Ranking::Own),
            ranks_of(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]), Ranking::Own),
            ranks_of(
                Float64Array::from(vec![f64::NEG_INFINITY, -1.5, 0.0, 5e-324, f64::INFINITY, f64::NAN]),
                Ranking::Own,
            ),
            ranks_of(StringViewArray::from(vec!["", "a", "a\u{1}", "b", "ä"]), Ranking::Own),
            ranks_of(BinaryViewArray::from(vec![&b"\x01"[..], b"\x7f", b"\x80", b"\xff\xff"]), Ranking::Own),
        ];
        assert!(strictly.iter().all(|ranks| ranks.is_sorted_by(|a, b| a < b)), "{strictly:?}");
        let limit = 10i128.pow(38) - 1;
        let wide = [-limit, -limit + 1, -1, 0, 1, 1 << 60, (1 << 60) + 1, limit - 1, limit];
        for times in [1, 100, 10i128.pow(38)] {
            let ranks = ranks_of(Decimal128Array::from(wide.to_vec()), Ranking::Scaled(times));
            assert!(ranks.is_sorted(), "{times}: {ranks:?}");
        }
        let long = ["abcdefgh", "abcdefgha", "abcdefghb", "abcdefgi"];
        assert!(ranks_of(StringViewArray::from(long.to_vec()), Ranking::Own).is_sorted());
    }

    #[test]
    fn equal_values_of_two_scales_have_one_rank() {
        let cents = ranks_of(Int64Array::from(vec![Some(10), None, Some(-12_345)]), Ranking::Scaled(1000));
        let finer = ranks_of(Decimal128Array::from(vec![Some(10_000), None, Some(-12_345_000)]), Ranking::Scaled(1));
        assert_eq!(cents, finer);
        assert_eq!(
            ranks_of(Float64Array::from(vec![0.0, f64::NAN]), Ranking::Own),
            ranks_of(Float64Array::from(vec![-0.0, -f64::NAN]), Ranking::Own)
        );
    }
}
