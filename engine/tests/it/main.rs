//! The engine as a process. This test plays the parts of capture worker, loader and backends, and needs no server.

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
