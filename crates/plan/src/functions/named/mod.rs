//! The functions that a plan calls by their name. Their operands and results are in `rows`.

use serde::{Deserialize, Serialize};

use crate::functions::Spread;

mod rows;

pub(crate) use rows::NAMED;

/// A named function; it may have rows for several types of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Named {
    /// The first of the equal ones.
    Greatest,
    Least,
    /// GREATEST, in the order of the locale that the last text names.
    GreatestIn,
    LeastIn,
    /// LIKE by PostgreSQL's rules for deterministic collations, with `\` as escape.
    Like,
    /// Matching by a regular expression that [`crate::values::regular::parse`] understands, followed by
    /// [`crate::values::regular::Letters`].
    Matches,
    /// The same, ignoring the case of letters.
    MatchesAnyCase,
    /// The wanted part of an expression's first match in a text ([`crate::values::regular::Parsed::captured`]); null if
    /// there is no match.
    MatchedPart,
    /// The text with the first match of the expression replaced by the third operand; the next one replaces all
    /// matches.
    ReplacedMatch,
    ReplacedMatches,
    StartsWith,
    /// The length in characters.
    Length,
    OctetLength,
    /// The code of the first character; 0 for an empty text.
    Ascii,
    /// The part from a position on, with a length if one is given.
    Substring,
    Left,
    Right,
    /// The place of the second text in the first, from 1; 0 if it does not occur.
    Position,
    Concat,
    Replace,
    /// Removes blanks, or the characters of the second text.
    Trim,
    TrimLeft,
    TrimRight,
    PadLeft,
    PadRight,
    Repeat,
    Reverse,
    SplitPart,
    /// Capital letters by ASCII's rules, as in collation "C".
    Upper,
    Lower,
    /// Changes the case of each character, in the locale that the second text names.
    UpperIn,
    LowerIn,
    /// Compares two texts in the locale that the third names; the result is below, at or above zero.
    CompareIn,
    /// A char(n) as text, without its trailing blanks.
    CharToText,
    /// Capital letters at the beginnings of words, and small ones elsewhere. Letters are those of `Upper` and `Lower`;
    /// words consist of ASCII's letters and digits.
    Initcap,
    /// The same in the locale that the second text names.
    InitcapIn,
    /// Replaces each character of the second text by the character at its place in the third, or removes it.
    Translate,
    /// The character of a code.
    Chr,
    /// The checksum in small hexadecimal digits.
    Md5,
    Abs,
    /// -1, 0 or 1; 0 for NaN.
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
    /// The logarithm to the base of the first operand, or to base ten.
    Log,
    Power,
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
    /// A float moved down by another one; beyond all floats it is infinite. If opposite infinities leave the result
    /// open, it is the lowest value; for the next one, the highest.
    MovedDown,
    MovedUp,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    /// A shift by a number of bits modulo the type's; 32 for smallint.
    ShiftLeft,
    ShiftRight,
    /// A cast to smallint, rounded as by `Round`.
    ToInt16,
    ToInt32,
    ToInt64,
    /// A cast to the nearest float.
    ToFloat,
    /// Whether it is not zero.
    ToBool,
    /// The number of rows in a subquery that is used as a value; an error if there are several.
    OnlyRow,
    /// The quotient of a sum and a count, to the digit to which PostgreSQL rounds, for comparisons.
    Average,
    /// The quotient of a sum and a count as PostgreSQL shows it.
    ShownAverage,
    /// Variance or standard deviation from the two columns of [`crate::Agg::Spread`].
    Spread(Spread),
    /// A numeric from PostgreSQL's stored form; the next one is the reverse.
    FromStored,
    ToStored,
    /// A numeric without trailing zeros behind the point, so that equal ones have equal bytes.
    Trimmed,
    /// A decimal that shows this many digits.
    ShownWith,
    /// Rounded as numeric(precision, scale) rounds, given its type modifier.
    Fitted,
    /// The integer part of the quotient.
    WholeQuotient,
    /// The value as text, as PostgreSQL shows it.
    ToText,
    /// Like `ToText`, for values whose text depends on a setting, which is the second operand. The setting is
    /// `extra_float_digits`, or a DateStyle or IntervalStyle. The engine knows values of these that begin with `ISO` or
    /// `postgres`.
    ToTextBy,
    /// Like `ToText`, for a time in a zone.
    ToTextIn,
    /// A numeric from a text, or from a float with the digits that are certain.
    ToNumeric,
    /// A date from a text in the form of ISO 8601. Other forms are an error, which PostgreSQL need not raise.
    ReadDate,
    ReadTimestamp,
    ReadTimestampIn,
    ReadUuid,
    /// A field as a decimal. For infinite times, fields that grow with time would be infinite, which no decimal can be;
    /// other fields are null.
    Extract(Field),
    /// A field as a float, which can be infinite.
    DatePart(Field),
    DateTrunc(Field),
    TimestampToDate,
    /// The time of day; null for infinite times.
    TimestampToTime,
    /// Seconds since 1970 as a point in time.
    FromEpoch,
    /// The local time of a zone, from which fields are taken. At the ends, it may lie beyond the timestamps.
    LocalTime,
    /// The same as a timestamp.
    ToTimestamp,
    /// A point in time from a zone's date or time.
    ToTimestampTz,
    /// A date as a point in time for comparisons. Dates beyond all timestamps lie between these and infinity.
    Comparable,
    /// Like `Comparable`, for a date or time of a zone.
    ComparableIn,
    /// The offset of a zone in seconds east of UTC; null for infinite times.
    ZoneOffset,
    DateTruncIn(Field),
    /// A point in time moved by months, days and time, in this order. If the month has no such day, its last day is
    /// taken.
    PlusInterval,
    MinusInterval,
    /// Like `PlusInterval`, with the months and days of a zone.
    PlusIntervalIn,
    MinusIntervalIn,
    /// The beginning of a time's bin. Bins have a width in microseconds and an origin.
    DateBin,
    MakeDate,
    /// The span in seconds by which an interval is compared.
    Span,
    /// An interval from PostgreSQL's stored form.
    IntervalOfStored,
    /// The difference of points in time: days, and the remaining time.
    Between,
    BetweenTimes,
    /// A time of day moved around the clock.
    TimePlusInterval,
    TimeMinusInterval,
    IntervalSum,
    IntervalDifference,
    IntervalNegated,
    /// An interval times a number. Fractions of months and days carry over to days and time.
    IntervalTimes,
    IntervalBy,
    /// Turns 24 hours into a day; the next one, 30 days into a month.
    JustifyHours,
    JustifyDays,
    JustifyInterval,
    MakeInterval,
    /// The difference in years, months, days and time, as the calendar counts them.
    Age,
    AgeIn,
    /// A part of a document, named by the second operand; null if there is none. It is the member of an object, the
    /// element of an array, or either of them by a step of a path.
    Member(Document),
    Element(Document),
    Step(Document),
    /// The same as text: the content of a string, and null for null.
    MemberText(Document),
    ElementText(Document),
    StepText(Document),
    /// The document itself as text.
    WholeText(Document),
    /// A jsonb as it is shown.
    Shown,
    TypeOf(Document),
    ArrayLength(Document),
    /// Whether a text is a key of an object or an element of an array.
    HasKey,
    /// The number that a jsonb is.
    NumberOf,
    /// Functions of PostgreSQL's arrays: the length of a dimension, the number of elements, and whether a value is one
    /// of them. After the array, the operands are the elements' alignment, and their length in bytes or -1.
    DimensionOf,
    Cardinality,
    IsElement,
    /// The element with a number. Further operands are the elements' alignment, their length in bytes, and a value of
    /// their type.
    ElementAt,
    /// The place of an enum's value, from 0, in PostgreSQL's array of all values.
    Rank,
    /// The label of an enum's value. After the array, the operands are all labels as one text, and their separator.
    Label,
    /// The text of a time by a pattern that [`crate::values::pattern`] knows; null for infinite times, and for an empty
    /// pattern.
    ToChar,
}

impl Named {
    /// Whether its second operand is a regular expression and the last one [`crate::values::regular::Letters`].
    pub fn takes_regular(self) -> bool {
        use Named::*;
        matches!(self, Matches | MatchesAnyCase | MatchedPart | ReplacedMatch | ReplacedMatches)
    }

    /// Whether its last operand is a [`crate::Zone`], as text.
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

/// The stored form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Document {
    /// The type json, which is stored as text.
    Json,
    /// The type jsonb, which is stored as a tree.
    Jsonb,
}

/// A field of a point in time. Years count from 1, and backwards from -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Field {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    /// The week of the ISO year.
    Week,
    Day,
    DayOfYear,
    /// The day of the week; 0 is Sunday.
    DayOfWeek,
    /// The day of the week; 1 is Monday.
    IsoDayOfWeek,
    Hour,
    Minute,
    /// The second with its fraction; the next two have it, too.
    Second,
    Milliseconds,
    Microseconds,
    /// The seconds since 1970.
    Epoch,
    /// The Julian day.
    Julian,
}

impl Field {
    /// Whether it only ever grows.
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

/// The scale of averages of numbers down to 10^-8.
pub const AVERAGE_SCALE: u8 = 20;
