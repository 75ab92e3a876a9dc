//! Frames as Arrow buffers. The only unsafe code of the crate.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::StringViewArray;
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use snapmem::FrameRef;

/// The first bytes of a frame, which the buffer keeps alive.
pub fn buffer(frame: &FrameRef, bytes: usize) -> Buffer {
    let owner = frame.clone();
    let start = NonNull::from(&owner[..bytes]).cast();
    // SAFETY: the frame has at least `bytes` initialised bytes (the slice above), they stay where they are as long as
    // a reference to the frame exists, which the buffer owns, and nobody writes to a frame that is shared.
    unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(owner)) }
}

/// An array over views that a text column wrote.
///
/// Arrow would check every view and every byte again, for every query. What it would find is ensured where text enters:
/// `Cell::from_value` lets only UTF-8 pass, and `text.rs` writes a view together with the bytes it refers to.
pub fn strings(views: Buffer, rows: usize, blocks: Vec<Buffer>, nulls: Option<NullBuffer>) -> StringViewArray {
    let views = ScalarBuffer::new(views, 0, rows);
    // SAFETY: every view refers to whole, valid UTF-8 texts inside `blocks`, as explained above; a null's view is
    // either such a view or zero, the empty text; `nulls` has `rows` entries.
    unsafe { StringViewArray::new_unchecked(views, blocks, nulls) }
}
