//! Values on their way to the client.

use std::ffi::{c_char, c_int};

use pgrx::prelude::*;

use crate::pg::plain::unguarded;

unguarded! {
    fn pq_sendcountedtext(
        message: pg_sys::StringInfo,
        text: *const c_char,
        length: c_int,
        #[cfg(not(feature = "since_17"))] counts_itself: bool,
    );
}

/// Appends the length of a text and the text to a message, in the client's encoding. An error may jump over the
/// caller.
///
/// # Safety
///
/// `text` has `length` bytes in the server's encoding, and the message may be changed.
pub unsafe fn put_counted_text(message: pg_sys::StringInfo, text: *const c_char, length: c_int) {
    // SAFETY: by the caller's promise. The length does not count itself.
    unsafe {
        #[cfg(not(feature = "since_17"))]
        pq_sendcountedtext(message, text, length, false);
        #[cfg(feature = "since_17")]
        pq_sendcountedtext(message, text, length);
    }
}
