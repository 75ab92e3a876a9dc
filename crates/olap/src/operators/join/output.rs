//! Output batches of a join.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow_select::take::take;
use datafusion_common::JoinType;
use datafusion_common::error::{DataFusionError, Result};

use super::built::Built;
use super::layout::Layout;
use super::shape::{Given, Shape};

/// The rows of a side that are output.
pub enum Rows<'a> {
    All,
    /// Rows by index; a null index stands for a row of nulls.
    These(&'a UInt32Array),
    /// A row of nulls for each output row.
    Absent,
}

/// A side with its output rows.
pub struct Side<'a> {
    pub layout: &'a Layout,
    pub columns: &'a [ArrayRef],
    pub rows: Rows<'a>,
}

impl Side<'_> {
    fn column(&self, place: usize, count: usize) -> Result<ArrayRef> {
        Ok(match self.rows {
            Rows::All => self.columns[place].clone(),
            Rows::These(rows) => take(&self.columns[place], rows, None)?,
            Rows::Absent => new_null_array(self.layout.data_type(place), count),
        })
    }
}

/// The columns of `count` rows, from both sides.
pub fn columns_of(
    given: &[Given],
    build: &Side,
    probe: &Side,
    count: usize,
    mark: Option<&ArrayRef>,
) -> Result<Vec<ArrayRef>> {
    let column = |given: &Given| match given {
        Given::Build(place) => build.column(*place, count),
        Given::Probe(place) => probe.column(*place, count),
        Given::Mark => mark.cloned().ok_or_else(|| DataFusionError::Internal("a mark of no row".into())),
    };
    given.iter().map(column).collect()
}

/// A batch in the form that the join returns.
pub fn batch_of(
    shape: &Shape,
    build: &Side,
    probe: &Side,
    count: usize,
    mark: Option<&ArrayRef>,
) -> Result<RecordBatch> {
    let columns = columns_of(&shape.output, build, probe, count, mark)?;
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(shape.schema.clone(), columns, &options)?)
}

/// The build side's rows that are output once all partners are known.
pub struct BuildRows {
    shape: Arc<Shape>,
    built: Arc<Built>,
    batch_size: usize,
    /// The first row that was not output yet.
    row: usize,
}

impl BuildRows {
    pub fn new(shape: Arc<Shape>, built: Arc<Built>, batch_size: usize) -> BuildRows {
        BuildRows { shape, built, batch_size, row: 0 }
    }

    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.row < self.built.rows {
            let range = self.row..self.built.rows.min(self.row + self.batch_size);
            self.row = range.end;
            if let Some(batch) = self.some(range)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn some(&self, range: Range<usize>) -> Result<Option<RecordBatch>> {
        let BuildRows { shape, built, .. } = self;
        let rows = range.start as u32..range.end as u32;
        let probe = Side { layout: &shape.probe, columns: &[], rows: Rows::Absent };
        if shape.kind == JoinType::LeftMark {
            let columns: Vec<ArrayRef> =
                built.columns.iter().map(|column| column.slice(range.start, range.len())).collect();
            let mark = BooleanArray::from(rows.map(|row| built.is_met(row)).collect::<Vec<_>>());
            let build = Side { layout: &shape.build, columns: &columns, rows: Rows::All };
            let mark: ArrayRef = Arc::new(mark);
            return batch_of(shape, &build, &probe, range.len(), Some(&mark)).map(Some);
        }
        let wanted = shape.kind == JoinType::LeftSemi;
        let these = UInt32Array::from(rows.filter(|row| built.is_met(*row) == wanted).collect::<Vec<_>>());
        if these.is_empty() {
            return Ok(None);
        }
        let build = Side { layout: &shape.build, columns: &built.columns, rows: Rows::These(&these) };
        batch_of(shape, &build, &probe, these.len(), None).map(Some)
    }
}
