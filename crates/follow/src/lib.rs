//! What launcher and capture worker decide, without PostgreSQL: states, and when to try again.
//!
//! The extension asks what is due, does it, and tells what came of it. Time is handed in, so that tests need not wait.

mod backoff;
mod course;
mod tables;

pub use backoff::Backoff;
pub use course::{Course, End};
pub use tables::{Cause, LoadOrder, Recheck, Tables};
