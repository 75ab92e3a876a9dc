//! A row in the wire protocol: the number of columns, and then the length and the bytes of each column.

use std::ffi::{c_char, c_int};

use pgrx::prelude::*;

use crate::pg::{compat, session, symbols};

/// A message under construction. The message itself and its bytes lie in PostgreSQL's memory.
pub struct Message {
    string: pg_sys::StringInfoData,
    /// The number of bytes of the string's buffer that have ever been written.
    known: usize,
    /// Whether rows may wait in PostgreSQL's output buffer. `kept` counts the bytes that wait there.
    keeps: bool,
    kept: usize,
}

const KIND: c_char = b'D' as c_char;
const NULL: i32 = -1;
/// Rows are sent in portions of this size. PostgreSQL's own buffer of 8 kB would mean a system call every few rows, and
/// each call wakes the client.
const SENT_AT_ONCE: usize = 64 << 10;

impl Message {
    /// # Safety
    ///
    /// `context` lives as long as the message is used.
    pub unsafe fn new(context: pg_sys::MemoryContext) -> Message {
        // SAFETY: by the caller's promise.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(context);
            let mut string = pg_sys::StringInfoData::default();
            symbols::initStringInfo(&mut string);
            pg_sys::MemoryContextSwitchTo(before);
            Message { string, known: 0, keeps: session::has_client_of_its_own(), kept: 0 }
        }
    }

    /// Space for `more` bytes at the end. PostgreSQL raises an error if there is no memory for it.
    #[inline]
    fn room(&mut self, more: usize) -> &mut [u8] {
        let used = self.string.len as usize;
        if used + more >= self.known {
            self.grow(more);
        }
        // SAFETY: the buffer has room for `more` further bytes, which were written before.
        unsafe { std::slice::from_raw_parts_mut(self.string.data.cast::<u8>().add(used), more) }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        // SAFETY: PostgreSQL has made the string. The room after the string's bytes is not initialized, so it is filled
        // with zeroes.
        unsafe {
            symbols::enlargeStringInfo(&mut self.string, more.try_into().unwrap_or(c_int::MAX));
            let (used, all) = (self.string.len as usize, self.string.maxlen as usize);
            std::ptr::write_bytes(self.string.data.add(used), 0, all - used);
            self.known = all;
        }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.string.len += bytes.len() as i32;
    }

    #[inline]
    pub fn begin(&mut self, columns: u16) {
        self.string.len = 0;
        self.put(&columns.to_be_bytes());
    }

    #[inline]
    pub fn put_null(&mut self) {
        self.put(&NULL.to_be_bytes());
    }

    #[inline]
    pub fn put_value(&mut self, bytes: &[u8]) {
        self.put(&(bytes.len() as u32).to_be_bytes());
        self.put(bytes);
    }

    #[inline]
    pub fn put_fixed<const N: usize>(&mut self, bytes: [u8; N]) {
        let (length, room) = self.room(4 + N).split_at_mut(4);
        length.copy_from_slice(&(N as u32).to_be_bytes());
        room.copy_from_slice(&bytes);
        self.string.len += 4 + N as i32;
    }

    /// Appends a value of at most `most` bytes. `write` writes the value, and returns its length.
    #[inline]
    pub fn put_written(&mut self, most: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let (length, room) = self.room(4 + most).split_at_mut(4);
        let written = write(room);
        length.copy_from_slice(&(written as u32).to_be_bytes());
        self.string.len += 4 + written as i32;
    }

    /// Appends a text, in the client's encoding.
    ///
    /// # Safety
    ///
    /// `text` is a C string in the server's encoding.
    pub unsafe fn put_text(&mut self, text: *const c_char) {
        // SAFETY: by the caller's promise. If the function enlarges the string, the new room is not initialized, so
        // `known` is reset below.
        unsafe {
            let length = libc::strlen(text) as c_int;
            compat::put_counted_text(&mut self.string, text, length);
        }
        if self.string.maxlen as usize != self.known {
            self.known = 0;
        }
    }

    #[inline]
    pub fn send(&mut self) {
        let length = self.string.len as usize;
        // SAFETY: a backend always has these methods. If the client is lost, the server notices it elsewhere.
        unsafe {
            let client = &*symbols::PqCommMethods;
            // Long messages are not kept in PostgreSQL's buffer, because it never shrinks again.
            if !self.keeps || length >= SENT_AT_ONCE {
                (client.put_message)(KIND, self.string.data, length);
                return;
            }
            (client.keep_message)(KIND, self.string.data, length);
            self.kept += size_of::<u8>() + size_of::<u32>() + length;
            if self.kept >= SENT_AT_ONCE {
                self.kept = 0;
                (client.flush)();
            }
        }
    }
}
