//! Who gives this process its memory, columns and ring aside: jemalloc.
//!
//! A query wants megabytes at once and leaves them all; the next one wants as much again. Pages that the kernel gives anew
//! are cleared and mapped one by one, which takes longer than most of what is done with them, so they are kept for some
//! seconds, and are the system's again when nobody has wanted them.

#![allow(unsafe_code)]

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Free pages go back bit by bit, all of them after so many milliseconds, even where nobody asks for memory any more: a
/// thread of the allocator's own sees to that. It is not to be had with every C library.
#[cfg(target_env = "gnu")]
// SAFETY: the allocator reads the address of a text with a zero at its end from this symbol, and nobody else has it.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: &[u8; 85] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:5000,muzzy_decay_ms:0\0";
