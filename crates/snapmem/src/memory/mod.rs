//! The building blocks of the mechanisms.
//!
//! | file | job |
//! |---|---|
//! | `region` | the interface of every mechanism |
//! | `run` | the bytes of a run, as readers hold them |
//! | `pool`, `slabs` | frames of memory: shared, counted, limited, kept warm |
//! | `paged`, `page_file`, `history` | for mechanisms that map pages: address space, pages in a file, old versions |
//! | `overlay` | patches of a snapshot |
//! | `areas` | a count of the kernel's mapped areas |
//! | `copiers`, `streaming`, `prefetch` | copying by threads, copying that bypasses the caches, prefetching |
//! | `sys` | system calls, in small safe types |
//! | `error` | the errors |

pub mod areas;
pub mod copiers;
pub mod error;
pub mod history;
pub mod overlay;
pub mod page_file;
pub mod paged;
pub mod pool;
pub mod prefetch;
pub mod region;
pub mod run;
pub mod slabs;
pub mod streaming;
pub mod sys;
