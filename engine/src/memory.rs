//! The allocator of this process for everything except columns and the ring: jemalloc.
//!
//! A query allocates megabytes at once and frees all of them, and the next query allocates as much again. The kernel
//! clears and maps new pages one by one, which takes longer than most of the work on them. So the allocator keeps free
//! pages for some seconds before it returns them to the system. Together with the memory that queries have reserved, it
//! keeps no more than queries may take.
//!
//! Memory that one thread has freed is hard to reuse for others. An arena does not use the free pages of other arenas,
//! so there are only a few arenas. A thread has a cache of small allocations, which costs memory, but saves queries two
//! hundredths of their processor time. So the cache stays, and the number of threads is limited.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::null_mut;

use olap::FreedMemory;
use tikv_jemalloc_sys::mallctl;
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
static CONFIGURATION: &[u8; 95] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:5000,muzzy_decay_ms:0,narenas:4\0";

/// The free pages of all arenas. 4096 is jemalloc's number for all arenas together.
#[derive(Debug)]
pub struct FreePages;

const DIRTY_PAGES: &CStr = c"stats.arenas.4096.pdirty";
const PURGE: &CStr = c"arena.4096.purge";
const PAGE_BYTES: &CStr = c"arenas.page";
/// Writing to it makes jemalloc collect its statistics anew.
const EPOCH: &CStr = c"epoch";

impl FreedMemory for FreePages {
    fn bytes(&self) -> usize {
        let mut epoch = 1u64;
        // SAFETY: jemalloc reads a number of 64 bits at the address, during the call.
        unsafe { mallctl(EPOCH.as_ptr(), null_mut(), null_mut(), (&raw mut epoch).cast(), size_of::<u64>()) };
        number(DIRTY_PAGES).saturating_mul(number(PAGE_BYTES))
    }

    fn give_back(&self) {
        // SAFETY: the command takes and returns no value. It only touches pages that no allocation contains.
        unsafe { mallctl(PURGE.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    }
}

/// A number that jemalloc has under this name; 0 if it does not know the name.
fn number(name: &CStr) -> usize {
    let (mut number, mut length) = (0usize, size_of::<usize>());
    // SAFETY: jemalloc writes a number of type `size_t` at the first address, and its length at the second, during the
    // call. It writes nothing if the length differs.
    unsafe { mallctl(name.as_ptr(), (&raw mut number).cast(), &raw mut length, null_mut(), 0) };
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_pages_are_known_and_can_be_given_back() {
        // One thread allocates and frees, so that one arena keeps the pages.
        let blocks: Vec<Vec<u8>> = (0..64).map(|_| vec![1; 1 << 20]).collect();
        drop(blocks);
        let kept = FreePages.bytes();
        assert!(kept > 32 << 20, "{kept} bytes are kept");
        FreePages.give_back();
        assert!(FreePages.bytes() < kept / 2, "{} bytes are still kept", FreePages.bytes());
    }
}
