//! Snapshots as Arrow buffers. The only unsafe code of the crate beside the choice of instructions.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use snapmem::Run;

/// The first bytes of a run, which the buffer keeps alive.
pub fn buffer(run: Run, bytes: usize) -> Buffer {
    let start = NonNull::from(&run[..bytes]).cast();
    // SAFETY: the run has at least `bytes` initialised bytes (the slice above), which stay where and what they are as
    // long as the run exists, which the buffer owns.
    unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(run)) }
}

/// An array over views that a text column wrote.
///
/// Arrow would check every view and every byte again, for every query. The checks' results are ensured when text
/// enters: `Column::check` lets only UTF-8 pass, and `text` writes a view together with the bytes it refers to.
pub fn strings(views: Buffer, rows: usize, blocks: Vec<Buffer>, nulls: Option<NullBuffer>) -> StringViewArray {
    let views = ScalarBuffer::new(views, 0, rows);
    // SAFETY: every view refers to whole, valid UTF-8 texts inside `blocks`, as explained above; a null's view is
    // either such a view or zero, the empty text; `nulls` has `rows` entries.
    unsafe { StringViewArray::new_unchecked(views, blocks, nulls) }
}

/// The same over views of bytes that need not be text.
pub fn bytes(views: Buffer, rows: usize, blocks: Vec<Buffer>, nulls: Option<NullBuffer>) -> BinaryViewArray {
    let views = ScalarBuffer::new(views, 0, rows);
    // SAFETY: as above, except UTF-8, which bytes need not be.
    unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) }
}
