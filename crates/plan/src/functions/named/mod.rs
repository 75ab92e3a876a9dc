//! The functions that a plan calls by their name; what each takes and gives is in `rows`.

use serde::{Deserialize, Serialize};

use crate::functions::Spread;

mod rows;

pub(crate) use rows::NAMED;

/// A function, whatever its operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Named {
    /// The first of the equal ones.
    Greatest,
    Least,
    /// In the order of the locale of the C library that the last text names.
    GreatestIn,
    LeastIn,
    /// By PostgreSQL's rules for deterministic collations, with `\` as escape.
    Like,
    /// A regular expression that [`crate::values::regular::parse`] knows, with [`crate::values::regular::Letters`]
    /// behind it.
    Matches,
    /// The same, whatever the letters' case.
    MatchesAnyCase,
    /// The part of an expression's first match in a text that is asked for
    /// ([`crate::values::regular::Parsed::captured`]); null if there is no match.
    MatchedPart,
    /// The text with the first match replaced by the text behind the expression, or all of them.
    ReplacedMatch,
    ReplacedMatches,
    StartsWith,
    /// In characters.
    Length,
    OctetLength,
    /// The code of its first character, 0 if there is none.
    Ascii,
    /// From a position on, as long as is said if that is said.
    Substring,
    Left,
    Right,
    /// The place of the second text in the first, from 1; 0 if there is none.
    Position,
    Concat,
    Replace,
    /// Blanks, or the characters of the second text.
    Trim,
    TrimLeft,
    TrimRight,
    PadLeft,
    PadRight,
    Repeat,
    Reverse,
    SplitPart,
    /// ASCII only, as collation "C" has it.
    Upper,
    Lower,
    /// Changes each character, in the C library's locale that the second text names.
    UpperIn,
    LowerIn,
    /// Below, at or above zero: how the first text compares with the second, in the C library's locale that the third
    /// names.
    CompareIn,
    /// A char(n) without its trailing blanks.
    CharToText,
    /// Capital letters where words begin, elsewhere small ones. Letters are those of `Upper` and `Lower`; words
    /// consist of ASCII's letters and digits.
    Initcap,
    /// The same in the locale of the C library that the second text names.
    InitcapIn,
    /// With each character of the second text replaced by the one at its place in the third, or left out.
    Translate,
    /// The character of a code.
    Chr,
    /// The checksum, in small hexadecimal digits.
    Md5,
    Abs,
    /// -1, 0, 1; of NaN 0.
    Sign,
    /// Floats: to the nearest, even where two are as near. Decimals: away from zero where two are.
    Round,
    Ceil,
    Floor,
    Trunc,
    Sqrt,
    Exp,
    Ln,
    /// To the base of the first operand, or of ten.
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
    /// A float moved by another one, infinite beyond all floats. If opposite infinities leave the result open, it is
    /// the lowest or the highest value.
    MovedDown,
    MovedUp,
    BitAnd,
    BitOr,
    BitXor,
    BitNot,
    /// By a number of bits modulo the type's, 32 for smallint.
    ShiftLeft,
    ShiftRight,
    /// Rounded as by `Round`.
    ToInt16,
    ToInt32,
    ToInt64,
    /// To the nearest.
    ToFloat,
    /// Whether it is not zero.
    ToBool,
    /// How many rows a subquery has that is a value: an error if there are several.
    OnlyRow,
    /// A sum by a count, to the digit that PostgreSQL rounds to.
    Average,
    /// Variance or standard deviation of what [`crate::Agg::Spread`] gives, and twice the scale of its argument.
    Spread(Spread),
    /// A numeric of PostgreSQL's own bytes, and back.
    FromStored,
    ToStored,
    /// With no more digits than it takes: equal ones get equal bytes.
    Trimmed,
    /// A decimal that shows this many digits.
    ShownWith,
    /// Rounded as numeric(precision, scale), whose type modifier it is given, wants it.
    Fitted,
    /// Without what is behind the point of the quotient.
    WholeQuotient,
    /// As it is shown.
    ToText,
    /// The same for values whose text depends on a setting; its value is the second operand. It is DateStyle or
    /// IntervalStyle, of which the engine knows values that begin with `ISO` and with `postgres`, or
    /// `extra_float_digits`.
    ToTextBy,
    /// The same of a zone's time.
    ToTextIn,
    /// From a text, or from a float with the digits that are certain.
    ToNumeric,
    /// From a text in the form of ISO 8601. Other forms are an error, which PostgreSQL need not raise.
    ReadDate,
    ReadTimestamp,
    ReadTimestampIn,
    ReadUuid,
    /// As a decimal. At the ends of time, fields that grow with time are infinite, which no decimal is; the others
    /// are null.
    Extract(Field),
    /// As a float, which can be infinite.
    DatePart(Field),
    DateTrunc(Field),
    TimestampToDate,
    /// The time of the day; null at the ends of time.
    TimestampToTime,
    /// Seconds since 1970 as a point in time.
    FromEpoch,
    /// The local time of a zone, to take parts of. At the ends it may lie beyond the timestamps.
    LocalTime,
    /// The same as a timestamp.
    ToTimestamp,
    /// From a zone's date or time.
    ToTimestampTz,
    /// A date as a point in time to be compared: what lies beyond the timestamps is between them and infinity.
    Comparable,
    /// A zone's date or time, likewise.
    ComparableIn,
    /// In seconds east of UTC, null at the ends of time.
    ZoneOffset,
    DateTruncIn(Field),
    /// By months, days, and time, in this order. A day that its month does not have is its last one.
    PlusInterval,
    MinusInterval,
    /// Months and days are a zone's.
    PlusIntervalIn,
    MinusIntervalIn,
    /// The beginning of a time's bin: bins have a width in microseconds and an origin.
    DateBin,
    MakeDate,
    /// The span that an interval is compared by, in seconds.
    Span,
    /// An interval of PostgreSQL's own bytes.
    IntervalOfStored,
    /// Days, and the time besides.
    Between,
    BetweenTimes,
    /// Round the clock.
    TimePlusInterval,
    TimeMinusInterval,
    IntervalSum,
    IntervalDifference,
    IntervalNegated,
    /// Remainders of months and days carry over to days and time.
    IntervalTimes,
    IntervalBy,
    /// 24 hours become a day, 30 days a month.
    JustifyHours,
    JustifyDays,
    JustifyInterval,
    MakeInterval,
    /// Years, months, days and time as the calendar counts them.
    Age,
    AgeIn,
    /// A part of a document, named by the second operand; null if there is none. It is the member of an object, the
    /// element of an array, or either of them by a step of a path.
    Member(Document),
    Element(Document),
    Step(Document),
    /// The same as text: a string as what it says, and null for null.
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
    /// Functions of PostgreSQL's arrays: the length of a dimension, the number of elements, and whether a value is
    /// one of them. The array is followed by the elements' alignment and their length in bytes, or -1.
    DimensionOf,
    Cardinality,
    IsElement,
    /// The element at a place. Further operands are the elements' alignment, their length in bytes, and a value of
    /// their type.
    ElementAt,
    /// The place of an enum's value, from 0, among all: an array of PostgreSQL's.
    Rank,
    /// The label of an enum's value. The array is followed by all labels as one text, and their separator.
    Label,
    /// By a pattern that [`crate::values::pattern`] knows; null at the ends of time, and for an empty pattern.
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
    /// The text.
    Json,
    /// A tree.
    Jsonb,
}

/// A part of a point in time. Years count from 1, and from -1 back.
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
    /// From Sunday, 0.
    DayOfWeek,
    /// From Monday, 1.
    IsoDayOfWeek,
    Hour,
    Minute,
    /// With what is behind the point, as the next two.
    Second,
    Milliseconds,
    Microseconds,
    /// In seconds since 1970.
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
