//! The decisions of the launcher and the capture worker, without PostgreSQL: the states of tables and workers, and the
//! times of further attempts.
//!
//! The extension asks which actions are due, does them, and reports the results. It also passes in the current time, so
//! that tests need not wait.

mod backoff;
mod course;
mod tables;
mod wide_rows;

pub use backoff::Backoff;
pub use course::{Course, End};
pub use tables::{Cause, LoadOrder, Recheck, Tables};
pub use wide_rows::WideRows;
