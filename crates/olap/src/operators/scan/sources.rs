//! Sources of a plan's relations other than one table: several tables one after the other, and rows that come with a
//! request.

use std::sync::Arc;

use arrow_array::ArrayRef;
use colstore::{CHUNK_ROWS, Chunk, ChunkRows, OutOfMemory, TableView};
use datafusion_common::scalar::ScalarValue;
use plan::{Literal, Plan, Source, Type};
use protocol::request::{Failure, SentRows};

use crate::base::arrow_form::scalar;
use crate::base::error::internal;

/// A view for each relation of the plan. `tables` are the views of the plan's tables. `sent` are the rows of each
/// relation whose rows come with the request.
pub fn views(
    plan: &Plan,
    tables: Vec<Arc<dyn TableView>>,
    sent: Vec<SentRows>,
) -> Result<Vec<Arc<dyn TableView>>, Failure> {
    let mut sent = sent.into_iter();
    views_with(plan, tables, |columns| {
        let rows = sent.next().ok_or_else(|| internal("rows that were not sent"))?;
        Ok(Arc::new(Sent::new(columns, rows)?))
    })
}

/// The views for EXPLAIN. Rows that would come with the request are only counted, by their expected number.
pub fn expected_views(
    plan: &Plan,
    tables: Vec<Arc<dyn TableView>>,
    sent: Vec<u64>,
) -> Result<Vec<Arc<dyn TableView>>, Failure> {
    let mut sent = sent.into_iter();
    views_with(plan, tables, |columns| {
        let rows = sent.next().ok_or_else(|| internal("rows that are not expected"))?;
        Ok(Arc::new(Expected { types: columns.to_vec(), rows }))
    })
}

fn views_with(
    plan: &Plan,
    tables: Vec<Arc<dyn TableView>>,
    mut sent: impl FnMut(&[Type]) -> Result<Arc<dyn TableView>, Failure>,
) -> Result<Vec<Arc<dyn TableView>>, Failure> {
    let mut tables = tables.into_iter();
    let mut views: Vec<Arc<dyn TableView>> = Vec::new();
    for relation in &plan.relations {
        views.push(match &relation.source {
            Source::Tables { tables: parts, apart } => {
                let mut parts: Vec<_> = tables.by_ref().take(parts.len()).collect();
                match parts.len() {
                    1 => parts.remove(0),
                    _ => Arc::new(Several::new(parts, *apart, relation.columns.clone())),
                }
            }
            Source::Sent => sent(&relation.columns)?,
        });
    }
    Ok(views)
}

/// The rows of several tables.
#[derive(Debug)]
struct Several {
    types: Vec<Type>,
    tables: Vec<Arc<dyn TableView>>,
    /// For each chunk, its table and its number in that table.
    chunks: Vec<(usize, usize)>,
    key: Option<Vec<usize>>,
}

impl Several {
    fn new(tables: Vec<Arc<dyn TableView>>, apart: bool, types: Vec<Type>) -> Several {
        let chunks = tables.iter().enumerate();
        let chunks = chunks.flat_map(|(at, table)| (0..table.chunk_count()).map(move |chunk| (at, chunk))).collect();
        let key = tables.first().and_then(|table| table.key()).map(<[usize]>::to_vec);
        let same = |key: &Vec<usize>| apart && tables.iter().all(|table| table.key() == Some(key));
        let key = key.filter(same);
        Several { types, tables, chunks, key }
    }
}

impl TableView for Several {
    fn types(&self) -> &[Type] {
        &self.types
    }

    fn key(&self) -> Option<&[usize]> {
        self.key.as_deref()
    }

    fn row_count(&self) -> u64 {
        self.tables.iter().map(|table| table.row_count()).sum()
    }

    fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        let (table, chunk) = self.chunks[index];
        self.tables[table].chunk(chunk)
    }

    fn rows(&self, index: usize) -> Result<ChunkRows, OutOfMemory> {
        let (table, chunk) = self.chunks[index];
        self.tables[table].rows(chunk)
    }

    fn array(&self, index: usize, column: usize) -> Result<ArrayRef, OutOfMemory> {
        let (table, chunk) = self.chunks[index];
        self.tables[table].array(chunk, column)
    }

    fn picked(&self, index: usize, column: usize, rows: &[u32]) -> Result<Option<ArrayRef>, OutOfMemory> {
        let (table, chunk) = self.chunks[index];
        self.tables[table].picked(chunk, column, rows)
    }

    fn bounds(&self, index: usize, column: usize) -> Option<(i128, i128)> {
        let (table, chunk) = self.chunks[index];
        self.tables[table].bounds(chunk, column)
    }
}

/// Rows that came with a request.
#[derive(Debug)]
struct Sent {
    types: Vec<Type>,
    rows: usize,
    columns: Vec<ArrayRef>,
}

impl Sent {
    fn new(types: &[Type], SentRows { rows, columns }: SentRows) -> Result<Sent, Failure> {
        let rows = rows as usize;
        if columns.len() != types.len() || columns.iter().any(|values| values.len() != rows) {
            return Err(internal("rows of another form than the plan says"));
        }
        let arrays = columns.into_iter().zip(types).map(|(values, ty)| array(*ty, values));
        Ok(Sent { types: types.to_vec(), rows, columns: arrays.collect::<Result<_, _>>()? })
    }
}

/// Makes an array value by value. To convert all values first would take many times as much memory.
fn array(ty: Type, values: Vec<Option<Literal>>) -> Result<ArrayRef, Failure> {
    let nothing = scalar(ty, None)?;
    if values.is_empty() {
        return nothing.to_array_of_size(0).map_err(|e| internal(e.to_string()));
    }
    let mut failed = None;
    let scalars = values.iter().map_while(|value| match scalar(ty, value.as_ref()) {
        Ok(scalar) => Some(scalar),
        Err(failure) => {
            failed = Some(failure);
            None
        }
    });
    let array = ScalarValue::iter_to_array(scalars);
    match failed {
        Some(failure) => Err(failure),
        None => array.map_err(|e| internal(e.to_string())),
    }
}

impl TableView for Sent {
    fn types(&self) -> &[Type] {
        &self.types
    }

    fn row_count(&self) -> u64 {
        self.rows as u64
    }

    fn chunk_count(&self) -> usize {
        self.rows.div_ceil(CHUNK_ROWS)
    }

    fn chunk(&self, index: usize) -> Result<Chunk, OutOfMemory> {
        let start = index * CHUNK_ROWS;
        let rows = CHUNK_ROWS.min(self.rows - start);
        let arrays = self.columns.iter().map(|column| column.slice(start, rows)).collect();
        Ok(Chunk { rows, arrays, live: None })
    }
}

/// A stand-in for rows that were not computed, with their expected number.
#[derive(Debug)]
struct Expected {
    types: Vec<Type>,
    rows: u64,
}

impl TableView for Expected {
    fn types(&self) -> &[Type] {
        &self.types
    }

    fn row_count(&self) -> u64 {
        self.rows
    }

    fn chunk_count(&self) -> usize {
        0
    }

    fn chunk(&self, _: usize) -> Result<Chunk, OutOfMemory> {
        Ok(Chunk { rows: 0, arrays: Vec::new(), live: None })
    }
}
