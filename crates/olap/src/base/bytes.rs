//! The memory that rows need once they are concatenated. A slice of a larger array counts only its own rows. A null
//! bitmap always counts, because other rows of the concatenation may need one.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

pub fn bytes_of(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(bytes_of_column).sum()
}

pub fn bytes_of_column(column: &ArrayRef) -> usize {
    let rows = column.len();
    let bits = rows.div_ceil(8);
    let values = match column.data_type() {
        DataType::Boolean => bits,
        DataType::Utf8View => rows * size_of::<u128>() + column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => rows * size_of::<u128>() + column.as_binary_view().total_buffer_bytes_used(),
        other => other.primitive_width().map_or_else(|| column.get_array_memory_size(), |width| width * rows),
    };
    bits + values
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BooleanArray, Int32Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn parts_count_as_what_they_are() {
        let numbers: ArrayRef = Arc::new(Int32Array::from((0..1000).collect::<Vec<i32>>()));
        assert_eq!((bytes_of_column(&numbers), bytes_of_column(&numbers.slice(7, 10))), (4125, 42));
        let nullable: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        assert_eq!(bytes_of_column(&nullable), 17);
        let bits: ArrayRef = Arc::new(BooleanArray::from(vec![true; 17]));
        assert_eq!(bytes_of_column(&bits), 6);
        let long = "x".repeat(100);
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("short"), None, Some(&long), Some(&long)]));
        assert_eq!(bytes_of_column(&texts), 4 * 16 + 200 + 1);
        let batch = RecordBatch::try_from_iter([("a", texts.slice(0, 1)), ("b", numbers.slice(0, 1))]).unwrap();
        assert_eq!(bytes_of(&batch), 16 + 4 + 2);
    }
}
