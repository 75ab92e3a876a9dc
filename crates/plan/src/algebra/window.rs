//! Window functions, with their partitions, orders and frames.

use serde::{Deserialize, Serialize};

use crate::algebra::aggregates::Agg;
use crate::algebra::expr::Expr;
use crate::algebra::rel::SortKey;
use crate::base::ops::ColumnId;
use crate::base::types::Type;

/// The rows of a window: a partition, in which rows have equal values of `partition`, in an order. Rows that are equal
/// in the order are called peers. `ties` decides which of two peers comes first; if they are equal in `ties`, too, that
/// is undefined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Over {
    pub partition: Vec<Expr>,
    pub order: Vec<SortKey>,
    pub ties: Vec<SortKey>,
}

impl Over {
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let order = self.order.iter().chain(&self.ties).map(|key| &key.expr);
        self.partition.iter().chain(order)
    }

    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let order = self.order.iter_mut().chain(&mut self.ties).map(|key| &mut key.expr);
        self.partition.iter_mut().chain(order)
    }
}

/// A window function with its output columns: two for [`Agg::Avg`] and [`Agg::Spread`], one for all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowCall {
    pub columns: Vec<ColumnId>,
    pub function: WindowFunction,
    /// The frame, for functions that use one.
    pub frame: Frame,
    /// The values of the order at which a frame of [`Unit::Values`] begins and ends. Other frames have none.
    pub reach: Option<Box<Reach>>,
}

/// The edges of a frame: the values at which the current row's frame begins and ends. In a descending order, the frame
/// begins at the greater edge. `value` and both edges have one type. An edge is null if the current row's value is
/// null.
///
/// As in PostgreSQL, rows are visited in order, and the start and the end of the frame move forward from row to row
/// until they reach the edges. If an edge lies before the frame's present start or end, that start or end does not move
/// back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The only sort key of the window, cast to the type of the edges.
    pub value: Expr,
    /// The edges for the start and the end of the frame. Each is set if the frame's bound is [`Bound::Edge`].
    pub start: Option<Expr>,
    pub end: Option<Expr>,
}

impl WindowCall {
    /// The expressions that the call reads.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let reach =
            self.reach.iter().flat_map(|reach| [&reach.value].into_iter().chain(&reach.start).chain(&reach.end));
        self.function.arguments().into_iter().chain(reach)
    }

    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let reach = self.reach.iter_mut().flat_map(|reach| {
            let Reach { value, start, end } = &mut **reach;
            [value].into_iter().chain(start).chain(end)
        });
        self.function.arguments_mut().into_iter().chain(reach)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WindowFunction {
    /// The row's number in the partition, from 1, as Int64.
    RowNumber,
    /// The number in the partition, from 1, of the row's first peer, as Int64.
    Rank,
    /// The number of groups of peers, up to and including the row's own group, as Int64.
    DenseRank,
    /// (rank - 1) / (rows - 1), as Float64; 0 if there is only one row.
    PercentRank,
    /// The share of the partition's rows that come no later than the row's last peer, as Float64.
    CumeDist,
    /// The number, from 1, of the row's bucket, as Int32. Buckets are as even as possible, the larger ones first. The
    /// number of buckets, at least one, is the argument's first value in the partition that is not null. Rows before
    /// the row with that value get null.
    Ntile(Expr),
    /// The value in the row that comes `by` rows later (or earlier, if `back`). If there is no such row in the
    /// partition, the value is `otherwise`, computed from the current row. It is null if `by` is null.
    Shifted {
        value: Expr,
        by: Expr,
        back: bool,
        otherwise: Option<Expr>,
    },
    /// The value of the frame's first row.
    First(Expr),
    Last(Expr),
    /// The value of the first argument in the frame's n-th row, where n, from 1, is the second argument.
    Nth(Expr, Expr),
    /// An aggregate over the frame. Sums of floats are computed row by row, beginning with the first row of the frame.
    Aggregate(Agg),
    /// The sum of reals over the frame. The sum is rounded to a real after each addition.
    SumOfReals(Expr),
}

/// A frame: the rows of the partition, around the current row, over which a function is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub unit: Unit,
    pub start: Bound,
    pub end: Bound,
    pub exclude: Exclude,
}

/// The unit in which a frame's bounds are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    Rows,
    /// Groups of peers; the current group is the group of the current row.
    Groups,
    /// Values of the order. The bound `Current` includes all peers of the current row.
    Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// The start of the partition, or its end.
    Unbounded,
    Preceding(u64),
    Current,
    Following(u64),
    /// An edge in [`Reach`]; only for [`Unit::Values`].
    Edge,
}

/// The rows that are excluded from the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exclude {
    Nothing,
    Current,
    /// The current row and its peers.
    Group,
    /// The current row's peers, but not the row itself.
    Ties,
}

impl Frame {
    /// All rows of the partition.
    pub const ALL: Frame =
        Frame { unit: Unit::Rows, start: Bound::Unbounded, end: Bound::Unbounded, exclude: Exclude::Nothing };
}

impl WindowFunction {
    /// Whether the function depends on the frame.
    pub fn reads_frame(&self) -> bool {
        use WindowFunction::{Aggregate, First, Last, Nth, SumOfReals};
        matches!(self, First(_) | Last(_) | Nth(..) | Aggregate(_) | SumOfReals(_))
    }

    /// Whether the last digits of the result depend on the order of the rows.
    pub fn is_inexact(&self) -> bool {
        match self {
            WindowFunction::Aggregate(agg) => agg.aggregate().row().is_inexact,
            function => matches!(function, WindowFunction::SumOfReals(_)),
        }
    }

    pub fn arguments(&self) -> Vec<&Expr> {
        match self {
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist => vec![],
            WindowFunction::Shifted { value, by, otherwise, .. } => [value, by].into_iter().chain(otherwise).collect(),
            WindowFunction::Nth(value, number) => vec![value, number],
            WindowFunction::Ntile(value)
            | WindowFunction::First(value)
            | WindowFunction::Last(value)
            | WindowFunction::SumOfReals(value) => vec![value],
            WindowFunction::Aggregate(agg) => agg.arguments().iter().collect(),
        }
    }

    pub fn arguments_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist => vec![],
            WindowFunction::Shifted { value, by, otherwise, .. } => [value, by].into_iter().chain(otherwise).collect(),
            WindowFunction::Nth(value, number) => vec![value, number],
            WindowFunction::Ntile(value)
            | WindowFunction::First(value)
            | WindowFunction::Last(value)
            | WindowFunction::SumOfReals(value) => vec![value],
            WindowFunction::Aggregate(agg) => agg.arguments_mut().iter_mut().collect(),
        }
    }

    /// The types of the function's output columns, given the types of its arguments. `None` if the function cannot have
    /// such arguments.
    pub fn types(&self, arguments: &[Type]) -> Option<Vec<Type>> {
        Some(match self {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => vec![Type::Int64],
            WindowFunction::PercentRank | WindowFunction::CumeDist => vec![Type::Float64],
            WindowFunction::Ntile(_) => are_counts(arguments).then(|| vec![Type::Int32])?,
            WindowFunction::First(_) | WindowFunction::Last(_) => arguments.to_vec(),
            WindowFunction::Nth(..) | WindowFunction::Shifted { .. } => {
                let (ty, [by, otherwise @ ..]) = arguments.split_first()? else { return None };
                (are_counts(&[*by]) && otherwise.iter().all(|other| other == ty)).then(|| vec![*ty])?
            }
            WindowFunction::SumOfReals(_) => (arguments == [Type::Float32]).then(|| vec![Type::Float32])?,
            WindowFunction::Aggregate(agg) => {
                let row = agg.aggregate().row();
                if !agg.is_windowed() || arguments.first().is_some_and(|ty| !row.takes(*ty)) {
                    return None;
                }
                row.output_types(arguments.first().copied().unwrap_or(Type::Int64)).collect()
            }
        })
    }
}

impl Agg {
    /// Whether this aggregate is supported as a window function.
    pub fn is_windowed(&self) -> bool {
        match self {
            Agg::CountStar
            | Agg::Count(_)
            | Agg::Sum(_)
            | Agg::Avg(_)
            | Agg::Min(_)
            | Agg::Max(_)
            | Agg::InLocale(..)
            | Agg::Float(..)
            | Agg::Bits(..)
            | Agg::Spread(_) => true,
            Agg::Pair(..) | Agg::Listed(_) => false,
        }
    }
}

/// Whether all these types are integers. An argument that counts rows or buckets must be an integer.
fn are_counts(types: &[Type]) -> bool {
    types.iter().all(|ty| matches!(ty, Type::Int16 | Type::Int32 | Type::Int64))
}
