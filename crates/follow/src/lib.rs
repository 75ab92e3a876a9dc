//! The decisions of the launcher and the capture worker, without PostgreSQL: which state something is in, and when it
//! is tried again.
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
