//! Window functions: what they are; what rows they look at.

use serde::{Deserialize, Serialize};

use crate::algebra::aggregates::Agg;
use crate::algebra::expr::Expr;
use crate::algebra::rel::SortKey;
use crate::base::ops::ColumnId;
use crate::base::types::Type;

/// The rows that window functions look at: those that agree in `partition`, in an order. Rows that are equal in the order
/// are peers; which of them comes first is up to `ties`, and then open.
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

/// A window function with its columns: [`Agg::Avg`] and [`Agg::Spread`] make two, all others one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowCall {
    pub columns: Vec<ColumnId>,
    pub function: WindowFunction,
    /// Of those that look at a frame.
    pub frame: Frame,
    /// Of a frame of [`Unit::Values`], which no others have.
    pub reach: Option<Box<Reach>>,
}

/// From which value of the order a frame begins, or up to which: the edges, of the current row. In an order that descends
/// the other way round. All three are of one type; an edge is null where the current row's value is.
///
/// Rows are looked at one after the other, as PostgreSQL does it: a frame begins, or ends, where that of the row before it
/// does, or as many rows behind as it takes to come to the edge. Where edges go back, it does not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The only key of the order, in the form of the edges.
    pub value: Expr,
    /// Of the first row's value and of the last one's, where the frame's bound says so.
    pub start: Option<Expr>,
    pub end: Option<Expr>,
}

impl WindowCall {
    /// What it reads.
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
    /// Int64, from 1.
    RowNumber,
    /// Int64: the number of the first peer.
    Rank,
    /// Int64: how many groups of peers there are up to this one.
    DenseRank,
    /// Float64: (rank - 1) / (rows - 1), 0 for a single row.
    PercentRank,
    /// Float64: the rows up to the last peer, of all.
    CumeDist,
    /// Int32, from 1: so many buckets, as even as they can be, the larger ones first. Their number, at least one, says the
    /// first row of the partition in which it is not null; the rows before that one are in none.
    Ntile(Expr),
    /// The value so many rows further on, or back; beyond the partition's end the other one, of this row, or null. Null where
    /// it is not known how many.
    Shifted {
        value: Expr,
        by: Expr,
        back: bool,
        otherwise: Option<Expr>,
    },
    /// Of the frame's first row.
    First(Expr),
    Last(Expr),
    /// Of the frame's row with this number, from 1.
    Nth(Expr, Expr),
    /// Over the frame. Sums of floats are made row by row, from the first one of the frame on.
    Aggregate(Agg),
    /// The sum of reals over the frame, rounded to a real row by row.
    SumOfReals(Expr),
}

/// Rows of the partition around the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub unit: Unit,
    pub start: Bound,
    pub end: Bound,
    pub exclude: Exclude,
}

/// What bounds count in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    Rows,
    /// Groups of peers; the current row stands for all of its own.
    Groups,
    /// Values of the order; the current row stands for all of its peers.
    Values,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// The partition's first row, or its last.
    Unbounded,
    Preceding(u64),
    Current,
    Following(u64),
    /// Of [`Unit::Values`], which counts nothing: where [`Reach`] says.
    Edge,
}

/// Rows of the frame that are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exclude {
    Nothing,
    Current,
    /// The current row and its peers.
    Group,
    /// Its peers.
    Ties,
}

impl Frame {
    /// All rows of the partition.
    pub const ALL: Frame =
        Frame { unit: Unit::Rows, start: Bound::Unbounded, end: Bound::Unbounded, exclude: Exclude::Nothing };
}

impl WindowFunction {
    /// Whether it looks at the frame.
    pub fn reads_frame(&self) -> bool {
        use WindowFunction::{Aggregate, First, Last, Nth, SumOfReals};
        matches!(self, First(_) | Last(_) | Nth(..) | Aggregate(_) | SumOfReals(_))
    }

    /// Whether its last digits depend on the order of the rows.
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

    /// The types of its columns; `arguments` are those of its arguments. `None`: it takes no such.
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
    /// Whether it may be asked for over a frame.
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

/// Whether these are numbers that rows, or groups of them, may be counted by.
fn are_counts(types: &[Type]) -> bool {
    types.iter().all(|ty| matches!(ty, Type::Int16 | Type::Int32 | Type::Int64))
}
