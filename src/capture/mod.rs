//! Following the heap: launcher, capture workers, and the hook that keeps them out of the way of database DDL.

/// Called while the library is preloaded.
pub fn init() {}
