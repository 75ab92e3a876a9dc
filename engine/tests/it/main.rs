//! The engine as a process, with this test in the parts of capture worker, loader and backends. No server is needed.

mod accounts;
mod cancel;
mod client;
mod concurrent;
mod figures;
mod lifecycle;
mod limits;
mod memory;
mod queries;
mod worker;
