//! Sums over the frames of successive rows.
//!
//! ```text
//!   integers, decimals          differences of running totals
//!   numerics, intervals,        one total: rows that enter the frame are added, rows that leave it are subtracted
//!   squares
//!   floats, bits                row by row from the frame's first row on; when that row changes, all over again
//! ```
//!
//! PostgreSQL does the same with floats, because subtracting a float from a sum does not restore the sum without it.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array};
use arrow_buffer::NullBuffer;
use datafusion_common::error::Result;
use plan::FailureKind;
use plan::catalogue::{BitAgg, Extreme, FloatAgg, Spread};

use crate::aggregates::bits::{combined, narrowed, widened};
use crate::aggregates::exact_spread::Moments;
use crate::aggregates::float_sum::checked;
use crate::aggregates::interval_sum;
use crate::aggregates::sum::{Summand, too_wide};
use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::cancellation::Cancellation;
use crate::base::error::QueryError;
use crate::base::keys::Keys;
use crate::base::operand::for_number;
use crate::functions::numerics::{Collected, decoded, failure};
use crate::operators::window::tree::Tree;

/// The rows of a frame in their order: up to three ranges, some of which may be empty.
type Frame = [Range<usize>; 3];

/// The number of rows between two checks whether the query was cancelled.
const UNTIL_CHECK: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub enum Total {
    /// The sum of integers or decimals as Decimal128 or, if `narrow`, as Int64.
    Integers {
        narrow: bool,
    },
    Numerics,
    Intervals,
    /// See [`plan::Agg::Spread`]; `scale` is the scale of the values.
    Spread {
        scale: u8,
    },
    Reals,
    Floats(FloatAgg),
    Bits(BitAgg),
}

impl Total {
    /// The sum of the values in each frame; null for a frame without values.
    pub fn evaluate(
        self,
        values: &ArrayRef,
        frames: impl Iterator<Item = Frame>,
        cancellation: &Cancellation,
    ) -> Result<ArrayRef> {
        match self {
            Total::Integers { narrow } => integers(values, frames, narrow),
            Total::Numerics => numerics(values, frames),
            Total::Intervals => intervals(values, frames),
            Total::Spread { scale } => spread(values, frames, scale),
            Total::Reals => {
                let sums = fold(frames, floats(values), with_real, cancellation)?;
                Ok(Arc::new(Float64Array::from(sums)))
            }
            Total::Floats(FloatAgg::Sum) => {
                let sums = fold(frames, floats(values), with_float, cancellation)?;
                Ok(Arc::new(Float64Array::from(sums)))
            }
            Total::Floats(of) => {
                let all = fold(frames, floats(values), Summed::with, cancellation)?;
                let result = |summed: Option<Summed>| summed.and_then(|summed| summed.result(of));
                Ok(Arc::new(all.into_iter().map(result).collect::<Float64Array>()))
            }
            Total::Bits(of) => {
                let bits = widened(values)?;
                let bits_of = |row: usize| values.is_valid(row).then(|| bits[row]);
                let with = |found: Option<i64>, bits: i64| Ok(found.map_or(bits, |found| combined(of, found, bits)));
                let found = fold(frames, bits_of, with, cancellation)?;
                let nulls: NullBuffer = found.iter().map(Option::is_some).collect::<Vec<bool>>().into();
                narrowed(found.into_iter().map(Option::unwrap_or_default).collect(), Some(nulls), values.data_type())
            }
        }
    }
}

/// The number of values that are not null before each row, and in total.
pub fn counts_before(values: &ArrayRef) -> Vec<i128> {
    let mut counts = Vec::with_capacity(values.len() + 1);
    counts.push(0);
    counts.extend((0..values.len()).scan(0, |count, row| {
        *count += i128::from(values.is_valid(row));
        Some(*count)
    }));
    counts
}

/// The sum over the rows of a frame, from the totals before each row.
pub fn over(sums: &[i128], frame: Frame) -> i128 {
    frame.into_iter().map(|range| sums[range.end] - sums[range.start]).sum()
}

fn integers(values: &ArrayRef, frames: impl Iterator<Item = Frame>, narrow: bool) -> Result<ArrayRef> {
    let (sums, counts) = (sums_before(values)?, counts_before(values));
    let sums = frames.map(|frame| (over(&counts, frame.clone()) > 0).then(|| over(&sums, frame)));
    if narrow {
        let narrow = |sum: i128| i64::try_from(sum).map_err(|_| QueryError(FailureKind::BigintOutOfRange));
        return Ok(Arc::new(sums.map(|sum| sum.map(narrow).transpose()).collect::<Result<Int64Array, _>>()?));
    }
    Ok(Arc::new(sums.collect::<Decimal128Array>().with_data_type(RAW_DECIMAL)))
}

/// The sum of the values before each row, and of all values.
fn sums_before(values: &ArrayRef) -> Result<Vec<i128>> {
    for_number!(values.data_type(), T => {
        let (mut sum, mut sums) = (0i128, Vec::with_capacity(values.len() + 1));
        sums.push(0);
        for value in values.as_primitive::<T>().iter() {
            if let Some(value) = value {
                sum = sum.checked_add(<T as Summand>::widen(value)).ok_or_else(too_wide)?;
            }
            sums.push(sum);
        }
        Ok(sums)
    })
}

/// The sums of numerics. Each sum shows as many decimal places as the value in its frame that shows most.
fn numerics(values: &ArrayRef, frames: impl Iterator<Item = Frame>) -> Result<ArrayRef> {
    let values = values.as_binary_view();
    let scale = |value: &[u8]| Ok::<_, QueryError>(decoded(value)?.scale().map(i32::from));
    let scales = values.iter().map(|value| Ok(value.map(scale).transpose()?.flatten()));
    let scales: ArrayRef = Arc::new(scales.collect::<Result<Int32Array>>()?);
    let keys = Keys::of_values(&scales, None)?;
    let most = Tree::new(&keys, &scales, Extreme::Max);
    let scales = scales.as_primitive::<arrow_array::types::Int32Type>();

    let (mut total, mut sliding, mut out) =
        (numeric::Total::default(), Sliding::default(), Collected::with_capacity(0));
    for frame in frames {
        sliding.to(frame.clone(), |row, enters| {
            if values.is_valid(row) {
                let value = decoded(values.value(row))?;
                if enters { total.add(&value) } else { total.remove(&value) }
            }
            Ok(())
        })?;
        let sum = total.sum().transpose().map_err(failure)?;
        let shown = most.best(frame).map(|row| scales.value(row));
        let sum = sum.map(|sum| shown.map_or(sum.clone(), |shown| sum.round(shown)));
        out.push(sum.as_ref());
    }
    Ok(out.finish())
}

fn intervals(values: &ArrayRef, frames: impl Iterator<Item = Frame>) -> Result<ArrayRef> {
    let values = values.as_primitive::<Decimal128Type>();
    let (mut total, mut count, mut sliding) = (interval_sum::Total::default(), 0u64, Sliding::default());
    let sums = frames.map(|frame| {
        sliding.to(frame, |row, enters| {
            if values.is_valid(row) {
                total = total.plus(values.value(row), if enters { 1 } else { -1 });
                count = if enters { count + 1 } else { count - 1 };
                // As in PostgreSQL, no intermediate sum may be out of range.
                total.sum()?;
            }
            Ok(())
        })?;
        Ok((count > 0).then(|| total.sum()).transpose()?)
    });
    Ok(Arc::new(sums.collect::<Result<Decimal128Array>>()?.with_data_type(RAW_DECIMAL)))
}

fn spread(values: &ArrayRef, frames: impl Iterator<Item = Frame>, scale: u8) -> Result<ArrayRef> {
    for_number!(values.data_type(), T => {
        let values = values.as_primitive::<T>();
        let (mut moments, mut sliding, mut out) =
            (Moments::default(), Sliding::default(), Collected::with_capacity(0));
        for frame in frames {
            sliding.to(frame, |row, enters| {
                if values.is_null(row) {
                    return Ok(());
                }
                let value = <T as Summand>::widen(values.value(row));
                if enters { moments.add(value) } else { moments.remove(value) }
            })?;
            out.push(moments.result(scale)?.as_ref());
        }
        Ok(out.finish())
    })
}

/// The current frame, which moves from row to row.
#[derive(Default)]
struct Sliding(Frame);

impl Sliding {
    /// Moves to a frame. Calls `visit` with each row that enters or leaves, and with whether it enters.
    fn to(&mut self, frame: Frame, mut visit: impl FnMut(usize, bool) -> Result<()>) -> Result<()> {
        for (old, new) in self.0.iter_mut().zip(frame) {
            let apart = old.end <= new.start || new.end <= old.start;
            let (leave, enter) = match apart {
                true => ([old.clone(), 0..0], [new.clone(), 0..0]),
                false => ([old.start..new.start, new.end..old.end], [new.start..old.start, old.end..new.end]),
            };
            leave.into_iter().flatten().try_for_each(|row| visit(row, false))?;
            enter.into_iter().flatten().try_for_each(|row| visit(row, true))?;
            *old = new;
        }
        Ok(())
    }
}

/// Folds the values of each frame's rows by `with`. If a frame begins with the same row as the previous one, and is no
/// shorter, it continues the previous result.
fn fold<T, S: Copy>(
    frames: impl Iterator<Item = Frame>,
    value: impl Fn(usize) -> Option<T>,
    with: impl Fn(Option<S>, T) -> Result<S>,
    cancellation: &Cancellation,
) -> Result<Vec<Option<S>>> {
    let (mut known, mut made, mut looked_at) = (0..0, None, 0);
    let mut onwards = |mut made: Option<S>, rows: Range<usize>| -> Result<Option<S>> {
        for row in rows {
            looked_at += 1;
            if looked_at % UNTIL_CHECK == 0 {
                cancellation.check()?;
            }
            if let Some(value) = value(row) {
                made = Some(with(made, value)?);
            }
        }
        Ok(made)
    };
    let one = |[first, middle, last]: Frame| {
        if first.start != known.start || first.end < known.end {
            (known, made) = (first.start..first.start, None);
        }
        made = onwards(made, known.end..first.end)?;
        known = first;
        let so_far = onwards(made, middle)?;
        onwards(so_far, last)
    };
    frames.map(one).collect()
}

fn floats(values: &ArrayRef) -> impl Fn(usize) -> Option<f64> {
    let values = values.as_primitive::<Float64Type>();
    |row| values.is_valid(row).then(|| values.value(row))
}

fn with_float(sum: Option<f64>, value: f64) -> Result<f64> {
    let value = checked(value)?;
    Ok(sum.map_or(value, |sum| sum + value))
}

/// The sum of two reals.
fn with_real(sum: Option<f64>, value: f64) -> Result<f64> {
    let Some(sum) = sum else { return Ok(value) };
    let more = f64::from(sum as f32 + value as f32);
    match more.is_infinite() && sum.is_finite() && value.is_finite() {
        true => Err(QueryError(FailureKind::FloatOverflow).into()),
        false => Ok(more),
    }
}

/// The state of PostgreSQL's variance of floats (Youngs and Cramer's method): the number of values, their sum, and the
/// sum of their squared differences from the mean.
#[derive(Clone, Copy)]
struct Summed {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Summed {
    fn with(so_far: Option<Summed>, value: f64) -> Result<Summed> {
        let value = checked(value)?;
        let Some(Summed { count: before, sum, squares }) = so_far else {
            let squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Ok(Summed { count: 1.0, sum: 0.0 + value, squares });
        };
        let (count, sum) = (before + 1.0, sum + value);
        let away = value * count - sum;
        let squares = squares + away * away / (count * before);
        let squares = if sum.is_infinite() || squares.is_infinite() { f64::NAN } else { squares };
        Ok(Summed { count, sum, squares })
    }

    fn result(self, of: FloatAgg) -> Option<f64> {
        let Summed { count, sum, squares } = self;
        match of {
            FloatAgg::Sum => Some(sum),
            FloatAgg::Avg => Some(sum / count),
            FloatAgg::Spread(Spread::VarPop) => Some(squares / count),
            FloatAgg::Spread(Spread::StddevPop) => Some((squares / count).sqrt()),
            FloatAgg::Spread(Spread::VarSamp) => (count > 1.0).then(|| squares / (count - 1.0)),
            FloatAgg::Spread(Spread::StddevSamp) => (count > 1.0).then(|| (squares / (count - 1.0)).sqrt()),
        }
    }
}

#[cfg(test)]
mod tests {
    use numeric::Numeric;

    use super::*;

    fn running() -> Vec<Frame> {
        (0..4).map(|row| [0..row + 1, row + 1..row + 1, row + 1..row + 1]).collect()
    }

    /// The frames from each row to the last one.
    fn rest() -> Vec<Frame> {
        (0..4).map(|row| [row..4, 4..4, 4..4]).collect()
    }

    fn without_current() -> Vec<Frame> {
        (0..4).map(|row| [0..row, row..row, row + 1..4]).collect()
    }

    fn of(total: Total, values: ArrayRef, frames: Vec<Frame>) -> ArrayRef {
        total.evaluate(&values, frames.into_iter(), &Cancellation::default()).unwrap()
    }

    #[test]
    fn floats_are_added_up_in_the_order_of_their_frame() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1e20, 1.0, -1e20, 1.0]));
        for (frames, expected) in [
            (running(), [1e20, 1e20, 0.0, 1.0]),
            // 1 - 1e20 loses the 1, so a value that has left the frame cannot simply be subtracted.
            (rest(), [1.0, -1e20 + 1.0, -1e20, 1.0]),
            (without_current(), [-1e20, 1.0, 1e20, 0.0]),
        ] {
            let sums = of(Total::Floats(FloatAgg::Sum), values.clone(), frames);
            assert_eq!(sums.as_primitive::<Float64Type>().values(), &expected[..]);
        }
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -0.0, 0.0, -0.0]));
        let signs = |of_total| -> Vec<bool> {
            let sums = of(of_total, zeros.clone(), running());
            sums.as_primitive::<Float64Type>().values().iter().map(|sum| sum.is_sign_negative()).collect()
        };
        assert_eq!(signs(Total::Floats(FloatAgg::Sum)), [true, true, false, false]);
        assert_eq!(signs(Total::Floats(FloatAgg::Avg)), [false; 4]);
    }

    #[test]
    fn reals_are_rounded_row_by_row_and_may_overflow() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![16_777_216.0, 1.0, 1.0, -16_777_216.0]));
        let sums = of(Total::Reals, values, running());
        assert_eq!(sums.as_primitive::<Float64Type>().values(), &[16_777_216.0, 16_777_216.0, 16_777_216.0, 0.0][..]);
        let large: ArrayRef = Arc::new(Float64Array::from(vec![f64::from(f32::MAX), f64::from(f32::MAX), 0.0, 0.0]));
        assert!(Total::Reals.evaluate(&large, running().into_iter(), &Cancellation::default()).is_err());
    }

    #[test]
    fn numerics_show_what_the_frame_shows_most_of() {
        let texts = ["1.50", "NaN", "-0.125", "2"];
        let mut values = Collected::with_capacity(4);
        texts.iter().for_each(|text| values.push(Some(&text.parse::<Numeric>().unwrap())));
        let values = values.finish();
        let shown = |frames| -> Vec<String> {
            let sums = of(Total::Numerics, values.clone(), frames);
            sums.as_binary_view()
                .iter()
                .map(|sum| sum.map_or("-".into(), |sum| decoded(sum).unwrap().to_string()))
                .collect()
        };
        assert_eq!(shown(running()), ["1.50", "NaN", "NaN", "NaN"]);
        assert_eq!(shown(rest()), ["NaN", "NaN", "1.875", "2"]);
        assert_eq!(shown(without_current()), ["NaN", "3.375", "NaN", "NaN"]);
        assert_eq!(shown(vec![[0..0, 0..0, 0..0], [3..4, 4..4, 4..4], [0..1, 1..1, 3..4]]), ["-", "2", "3.50"]);
    }

    #[test]
    fn squares_are_taken_back() {
        let values: ArrayRef = Arc::new(Decimal128Array::from(vec![Some(3), None, Some(1 << 90), Some(5)]));
        let frames = vec![[0..4, 4..4, 4..4], [3..4, 4..4, 4..4], [0..2, 3..3, 3..4]];
        let spreads = of(Total::Spread { scale: 1 }, values, frames);
        let spreads = spreads.as_binary_view().iter().map(|key| decoded(key.unwrap()).unwrap().to_string());
        // 3 · (3² + 2¹⁸⁰ + 5²) − (3 + 2⁹⁰ + 5)²; 0; 2 · (3² + 5²) − 8²
        let expected = ["30649910817317777167166940344935777386713938459812168.06", "0.00", "0.04"];
        assert!(spreads.eq(expected));
    }

    #[test]
    fn who_does_not_wait_any_more_ends_it() {
        let rows = 1 << 17;
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0; rows]));
        let cancellation = Cancellation::default();
        cancellation.cancel();
        let frames = std::iter::once([0..rows, rows..rows, rows..rows]);
        assert!(Total::Floats(FloatAgg::Sum).evaluate(&values, frames, &cancellation).is_err());
    }
}
