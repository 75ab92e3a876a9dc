//! Frames of a range of values: finds the first and the last row of each.
//!
//! PostgreSQL moves two marks along the rows of a partition, never back. For each row, it moves a mark on until the
//! mark has reached the edge of that row's frame. This code does the same.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_physical_expr::PhysicalExpr;
use plan::Frame;

use crate::base::keys::{Key, KeyRows, Keys};
use crate::operators::window::frames::{Edges, Layout};

/// A frame, with the reach of its range of values.
#[derive(Clone, Debug)]
pub struct Framed {
    pub frame: Frame,
    pub reach: Option<Reach>,
}

/// See [`plan::Reach`]; equal values have equal bits.
#[derive(Clone, Debug)]
pub struct Reach {
    pub value: Arc<dyn PhysicalExpr>,
    pub start: Option<Arc<dyn PhysicalExpr>>,
    pub end: Option<Arc<dyn PhysicalExpr>>,
    /// The direction of the order.
    pub descending: bool,
    pub nulls_first: bool,
}

impl Framed {
    pub fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.reach.iter().flat_map(|reach| [&reach.value].into_iter().chain(&reach.start).chain(&reach.end))
    }

    pub fn edges(&self, batch: &RecordBatch, layout: &Layout) -> Result<Edges> {
        let Some(reach) = &self.reach else { return Ok(Edges::default()) };
        let values = Column::of(&reach.value, batch)?;
        let side = |edge: &Option<_>, passes: fn(&Reach, &Column, usize, &Column, usize) -> bool| match edge {
            None => Ok::<_, DataFusionError>(Vec::new()),
            Some(edge) => {
                let edges = Column::of(edge, batch)?;
                Ok(places(layout, |at, row| passes(reach, &values, at, &edges, row)))
            }
        };
        Ok(Edges { starts: side(&reach.start, Reach::is_before)?, ends: side(&reach.end, Reach::is_within)? })
    }
}

impl Reach {
    /// Whether row `at` comes before the frame of `row`.
    fn is_before(&self, values: &Column, at: usize, edges: &Column, row: usize) -> bool {
        match (values.key(at), edges.key(row)) {
            (Some(value), Some(edge)) => self.order(value.cmp(&edge)).is_lt(),
            (value, edge) if self.nulls_first => value.is_none() && edge.is_some(),
            (value, edge) => value.is_some() && edge.is_none(),
        }
    }

    /// Whether row `at` does not come after the frame of `row`.
    fn is_within(&self, values: &Column, at: usize, edges: &Column, row: usize) -> bool {
        match (values.key(at), edges.key(row)) {
            (Some(value), Some(edge)) => self.order(value.cmp(&edge)).is_le(),
            (value, edge) if self.nulls_first => value.is_none() || edge.is_some(),
            (value, edge) => value.is_some() || edge.is_none(),
        }
    }

    fn order(&self, ascending: Ordering) -> Ordering {
        if self.descending { ascending.reverse() } else { ascending }
    }
}

/// Values that are compared; some may be null.
struct Column {
    values: ArrayRef,
    keys: KeyRows,
}

impl Column {
    fn of(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<Column> {
        let values = expr.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(Column { keys: Keys::of_values(&values, None)?, values })
    }

    fn key(&self, row: usize) -> Option<Key<'_>> {
        self.values.is_valid(row).then(|| self.keys.row(row))
    }
}

/// For each row, the first row of its partition for which `passes` is false. The search begins where the search for the
/// row before has ended.
fn places(layout: &Layout, passes: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut places = Vec::with_capacity(layout.rows());
    for partition in layout.partitions() {
        let mut at = partition.start;
        for row in partition.clone() {
            while at < partition.end && passes(at, row) {
                at += 1;
            }
            places.push(at);
        }
    }
    places
}
