//! The values of window functions over whole partitions of sorted rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, new_null_array,
};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_physical_expr::PhysicalExpr;
use locale::Locale;
use plan::FailureKind;
use plan::catalogue::Extreme;

use crate::arrow_form::RAW_DECIMAL;
use crate::edges::Framed;
use crate::error::QueryError;
use crate::frames::Layout;
use crate::keys::{KeyRows, Keys};

/// A window function with its lowered arguments; each makes one column.
#[derive(Clone, Debug)]
pub enum Call {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile(u32),
    Shifted {
        value: Arc<dyn PhysicalExpr>,
        by: i64,
        otherwise: Option<Arc<dyn PhysicalExpr>>,
    },
    /// Of the frame's row with this number, from 0; from its end if that is said.
    Nth {
        value: Arc<dyn PhysicalExpr>,
        at: usize,
        from_end: bool,
        frame: Framed,
    },
    /// Rows, or those in which the argument is not null.
    Count {
        arg: Option<Arc<dyn PhysicalExpr>>,
        frame: Framed,
    },
    /// As Int64, or as Decimal128.
    Sum {
        arg: Arc<dyn PhysicalExpr>,
        narrow: bool,
        frame: Framed,
    },
    /// `key` orders the values: equal ones have equal bits. Texts may be those of a locale.
    Extreme {
        arg: Arc<dyn PhysicalExpr>,
        key: Arc<dyn PhysicalExpr>,
        locale: Option<&'static Locale>,
        which: Extreme,
        frame: Framed,
    },
}

impl Call {
    pub fn expressions(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        match self {
            Call::RowNumber | Call::Rank | Call::DenseRank | Call::PercentRank | Call::CumeDist | Call::Ntile(_) => {
                vec![]
            }
            Call::Shifted { value, otherwise, .. } => [value].into_iter().chain(otherwise).collect(),
            Call::Nth { value, frame, .. } => [value].into_iter().chain(frame.expressions()).collect(),
            Call::Count { arg, frame } => arg.iter().chain(frame.expressions()).collect(),
            Call::Sum { arg, frame, .. } => [arg].into_iter().chain(frame.expressions()).collect(),
            Call::Extreme { arg, key, frame, .. } => [arg, key].into_iter().chain(frame.expressions()).collect(),
        }
    }

    pub fn evaluate(&self, batch: &RecordBatch, layout: &Layout) -> Result<ArrayRef> {
        let rows = 0..layout.rows();
        let value = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(batch.num_rows());
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
            Call::Ntile(buckets) => {
                let bucket = |row| {
                    let whole = layout.partition(row);
                    bucket(row - whole.start, whole.len(), *buckets as usize) as i32
                };
                Ok(Arc::new(Int32Array::from_iter_values(rows.map(bucket))))
            }
            Call::Shifted { value: expr, by, otherwise } => {
                let values = value(expr)?;
                let others = otherwise.as_ref().map(&value).transpose()?;
                let nowhere = if others.is_some() { OTHER } else { NULL };
                let others = others.unwrap_or_else(|| new_null_array(values.data_type(), 1));
                let place = |row: usize| {
                    let whole = layout.partition(row);
                    let there = (row as i64).saturating_add(*by);
                    match usize::try_from(there) {
                        Ok(there) if whole.contains(&there) => (VALUE, there),
                        _ if nowhere == NULL => (NULL, 0),
                        _ => (nowhere, row),
                    }
                };
                chosen(&values, &others, rows.map(place))
            }
            Call::Nth { value: expr, at, from_end, frame } => {
                let (values, frame) = (value(expr)?, found(frame)?);
                let place = |row: usize| match nth(frame(row), *at, *from_end) {
                    Some(there) => (VALUE, there),
                    None => (NULL, 0),
                };
                chosen(&values, &values, rows.map(place))
            }
            Call::Count { arg, frame } => {
                let frame = found(frame)?;
                match arg {
                    None => integers(&|row| frame(row).iter().map(Range::len).sum()),
                    Some(arg) => {
                        let counts = counts(&value(arg)?);
                        integers(&|row| over(&counts, frame(row)) as usize)
                    }
                }
            }
            Call::Sum { arg, narrow, frame } => {
                let (values, frame) = (value(arg)?, found(frame)?);
                let (sums, counts) = (sums(&values)?, counts(&values));
                let sum = |row| {
                    let frame = frame(row);
                    (over(&counts, frame.clone()) > 0).then(|| over(&sums, frame))
                };
                if *narrow {
                    let narrow = |sum: i128| i64::try_from(sum).map_err(|_| QueryError(FailureKind::BigintOutOfRange));
                    let sums = rows.map(|row| sum(row).map(narrow).transpose()).collect::<Result<Int64Array, _>>()?;
                    return Ok(Arc::new(sums));
                }
                Ok(Arc::new(rows.map(sum).collect::<Decimal128Array>().with_data_type(RAW_DECIMAL)))
            }
            Call::Extreme { arg, key, locale, which, frame } => {
                let (values, frame) = (value(arg)?, found(frame)?);
                let keys = Keys::of_values(&value(key)?, *locale)?;
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

const VALUE: usize = 0;
const OTHER: usize = 1;
const NULL: usize = 2;

/// Values of the one or the other column, or null.
fn chosen(values: &ArrayRef, others: &ArrayRef, places: impl Iterator<Item = (usize, usize)>) -> Result<ArrayRef> {
    let null = new_null_array(values.data_type(), 1);
    let places: Vec<(usize, usize)> = places.collect();
    Ok(interleave(&[values.as_ref(), others.as_ref(), null.as_ref()], &places)?)
}

/// The bucket of row `at` of `rows`, from 1.
fn bucket(at: usize, rows: usize, buckets: usize) -> usize {
    let (size, larger) = (rows / buckets, rows % buckets);
    let in_larger = larger * (size + 1);
    if at < in_larger { at / (size + 1) + 1 } else { larger + (at - in_larger) / size + 1 }
}

fn nth(frame: [Range<usize>; 3], mut at: usize, from_end: bool) -> Option<usize> {
    let mut ranges = frame;
    if from_end {
        ranges.reverse();
    }
    for range in ranges {
        if at < range.len() {
            return Some(if from_end { range.end - 1 - at } else { range.start + at });
        }
        at -= range.len();
    }
    None
}

/// How many values are not null before each row, and in all.
fn counts(values: &ArrayRef) -> Vec<i128> {
    let mut counts = vec![0];
    counts.extend((0..values.len()).scan(0, |count, row| {
        *count += i128::from(values.is_valid(row));
        Some(*count)
    }));
    counts
}

/// The sums of the values before each row, and of all.
fn sums(values: &ArrayRef) -> Result<Vec<i128>> {
    let value: Box<dyn Fn(usize) -> i128> = match values.data_type() {
        DataType::Int16 => Box::new(|row| values.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Box::new(|row| values.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Box::new(|row| values.as_primitive::<Int64Type>().value(row).into()),
        DataType::Decimal128(..) => Box::new(|row| values.as_primitive::<Decimal128Type>().value(row)),
        other => return Err(DataFusionError::Internal(format!("sum of {other}"))),
    };
    let (mut sum, mut sums) = (0i128, vec![0]);
    for row in 0..values.len() {
        if values.is_valid(row) {
            sum = sum.checked_add(value(row)).ok_or(QueryError(FailureKind::DecimalTooWide))?;
        }
        sums.push(sum);
    }
    Ok(sums)
}

/// What was added up over the rows of a frame.
fn over(sums: &[i128], frame: [Range<usize>; 3]) -> i128 {
    frame.into_iter().map(|range| sums[range.end] - sums[range.start]).sum()
}

/// Finds the least or greatest value of any range of rows.
struct Tree<'a> {
    keys: &'a KeyRows,
    which: Extreme,
    /// The leaves are the rows, behind the inner nodes; the children of node n are 2 n and 2 n + 1.
    nodes: Vec<Option<u32>>,
}

impl<'a> Tree<'a> {
    fn new(keys: &'a KeyRows, values: &ArrayRef, which: Extreme) -> Tree<'a> {
        let rows = values.len();
        let mut tree = Tree { keys, which, nodes: vec![None; 2 * rows] };
        for row in 0..rows {
            tree.nodes[rows + row] = values.is_valid(row).then_some(row as u32);
        }
        for node in (1..rows).rev() {
            tree.nodes[node] = tree.better(tree.nodes[2 * node], tree.nodes[2 * node + 1]);
        }
        tree
    }

    fn better(&self, a: Option<u32>, b: Option<u32>) -> Option<u32> {
        let (Some(x), Some(y)) = (a, b) else { return a.or(b) };
        let (x, y) = (self.keys.row(x as usize), self.keys.row(y as usize));
        let second = match self.which {
            Extreme::Min => y < x,
            Extreme::Max => y > x,
        };
        if second { b } else { a }
    }

    fn best(&self, frame: [Range<usize>; 3]) -> Option<usize> {
        let rows = self.nodes.len() / 2;
        let mut best = None;
        for range in frame {
            let (mut from, mut to) = (range.start + rows, range.end + rows);
            while from < to {
                if from % 2 == 1 {
                    best = self.better(best, self.nodes[from]);
                    from += 1;
                }
                if to % 2 == 1 {
                    to -= 1;
                    best = self.better(best, self.nodes[to]);
                }
                (from, to) = (from / 2, to / 2);
            }
        }
        best.map(|row| row as usize)
    }
}
