//! Encodes a query's batches as pieces of an Arrow IPC stream.
//!
//! The first rows are sent as soon as they exist, because the client waits for them to know that the engine can answer.
//! After that, small batches are collected into one piece, and long batches are cut. A piece consists of whole Arrow
//! messages, of about [`MESSAGE_BYTES`] each unless a single row is longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Schema};

/// A piece is sent when it has this length, or when this time has passed since the previous piece.
const PIECE_BYTES: usize = 128 << 10;
const PIECE_TIME: Duration = Duration::from_millis(20);
/// Batches are cut at about this length to save memory, because hundreds of cursors that nobody reads may hold some
/// pieces each.
pub const MESSAGE_BYTES: usize = 128 << 10;
/// A text column is copied if its buffers are more than this many times as long as the texts to which the column
/// refers.
const TEXT_SLACK: usize = 2;

pub struct Encoder {
    writer: StreamWriter<Vec<u8>>,
    /// The time at which the last piece with rows was cut.
    last: Option<Instant>,
    rows: u64,
}

impl Encoder {
    pub fn new(schema: &Schema) -> Result<Encoder, ArrowError> {
        Ok(Encoder { writer: StreamWriter::try_new(Vec::new(), schema)?, last: None, rows: 0 })
    }

    /// The number of rows encoded so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Encodes a slice of a batch. Returns the bytes to send now, or nothing while the piece is still short.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Option<Vec<u8>>, ArrowError> {
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        self.rows += batch.num_rows() as u64;
        self.writer.write(&compact(batch)?)?;
        let due = self.last.is_none_or(|last| last.elapsed() >= PIECE_TIME);
        if !due && self.writer.get_ref().len() < PIECE_BYTES {
            return Ok(None);
        }
        self.last = Some(Instant::now());
        Ok(Some(std::mem::take(self.writer.get_mut())))
    }

    /// Ends the stream. Returns the end together with the bytes that were not returned before.
    pub fn finish(&mut self) -> Result<Vec<u8>, ArrowError> {
        self.writer.finish()?;
        Ok(std::mem::take(self.writer.get_mut()))
    }
}

/// Cuts a batch into slices of at most [`MESSAGE_BYTES`], or of a single longer row. Each slice comes with its length
/// in bytes.
pub fn slices(batch: &RecordBatch) -> impl Iterator<Item = (RecordBatch, usize)> {
    let widths = Widths::of(batch);
    let rows = batch.num_rows();
    let mut next = 0;
    std::iter::from_fn(move || {
        let start = next;
        let mut bytes = 0;
        if start == 0 && widths.whole <= MESSAGE_BYTES {
            (next, bytes) = (rows, widths.whole);
        }
        while next < rows {
            let row = widths.row(next);
            if next > start && bytes + row > MESSAGE_BYTES {
                break;
            }
            bytes += row;
            next += 1;
        }
        (next > start).then(|| (batch.slice(start, next - start), bytes))
    })
}

/// The widths of a batch's rows in bytes, approximately.
struct Widths<'a> {
    whole: usize,
    /// The bytes that every row has: numbers, null bits, and the views of texts.
    fixed: usize,
    texts: Vec<Views<'a>>,
}

/// A column of texts or bytes, with its views.
type Views<'a> = (&'a dyn Array, &'a [u128]);

impl Widths<'_> {
    fn of(batch: &RecordBatch) -> Widths<'_> {
        let mut widths = Widths { whole: 0, fixed: 0, texts: Vec::new() };
        for column in batch.columns() {
            widths.fixed += column.data_type().primitive_width().unwrap_or(size_of::<u128>()) + 1;
            let texts = column.as_string_view_opt().map(|texts| (column as &dyn Array, &texts.views()[..]));
            let bytes = column.as_binary_view_opt().map(|bytes| (column as &dyn Array, &bytes.views()[..]));
            widths.texts.extend(texts.or(bytes));
        }
        widths.whole = match widths.texts.is_empty() {
            true => widths.fixed * batch.num_rows(),
            false => (0..batch.num_rows()).map(|row| widths.row(row)).sum(),
        };
        widths
    }

    fn row(&self, row: usize) -> usize {
        // The low half of a view is the text's length, but the view of a null may hold anything.
        let length = |(column, views): &Views<'_>| if column.is_null(row) { 0 } else { views[row] as u32 as usize };
        self.fixed + self.texts.iter().map(length).sum::<usize>()
    }
}

/// A copy of the batch that holds only the text bytes to which the batch refers. Without the copy, Arrow would write
/// all buffers of a text column, and a filtered column that shares its buffers usually refers to only a few of their
/// bytes.
fn compact(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = batch.columns().iter().map(compact_column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn compact_column(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => compact_views(column.as_string_view()),
        DataType::BinaryView => compact_views(column.as_binary_view()),
        _ => column.clone(),
    }
}

fn compact_views<T: ByteViewType>(views: &GenericByteViewArray<T>) -> ArrayRef {
    let held: usize = views.data_buffers().iter().map(|b| b.len()).sum();
    Arc::new(if held > TEXT_SLACK * views.total_buffer_bytes_used() { views.gc() } else { views.clone() })
}

#[cfg(test)]
mod tests {
    use arrow_array::{BinaryViewArray, Int64Array, StringViewArray};
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
        assert!(encoder.push(&batch(0, 0)).unwrap().is_none());
        let mut pieces = vec![encoder.push(&batch(0, 1)).unwrap().unwrap()];
        let before = Instant::now();
        let second = encoder.push(&batch(1, 10)).unwrap();
        assert!(second.is_none() || before.elapsed() >= PIECE_TIME);
        pieces.extend(second);
        let large = batch(11, 300_000);
        for (slice, bytes) in slices(&large) {
            assert!(bytes <= MESSAGE_BYTES);
            let piece = encoder.push(&slice).unwrap();
            assert!(piece.as_ref().is_none_or(|p| p.len() < MESSAGE_BYTES + PIECE_BYTES));
            pieces.extend(piece);
        }
        pieces.push(encoder.finish().unwrap());
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
        let pieces = [encoder.push(&batch).unwrap().unwrap(), encoder.finish().unwrap()];
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
        let pieces = [encoder.push(&batch).unwrap().unwrap(), encoder.finish().unwrap()];
        assert!(pieces.concat().len() < 10_000);
        assert_eq!(decode(&pieces)[0].column(0), &few);
    }

    #[test]
    fn wide_rows_are_cut_and_come_whole() {
        let schema = schema(vec![
            Field::new("c0", DataType::Int64, true),
            Field::new("c1", DataType::Utf8View, true),
            Field::new("c2", DataType::Utf8View, true),
            Field::new("c3", DataType::BinaryView, true),
        ]);
        let text = |i: usize| match i % 100 {
            0 => None,
            50 => Some("y".repeat(3 << 20)),
            _ => Some("x".repeat(i * 100)),
        };
        let bytes = |i: usize| (i % 100 != 7).then(|| vec![0xff; i * 150]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..300)),
            Arc::new(StringViewArray::from_iter((0..300).map(text))),
            Arc::new(StringViewArray::from_iter_values((0..300).map(|i| i.to_string()))),
            Arc::new(BinaryViewArray::from_iter((0..300).map(bytes))),
        ];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let mut encoder = Encoder::new(&schema).unwrap();
        let (mut pieces, mut rows) = (Vec::new(), 0);
        for (slice, bytes) in slices(&batch) {
            assert!(bytes <= MESSAGE_BYTES || slice.num_rows() == 1, "{} rows of {bytes} bytes", slice.num_rows());
            rows += slice.num_rows();
            let piece = encoder.push(&slice).unwrap();
            assert!(piece.as_ref().is_none_or(|p| p.len() < bytes + PIECE_BYTES + 10_000));
            pieces.extend(piece);
        }
        pieces.push(encoder.finish().unwrap());
        assert_eq!(rows, 300);
        assert!(pieces.len() > 10);
        let decoded = decode(&pieces);
        let texts = decoded.iter().flat_map(|b| b.column(1).as_string_view().iter());
        assert!(texts.eq((0..300).map(text).collect::<Vec<_>>().iter().map(Option::as_deref)));
        let texts = decoded.iter().flat_map(|b| b.column(2).as_string_view().iter().flatten());
        assert!(texts.eq((0..300).map(|i| i.to_string()).collect::<Vec<_>>()));
        let kept = decoded.iter().flat_map(|b| b.column(3).as_binary_view().iter());
        assert!(kept.eq((0..300).map(bytes).collect::<Vec<_>>().iter().map(Option::as_deref)));
    }

    #[test]
    fn many_columns_make_rows_wide() {
        let fields = (0..1000).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8192));
        let batch = RecordBatch::try_new(schema(fields), vec![column; 1000]).unwrap();
        let slices: Vec<_> = slices(&batch).map(|(slice, _)| slice.num_rows()).collect();
        assert_eq!(slices.iter().sum::<usize>(), 8192);
        assert!(slices.len() >= 60, "{} slices", slices.len());
    }
}
