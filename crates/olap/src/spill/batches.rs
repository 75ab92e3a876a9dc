//! Batches on disk, in Arrow's IPC form.

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use datafusion_common::error::{DataFusionError, Result};
use futures::{Stream, stream};

use super::blocking;
use super::disk::{Account, Inflow, Outflow, PAGE, Pages};
use crate::base::bytes::bytes_of;
use crate::base::compact::owned;

/// The memory of a [`Sink`], in addition to the batch that it writes.
pub const SINK_BYTES: usize = PAGE;

/// Writes batches.
pub struct Sink {
    schema: SchemaRef,
    written: SchemaRef,
    writer: StreamWriter<Outflow>,
}

impl Sink {
    pub fn new(account: Account, schema: &SchemaRef) -> Result<Sink> {
        let written = Arc::new(nullable(schema));
        let writer = StreamWriter::try_new(Outflow::new(account), &written).map_err(writing)?;
        Ok(Sink { schema: schema.clone(), written, writer })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = batch.columns().iter().cloned().map(owned).collect();
        let batch = RecordBatch::try_new_with_options(self.written.clone(), columns, &options)?;
        self.writer.write(&batch).map_err(writing)
    }

    pub fn finish(self) -> Result<Stored> {
        let pages = self.writer.into_inner().map_err(writing)?.finish();
        Ok(Stored { schema: self.schema, pages: pages.map_err(|e| writing(e.into()))? })
    }
}

/// Batches that were written, to be read once.
pub struct Stored {
    schema: SchemaRef,
    pages: Pages,
}

impl Stored {
    /// The rows in the order in which they were written, in batches of at least `rows` rows if there are that many.
    /// Between two batches, other tasks get their turn.
    pub fn batches(self, rows: usize) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        self.batches_within(rows, usize::MAX)
    }

    /// Like `batches`, but a batch also ends once it has `bytes` bytes.
    pub fn batches_within(self, rows: usize, bytes: usize) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let Stored { schema, pages } = self;
        batches(Inflow::new(pages), schema, rows, bytes)
    }

    /// The same batches, to be read several times.
    pub fn kept(self) -> Kept {
        Kept { schema: self.schema, pages: Arc::new(self.pages) }
    }
}

/// Batches that stay on disk as long as the value exists.
pub struct Kept {
    schema: SchemaRef,
    pages: Arc<Pages>,
}

impl Kept {
    /// Like [`Stored::batches_within`].
    pub fn batches_within(&self, rows: usize, bytes: usize) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        batches(Inflow::of_kept(self.pages.clone()), self.schema.clone(), rows, bytes)
    }
}

fn batches(
    inflow: Inflow,
    schema: SchemaRef,
    rows: usize,
    bytes: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
    stream::try_unfold((None, Some(inflow)), move |(reader, inflow)| {
        let schema = schema.clone();
        async move {
            tokio::task::yield_now().await;
            blocking(|| {
                let mut reader = match (reader, inflow) {
                    (None, Some(inflow)) => StreamReader::try_new(inflow, None)?,
                    (Some(reader), _) => reader,
                    (None, None) => return Ok(None),
                };
                let batch = next(&mut reader, &schema, rows, bytes)?;
                Ok(batch.map(|batch| (batch, (Some(reader), None))))
            })
        }
    })
}

/// Reads batches until they have enough rows or bytes, and joins them to one batch.
fn next(
    reader: &mut StreamReader<Inflow>,
    schema: &SchemaRef,
    rows: usize,
    bytes: usize,
) -> Result<Option<RecordBatch>> {
    let mut batches = Vec::new();
    let (mut count, mut size) = (0, 0);
    while count < rows && size < bytes {
        let Some(batch) = reader.next().transpose()? else { break };
        count += batch.num_rows();
        size += bytes_of(&batch);
        batches.push(batch);
    }
    let batch = match batches.len() {
        0 => return Ok(None),
        1 => batches.remove(0),
        _ => concat_batches(&reader.schema(), &batches)?,
    };
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(Some(RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)?))
}

/// The schema with all columns nullable: some batches may contain nulls although their schema excludes them.
fn nullable(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>())
}

/// The error of a write to disk. A full disk counts as a lack of memory.
fn writing(error: ArrowError) -> DataFusionError {
    let full = |error: &Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    match error {
        ArrowError::IoError(_, error) if full(&error) => {
            DataFusionError::ResourcesExhausted(format!("rows cannot be put on disk: {error}"))
        }
        other => other.into(),
    }
}
