//! The catalogue of all functions of the plan: a row for each function and types of operands, with name, operands,
//! result and errors. Translator, validator, executor and the tests' interpreter all use these rows. The rows of
//! functions that are called by their name are in `named`, those of aggregates in `algebra::aggregates`.
//!
//! Functions are strict unless their row says otherwise: a null operand gives null and never an error. Aggregates
//! ignore nulls. Comparisons take two operands of one type (see [`Expr::Cmp`]), and logic has three values; neither
//! raises an error.

mod named;

use serde::{Deserialize, Serialize};

use self::named::NAMED;
pub use self::named::{AVERAGE_SCALE, Document, Field, Named};
use crate::base::failure::FailureKind;
use crate::base::ops::ArithOp;
use crate::base::types::{Kind, Type};

/// The operation of an expression, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    Arith(ArithOp),
    Neg,
    Cast(Kind),
    Named(Named),
}

/// The operands that a function takes at one position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Any(Kind),
    Only(Type),
}

impl Takes {
    fn accepts(self, ty: Type) -> bool {
        match self {
            Takes::Any(kind) => kind == ty.kind(),
            Takes::Only(only) => only == ty,
        }
    }
}

/// The operation that a row of the catalogue stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// Arithmetic of integers, in which both operands have the result's type.
    Integer(ArithOp),
    /// Arithmetic of reals, in which the result is rounded to a real.
    Real(ArithOp),
    Float(ArithOp),
    /// Decimals, computed as scaled integers.
    Decimal(ArithOp),
    /// Numerics, whose results have as many digits as PostgreSQL's.
    Numeric(ArithOp),
    /// The sum of a date and a number of days. An infinite date stays infinite.
    DatePlusDays,
    DateMinusDays,
    /// The difference of two dates in days.
    DateMinusDate,
    NegInteger,
    /// Negation of floats, and of reals.
    NegFloat,
    NegDecimal,
    NegNumeric,
    /// A cast to a wider integer.
    IntegerToInteger,
    /// A cast to the nearest real, as in C.
    IntegerToReal,
    IntegerToFloat,
    RealToFloat,
    FloatToReal,
    OidToInteger,
    NameToText,
    /// A cast of an integer or decimal to a decimal of the same or a larger scale.
    ToDecimal,
    /// A cast of an integer or decimal to a numeric with as many digits behind the decimal point as the operand's type
    /// has.
    ToNumeric,
    /// A cast that rounds to the decimal's scale.
    NumericToDecimal,
    DateToTimestamp,
    Named(Named),
}

/// Variance or standard deviation. For a sample (`Samp`), the result is null if there are fewer than two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Spread {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
}

/// The rule for a result's type, given the operands' types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Is(Type),
    /// The type of the operands, which all have the same type.
    Same,
    /// For a decimal, a Decimal128 of the operand's scale; for a numeric or interval, the operand's type. `LargerScale`
    /// and `SumOfScales` are Decimal128, too. Their scale is the larger of both operands' scales, or the sum of both.
    Wide,
    LargerScale,
    SumOfScales,
    /// The type of a sum: a bigint for integers of up to 32 bits, otherwise a decimal.
    Total,
    /// The type of the last operand. The value of that operand is ignored, because it only names the type.
    Last,
    /// The type of the last operand, which must have at most as many decimal places as the first operand's type, and at
    /// least as many bytes. So the result always fits.
    Coarser,
    /// The type that the expression itself names. It must be of the right kind, and represent all values of the
    /// operand.
    Said,
}

#[derive(Debug)]
pub struct FunctionRow {
    pub name: &'static str,
    call: Call,
    operands: &'static [Takes],
    /// Whether the first operand may be followed by more operands of its kind.
    repeats: bool,
    pub strict: bool,
    pub function: Function,
    result: Rule,
    pub raises: &'static [FailureKind],
}

const fn row(
    name: &'static str,
    call: Call,
    operands: &'static [Takes],
    function: Function,
    result: Rule,
    raises: &'static [FailureKind],
) -> FunctionRow {
    FunctionRow { name, call, operands, repeats: false, strict: true, function, result, raises }
}

/// A function that is called by its name.
pub(crate) const fn named(
    named: Named,
    name: &'static str,
    operands: &'static [Takes],
    result: Rule,
    raises: &'static [FailureKind],
) -> FunctionRow {
    row(name, Call::Named(named), operands, Function::Named(named), result, raises)
}

/// A function that takes any number of operands of one kind, and ignores nulls.
pub(crate) const fn of_all(function: Named, name: &'static str, operands: &'static [Takes]) -> FunctionRow {
    FunctionRow { repeats: true, strict: false, ..named(function, name, operands, Rule::Same, &[]) }
}

/// A function that takes any number of texts, followed by the name of a locale, and ignores nulls.
pub(crate) const fn of_all_in_locale(
    function: Named,
    name: &'static str,
    operands: &'static [Takes],
    result: Type,
) -> FunctionRow {
    FunctionRow { repeats: true, strict: false, ..named(function, name, operands, Rule::Is(result), &[]) }
}

/// A condition on a value and an array. It is not strict: with an empty array, even a null value gives a result that is
/// not null.
pub(crate) const fn of_array(function: Named, name: &'static str, operands: &'static [Takes]) -> FunctionRow {
    FunctionRow { strict: false, ..named(function, name, operands, Rule::Is(Type::Bool), &[]) }
}

const INTEGER: &[Takes] = &[Takes::Any(Kind::Integer)];
const REAL: &[Takes] = &[Takes::Any(Kind::Real)];
const FLOAT: &[Takes] = &[Takes::Any(Kind::Float)];
const DECIMAL: &[Takes] = &[Takes::Any(Kind::Decimal)];
const NUMERIC: &[Takes] = &[Takes::Any(Kind::Numeric)];
const NUMERICS: &[Takes] = &[Takes::Any(Kind::Numeric), Takes::Any(Kind::Numeric)];
const DATE: &[Takes] = &[Takes::Any(Kind::Date)];
const INTEGERS: &[Takes] = &[Takes::Any(Kind::Integer), Takes::Any(Kind::Integer)];
const REALS: &[Takes] = &[Takes::Any(Kind::Real), Takes::Any(Kind::Real)];
const FLOATS: &[Takes] = &[Takes::Any(Kind::Float), Takes::Any(Kind::Float)];
const DECIMALS: &[Takes] = &[Takes::Any(Kind::Decimal), Takes::Any(Kind::Decimal)];
const DATE_AND_DAYS: &[Takes] = &[Takes::Any(Kind::Date), Takes::Only(Type::Int32)];
const DATES: &[Takes] = &[Takes::Any(Kind::Date), Takes::Any(Kind::Date)];
const TIMESTAMPS: &[Takes] = &[Takes::Any(Kind::Timestamp), Takes::Any(Kind::Timestamp)];
const TIMESTAMPTZS: &[Takes] = &[Takes::Any(Kind::TimestampTz), Takes::Any(Kind::TimestampTz)];
const TIMES: &[Takes] = &[Takes::Any(Kind::Time), Takes::Any(Kind::Time)];
const TIME_AND_INTERVAL: &[Takes] = &[Takes::Any(Kind::Time), Takes::Any(Kind::Interval)];
const INTERVAL_AND_TIME: &[Takes] = &[Takes::Any(Kind::Interval), Takes::Any(Kind::Time)];
const INTERVALS: &[Takes] = &[Takes::Any(Kind::Interval), Takes::Any(Kind::Interval)];
const INTERVAL_AND_FLOAT: &[Takes] = &[Takes::Any(Kind::Interval), Takes::Any(Kind::Float)];
const FLOAT_AND_INTERVAL: &[Takes] = &[Takes::Any(Kind::Float), Takes::Any(Kind::Interval)];

const OUT_OF_RANGE: &[FailureKind] =
    &[FailureKind::SmallintOutOfRange, FailureKind::IntegerOutOfRange, FailureKind::BigintOutOfRange];
const QUOTIENT: &[FailureKind] = &[
    FailureKind::DivisionByZero,
    FailureKind::SmallintOutOfRange,
    FailureKind::IntegerOutOfRange,
    FailureKind::BigintOutOfRange,
];
const BY_ZERO: &[FailureKind] = &[FailureKind::DivisionByZero];
const OVERFLOW: &[FailureKind] = &[FailureKind::FloatOverflow];
const PRODUCT: &[FailureKind] = &[FailureKind::FloatOverflow, FailureKind::FloatUnderflow];
const FLOAT_QUOTIENT: &[FailureKind] =
    &[FailureKind::DivisionByZero, FailureKind::FloatOverflow, FailureKind::FloatUnderflow];
const TOO_WIDE: &[FailureKind] = &[FailureKind::DecimalTooWide];
const NUMERIC_QUOTIENT: &[FailureKind] = &[FailureKind::DivisionByZero, FailureKind::DecimalTooWide];
const NO_DATE: &[FailureKind] = &[FailureKind::DateOutOfRange];
const NO_TIMESTAMP: &[FailureKind] = &[FailureKind::TimestampOutOfRange];

const NO_DIFFERENCE: &[FailureKind] = &[FailureKind::NoTimestamp];
const NO_INTERVAL: &[FailureKind] = &[FailureKind::IntervalOutOfRange, FailureKind::IntervalTooLong];
const INTERVAL_QUOTIENT: &[FailureKind] =
    &[FailureKind::DivisionByZero, FailureKind::IntervalOutOfRange, FailureKind::IntervalTooLong];

const DAYS: Rule = Rule::Is(Type::Int32);
const INTERVAL: Rule = Rule::Is(Type::Interval);
const TIME: Rule = Rule::Is(Type::Time);

#[rustfmt::skip]
pub const FUNCTIONS: &[FunctionRow] = {
    use ArithOp::{Add, Div, Mod, Mul, Sub};
    use Call::{Arith, Cast, Neg};
    use Rule::{Is, LargerScale, Said, Same, SumOfScales, Wide};
    &[
        row("integer + integer", Arith(Add), INTEGERS, Function::Integer(Add), Same, OUT_OF_RANGE),
        row("integer - integer", Arith(Sub), INTEGERS, Function::Integer(Sub), Same, OUT_OF_RANGE),
        row("integer * integer", Arith(Mul), INTEGERS, Function::Integer(Mul), Same, OUT_OF_RANGE),
        row("integer / integer", Arith(Div), INTEGERS, Function::Integer(Div), Same, QUOTIENT),
        row("integer % integer", Arith(Mod), INTEGERS, Function::Integer(Mod), Same, BY_ZERO),
        row("real + real", Arith(Add), REALS, Function::Real(Add), Same, OVERFLOW),
        row("real - real", Arith(Sub), REALS, Function::Real(Sub), Same, OVERFLOW),
        row("real * real", Arith(Mul), REALS, Function::Real(Mul), Same, PRODUCT),
        row("real / real", Arith(Div), REALS, Function::Real(Div), Same, FLOAT_QUOTIENT),
        row("float + float", Arith(Add), FLOATS, Function::Float(Add), Same, OVERFLOW),
        row("float - float", Arith(Sub), FLOATS, Function::Float(Sub), Same, OVERFLOW),
        row("float * float", Arith(Mul), FLOATS, Function::Float(Mul), Same, PRODUCT),
        row("float / float", Arith(Div), FLOATS, Function::Float(Div), Same, FLOAT_QUOTIENT),
        row("decimal + decimal", Arith(Add), DECIMALS, Function::Decimal(Add), LargerScale, TOO_WIDE),
        row("decimal - decimal", Arith(Sub), DECIMALS, Function::Decimal(Sub), LargerScale, TOO_WIDE),
        row("decimal * decimal", Arith(Mul), DECIMALS, Function::Decimal(Mul), SumOfScales, TOO_WIDE),
        row("numeric + numeric", Arith(Add), NUMERICS, Function::Numeric(Add), Same, TOO_WIDE),
        row("numeric - numeric", Arith(Sub), NUMERICS, Function::Numeric(Sub), Same, TOO_WIDE),
        row("numeric * numeric", Arith(Mul), NUMERICS, Function::Numeric(Mul), Same, TOO_WIDE),
        row("numeric / numeric", Arith(Div), NUMERICS, Function::Numeric(Div), Same, NUMERIC_QUOTIENT),
        row("numeric % numeric", Arith(Mod), NUMERICS, Function::Numeric(Mod), Same, NUMERIC_QUOTIENT),
        row("date + days", Arith(Add), DATE_AND_DAYS, Function::DatePlusDays, Is(Type::Date), NO_DATE),
        row("date - days", Arith(Sub), DATE_AND_DAYS, Function::DateMinusDays, Is(Type::Date), NO_DATE),
        row("date - date", Arith(Sub), DATES, Function::DateMinusDate, DAYS, NO_DATE),
        row("timestamp - timestamp", Arith(Sub), TIMESTAMPS, Function::Named(Named::Between), INTERVAL, NO_DIFFERENCE),
        row("timestamptz - timestamptz", Arith(Sub), TIMESTAMPTZS, Function::Named(Named::Between), INTERVAL, NO_DIFFERENCE),
        row("time - time", Arith(Sub), TIMES, Function::Named(Named::BetweenTimes), INTERVAL, &[]),
        row("time + interval", Arith(Add), TIME_AND_INTERVAL, Function::Named(Named::TimePlusInterval), TIME, &[]),
        row("interval + time", Arith(Add), INTERVAL_AND_TIME, Function::Named(Named::TimePlusInterval), TIME, &[]),
        row("time - interval", Arith(Sub), TIME_AND_INTERVAL, Function::Named(Named::TimeMinusInterval), TIME, &[]),
        row("interval + interval", Arith(Add), INTERVALS, Function::Named(Named::IntervalSum), INTERVAL, NO_INTERVAL),
        row("interval - interval", Arith(Sub), INTERVALS, Function::Named(Named::IntervalDifference), INTERVAL, NO_INTERVAL),
        row("interval * float", Arith(Mul), INTERVAL_AND_FLOAT, Function::Named(Named::IntervalTimes), INTERVAL, NO_INTERVAL),
        row("float * interval", Arith(Mul), FLOAT_AND_INTERVAL, Function::Named(Named::IntervalTimes), INTERVAL, NO_INTERVAL),
        row("interval / float", Arith(Div), INTERVAL_AND_FLOAT, Function::Named(Named::IntervalBy), INTERVAL, INTERVAL_QUOTIENT),
        row("- interval", Neg, &[Takes::Any(Kind::Interval)], Function::Named(Named::IntervalNegated), INTERVAL, NO_INTERVAL),
        row("- integer", Neg, INTEGER, Function::NegInteger, Same, OUT_OF_RANGE),
        row("- real", Neg, REAL, Function::NegFloat, Same, &[]),
        row("- float", Neg, FLOAT, Function::NegFloat, Same, &[]),
        row("- decimal", Neg, DECIMAL, Function::NegDecimal, Wide, TOO_WIDE),
        row("- numeric", Neg, NUMERIC, Function::NegNumeric, Same, &[]),
        row("integer to integer", Cast(Kind::Integer), INTEGER, Function::IntegerToInteger, Said, &[]),
        row("integer to real", Cast(Kind::Real), INTEGER, Function::IntegerToReal, Said, &[]),
        row("float to real", Cast(Kind::Real), FLOAT, Function::FloatToReal, Said, PRODUCT),
        row("real to float", Cast(Kind::Float), REAL, Function::RealToFloat, Said, &[]),
        row("integer to float", Cast(Kind::Float), INTEGER, Function::IntegerToFloat, Said, &[]),
        row("integer to decimal", Cast(Kind::Decimal), INTEGER, Function::ToDecimal, Said, TOO_WIDE),
        row("decimal to decimal", Cast(Kind::Decimal), DECIMAL, Function::ToDecimal, Said, TOO_WIDE),
        row("integer to numeric", Cast(Kind::Numeric), INTEGER, Function::ToNumeric, Said, &[]),
        row("decimal to numeric", Cast(Kind::Numeric), DECIMAL, Function::ToNumeric, Said, &[]),
        row("numeric to decimal", Cast(Kind::Decimal), NUMERIC, Function::NumericToDecimal, Said, TOO_WIDE),
        row("date to timestamp", Cast(Kind::Timestamp), DATE, Function::DateToTimestamp, Said, NO_TIMESTAMP),
        row("oid to integer", Cast(Kind::Integer), &[Takes::Any(Kind::Oid)], Function::OidToInteger, Said, &[]),
        row("name to text", Cast(Kind::Text), &[Takes::Only(Type::Name)], Function::NameToText, Said, &[]),
    ]
};

/// The catalogue's row for a call with operands of these types.
pub fn function(call: Call, operands: &[Type]) -> Option<&'static FunctionRow> {
    FUNCTIONS.iter().chain(NAMED).find(|row| {
        row.call == call
            && row.takes(operands)
            && (row.result != Rule::Same || operands.iter().all(|ty| *ty == operands[0]))
    })
}

/// The name of a named function, from the first of its rows.
pub(crate) fn name_of(function: Named) -> &'static str {
    NAMED.iter().find(|row| row.call == Call::Named(function)).map_or("", |row| row.name)
}

impl FunctionRow {
    fn takes(&self, operands: &[Type]) -> bool {
        let wanted = self.operands;
        let Some(more) = operands.len().checked_sub(wanted.len()).filter(|more| *more == 0 || self.repeats) else {
            return false;
        };
        operands.iter().enumerate().all(|(i, ty)| wanted[i.saturating_sub(more)].accepts(*ty))
    }
}

/// The result type of a call. Casts are not supported here, because an expression that casts names its result type.
pub fn result_type(call: Call, operands: &[Type]) -> Option<Type> {
    function(call, operands)?.result.apply(operands)
}

/// The catalogue's row for a cast between two types, if there is such a cast. There is none from a type to itself,
/// because it would do nothing.
pub fn cast(from: Type, to: Type) -> Option<&'static FunctionRow> {
    let holds = match to.kind() {
        Kind::Integer if from.kind() == Kind::Oid => to == Type::Int64,
        Kind::Integer => to.slot_bytes() > from.slot_bytes(),
        Kind::Decimal => to.scale() >= from.scale(),
        _ => true,
    };
    function(Call::Cast(to.kind()), &[from]).filter(|_| holds)
}

/// Whether a call can raise an error, with any types of operands.
pub fn can_raise(call: Call) -> bool {
    FUNCTIONS.iter().chain(NAMED).any(|row| row.call == call && !row.raises.is_empty())
}

/// Whether a call with a null operand gives null, whatever the types of the operands.
pub fn is_strict(call: Call) -> bool {
    let mut rows = FUNCTIONS.iter().chain(NAMED).filter(|row| row.call == call).peekable();
    rows.peek().is_some() && rows.all(|row| row.strict)
}

impl Rule {
    pub(crate) fn apply(self, operands: &[Type]) -> Option<Type> {
        let first = *operands.first()?;
        let scales = || operands.iter().map(|ty| ty.scale());
        Some(match self {
            Rule::Is(ty) => ty,
            Rule::Same => first,
            Rule::Last => *operands.last()?,
            Rule::Coarser => *operands
                .last()
                .filter(|last| last.scale() <= first.scale() && last.slot_bytes() >= first.slot_bytes())?,
            Rule::Wide | Rule::Total if matches!(first, Type::Numeric | Type::Interval) => first,
            Rule::Wide => Type::Decimal128 { scale: first.scale() },
            Rule::LargerScale => Type::Decimal128 { scale: scales().max()? },
            Rule::SumOfScales => {
                Type::Decimal128 { scale: scales().try_fold(0u8, |sum, scale| sum.checked_add(scale))? }
            }
            Rule::Total => match first {
                Type::Int16 | Type::Int32 => Type::Int64,
                other => Type::Decimal128 { scale: other.scale() },
            },
            Rule::Said => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_functions_answer_one_call() {
        let all: Vec<&FunctionRow> = FUNCTIONS.iter().chain(NAMED).collect();
        for (i, row) in all.iter().enumerate() {
            let same = |other: &&&FunctionRow| other.call == row.call && other.operands == row.operands;
            assert_eq!(all.iter().filter(same).count(), 1, "{}", row.name);
            assert!(all[..i].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.operands.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn results_are_typed_as_postgresql_types_them() {
        let result = |op, l, r| result_type(Call::Arith(op), &[l, r]);
        let decimal = |scale| Type::Decimal64 { scale };
        let wide = |scale| Some(Type::Decimal128 { scale });
        assert_eq!(result(ArithOp::Add, Type::Int16, Type::Int16), Some(Type::Int16));
        assert_eq!(result(ArithOp::Add, Type::Int16, Type::Int32), None, "the translator casts first");
        assert_eq!(result(ArithOp::Sub, decimal(2), decimal(5)), wide(5));
        assert_eq!(result(ArithOp::Mul, decimal(2), decimal(5)), wide(7));
        assert_eq!(result(ArithOp::Mul, decimal(200), decimal(100)), None);
        assert_eq!(result(ArithOp::Div, decimal(2), decimal(2)), None);
        assert_eq!(result(ArithOp::Sub, Type::Date, Type::Date), Some(Type::Int32));
        assert_eq!(result(ArithOp::Sub, Type::Date, Type::Int32), Some(Type::Date));
        assert_eq!(result(ArithOp::Add, Type::Date, Type::Int64), None);
        assert_eq!(result_type(Call::Neg, &[decimal(3)]), wide(3));
        assert_eq!(result_type(Call::Neg, &[Type::Date]), None);
    }

    #[test]
    fn casts_keep_every_value() {
        assert!(cast(Type::Int16, Type::Int64).is_some() && cast(Type::Int64, Type::Int16).is_none());
        assert!(cast(Type::Int32, Type::Int32).is_none() && cast(Type::Date, Type::Timestamp).is_some());
        assert!(cast(Type::Date, Type::TimestampTz).is_none() && cast(Type::Float64, Type::Int64).is_none());
        let (coarse, fine) = (Type::Decimal64 { scale: 1 }, Type::Decimal64 { scale: 2 });
        assert!(cast(coarse, fine).is_some() && cast(fine, coarse).is_none());
        assert!(can_raise(Call::Cast(Kind::Decimal)) && !can_raise(Call::Cast(Kind::Float)));
    }
}
