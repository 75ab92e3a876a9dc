//! The allocator of this process for everything except columns and the ring: jemalloc.
//!
//! A query allocates megabytes at once and frees all of them, and the next query allocates as much again. The kernel
//! clears and maps new pages one by one, which takes longer than most of the work on them. So the allocator keeps free
//! pages for some seconds before it returns them to the system.

#![allow(unsafe_code)]

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The decay setting: free pages return to the system gradually, all of them after this many milliseconds. A background
/// thread of the allocator returns them even while nobody allocates. Not every C library supports such a thread, so
/// this is set only for glibc.
#[cfg(target_env = "gnu")]
// SAFETY: the allocator reads from this symbol the address of a text that ends with a zero. No other code defines the
// symbol.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: &[u8; 85] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:5000,muzzy_decay_ms:0\0";
