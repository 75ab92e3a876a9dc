//! The reasons why a plan that was started cannot be completed.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    DivisionByZero,
    /// `smallint out of range`, `integer out of range`, `bigint out of range` …
    SmallintOutOfRange,
    IntegerOutOfRange,
    BigintOutOfRange,
    FloatOverflow,
    FloatUnderflow,
    DateOutOfRange,
    /// A date that is out of range for a timestamp.
    TimestampOutOfRange,
    NegativeSquareRoot,
    /// A date or time out of range, for example the beginning of the year in which the first timestamp lies.
    NoTimestamp,
    IntervalOutOfRange,
    PatternEndsInEscape,
    NegativeSubstring,
    /// Field 0 of a text was computed, but the first field has the number 1.
    FieldZero,
    /// A subquery that is used as a value has returned several rows.
    SeveralRows,
    NegativeLimit,
    NegativeOffset,
    PercentileOutOfRange,
    /// The argument of the window function `ntile` is not positive.
    BucketsNotPositive,
    NthNotPositive,
    /// A decimal with more than 38 digits, which PostgreSQL could still represent.
    DecimalTooWide,
    /// A float that is so large that a sum with other floats could overflow in one order of the rows, but not in
    /// another.
    FloatTooLarge,
    /// An infinite numeric, which the engine's decimals cannot represent.
    InfiniteDecimal,
    /// An interval with more months or days than the engine's intervals can represent.
    IntervalTooLong,
    /// A result that no real number represents, for example the logarithm of zero.
    Undefined,
    /// A text that is no value of the wanted type, or is in a form that the engine does not read.
    TextUnread,
    /// A setting that asks for a style in which the engine cannot write values.
    UnknownStyle,
    /// A code that belongs to no character.
    NoCharacter,
    /// The length of a document was asked for, but the document is not an array.
    NoArray,
    /// A query whose subqueries would become too many joins.
    TooLarge,
    /// A forked process (`anker.mechanism = fork`) could not answer.
    Forked,
    /// The snapshot of the query was revoked.
    SnapshotGivenUp,
    OutOfMemory,
    /// A defect of pg_anker, for example a panic.
    Internal,
}

impl FailureKind {
    /// The error's message. If PostgreSQL would raise the same error, it is PostgreSQL's own message.
    pub fn message(self) -> &'static str {
        match self {
            FailureKind::DivisionByZero => "division by zero",
            FailureKind::SmallintOutOfRange => "smallint out of range",
            FailureKind::IntegerOutOfRange => "integer out of range",
            FailureKind::BigintOutOfRange => "bigint out of range",
            FailureKind::FloatOverflow => "value out of range: overflow",
            FailureKind::FloatUnderflow => "value out of range: underflow",
            FailureKind::DateOutOfRange => "date out of range",
            FailureKind::TimestampOutOfRange => "date out of range for timestamp",
            FailureKind::NegativeSquareRoot => "cannot take square root of a negative number",
            FailureKind::NoTimestamp => "timestamp out of range",
            FailureKind::IntervalOutOfRange => "interval out of range",
            FailureKind::PatternEndsInEscape => "LIKE pattern must not end with escape character",
            FailureKind::NegativeSubstring => "negative substring length not allowed",
            FailureKind::FieldZero => "field position must not be zero",
            FailureKind::SeveralRows => "more than one row returned by a subquery used as an expression",
            FailureKind::NegativeLimit => "LIMIT must not be negative",
            FailureKind::NegativeOffset => "OFFSET must not be negative",
            FailureKind::PercentileOutOfRange => "percentile value is not between 0 and 1",
            FailureKind::BucketsNotPositive => "argument of ntile must be greater than zero",
            FailureKind::NthNotPositive => "argument of nth_value must be greater than zero",
            FailureKind::DecimalTooWide => "a numeric result has more than 38 digits",
            FailureKind::FloatTooLarge => "a float is too large to be summed in any order",
            FailureKind::InfiniteDecimal => "a numeric result is infinite",
            FailureKind::IntervalTooLong => "an interval is too long",
            FailureKind::Undefined => "a result is not defined",
            FailureKind::TextUnread => "a text is not of a form that the engine reads",
            FailureKind::UnknownStyle => "values are shown in a style that the engine does not know",
            FailureKind::NoArray => "cannot get array length of what is no array",
            FailureKind::NoCharacter => "requested character is not valid",
            FailureKind::TooLarge => "its subqueries would become too many joins",
            FailureKind::Forked => "the forked process could not answer",
            FailureKind::SnapshotGivenUp => {
                "what was written beside the query's snapshot does not fit into anker.memory"
            }
            FailureKind::OutOfMemory => "out of memory",
            FailureKind::Internal => "a defect of pg_anker",
        }
    }

    /// Whether PostgreSQL would raise the same error.
    pub fn is_postgresqls(self) -> bool {
        use FailureKind::{
            DecimalTooWide, FloatTooLarge, Forked, InfiniteDecimal, Internal, IntervalTooLong, NoArray, NoCharacter,
            OutOfMemory, SnapshotGivenUp, TextUnread, TooLarge, Undefined, UnknownStyle,
        };
        let own = matches!(
            self,
            DecimalTooWide
                | FloatTooLarge
                | InfiniteDecimal
                | IntervalTooLong
                | NoArray
                | NoCharacter
                | TextUnread
                | TooLarge
                | Undefined
                | UnknownStyle
        );
        !own && !matches!(self, Forked | SnapshotGivenUp | OutOfMemory | Internal)
    }
}
