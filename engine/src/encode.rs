//! A query's batches as pieces of an Arrow IPC stream.
//!
//! The first rows are sent as soon as they are there: a client waits for them to know that the engine can answer. After
//! that small batches share a piece, and large ones are cut.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Schema};

/// A piece is sent when it is this long, or when so much time has passed since the last one.
const PIECE_BYTES: usize = 256 << 10;
const PIECE_TIME: Duration = Duration::from_millis(20);
/// Pieces are cut at this length, to be easy on the reader's memory.
const LONGEST_PIECE: usize = 1 << 20;
/// Text buffers may hold this many times what the batch refers to before they are copied.
const TEXT_SLACK: usize = 2;

pub struct Encoder {
    writer: StreamWriter<Vec<u8>>,
    /// When the last piece with rows was cut.
    last: Option<Instant>,
    rows: u64,
}

impl Encoder {
    pub fn new(schema: &Schema) -> Result<Encoder, ArrowError> {
        Ok(Encoder { writer: StreamWriter::try_new(Vec::new(), schema)?, last: None, rows: 0 })
    }

    /// Rows encoded so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes a batch and returns what is to be sent now, often nothing.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<Vec<u8>>, ArrowError> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        self.rows += batch.num_rows() as u64;
        self.writer.write(&compact(batch)?)?;
        let due = self.last.is_none_or(|last| last.elapsed() >= PIECE_TIME);
        if due || self.writer.get_ref().len() >= PIECE_BYTES {
            self.last = Some(Instant::now());
            Ok(self.cut())
        } else {
            Ok(Vec::new())
        }
    }

    /// The rest, and the end of the stream.
    pub fn finish(&mut self) -> Result<Vec<Vec<u8>>, ArrowError> {
        self.writer.finish()?;
        Ok(self.cut())
    }

    fn cut(&mut self) -> Vec<Vec<u8>> {
        let bytes = std::mem::take(self.writer.get_mut());
        if bytes.len() <= LONGEST_PIECE {
            return vec![bytes];
        }
        bytes.chunks(LONGEST_PIECE).map(<[u8]>::to_vec).collect()
    }
}

/// Arrow writes the buffers of a text column whole, even if the batch refers to a few bytes of them only, as is the rule
/// for a column that lies in shared memory and was filtered.
fn compact(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = batch.columns().iter().map(compact_column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn compact_column(column: &ArrayRef) -> ArrayRef {
    if column.data_type() != &DataType::Utf8View {
        return column.clone();
    }
    let text = column.as_string_view();
    let held: usize = text.data_buffers().iter().map(|b| b.len()).sum();
    if held > TEXT_SLACK * text.total_buffer_bytes_used() { Arc::new(text.gc()) } else { column.clone() }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringViewArray};
    use arrow_ipc::reader::StreamReader;
    use arrow_schema::Field;

    use super::*;

    fn schema(fields: Vec<Field>) -> Arc<Schema> {
        Arc::new(Schema::new(fields))
    }

    fn decode(pieces: &[Vec<u8>]) -> Vec<RecordBatch> {
        StreamReader::try_new(&pieces.concat()[..], None).unwrap().map(|b| b.unwrap()).collect()
    }

    #[test]
    fn the_first_rows_go_at_once_and_later_ones_together() {
        let schema = schema(vec![Field::new("c0", DataType::Int64, true)]);
        let mut encoder = Encoder::new(&schema).unwrap();
        let batch = |from: i64, rows: i64| {
            let column = Arc::new(Int64Array::from_iter_values(from..from + rows));
            RecordBatch::try_new(schema.clone(), vec![column]).unwrap()
        };
        assert!(encoder.push(&batch(0, 0)).unwrap().is_empty());
        let mut pieces = encoder.push(&batch(0, 1)).unwrap();
        assert_eq!(pieces.len(), 1);
        let before = Instant::now();
        let second = encoder.push(&batch(1, 10)).unwrap();
        assert!(second.is_empty() || before.elapsed() >= PIECE_TIME);
        pieces.extend(second);
        let large = encoder.push(&batch(11, 300_000)).unwrap();
        assert_eq!(large.len(), 3);
        assert!(large.iter().all(|p| p.len() <= LONGEST_PIECE));
        pieces.extend(large);
        pieces.extend(encoder.finish().unwrap());
        assert_eq!(encoder.rows(), 300_011);
        let values: Vec<i64> = decode(&pieces)
            .iter()
            .flat_map(|b| b.column(0).as_primitive::<arrow_array::types::Int64Type>().values().to_vec())
            .collect();
        assert_eq!(values, (0..300_011).collect::<Vec<_>>());
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let schema = schema(Vec::new());
        let mut encoder = Encoder::new(&schema).unwrap();
        let options = RecordBatchOptions::new().with_row_count(Some(42));
        let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap();
        let mut pieces = encoder.push(&batch).unwrap();
        pieces.extend(encoder.finish().unwrap());
        assert_eq!(decode(&pieces).iter().map(RecordBatch::num_rows).sum::<usize>(), 42);
    }

    #[test]
    fn a_text_column_sends_what_it_refers_to() {
        let schema = schema(vec![Field::new("c0", DataType::Utf8View, true)]);
        let long = "x".repeat(1000);
        let all = StringViewArray::from_iter((0..1000).map(|i| (i % 2 == 0).then(|| format!("{i} {long}"))));
        let few: ArrayRef = Arc::new(all.slice(500, 3));
        let batch = RecordBatch::try_new(schema.clone(), vec![few.clone()]).unwrap();
        let mut encoder = Encoder::new(&schema).unwrap();
        let mut pieces = encoder.push(&batch).unwrap();
        pieces.extend(encoder.finish().unwrap());
        assert!(pieces.concat().len() < 10_000);
        assert_eq!(decode(&pieces)[0].column(0), &few);
    }
}
