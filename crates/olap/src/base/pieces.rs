//! Cuts batches by the bytes of their texts. Rows that refer to the same long text need little memory. They need much
//! memory once the text is copied into each row's key. So rows to be grouped are cut into pieces of limited size, and
//! keys that would be too large are refused.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// The greatest number of bytes of texts in a batch with more than one row.
const MOST: usize = 16 << 20;
/// The number of bytes that keys may always take, whatever the memory of the arrays.
const ALWAYS: usize = 64 << 20;
/// Keys that take more than `ALWAYS` bytes may take at most this many times the memory of the arrays.
const TIMES: usize = 4;

/// Calls `put` with parts of the batch, each with at most `MOST` bytes of texts or with a single row.
pub fn pieces(batch: RecordBatch, put: &mut impl FnMut(RecordBatch)) {
    let rows = batch.num_rows();
    if rows <= 1 || bytes_of_texts(batch.columns()) <= MOST {
        return put(batch);
    }
    pieces(batch.slice(0, rows / 2), put);
    pieces(batch.slice(rows / 2, rows - rows / 2), put);
}

/// Whether rows share texts so often that copies of the texts would need far more memory than the arrays take.
pub fn are_shared_too_often(arrays: &[ArrayRef]) -> bool {
    let bytes = bytes_of_texts(arrays);
    bytes > ALWAYS && bytes > TIMES * arrays.iter().map(|array| array.get_array_memory_size()).sum::<usize>()
}

/// The sum of the lengths of all texts.
pub fn bytes_of_texts(arrays: &[ArrayRef]) -> usize {
    let lengths = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).sum::<usize>();
    let bytes = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View => lengths(array.as_string_view().views()),
        DataType::BinaryView => lengths(array.as_binary_view().views()),
        _ => 0,
    };
    arrays.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::StringViewArray;
    use arrow_array::builder::StringViewBuilder;

    use super::*;

    fn batch(rows: usize, bytes: usize) -> RecordBatch {
        let mut texts = StringViewBuilder::new().with_deduplicate_strings();
        (0..rows).for_each(|_| texts.append_value("x".repeat(bytes)));
        let texts: StringViewArray = texts.finish();
        RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap()
    }

    fn rows_of_pieces(batch: RecordBatch) -> Vec<usize> {
        let mut rows = Vec::new();
        pieces(batch, &mut |piece| rows.push(piece.num_rows()));
        rows
    }

    #[test]
    fn batches_are_cut_by_their_bytes() {
        assert_eq!(rows_of_pieces(batch(100, 1000)), [100]);
        assert_eq!(rows_of_pieces(batch(100, 1 << 20)), [12, 13, 12, 13, 12, 13, 12, 13]);
        assert_eq!(rows_of_pieces(batch(2, 20 << 20)), [1, 1]);
        assert_eq!(rows_of_pieces(batch(0, 0)), [0]);
    }

    #[test]
    fn only_what_many_rows_share_is_too_much() {
        assert!(!are_shared_too_often(batch(10, 1 << 20).columns()));
        assert!(are_shared_too_often(batch(100, 1 << 20).columns()));
    }
}
