//! Runs a [`plan::Plan`] over store views on DataFusion, with PostgreSQL's semantics.
//!
//! DataFusion provides operators: filter, hash aggregation, exchange between threads, memory pool. What a value means
//! is decided here: decimals reach it as plain integers, and all arithmetic, float comparison and summation goes
//! through this crate's own functions.
//!
//! The crate is a house of rooms on floors: a room knows only rooms on floors below its own. Operators never know the
//! builder.
//!
//! | floor | room | job |
//! |---|---|---|
//! | 8 | `runtime` | what all queries share (memory, disk, threads); starts a query; its stream of batches |
//! | 7 | `build` | plan time: puts the operators together for a plan |
//! | 6 | `observe` | what EXPLAIN is told |
//! | 5 | `operators` | run time: scans and runtime filters, joins, groups, orders, window functions |
//! | 4 | `aggregates` | accumulators of the aggregates |
//! | 3 | `expr` | lowers expressions to DataFusion's; which room computes a function |
//! | 2 | `functions` | loops over columns: numbers, texts, times, numerics, documents, arrays, conversions |
//! | 2 | `spill` | rows on disk, and how much memory an operator may have |
//! | 2 | `forked` | scans with groups in a forked child, by a program of their own |
//! | 1 | `base` | errors, cancellation, Arrow forms, sort keys, what rows take |

mod aggregates;
mod base;
mod build;
mod expr;
mod forked;
mod functions;
mod observe;
mod operators;
mod runtime;
mod spill;

pub use base::cancellation::Cancellation;
pub use build::Manner;
pub use forked::{Forking, Rest, Work};
#[doc(hidden)]
pub use functions::numbers::c_library;
pub use observe::Observation;
pub use operators::scan::sources::{expected_views, views};
pub use optimizer::join_order::Choice as JoinOrder;
pub use runtime::{DiskOptions, Reservation, Running, Runtime, RuntimeOptions};
