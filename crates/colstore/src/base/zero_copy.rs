//! Snapshots as Arrow buffers. Apart from modules that choose a processor's instructions, only this module of the crate
//! has unsafe code.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::{BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use snapmem::Run;

/// A buffer over the first bytes of a run. It keeps the run alive.
pub fn buffer(run: Run, bytes: usize) -> Buffer {
    let start = NonNull::from(&run[..bytes]).cast();
    // SAFETY: the run has at least `bytes` initialised bytes (the slice above). They neither move nor change as long as
    // the run exists, and the buffer owns the run.
    unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(run)) }
}

/// An array of texts over views that a text column has written.
///
/// Arrow's checked constructor would test every view and every byte in every query. These tests cannot fail:
/// `Column::check` lets only UTF-8 in, and `text` writes a view together with the bytes that it refers to.
pub fn strings(views: Buffer, rows: usize, blocks: Vec<Buffer>, nulls: Option<NullBuffer>) -> StringViewArray {
    let views = ScalarBuffer::new(views, 0, rows);
    // SAFETY: every view refers to whole, valid UTF-8 texts inside `blocks`, as explained above; a null's view is
    // either such a view or zero, the empty text; `nulls` has `rows` entries.
    unsafe { StringViewArray::new_unchecked(views, blocks, nulls) }
}

/// Like [`strings`], but for bytes, which need not be UTF-8.
pub fn bytes(views: Buffer, rows: usize, blocks: Vec<Buffer>, nulls: Option<NullBuffer>) -> BinaryViewArray {
    let views = ScalarBuffer::new(views, 0, rows);
    // SAFETY: as in `strings`; bytes need not be UTF-8.
    unsafe { BinaryViewArray::new_unchecked(views, blocks, nulls) }
}
