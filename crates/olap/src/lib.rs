//! Runs a [`plan::Plan`] over store views on DataFusion, with PostgreSQL's semantics.
//!
//! DataFusion provides operators: filter, hash aggregation, exchange between threads, memory pool. The meaning of
//! values is decided here: decimals are plain integers for DataFusion, and all arithmetic, float comparison and
//! summation uses this crate's own functions.
//!
//! The crate consists of rooms on floors: a room knows only rooms on floors below its own. Operators never know the
//! builder.
//!
//! | floor | room | job |
//! |---|---|---|
//! | 8 | `runtime` | the memory, disk and threads that queries share; starting a query; its stream of batches |
//! | 7 | `build` | plan time: builds the operators of a plan |
//! | 6 | `observe` | the figures for EXPLAIN |
//! | 5 | `operators` | run time: scans and runtime filters, joins, groups, orders, window functions |
//! | 4 | `aggregates` | accumulators of the aggregates |
//! | 3 | `expr` | lowers expressions to DataFusion's; dispatches functions to rooms |
//! | 2 | `functions` | loops over columns: numbers, texts, times, numerics, documents, arrays, conversions |
//! | 2 | `spill` | rows on disk, and how much memory an operator may have |
//! | 2 | `forked` | scans with filters and groups in a forked child process, run as a simple program |
//! | 1 | `base` | errors, cancellation, Arrow forms, sort keys, memory of rows |

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
pub use runtime::{DiskOptions, Reservation, Running, Runtime, RuntimeOptions, Usage};
pub use spill::FreedMemory;
