//! The aggregates of the plan, and what each takes, gives and can raise.

use std::slice::{from_mut, from_ref};

use serde::{Deserialize, Serialize};

use crate::catalogue::{Kind, Rule};
use crate::listed::{Listed, Listing};
use crate::{Expr, FailureKind, Type};

/// An aggregate over the rows of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Agg {
    CountStar,
    /// Rows in which the argument is not null.
    Count(Expr),
    /// Null for no rows. Exact; of others than numerics beyond i128: an error.
    Sum(Expr),
    /// Two output columns: the sum as Decimal128 (of the argument's scale, or a numeric of numerics; null for no rows), and the number of
    /// not-null arguments as Int64. PostgreSQL divides, so that the result's scale is its own.
    Avg(Expr),
    /// Text by its bytes. Floats as PostgreSQL orders them. Of one value alone also of types that PostgreSQL does not order,
    /// or orders otherwise.
    Min(Expr),
    Max(Expr),
    /// Of texts, in the order of the locale of the C library that the second argument names.
    InLocale(Extreme, Box<[Expr; 2]>),
    /// Of floats, in any order of rows. Infinities and NaN are as PostgreSQL adds them; a finite float beyond
    /// [`MAX_SUMMED`] is an error, so that no order can overflow.
    Float(FloatAgg, Expr),
    /// Of the argument's type; null for no rows.
    Bits(BitAgg, Expr),
    /// Of integers and decimals, two output columns: N·Σx² − (Σx)², whose scale is twice the argument's, in text form, as
    /// it is wider than any number here (null for no rows), and N as Int64. Beyond 256 bits: an error. PostgreSQL makes
    /// variance and standard deviation of it.
    Spread(Expr),
    /// Of y and x, both floats, in the rows in which both are not null; as for [`Agg::Float`], each is bounded. Never over
    /// distinct pairs.
    Pair(PairAgg, Box<[Expr; 2]>),
    /// Null for no rows; but for arrays only those count whose value is not null. Over distinct values: those are each listed
    /// once that are equal in the order, which has one.
    Listed(Box<Listed>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Extreme {
    Min,
    Max,
}

/// Covariance, correlation, and what a line through points (x, y) has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PairAgg {
    Corr,
    CovarPop,
    CovarSamp,
    AvgX,
    AvgY,
    Intercept,
    R2,
    Slope,
    Sxx,
    Sxy,
    Syy,
}

/// What is made of truth values, or of the bits of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BitAgg {
    BoolAnd,
    BoolOr,
    And,
    Or,
    Xor,
}

/// What is made of floats by adding them up; null for no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FloatAgg {
    Sum,
    Avg,
    Spread(Spread),
}

/// Variance and its root; of a sample, null for less than two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Spread {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
}

/// As many of them as there can be rows have squares whose sum is finite, however it is computed.
pub const MAX_SUMMED: f64 = 1e130;

/// An aggregate without its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    CountStar,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Float(FloatAgg),
    Bits(BitAgg),
    Spread,
    Pair(PairAgg),
    InLocale(Extreme),
    Listed(Listing),
}

#[derive(Debug)]
pub struct AggregateRow {
    pub aggregate: Aggregate,
    pub name: &'static str,
    /// What it takes; empty: no argument.
    argument: &'static [Kind],
    /// Its columns in the plan's output.
    output: &'static [Rule],
    pub raises: &'static [FailureKind],
}

const SUMMED: &[Kind] = &[Kind::Integer, Kind::Decimal, Kind::Numeric, Kind::Interval];
const SCALED: &[Kind] = &[Kind::Integer, Kind::Decimal];
const ALL: &[Kind] = &[
    Kind::Bool,
    Kind::Integer,
    Kind::Real,
    Kind::Float,
    Kind::Decimal,
    Kind::Numeric,
    Kind::Date,
    Kind::Timestamp,
    Kind::TimestampTz,
    Kind::Time,
    Kind::Interval,
    Kind::Oid,
    Kind::Enum,
    Kind::Uuid,
    Kind::Text,
    Kind::Bytes,
    Kind::Opaque,
];
/// All but truth values.
const ORDERED: &[Kind] = ALL.split_at(1).1;
const BIGINT: Rule = Rule::Is(Type::Int64);
const NOT_A_SHARE: &[FailureKind] = &[FailureKind::PercentileOutOfRange];
const TOO_LARGE: &[FailureKind] = &[FailureKind::FloatTooLarge];
const TOO_WIDE: &[FailureKind] = &[FailureKind::DecimalTooWide];
const TOTAL: &[FailureKind] = &[
    FailureKind::BigintOutOfRange,
    FailureKind::DecimalTooWide,
    FailureKind::IntervalOutOfRange,
    FailureKind::IntervalTooLong,
];

#[rustfmt::skip]
pub const AGGREGATES: &[AggregateRow] = &[
    AggregateRow { aggregate: Aggregate::CountStar, name: "count", argument: &[], output: &[BIGINT], raises: &[] },
    AggregateRow { aggregate: Aggregate::Count, name: "count", argument: ALL, output: &[BIGINT], raises: &[] },
    AggregateRow { aggregate: Aggregate::Sum, name: "sum", argument: SUMMED, output: &[Rule::Total], raises: TOTAL },
    AggregateRow { aggregate: Aggregate::Avg, name: "avg", argument: SUMMED, output: &[Rule::Wide, BIGINT], raises: TOTAL },
    AggregateRow { aggregate: Aggregate::Min, name: "min", argument: ORDERED, output: &[Rule::Same], raises: &[] },
    AggregateRow { aggregate: Aggregate::Max, name: "max", argument: ORDERED, output: &[Rule::Same], raises: &[] },
    float(FloatAgg::Sum, "sum"),
    float(FloatAgg::Avg, "avg"),
    bits(BitAgg::BoolAnd, "bool_and", Kind::Bool),
    bits(BitAgg::BoolOr, "bool_or", Kind::Bool),
    bits(BitAgg::And, "bit_and", Kind::Integer),
    bits(BitAgg::Or, "bit_or", Kind::Integer),
    bits(BitAgg::Xor, "bit_xor", Kind::Integer),
    float(FloatAgg::Spread(Spread::VarPop), "var_pop"),
    float(FloatAgg::Spread(Spread::VarSamp), "var_samp"),
    float(FloatAgg::Spread(Spread::StddevPop), "stddev_pop"),
    float(FloatAgg::Spread(Spread::StddevSamp), "stddev_samp"),
    AggregateRow { aggregate: Aggregate::Spread, name: "spread", argument: SCALED, output: &[Rule::Is(Type::Text), BIGINT], raises: TOO_WIDE },
    pair(PairAgg::Corr, "corr"),
    pair(PairAgg::CovarPop, "covar_pop"),
    pair(PairAgg::CovarSamp, "covar_samp"),
    pair(PairAgg::AvgX, "regr_avgx"),
    pair(PairAgg::AvgY, "regr_avgy"),
    pair(PairAgg::Intercept, "regr_intercept"),
    pair(PairAgg::R2, "regr_r2"),
    pair(PairAgg::Slope, "regr_slope"),
    pair(PairAgg::Sxx, "regr_sxx"),
    pair(PairAgg::Sxy, "regr_sxy"),
    pair(PairAgg::Syy, "regr_syy"),
    in_locale(Extreme::Min, "min in a locale"),
    in_locale(Extreme::Max, "max in a locale"),
    listed(Listing::Joined, "string_agg", &[Rule::Same], &[]),
    listed(Listing::Array, "array_agg", &[Rule::Is(Type::Opaque)], &[]),
    listed(Listing::Discrete, "percentile_disc", &[Rule::Same], NOT_A_SHARE),
    listed(Listing::Continuous, "percentile_cont", &[Rule::Same], NOT_A_SHARE),
    listed(Listing::Mode, "mode", &[Rule::Same], &[]),
];

/// What it takes says [`Listed::takes`].
const fn listed(
    of: Listing,
    name: &'static str,
    output: &'static [Rule],
    raises: &'static [FailureKind],
) -> AggregateRow {
    AggregateRow { aggregate: Aggregate::Listed(of), name, argument: ALL, output, raises }
}

const fn in_locale(extreme: Extreme, name: &'static str) -> AggregateRow {
    let aggregate = Aggregate::InLocale(extreme);
    AggregateRow { aggregate, name, argument: &[Kind::Text], output: &[Rule::Same], raises: &[] }
}

const fn pair(pair: PairAgg, name: &'static str) -> AggregateRow {
    let aggregate = Aggregate::Pair(pair);
    AggregateRow { aggregate, name, argument: &[Kind::Float], output: &[Rule::Same], raises: TOO_LARGE }
}

const fn float(float: FloatAgg, name: &'static str) -> AggregateRow {
    let aggregate = Aggregate::Float(float);
    AggregateRow { aggregate, name, argument: &[Kind::Float], output: &[Rule::Same], raises: TOO_LARGE }
}

const fn bits(bits: BitAgg, name: &'static str, kind: Kind) -> AggregateRow {
    let argument = if matches!(kind, Kind::Bool) { &[Kind::Bool] } else { &[Kind::Integer] };
    AggregateRow { aggregate: Aggregate::Bits(bits), name, argument, output: &[Rule::Same], raises: &[] }
}

impl Aggregate {
    pub fn row(self) -> &'static AggregateRow {
        let at = match self {
            Aggregate::CountStar => 0,
            Aggregate::Count => 1,
            Aggregate::Sum => 2,
            Aggregate::Avg => 3,
            Aggregate::Min => 4,
            Aggregate::Max => 5,
            Aggregate::Float(FloatAgg::Sum) => 6,
            Aggregate::Float(FloatAgg::Avg) => 7,
            Aggregate::Bits(bits) => 8 + bits as usize,
            Aggregate::Float(FloatAgg::Spread(spread)) => 13 + spread as usize,
            Aggregate::Spread => 17,
            Aggregate::Pair(pair) => 18 + pair as usize,
            Aggregate::InLocale(extreme) => 29 + extreme as usize,
            Aggregate::Listed(listing) => 31 + listing as usize,
        };
        &AGGREGATES[at]
    }

    /// `None` if it takes another number of arguments than none or one, as is given.
    pub fn of(self, argument: Option<Expr>) -> Option<Agg> {
        Some(match (self, argument) {
            (Aggregate::CountStar, None) => Agg::CountStar,
            (Aggregate::Count, Some(argument)) => Agg::Count(argument),
            (Aggregate::Sum, Some(argument)) => Agg::Sum(argument),
            (Aggregate::Avg, Some(argument)) => Agg::Avg(argument),
            (Aggregate::Min, Some(argument)) => Agg::Min(argument),
            (Aggregate::Max, Some(argument)) => Agg::Max(argument),
            (Aggregate::Float(float), Some(argument)) => Agg::Float(float, argument),
            (Aggregate::Bits(bits), Some(argument)) => Agg::Bits(bits, argument),
            (Aggregate::Spread, Some(argument)) => Agg::Spread(argument),
            _ => return None,
        })
    }
}

impl AggregateRow {
    pub fn takes(&self, argument: Type) -> bool {
        self.argument.contains(&argument.kind())
    }

    /// The columns that it takes in the plan's output; the argument's type does not matter where there is none.
    pub fn output_types(&self, argument: Type) -> impl Iterator<Item = Type> {
        self.output.iter().filter_map(move |rule| rule.apply(&[argument]))
    }
}

impl Agg {
    pub fn aggregate(&self) -> Aggregate {
        match self {
            Agg::CountStar => Aggregate::CountStar,
            Agg::Count(_) => Aggregate::Count,
            Agg::Sum(_) => Aggregate::Sum,
            Agg::Avg(_) => Aggregate::Avg,
            Agg::Min(_) => Aggregate::Min,
            Agg::Max(_) => Aggregate::Max,
            Agg::Float(float, _) => Aggregate::Float(*float),
            Agg::Bits(bits, _) => Aggregate::Bits(*bits),
            Agg::Spread(_) => Aggregate::Spread,
            Agg::Pair(pair, _) => Aggregate::Pair(*pair),
            Agg::InLocale(extreme, _) => Aggregate::InLocale(*extreme),
            Agg::Listed(listed) => Aggregate::Listed(listed.of),
        }
    }

    /// The first argument, whose type the result's follows.
    pub fn argument(&self) -> Option<&Expr> {
        self.arguments().first()
    }

    pub fn arguments(&self) -> &[Expr] {
        match self {
            Agg::CountStar => &[],
            Agg::Count(e) | Agg::Sum(e) | Agg::Avg(e) | Agg::Min(e) | Agg::Max(e) => from_ref(e),
            Agg::Float(_, e) | Agg::Bits(_, e) | Agg::Spread(e) => from_ref(e),
            Agg::Pair(_, pair) | Agg::InLocale(_, pair) => &pair[..],
            Agg::Listed(listed) => &listed.arguments,
        }
    }

    pub fn arguments_mut(&mut self) -> &mut [Expr] {
        match self {
            Agg::CountStar => &mut [],
            Agg::Count(e) | Agg::Sum(e) | Agg::Avg(e) | Agg::Min(e) | Agg::Max(e) => from_mut(e),
            Agg::Float(_, e) | Agg::Bits(_, e) | Agg::Spread(e) => from_mut(e),
            Agg::Pair(_, pair) | Agg::InLocale(_, pair) => &mut pair[..],
            Agg::Listed(listed) => &mut listed.arguments,
        }
    }

    /// Whether it, or what it aggregates, can be an error.
    pub fn can_raise(&self) -> bool {
        !self.aggregate().row().raises.is_empty() || self.arguments().iter().any(Expr::can_raise)
    }

    /// Those of its columns that count, and are zero and not null for no rows.
    pub fn counts(&self) -> &'static [usize] {
        match self {
            Agg::CountStar | Agg::Count(_) => &[0],
            Agg::Avg(_) | Agg::Spread(_) => &[1],
            Agg::Sum(_) | Agg::Min(_) | Agg::Max(_) | Agg::InLocale(..) => &[],
            Agg::Float(..) | Agg::Bits(..) | Agg::Pair(..) | Agg::Listed(_) => &[],
        }
    }

    /// Whether its last digits depend on the order of the rows.
    pub fn is_inexact(&self) -> bool {
        match self {
            Agg::Float(..) | Agg::Pair(..) => true,
            Agg::CountStar | Agg::Count(_) | Agg::Sum(_) | Agg::Avg(_) | Agg::Min(_) | Agg::Max(_) => false,
            Agg::Bits(..) | Agg::Spread(_) | Agg::InLocale(..) | Agg::Listed(_) => false,
        }
    }

    /// Whether it may show in which order the rows came.
    pub fn shows_row_order(&self) -> bool {
        matches!(self, Agg::Listed(listed) if matches!(listed.of, Listing::Joined | Listing::Array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_aggregate_has_its_row() {
        for row in AGGREGATES {
            assert_eq!(row.aggregate.row().aggregate, row.aggregate);
        }
    }
}
