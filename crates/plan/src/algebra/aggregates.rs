//! The aggregates of the plan, with their arguments, results and errors.

use std::slice::{from_mut, from_ref};

use serde::{Deserialize, Serialize};

use crate::algebra::expr::Expr;
use crate::algebra::listed::{Listed, Listing};
use crate::base::failure::FailureKind;
use crate::base::types::{Kind, Type};
use crate::functions::{Rule, Spread};

/// An aggregate over the rows of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Agg {
    CountStar,
    /// The number of rows in which the argument is not null.
    Count(Expr),
    /// The exact sum; null if there are no rows. It is an error if a sum does not fit i128; a sum of numerics always
    /// fits.
    Sum(Expr),
    /// An average, as two output columns: the sum, and the number of arguments that are not null, as Int64. The sum is
    /// a Decimal128 of the argument's scale or, for numerics, a numeric; it is null if there are no rows. PostgreSQL
    /// divides the sum by the number, so that the average has PostgreSQL's scale.
    Avg(Expr),
    /// The least or the greatest value. Texts are ordered by their bytes, floats as PostgreSQL orders them. If the
    /// argument is known to have the same value in all rows, any type is allowed, even one without an order, because
    /// the order does not matter then.
    Min(Expr),
    Max(Expr),
    /// The least or the greatest text, in the order of the locale that the second argument names.
    InLocale(Extreme, Box<[Expr; 2]>),
    /// An aggregate of floats whose result does not depend on the order of rows. Infinities and NaN are added as in
    /// PostgreSQL. A finite float beyond [`MAX_SUMMED`] is an error, so that no sum can overflow in any order.
    Float(FloatAgg, Expr),
    /// An aggregate of booleans, or of the bits of integers. It has the argument's type, and is null if there are no
    /// rows.
    Bits(BitAgg, Expr),
    /// The raw spread of integers or decimals, as two output columns: N·Σx² − (Σx)² as a numeric whose scale is twice
    /// the argument's, and N as Int64. The first column is null if there are no rows, and an error beyond 256 bits.
    /// [`crate::Named::Spread`] computes variance and standard deviation from both columns.
    Spread(Expr),
    /// An aggregate of pairs (y, x) of floats, over the rows in which both are not null. Both must be within the bound
    /// for [`Agg::Float`]. It is never computed over distinct pairs.
    Pair(PairAgg, Box<[Expr; 2]>),
    /// A list aggregate; null if there are no rows. Only values that are not null count; an array also contains the
    /// nulls. With DISTINCT, the aggregate must have an order. Among values that are equal in that order, only one is
    /// listed.
    Listed(Box<Listed>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Extreme {
    Min,
    Max,
}

/// Covariance, correlation, and properties of the regression line through points (x, y).
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

/// Aggregates of booleans, or of the bits of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BitAgg {
    BoolAnd,
    BoolOr,
    And,
    Or,
    Xor,
}

/// Sums and averages of floats; null if there are no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FloatAgg {
    Sum,
    Avg,
    Spread(Spread),
}

/// The greatest absolute value of a float that may be summed. With this bound, the sum of squares stays finite, in any
/// order, for as many floats as there can be rows.
pub const MAX_SUMMED: f64 = 1e130;

/// The kind of an aggregate, that is, an [`Agg`] without its arguments.
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

/// The catalogue's entry for an aggregate.
#[derive(Clone, Copy, Debug)]
pub struct AggregateRow {
    pub name: &'static str,
    /// The kinds that the argument may have; empty if there is no argument.
    argument: &'static [Kind],
    /// The types of the aggregate's output columns.
    output: &'static [Rule],
    pub raises: &'static [FailureKind],
    /// The output columns that are counts. If there are no rows, they are zero instead of null.
    pub counts: &'static [usize],
    /// Whether the last digits of the result depend on the order of the rows.
    pub is_inexact: bool,
    /// Whether the result stays the same if duplicate values are removed.
    pub ignores_duplicates: bool,
    /// Whether the result may show in which order the rows came.
    pub shows_row_order: bool,
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
    Kind::TimeTz,
    Kind::Interval,
    Kind::Oid,
    Kind::Enum,
    Kind::Uuid,
    Kind::Text,
    Kind::Bytes,
    Kind::Opaque,
];
/// All kinds except booleans.
const ORDERED: &[Kind] = ALL.split_at(1).1;
const BIGINT: Rule = Rule::Is(Type::Int64);
const NOT_A_SHARE: &[FailureKind] = &[FailureKind::PercentileOutOfRange];
const BETWEEN: &[FailureKind] =
    &[FailureKind::PercentileOutOfRange, FailureKind::IntervalOutOfRange, FailureKind::IntervalTooLong];
const TOO_LARGE: &[FailureKind] = &[FailureKind::FloatTooLarge];
const TOO_WIDE: &[FailureKind] = &[FailureKind::DecimalTooWide];
const TOTAL: &[FailureKind] = &[
    FailureKind::BigintOutOfRange,
    FailureKind::DecimalTooWide,
    FailureKind::IntervalOutOfRange,
    FailureKind::IntervalTooLong,
];

impl Aggregate {
    pub const fn row(self) -> AggregateRow {
        match self {
            Aggregate::CountStar => AggregateRow { counts: &[0], ..row("count", &[], &[BIGINT], &[]) },
            Aggregate::Count => AggregateRow { counts: &[0], ..row("count", ALL, &[BIGINT], &[]) },
            Aggregate::Sum => row("sum", SUMMED, &[Rule::Total], TOTAL),
            Aggregate::Avg => AggregateRow { counts: &[1], ..row("avg", SUMMED, &[Rule::Wide, BIGINT], TOTAL) },
            Aggregate::Min => extreme("min", ORDERED),
            Aggregate::Max => extreme("max", ORDERED),
            Aggregate::InLocale(Extreme::Min) => extreme("min in a locale", &[Kind::Text]),
            Aggregate::InLocale(Extreme::Max) => extreme("max in a locale", &[Kind::Text]),
            Aggregate::Float(FloatAgg::Sum) => of_floats("sum"),
            Aggregate::Float(FloatAgg::Avg) => of_floats("avg"),
            Aggregate::Float(FloatAgg::Spread(Spread::VarPop)) => of_floats("var_pop"),
            Aggregate::Float(FloatAgg::Spread(Spread::VarSamp)) => of_floats("var_samp"),
            Aggregate::Float(FloatAgg::Spread(Spread::StddevPop)) => of_floats("stddev_pop"),
            Aggregate::Float(FloatAgg::Spread(Spread::StddevSamp)) => of_floats("stddev_samp"),
            Aggregate::Spread => {
                AggregateRow { counts: &[1], ..row("spread", SCALED, &[Rule::Is(Type::Numeric), BIGINT], TOO_WIDE) }
            }
            Aggregate::Pair(PairAgg::Corr) => of_floats("corr"),
            Aggregate::Pair(PairAgg::CovarPop) => of_floats("covar_pop"),
            Aggregate::Pair(PairAgg::CovarSamp) => of_floats("covar_samp"),
            Aggregate::Pair(PairAgg::AvgX) => of_floats("regr_avgx"),
            Aggregate::Pair(PairAgg::AvgY) => of_floats("regr_avgy"),
            Aggregate::Pair(PairAgg::Intercept) => of_floats("regr_intercept"),
            Aggregate::Pair(PairAgg::R2) => of_floats("regr_r2"),
            Aggregate::Pair(PairAgg::Slope) => of_floats("regr_slope"),
            Aggregate::Pair(PairAgg::Sxx) => of_floats("regr_sxx"),
            Aggregate::Pair(PairAgg::Sxy) => of_floats("regr_sxy"),
            Aggregate::Pair(PairAgg::Syy) => of_floats("regr_syy"),
            Aggregate::Bits(BitAgg::BoolAnd) => extreme("bool_and", &[Kind::Bool]),
            Aggregate::Bits(BitAgg::BoolOr) => extreme("bool_or", &[Kind::Bool]),
            Aggregate::Bits(BitAgg::And) => extreme("bit_and", &[Kind::Integer]),
            Aggregate::Bits(BitAgg::Or) => extreme("bit_or", &[Kind::Integer]),
            Aggregate::Bits(BitAgg::Xor) => row("bit_xor", &[Kind::Integer], &[Rule::Same], &[]),
            // [`Listed::takes`] checks the arguments of list aggregates.
            Aggregate::Listed(Listing::Joined) => listed("string_agg", &[Rule::Same]),
            Aggregate::Listed(Listing::Array) => listed("array_agg", &[Rule::Is(Type::Opaque)]),
            Aggregate::Listed(Listing::Discrete) => row("percentile_disc", ALL, &[Rule::Same], NOT_A_SHARE),
            Aggregate::Listed(Listing::Continuous) => row("percentile_cont", ALL, &[Rule::Same], BETWEEN),
            Aggregate::Listed(Listing::Mode) => row("mode", ALL, &[Rule::Same], &[]),
        }
    }

    /// The aggregate with this argument. `None` if the aggregate needs an argument that is missing, or takes none but
    /// one is given.
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

const fn row(
    name: &'static str,
    argument: &'static [Kind],
    output: &'static [Rule],
    raises: &'static [FailureKind],
) -> AggregateRow {
    let (counts, is_inexact, ignores_duplicates, shows_row_order): (&[usize], _, _, _) = (&[], false, false, false);
    AggregateRow { name, argument, output, raises, counts, is_inexact, ignores_duplicates, shows_row_order }
}

/// An aggregate whose result is one of the values, or depends only on the set of distinct values.
const fn extreme(name: &'static str, argument: &'static [Kind]) -> AggregateRow {
    AggregateRow { ignores_duplicates: true, ..row(name, argument, &[Rule::Same], &[]) }
}

const fn of_floats(name: &'static str) -> AggregateRow {
    AggregateRow { is_inexact: true, ..row(name, &[Kind::Float], &[Rule::Same], TOO_LARGE) }
}

const fn listed(name: &'static str, output: &'static [Rule]) -> AggregateRow {
    AggregateRow { shows_row_order: true, ..row(name, ALL, output, &[]) }
}

impl AggregateRow {
    pub fn takes(self, argument: Type) -> bool {
        self.argument.contains(&argument.kind())
    }

    /// The types of the aggregate's output columns. `argument` is ignored if the aggregate has no argument.
    pub fn output_types(self, argument: Type) -> impl Iterator<Item = Type> {
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

    /// The first argument, which determines the type of the result.
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

    /// Whether the aggregate, or an expression in it, can raise an error.
    pub fn can_raise(&self) -> bool {
        !self.aggregate().row().raises.is_empty() || self.arguments().iter().any(Expr::can_raise)
    }
}
