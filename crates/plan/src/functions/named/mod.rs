//! The functions that a plan calls by their name. `rows` has their operands and results.

use serde::{Deserialize, Serialize};

use crate::functions::Spread;

mod rows;

pub(crate) use rows::NAMED;

/// A named function. It may have several rows in the catalogue, for different types of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Named {
    /// The greatest operand. If several operands are equal and greatest, it is the first of them.
    Greatest,
    Least,
    /// Like `Greatest`, in the order of the locale that the last operand names.
    GreatestIn,
    LeastIn,
    /// LIKE by PostgreSQL's rules for deterministic collations, with `\` as the escape character.
    Like,
    /// Whether a text matches a regular expression that [`crate::values::regular::parse`] supports. The last operand
    /// has the [`crate::values::regular::Letters`].
    Matches,
    /// Like `Matches`, but ignoring the case of letters.
    MatchesAnyCase,
    /// The part of a text that the first match of an expression captures
    /// ([`crate::values::regular::Parsed::captured`]); null if there is no match.
    MatchedPart,
    /// The text with the first match of the expression replaced by the third operand. `ReplacedMatches` replaces all
    /// matches.
    ReplacedMatch,
    ReplacedMatches,
    StartsWith,
    /// The length in characters.
    Length,
    OctetLength,
    /// The code of the first character; 0 for an empty text.
    Ascii,
    /// The part of a text from a position on, with a given length or up to the end.
    Substring,
    Left,
    Right,
    /// The position, from 1, at which the second text occurs in the first text; 0 if it does not occur.
    Position,
    Concat,
    Replace,
    /// Removes blanks from both ends, or the characters that the second operand contains.
    Trim,
    TrimLeft,
    TrimRight,
    PadLeft,
    PadRight,
    Repeat,
    Reverse,
    SplitPart,
    /// The text in capital letters by ASCII's rules, as in collation "C".
    Upper,
    Lower,
    /// Changes the case of each character by the rules of the locale that the second operand names.
    UpperIn,
    LowerIn,
    /// Compares two texts in the locale that the third operand names. The result is negative, zero, or positive.
    CompareIn,
    /// A char(n) as text, without its trailing blanks.
    CharToText,
    /// Capital letters at the beginnings of words, and small letters elsewhere, by the rules of `Upper` and `Lower`.
    /// Words consist of ASCII's letters and digits.
    Initcap,
    /// Like `Initcap`, in the locale that the second operand names.
    InitcapIn,
    /// Replaces characters of a text. A character that occurs in the second text is replaced by the character at the
    /// same position in the third text; if the third text is too short, the character is removed.
    Translate,
    /// The character with a given code.
    Chr,
    /// The MD5 checksum in small hexadecimal digits.
    Md5,
    Abs,
    /// The sign: -1, 0 or 1; 0 for NaN.
    Sign,
    /// Rounding to the nearest number. If two are equally near, floats round to the even one, and decimals away from
    /// zero.
    Round,
    Ceil,
    Floor,
    Trunc,
    Sqrt,
    Exp,
    Ln,
    /// The logarithm of the last operand, to the base of the first operand if there are two, otherwise to base ten.
    Log,
    /// power() of numerics as PostgreSQL 15 computes it, and of floats.
    Power,
    /// power() of numerics as PostgreSQL 16 and later versions compute it.
    PowerSince16,
    Cbrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    /// The arc tangent of a quotient.
    Atan2,
    Radians,
    Degrees,
    /// The sum of two floats; a sum beyond all floats is infinite. The sum of opposite infinities is undefined; for it,
    /// `MovedDown` returns -infinity and `MovedUp` returns infinity.
    MovedDown,
    MovedUp,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    /// A shift by a number of bits, taken modulo the number of bits of the type (modulo 32 for smallint).
    ShiftLeft,
    ShiftRight,
    /// A cast to smallint, rounded as by `Round`.
    ToInt16,
    ToInt32,
    ToInt64,
    /// A cast to the nearest float.
    ToFloat,
    /// Whether a number is not zero.
    ToBool,
    /// The number of rows that a subquery has returned, if the subquery is used as a value. More than one row is an
    /// error.
    OnlyRow,
    /// The quotient of a sum and a count, rounded to the same digit as in PostgreSQL, for comparisons.
    Average,
    /// The quotient of a sum and a count, with as many digits as PostgreSQL shows.
    ShownAverage,
    /// Variance or standard deviation, from the two output columns of [`crate::Agg::Spread`].
    Spread(Spread),
    /// A numeric from the form in which PostgreSQL stores it; `ToStored` is the reverse.
    FromStored,
    ToStored,
    /// A numeric without trailing zeros behind the decimal point, so that equal numerics have equal bytes.
    Trimmed,
    /// A decimal as a numeric that shows the given number of digits.
    ShownWith,
    /// A numeric rounded as in a cast to numeric(precision, scale). The second operand is the type modifier.
    Fitted,
    /// The integer part of a quotient.
    WholeQuotient,
    /// The value as text, as PostgreSQL shows it.
    ToText,
    /// Like `ToText`, for values whose text depends on a setting, which is the second operand: `extra_float_digits`,
    /// DateStyle or IntervalStyle. The engine supports only styles that begin with `ISO` or `postgres`.
    ToTextBy,
    /// Like `ToText`, for a time, which is shown in a time zone.
    ToTextIn,
    /// A numeric from a text, or from a float, rounded to the digits that a float surely has.
    ToNumeric,
    /// A date from a text in the form of ISO 8601. Any other form is an error, even if PostgreSQL accepts it.
    ReadDate,
    ReadTimestamp,
    ReadTimestampIn,
    ReadUuid,
    /// A field of a time, as a decimal. For an infinite time, a field that never decreases (such as the year) would be
    /// infinite. This is an error, because no decimal is infinite. All other fields of an infinite time are null.
    Extract(Field),
    /// A field of a time, as a float, which may be infinite.
    DatePart(Field),
    DateTrunc(Field),
    TimestampToDate,
    /// The time of day; null for infinite times.
    TimestampToTime,
    /// The point in time that is a number of seconds after the beginning of 1970.
    FromEpoch,
    /// A point in time as the local time in a zone, so that fields can be taken from it. The local time may lie beyond
    /// the range of timestamps.
    LocalTime,
    /// Like `LocalTime`, but the result must be in the range of timestamps.
    ToTimestamp,
    /// The point in time at which clocks in a zone show a given date or time.
    ToTimestampTz,
    /// A date as a point in time, for comparisons only. A date beyond the last timestamp lies between the last
    /// timestamp and infinity.
    Comparable,
    /// Like `Comparable`, for a date or a time in a zone.
    ComparableIn,
    /// The offset of a zone in seconds east of UTC; null for infinite times.
    ZoneOffset,
    DateTruncIn(Field),
    /// A point in time plus an interval: first its months are added, then its days, then its time. If the resulting
    /// month has no such day, the month's last day is taken.
    PlusInterval,
    MinusInterval,
    /// Like `PlusInterval`, but the months and days are added on the calendar of a zone.
    PlusIntervalIn,
    MinusIntervalIn,
    /// The beginning of the bin that contains a time. Bins have a width in microseconds, and begin at an origin.
    DateBin,
    MakeDate,
    /// The length in microseconds by which intervals are compared.
    Span,
    /// An interval, from the form in which PostgreSQL stores it.
    IntervalOfStored,
    /// The difference of two points in time, as days and the remaining time.
    Between,
    BetweenTimes,
    /// A time of day to which an interval is added; it wraps around at midnight.
    TimePlusInterval,
    TimeMinusInterval,
    IntervalSum,
    IntervalDifference,
    IntervalNegated,
    /// An interval times a number. Fractions of months become days, and fractions of days become time.
    IntervalTimes,
    IntervalBy,
    /// An interval in which each 24 hours become a day. `JustifyDays` turns each 30 days into a month.
    JustifyHours,
    JustifyDays,
    JustifyInterval,
    MakeInterval,
    /// The difference of two times in years, months, days and time, as counted on the calendar.
    Age,
    AgeIn,
    /// A part of a document; the second operand names the part. Null if there is no such part. `Member` takes a member
    /// of an object, `Element` an element of an array, and `Step` either of them.
    Member(Document),
    Element(Document),
    Step(Document),
    /// Like `Member`, `Element` and `Step`, but the part is returned as text: a string as its content, and JSON's null
    /// as null.
    MemberText(Document),
    ElementText(Document),
    StepText(Document),
    /// The whole document as text.
    WholeText(Document),
    /// A jsonb in the form in which PostgreSQL shows it.
    Shown,
    TypeOf(Document),
    ArrayLength(Document),
    /// Whether a text is a key of an object, or a string among the elements of an array.
    HasKey,
    /// The number in a jsonb, as a numeric.
    NumberOf,
    /// Functions of PostgreSQL's arrays: the length of a dimension, the number of elements, and whether a value is an
    /// element. The operands after the array are the alignment of its elements, and their length in bytes or -1.
    DimensionOf,
    Cardinality,
    IsElement,
    /// The element with a given number. Further operands are the elements' alignment, their length in bytes, and a
    /// value of their type.
    ElementAt,
    /// The index, from 0, of an enum's value in PostgreSQL's array of all values of the enum.
    Rank,
    /// The label of an enum's value. After the array of all values, the operands are all labels in one text, and the
    /// character that separates them.
    Label,
    /// The text of a time by a pattern that [`crate::values::pattern`] supports. It is null for infinite times and for
    /// an empty pattern.
    ToChar,
}

impl Named {
    /// Whether the function's second operand is a regular expression, and its last operand
    /// [`crate::values::regular::Letters`].
    pub fn takes_regular(self) -> bool {
        use Named::*;
        matches!(self, Matches | MatchesAnyCase | MatchedPart | ReplacedMatch | ReplacedMatches)
    }

    /// Whether the function's last operand is a [`crate::Zone`] in its text form.
    pub fn takes_zone(self) -> bool {
        use Named::*;
        matches!(
            self,
            LocalTime
                | ToTimestamp
                | ToTimestampTz
                | ComparableIn
                | ZoneOffset
                | DateTruncIn(_)
                | PlusIntervalIn
                | MinusIntervalIn
                | AgeIn
                | ToTextIn
                | ReadTimestampIn
        )
    }
}

/// The type of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Document {
    /// The type json, which is stored as text.
    Json,
    /// The type jsonb, which PostgreSQL stores as a tree.
    Jsonb,
}

/// A field of a point in time. Years after Christ count from 1, years before Christ count backwards from -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Field {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    /// The number of the week in the ISO 8601 year.
    Week,
    Day,
    DayOfYear,
    /// The day of the week; 0 is Sunday.
    DayOfWeek,
    /// The day of the week; 1 is Monday.
    IsoDayOfWeek,
    Hour,
    Minute,
    /// The second with its fraction; `Milliseconds` and `Microseconds` include the whole seconds, too.
    Second,
    Milliseconds,
    Microseconds,
    /// The number of seconds since the beginning of 1970.
    Epoch,
    /// The Julian day.
    Julian,
}

impl Field {
    /// Whether the field never decreases as time goes on, as the year does and the month does not.
    pub fn moves_on(self) -> bool {
        match self {
            Field::Millennium
            | Field::Century
            | Field::Decade
            | Field::Year
            | Field::IsoYear
            | Field::Epoch
            | Field::Julian => true,
            Field::Quarter
            | Field::Month
            | Field::Week
            | Field::Day
            | Field::DayOfYear
            | Field::DayOfWeek
            | Field::IsoDayOfWeek
            | Field::Hour
            | Field::Minute
            | Field::Second
            | Field::Milliseconds
            | Field::Microseconds => false,
        }
    }
}

/// The scale of averages of numbers that are at least 10^-8.
pub const AVERAGE_SCALE: u8 = 20;
