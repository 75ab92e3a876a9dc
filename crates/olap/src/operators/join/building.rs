//! Builds the build side in memory from its rows: concatenates each column, and inserts the keys into the table.

use std::collections::VecDeque;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat;
use datafusion_common::error::{DataFusionError, Result};
use parking_lot::Mutex;

use super::built::{Built, Finder, KeyBounds};
use super::layout::{Layout, places_kept};
use super::ordering::{in_order, ordering_bytes};
use super::shape::Shape;
use super::table::Table;
use super::words::Packing;
use crate::base::bytes::bytes_of_column;
use crate::base::compact::owned;

/// Texts in more buffers than this are copied into one, because each batch that is made from them lists all buffers.
const MOST_BUFFERS: usize = 32;

/// The jobs of building a build side, which any number of threads share.
pub struct Building {
    jobs: Mutex<VecDeque<Job>>,
    columns: Mutex<Vec<Option<ArrayRef>>>,
    rows: usize,
    packing: Packing,
    table: Table,
    /// Whether several threads take part.
    shared: bool,
}

enum Job {
    /// Concatenates a column.
    Column(usize, Vec<ArrayRef>),
    /// Inserts the keys of a batch into the table. The number is the index of the batch's first row in the build side.
    Insert(usize, Vec<ArrayRef>),
}

impl Building {
    pub fn new(shape: &Shape, batches: Vec<RecordBatch>, packing: Packing, shared: bool) -> Building {
        let places = places_needed(shape, &packing);
        let column = |place| batches.iter().map(|batch| batch.column(place).clone()).collect();
        let mut jobs: VecDeque<Job> = (0..places).map(|place| Job::Column(place, column(place))).collect();
        let mut rows = 0;
        for batch in batches {
            // Without keys, all rows would have the same word. So rows are sorted instead of inserted into the table.
            if !shape.is_keyless() {
                jobs.push_back(Job::Insert(rows, shape.build.keys_of(&batch)));
            }
            rows += batch.num_rows();
        }
        let table = Table::new(rows, packing.limit());
        let columns = Mutex::new(vec![None; places]);
        Building { jobs: Mutex::new(jobs), columns, rows, packing, table, shared }
    }

    /// Runs jobs until there are no more.
    pub fn run(&self, layout: &Layout) -> Result<()> {
        let mut words = Vec::new();
        loop {
            let Some(job) = self.jobs.lock().pop_front() else { return Ok(()) };
            match job {
                Job::Column(place, parts) => {
                    let column = together(layout.data_type(place), parts)?;
                    self.columns.lock()[place] = Some(column);
                }
                Job::Insert(first, keys) => {
                    let rows = keys.first().map_or(0, |key| key.len());
                    self.packing.words(&keys, rows, &mut words)?;
                    self.table.insert(first, &words, self.shared);
                }
            }
        }
    }

    /// The build side in memory, after all work is done.
    pub fn done(self, shape: &Shape) -> Result<Built> {
        let Building { columns, rows, packing, mut table, .. } = self;
        table.complete();
        let columns: Option<Vec<ArrayRef>> = columns.into_inner().into_iter().collect();
        let mut columns = columns.ok_or_else(|| DataFusionError::Internal("a column that nobody made".into()))?;
        if shape.is_keyless() || (!shape.bounds.is_empty() && table.is_crowded()) {
            drop(table);
            return in_order(shape, rows, columns, packing);
        }
        columns.truncate(places_kept(&shape.build, &packing));
        Ok(Built::new(shape, rows, columns, Finder::Linked { packing, table }))
    }
}

/// Builds a build side from these rows in this thread.
pub fn put_together(shape: &Shape, batches: Vec<RecordBatch>) -> Result<Built> {
    let mut bounds = KeyBounds::of(&shape.build);
    batches.iter().for_each(|batch| bounds.add(&shape.build.keys_of(batch)));
    let building = Building::new(shape, batches, bounds.packing(), false);
    building.run(&shape.build)?;
    building.done(shape)
}

/// The greatest memory that building needs, in addition to the memory of the rows.
pub fn building_bytes(shape: &Shape, batches: &[RecordBatch], packing: &Packing, threads: usize) -> usize {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let bytes = |place: usize| batches.iter().map(|batch| bytes_of_column(batch.column(place))).sum::<usize>();
    // The key columns are needed until the table is complete.
    let keys: usize = shape.build.key_places().iter().map(|place| bytes(*place)).sum();
    let mut copied: Vec<usize> = (0..places_needed(shape, packing)).map(bytes).collect();
    copied.sort_unstable_by(|a, b| b.cmp(a));
    let on_the_way = copied.iter().take(threads).sum::<usize>();
    let ordering = if shape.bounds.is_empty() { 0 } else { ordering_bytes(rows, shape.bounds.len(), &copied) };
    Table::bytes(rows, packing.limit()) + rows + keys + on_the_way.max(ordering)
}

/// The number of columns to concatenate. With limits, the ranks are among them, because the rows may have to be sorted.
fn places_needed(shape: &Shape, packing: &Packing) -> usize {
    if shape.bounds.is_empty() { places_kept(&shape.build, packing) } else { shape.build.schema().fields().len() }
}

fn together(ty: &DataType, mut parts: Vec<ArrayRef>) -> Result<ArrayRef> {
    let column = match parts.len() {
        0 => arrow_array::new_empty_array(ty),
        1 => parts.remove(0),
        _ => concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>())?,
    };
    let buffers = match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers().len(),
        DataType::BinaryView => column.as_binary_view().data_buffers().len(),
        _ => 0,
    };
    Ok(if buffers > MOST_BUFFERS { owned(column) } else { column })
}
