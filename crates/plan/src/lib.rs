//! The analytic plan: the result that a backend asks the engine to compute, and nothing about how to compute it.
//!
//! A plan is a tree of relational operators over mirrored tables ([`Rel`]), with the columns of its result. PostgreSQL
//! executes the remaining parts of the query, and reads the plan's `output` as if it were a table.
//!
//! The crate uses neither PostgreSQL nor DataFusion, so that the extension's library and the engine can share it. Every
//! operation in it has *exactly the types that PostgreSQL gave it*: the translator in `src/planner` makes an [`Expr`]
//! only where the engine's result is PostgreSQL's, bit for bit, or an error.
//!
//! | room, the upper ones first | job |
//! |---|---|
//! | `words` | a plan in words, for EXPLAIN |
//! | `algebra` | operators, expressions, aggregates; whole plans and their validation |
//! | `functions` | the catalogue of all functions: operands, result, errors |
//! | `base` | types, operators, kinds of failures |
//! | `values` | values that both sides compute in the same way: intervals, numerics, zones, patterns, orders |
//!
//! A room knows only those below it.

mod algebra;
mod base;
mod functions;
mod values;
pub mod words;

/// The catalogue of functions and aggregates.
pub mod catalogue {
    pub use crate::algebra::aggregates::*;
    pub use crate::base::types::Kind;
    pub use crate::functions::*;
}

pub use algebra::aggregates::Agg;
pub use algebra::check::{MAX_DEPTH, TOO_DEEP};
pub use algebra::expr::{Expr, Literal};
pub use algebra::listed::{Direction, Element, Listed, Listing};
pub use algebra::plan::{Plan, Relation, RelationColumn, Source, Table};
pub use algebra::rel::{Aggregation, Computed, GroupingSets, JoinKind, Part, Range, Rel, SortKey};
pub use algebra::twice;
pub use algebra::unfold::{List, Unfold};
pub use algebra::window::{Bound, Exclude, Frame, Over, Reach, Unit, WindowCall, WindowFunction};
pub use base::failure::FailureKind;
pub use base::ops::{ArithOp, BoolOp, CmpOp, ColumnId};
pub use base::types::{Identity, Kind, MirrorColumn, Physical, Stored, TableLayout, Type, numeric_modifier};
pub use functions::{AVERAGE_SCALE, Document, Field, Named};
pub use values::image::Image;
pub use values::interval::Interval;
pub use values::zone::{CYCLE, Clock, Zone};
pub use values::{float_order, numeric, pattern, regular, text_order};
pub use words::Meaning;
