//! The values of window functions over whole partitions of sorted rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, new_null_array};
use arrow_select::interleave::interleave;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_expr::PhysicalExpr;
use locale::Locale;
use plan::FailureKind;
use plan::catalogue::Extreme;

use crate::aggregates::sum::Summand;
use crate::base::cancellation::Cancellation;
use crate::base::error::QueryError;
use crate::base::keys::Keys;
use crate::base::operand::for_number;
use crate::base::pieces::bytes_of_texts;
use crate::operators::window::bytes::bytes_beside;
use crate::operators::window::edges::Framed;
use crate::operators::window::frames::Layout;
use crate::operators::window::totals::{Total, counts_before, over};
use crate::operators::window::tree::Tree;

/// Bytes of the longest value of a fixed length: a number of 128 bits, or the view of a text.
const VIEW: usize = 16;
/// Bytes of a row's number.
const PLACE: usize = 8;
/// Bytes of a key that is made of `VIEW` bytes, including the position of the key.
const KEY: usize = 28;

/// A window function with its lowered arguments. Each adds one column.
#[derive(Clone, Debug)]
pub enum Call {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile(Arc<dyn PhysicalExpr>),
    Shifted {
        value: Arc<dyn PhysicalExpr>,
        by: Arc<dyn PhysicalExpr>,
        back: bool,
        otherwise: Option<Arc<dyn PhysicalExpr>>,
    },
    /// The value of one of the frame's rows.
    Nth {
        value: Arc<dyn PhysicalExpr>,
        which: Which,
        frame: Framed,
    },
    /// Counts rows, or rows in which the argument is not null.
    Count {
        arg: Option<Arc<dyn PhysicalExpr>>,
        frame: Framed,
    },
    Total {
        arg: Arc<dyn PhysicalExpr>,
        of: Total,
        frame: Framed,
    },
    /// The extreme value of the frame, in the order of `key`, whose equal values have equal bits. Of several equal
    /// values, the last one is taken. A locale may order texts.
    Extreme {
        arg: Arc<dyn PhysicalExpr>,
        key: Arc<dyn PhysicalExpr>,
        locale: Option<&'static Locale>,
        which: Extreme,
        frame: Framed,
    },
}

#[derive(Clone, Debug)]
pub enum Which {
    First,
    Last,
    /// The n-th row of the frame, counted from 1. The expression is n.
    Number(Arc<dyn PhysicalExpr>),
}

impl Call {
    pub fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        match self {
            Call::RowNumber | Call::Rank | Call::DenseRank | Call::PercentRank | Call::CumeDist => vec![],
            Call::Ntile(buckets) => vec![buckets],
            Call::Shifted { value, by, otherwise, .. } => [value, by].into_iter().chain(otherwise).collect(),
            Call::Nth { value, which: Which::Number(number), frame } => {
                [value, number].into_iter().chain(frame.expressions()).collect()
            }
            Call::Nth { value, frame, .. } => [value].into_iter().chain(frame.expressions()).collect(),
            Call::Count { arg, frame } => arg.iter().chain(frame.expressions()).collect(),
            Call::Total { arg, frame, .. } => [arg].into_iter().chain(frame.expressions()).collect(),
            Call::Extreme { arg, key, frame, .. } => [arg, key].into_iter().chain(frame.expressions()).collect(),
        }
    }

    /// The approximate memory that a row takes at most while the column is computed, without texts that have to be
    /// made. It contains the row's value, arguments, sums and positions of values, and edges of its frame with their
    /// keys.
    pub fn bytes_of_row(&self) -> usize {
        let of_frame = |framed: &Framed| if framed.reach.is_some() { 2 * PLACE + 3 * (VIEW + KEY) } else { 0 };
        match self {
            Call::RowNumber | Call::Rank | Call::DenseRank | Call::PercentRank | Call::CumeDist => VIEW,
            Call::Ntile(_) => 2 * VIEW,
            Call::Shifted { .. } => 4 * VIEW + 2 * PLACE,
            Call::Nth { frame, .. } => 3 * VIEW + 2 * PLACE + of_frame(frame),
            Call::Count { frame, .. } => 3 * VIEW + of_frame(frame),
            Call::Total { frame, .. } => 6 * VIEW + of_frame(frame),
            Call::Extreme { frame, .. } => 3 * VIEW + KEY + 4 * PLACE + of_frame(frame),
        }
    }

    /// Computes the column. Texts that are made meanwhile are added to `memory`, which already contains
    /// [`Call::bytes_of_row`] for each row.
    pub fn evaluate(
        &self,
        batch: &RecordBatch,
        layout: &Layout,
        memory: &MemoryReservation,
        cancellation: &Cancellation,
    ) -> Result<ArrayRef> {
        let rows = 0..layout.rows();
        let value = |expr: &Arc<dyn PhysicalExpr>| {
            let value = expr.evaluate(batch)?.into_array(batch.num_rows())?;
            if !value.data_type().is_primitive() {
                memory.try_grow(bytes_beside(&value, batch.columns()))?;
            }
            Ok::<_, DataFusionError>(value)
        };
        let integers = |value: &dyn Fn(usize) -> usize| -> Result<ArrayRef> {
            Ok(Arc::new(Int64Array::from_iter_values((0..layout.rows()).map(|row| value(row) as i64))))
        };
        let floats = |value: &dyn Fn(usize) -> f64| -> Result<ArrayRef> {
            Ok(Arc::new(Float64Array::from_iter_values((0..layout.rows()).map(value))))
        };
        let found = |framed: &Framed| -> Result<_> {
            let (frame, edges) = (framed.frame, framed.edges(batch, layout)?);
            Ok(move |row: usize| layout.frame(&frame, &edges, row))
        };
        match self {
            Call::RowNumber => integers(&|row| row - layout.partition(row).start + 1),
            Call::Rank => integers(&|row| layout.peers(row).start - layout.partition(row).start + 1),
            Call::DenseRank => integers(&|row| layout.group_in_partition(row) + 1),
            Call::PercentRank => floats(&|row| {
                let whole = layout.partition(row);
                match whole.len() {
                    1 => 0.0,
                    all => (layout.peers(row).start - whole.start) as f64 / (all - 1) as f64,
                }
            }),
            Call::CumeDist => floats(&|row| {
                let whole = layout.partition(row);
                (layout.peers(row).end - whole.start) as f64 / whole.len() as f64
            }),
            Call::Ntile(buckets) => ntile(&numbers(&value(buckets)?)?, layout),
            Call::Shifted { value: expr, by, back, otherwise } => {
                let (values, by) = (value(expr)?, numbers(&value(by)?)?);
                let others = otherwise.as_ref().map(&value).transpose()?;
                let nowhere = if others.is_some() { OTHER } else { NULL };
                let others = others.unwrap_or_else(|| new_null_array(values.data_type(), 1));
                let place = |row: usize| {
                    if by.is_null(row) {
                        return (NULL, 0);
                    }
                    let by = if *back { by.value(row).saturating_neg() } else { by.value(row) };
                    match usize::try_from((row as i64).saturating_add(by)) {
                        Ok(there) if layout.partition(row).contains(&there) => (VALUE, there),
                        _ if nowhere == NULL => (NULL, 0),
                        _ => (nowhere, row),
                    }
                };
                chosen(&values, &others, rows.map(place))
            }
            Call::Nth { value: expr, which, frame } => {
                let (values, frame) = (value(expr)?, found(frame)?);
                let numbers = match which {
                    Which::Number(number) => Some(positive(&value(number)?, FailureKind::NthNotPositive)?),
                    Which::First | Which::Last => None,
                };
                let place = |row: usize| {
                    let frame = frame(row);
                    let there = match (&numbers, which) {
                        (Some(numbers), _) if numbers.is_null(row) => None,
                        (Some(numbers), _) => nth(frame, numbers.value(row) as usize - 1),
                        (None, Which::Last) => last(frame),
                        (None, _) => nth(frame, 0),
                    };
                    there.map_or((NULL, 0), |there| (VALUE, there))
                };
                chosen(&values, &values, rows.map(place))
            }
            Call::Count { arg, frame } => {
                let frame = found(frame)?;
                match arg {
                    None => integers(&|row| frame(row).iter().map(Range::len).sum()),
                    Some(arg) => {
                        let counts = counts_before(&value(arg)?);
                        integers(&|row| over(&counts, frame(row)) as usize)
                    }
                }
            }
            Call::Total { arg, of, frame } => {
                let frame = found(frame)?;
                of.evaluate(&value(arg)?, rows.map(frame), cancellation)
            }
            Call::Extreme { arg, key, locale, which, frame } => {
                let (values, frame) = (value(arg)?, found(frame)?);
                let key = value(key)?;
                memory.try_grow(bytes_of_text_keys(&key))?;
                let keys = Keys::of_values(&key, *locale)?;
                let tree = Tree::new(&keys, &values, *which);
                let place = |row: usize| match tree.best(frame(row)) {
                    Some(there) => (VALUE, there),
                    None => (NULL, 0),
                };
                chosen(&values, &values, rows.map(place))
            }
        }
    }
}

/// The approximate bytes of the texts in keys. Keys copy each text, and Arrow adds a byte to every 32 bytes.
fn bytes_of_text_keys(values: &ArrayRef) -> usize {
    let bytes = bytes_of_texts(std::slice::from_ref(values));
    bytes + bytes / 32
}

const VALUE: usize = 0;
const OTHER: usize = 1;
const NULL: usize = 2;

/// For each row, the value at its place. The first number of a place chooses `values` (0), `others` (1) or null (2);
/// the second is the position there.
fn chosen(values: &ArrayRef, others: &ArrayRef, places: impl Iterator<Item = (usize, usize)>) -> Result<ArrayRef> {
    let null = new_null_array(values.data_type(), 1);
    let places: Vec<(usize, usize)> = places.collect();
    Ok(interleave(&[values.as_ref(), others.as_ref(), null.as_ref()], &places)?)
}

/// The bucket, from 1, of row `at` in a partition of `rows` rows.
fn bucket(at: usize, rows: usize, buckets: usize) -> usize {
    let (size, larger) = (rows / buckets, rows % buckets);
    let in_larger = larger * (size + 1);
    if at < in_larger { at / (size + 1) + 1 } else { larger + (at - in_larger) / size + 1 }
}

/// The bucket of each row, from 1.
fn ntile(buckets: &Int64Array, layout: &Layout) -> Result<ArrayRef> {
    let mut numbers = Vec::with_capacity(layout.rows());
    for partition in layout.partitions() {
        let first = partition.clone().find(|row| buckets.is_valid(*row)).unwrap_or(partition.end);
        numbers.resize(first, None);
        if first < partition.end {
            let of = usize::try_from(buckets.value(first)).ok().filter(|of| *of > 0);
            let of = of.ok_or(QueryError(FailureKind::BucketsNotPositive))?;
            numbers.extend((first..partition.end).map(|row| Some(bucket(row - first, partition.len(), of) as i32)));
        }
    }
    Ok(Arc::new(Int32Array::from(numbers)))
}

/// Integers of any width.
fn numbers(values: &ArrayRef) -> Result<Int64Array> {
    for_number!(values.data_type(), T => {
        let numbers = values.as_primitive::<T>();
        Ok(numbers.unary(|value| <T as Summand>::widen(value) as i64))
    })
}

/// Integers; those that are not null must be positive.
fn positive(values: &ArrayRef, otherwise: FailureKind) -> Result<Int64Array> {
    let numbers = numbers(values)?;
    match numbers.iter().flatten().all(|number| number > 0) {
        true => Ok(numbers),
        false => Err(QueryError(otherwise).into()),
    }
}

fn nth(frame: [Range<usize>; 3], mut at: usize) -> Option<usize> {
    for range in frame {
        if at < range.len() {
            return Some(range.start + at);
        }
        at -= range.len();
    }
    None
}

fn last(frame: [Range<usize>; 3]) -> Option<usize> {
    frame.into_iter().rev().find(|range| !range.is_empty()).map(|range| range.end - 1)
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;
    use arrow_array::builder::StringViewBuilder;
    use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion_expr::Operator;
    use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
    use plan::Frame;

    use super::*;
    use crate::operators::window::frames::Borders;

    const ROWS: usize = 1000;
    /// The length of the text in all rows.
    const TEXT: usize = 1000;

    /// Computes a column, given the memory for [`Call::bytes_of_row`] and this many bytes. Returns the bytes of the
    /// column beside the batch, or `None` if the memory is too little.
    fn bytes(call: &Call, more: usize) -> Option<usize> {
        let mut texts = StringViewBuilder::new().with_deduplicate_strings();
        (0..ROWS).for_each(|_| texts.append_value("x".repeat(TEXT)));
        let texts: StringViewArray = texts.finish();
        let batch = RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap();
        assert!(batch.get_array_memory_size() < 100 * ROWS);
        let keys = || Keys::new([].into(), batch.schema_ref()).unwrap();
        let layout = Layout::new(&[Borders::new(keys(), keys()).of(&batch).unwrap()]);
        let before = ROWS * call.bytes_of_row();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(before + more));
        let memory = MemoryConsumer::new("test").register(&pool);
        memory.try_resize(before).unwrap();
        match call.evaluate(&batch, &layout, &memory, &Cancellation::default()) {
            Ok(column) => Some(bytes_beside(&column, batch.columns())),
            Err(DataFusionError::ResourcesExhausted(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn texts_that_are_made_count() {
        let text = || Arc::new(Column::new("t", 0)) as Arc<dyn PhysicalExpr>;
        let doubled = || Arc::new(BinaryExpr::new(text(), Operator::StringConcat, text())) as Arc<dyn PhysicalExpr>;
        let by = || Arc::new(Literal::new(1_i64.into())) as Arc<dyn PhysicalExpr>;
        let frame = || Framed { frame: Frame::ALL, reach: None };
        let lag = |value| Call::Shifted { value, by: by(), back: true, otherwise: None };
        let first = |value| Call::Nth { value, which: Which::First, frame: frame() };
        let max = |arg, key| Call::Extreme { arg, key, locale: None, which: Extreme::Max, frame: frame() };
        let (few, many) = (2 * VIEW * ROWS, ROWS * TEXT);
        assert!(bytes(&lag(text()), 0).is_some_and(|bytes| bytes <= few));
        assert!(bytes(&first(text()), 0).is_some_and(|bytes| bytes <= few));
        assert_eq!((bytes(&max(text(), text()), many), bytes(&max(text(), text()), 0)), (None, None));
        assert!(bytes(&max(text(), text()), many + many / 10).is_some_and(|bytes| bytes <= few));
        for call in [lag(doubled()), first(doubled()), max(doubled(), text())] {
            assert_eq!(bytes(&call, many), None, "{call:?}");
            assert!(bytes(&call, 6 * many).is_some_and(|bytes| bytes >= 2 * many), "{call:?}");
        }
    }
}
