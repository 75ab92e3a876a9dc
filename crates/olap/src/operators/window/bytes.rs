//! The memory that arrays need beside a batch. Arrays of texts often refer to texts of the batch, without a copy.

use std::collections::HashSet;
use std::ptr::NonNull;

use arrow_array::{Array, ArrayRef};
use datafusion_common::arrow::array::ArrayData;

/// The bytes of the array's buffers that do not belong to any of the other arrays, too.
pub fn bytes_beside(array: &ArrayRef, others: &[ArrayRef]) -> usize {
    let mut seen = HashSet::new();
    others.iter().for_each(|other| {
        fresh_bytes(&other.to_data(), &mut seen);
    });
    fresh_bytes(&array.to_data(), &mut seen)
}

/// The bytes of the buffers that are not in `seen`. Adds these buffers to `seen`.
fn fresh_bytes(data: &ArrayData, seen: &mut HashSet<NonNull<u8>>) -> usize {
    let buffers = data.buffers().iter().chain(data.nulls().map(|nulls| nulls.buffer()));
    let own: usize = buffers.filter(|buffer| seen.insert(buffer.data_ptr())).map(|buffer| buffer.capacity()).sum();
    own + data.child_data().iter().map(|child| fresh_bytes(child, seen)).sum::<usize>()
}
