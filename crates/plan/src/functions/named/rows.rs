//! The rows of the catalogue for named functions: operands, results and errors.

use super::{AVERAGE_SCALE, Document, Field, Named};
use crate::base::failure::FailureKind;
use crate::base::types::{Kind, Type};
use crate::functions::{FunctionRow, Rule, Takes, named, of_all, of_all_in_locale, of_array};

const TEXT: &[Takes] = &[Takes::Only(Type::Text)];
const TWO_TEXTS: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Text)];
const CHARS_IN_LOCALE: &[Takes] = &[Takes::Only(Type::Char), Takes::Only(Type::Text)];
const THREE_TEXTS: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Text), Takes::Only(Type::Text)];
const FOUR_TEXTS: &[Takes] =
    &[Takes::Only(Type::Text), Takes::Only(Type::Text), Takes::Only(Type::Text), Takes::Only(Type::Text)];
const PART: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Int32), Takes::Only(Type::Int32)];
const PAD: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Int32), Takes::Only(Type::Text)];
const FIELD: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Text), Takes::Only(Type::Int32)];

const INTEGERS: &[Takes] = &[Takes::Any(Kind::Integer)];
const THREE_INTEGERS: &[Takes] = &[Takes::Only(Type::Int32), Takes::Only(Type::Int32), Takes::Only(Type::Int32)];
const TWO_INTEGERS: &[Takes] = &[Takes::Any(Kind::Integer), Takes::Any(Kind::Integer)];
const FLOAT: &[Takes] = &[Takes::Any(Kind::Float)];
const TWO_FLOATS: &[Takes] = &[Takes::Any(Kind::Float), Takes::Any(Kind::Float)];
const DECIMAL: &[Takes] = &[Takes::Any(Kind::Decimal)];
const NUMERIC: &[Takes] = &[Takes::Any(Kind::Numeric)];
const NUMERIC_AND_INTEGER: &[Takes] = &[Takes::Any(Kind::Numeric), Takes::Only(Type::Int32)];
const NUMERICS: &[Takes] = &[Takes::Any(Kind::Numeric), Takes::Any(Kind::Numeric)];
const TO_SCALE: &[Takes] = &[Takes::Any(Kind::Decimal), Takes::Any(Kind::Decimal)];
const SHOWN_WITH: &[Takes] = &[Takes::Any(Kind::Decimal), Takes::Only(Type::Int32)];
const TO_NUMERIC: Rule = Rule::Is(Type::Numeric);
const BY_ZERO: &[FailureKind] = &[FailureKind::DivisionByZero, FailureKind::DecimalTooWide];
const DATE: &[Takes] = &[Takes::Any(Kind::Date)];
const TIMESTAMP: &[Takes] = &[Takes::Any(Kind::Timestamp)];
const TIMESTAMPTZ: &[Takes] = &[Takes::Any(Kind::TimestampTz)];
const DATE_IN: &[Takes] = &[Takes::Any(Kind::Date), ZONE];
const TIMESTAMP_IN: &[Takes] = &[Takes::Any(Kind::Timestamp), ZONE];
const TIMESTAMPTZ_IN: &[Takes] = &[Takes::Any(Kind::TimestampTz), ZONE];
const TWO_TIMESTAMPS: &[Takes] = &[Takes::Any(Kind::Timestamp), Takes::Any(Kind::Timestamp)];
const TWO_TIMESTAMPTZS_IN: &[Takes] = &[Takes::Any(Kind::TimestampTz), Takes::Any(Kind::TimestampTz), ZONE];
const ZONE: Takes = Takes::Only(Type::Text);
const MICROSECONDS: Takes = Takes::Only(Type::Int64);
const INTERVAL: &[Takes] = &[Takes::Any(Kind::Interval)];
const AND_INTERVAL: &[Takes] = &[Takes::Any(Kind::Timestamp), Takes::Any(Kind::Interval)];
const AND_INTERVAL_IN: &[Takes] = &[Takes::Any(Kind::TimestampTz), Takes::Any(Kind::Interval), ZONE];
const PARTS_OF_INTERVAL: &[Takes] = &[
    Takes::Only(Type::Int32),
    Takes::Only(Type::Int32),
    Takes::Only(Type::Int32),
    Takes::Only(Type::Int32),
    Takes::Only(Type::Int32),
    Takes::Only(Type::Int32),
    Takes::Only(Type::Float64),
];

const BOOL: Rule = Rule::Is(Type::Bool);
const INTEGER: Rule = Rule::Is(Type::Int32);
const TO_TEXT: Rule = Rule::Is(Type::Text);
const TO_FLOAT: Rule = Rule::Is(Type::Float64);
const TO_TIMESTAMP: Rule = Rule::Is(Type::Timestamp);
const TO_TIMESTAMPTZ: Rule = Rule::Is(Type::TimestampTz);
const TO_INTERVAL: Rule = Rule::Is(Type::Interval);
const WHOLE: Rule = Rule::Is(Type::Decimal64 { scale: 0 });
const WIDE_WHOLE: Rule = Rule::Is(Type::Decimal128 { scale: 0 });
const MILLIS: Rule = Rule::Is(Type::Decimal64 { scale: 3 });
const MICROS: Rule = Rule::Is(Type::Decimal64 { scale: 6 });

const OUT_OF_RANGE: &[FailureKind] =
    &[FailureKind::SmallintOutOfRange, FailureKind::IntegerOutOfRange, FailureKind::BigintOutOfRange];
const NUMERIC_AND_COUNT: &[Takes] = &[Takes::Any(Kind::Numeric), Takes::Only(Type::Int64)];
const QUOTIENT: &[Takes] = &[Takes::Any(Kind::Decimal), Takes::Only(Type::Int64)];
const AVERAGE: Rule = Rule::Is(Type::Decimal128 { scale: AVERAGE_SCALE });
const TOO_WIDE: &[FailureKind] = &[FailureKind::DecimalTooWide];
const SEVERAL: &[FailureKind] = &[FailureKind::SeveralRows];
const NEGATIVE: &[FailureKind] = &[FailureKind::NegativeSquareRoot];
const UNDEFINED: &[FailureKind] =
    &[FailureKind::Undefined, FailureKind::DecimalTooWide, FailureKind::DivisionByZero, FailureKind::FloatOverflow];
const INFINITE: &[FailureKind] = &[FailureKind::InfiniteDecimal];
const EPOCH: &[FailureKind] = &[FailureKind::InfiniteDecimal, FailureKind::DecimalTooWide];
const NO_TIMESTAMP: &[FailureKind] = &[FailureKind::NoTimestamp];
const NO_INSTANT: &[FailureKind] = &[FailureKind::NoTimestamp, FailureKind::TimestampOutOfRange];
const NO_INTERVAL: &[FailureKind] = &[FailureKind::IntervalOutOfRange, FailureKind::IntervalTooLong];
const NO_AGE: &[FailureKind] =
    &[FailureKind::NoTimestamp, FailureKind::IntervalOutOfRange, FailureKind::IntervalTooLong];
const NO_DATE: &[FailureKind] = &[FailureKind::DateOutOfRange];
const OVERFLOW: &[FailureKind] = &[FailureKind::FloatOverflow];
const LIKE: &[FailureKind] = &[FailureKind::PatternEndsInEscape];
const SUBSTRING: &[FailureKind] = &[FailureKind::NegativeSubstring];
const UNREAD: &[FailureKind] = &[FailureKind::TextUnread, FailureKind::NoTimestamp];
const NO_STYLE: &[FailureKind] = &[FailureKind::UnknownStyle];
const NO_ARRAY: &[FailureKind] = &[FailureKind::NoArray];
const NO_CHARACTER: &[FailureKind] = &[FailureKind::NoCharacter];
const SPLIT: &[FailureKind] = &[FailureKind::FieldZero];
/// The errors of functions that make long texts. PostgreSQL's limit for texts is so high that only the engine's memory
/// limits the results.
const TOO_LONG: &[FailureKind] = &[FailureKind::OutOfMemory];

#[rustfmt::skip]
pub(crate) const NAMED: &[FunctionRow] = {
    use Kind::{Bool, Date, Decimal, Float, Integer, Real, Text, Time, Timestamp, TimestampTz, Uuid};
    use Named::*;
    use crate::functions::Spread::{StddevPop, StddevSamp, VarPop, VarSamp};
    use Takes::{Any, Only};
    &[
        of_all(Greatest, "greatest(integer, …)", &[Any(Integer)]),
        of_all(Greatest, "greatest(real, …)", &[Any(Real)]),
        of_all(Greatest, "greatest(float, …)", &[Any(Float)]),
        of_all(Greatest, "greatest(decimal, …)", &[Any(Decimal)]),
        of_all(Greatest, "greatest(date, …)", &[Any(Date)]),
        of_all(Greatest, "greatest(timestamp, …)", &[Any(Timestamp)]),
        of_all(Greatest, "greatest(timestamptz, …)", &[Any(TimestampTz)]),
        of_all(Greatest, "greatest(time, …)", &[Any(Time)]),
        of_all(Greatest, "greatest(uuid, …)", &[Any(Uuid)]),
        of_all(Greatest, "greatest(text, …)", &[Any(Text)]),
        of_all(Least, "least(integer, …)", &[Any(Integer)]),
        of_all(Least, "least(real, …)", &[Any(Real)]),
        of_all(Least, "least(float, …)", &[Any(Float)]),
        of_all(Least, "least(decimal, …)", &[Any(Decimal)]),
        of_all(Least, "least(date, …)", &[Any(Date)]),
        of_all(Least, "least(timestamp, …)", &[Any(Timestamp)]),
        of_all(Least, "least(timestamptz, …)", &[Any(TimestampTz)]),
        of_all(Least, "least(time, …)", &[Any(Time)]),
        of_all(Least, "least(uuid, …)", &[Any(Uuid)]),
        of_all(Least, "least(text, …)", &[Any(Text)]),
        of_all_in_locale(GreatestIn, "greatest(text, … in locale)", TWO_TEXTS, Type::Text),
        of_all_in_locale(GreatestIn, "greatest(char, … in locale)", CHARS_IN_LOCALE, Type::Char),
        of_all_in_locale(LeastIn, "least(text, … in locale)", TWO_TEXTS, Type::Text),
        of_all_in_locale(LeastIn, "least(char, … in locale)", CHARS_IN_LOCALE, Type::Char),
        named(Like, "text like text", TWO_TEXTS, BOOL, LIKE),
        named(Matches, "text matches text", THREE_TEXTS, BOOL, &[]),
        named(MatchesAnyCase, "text matches text in any case", THREE_TEXTS, BOOL, &[]),
        named(MatchedPart, "substring(text from text)", THREE_TEXTS, TO_TEXT, TOO_LONG),
        named(ReplacedMatch, "regexp_replace(text, text, text)", FOUR_TEXTS, TO_TEXT, TOO_LONG),
        named(ReplacedMatches, "regexp_replace(text, text, text, 'g')", FOUR_TEXTS, TO_TEXT, TOO_LONG),
        named(StartsWith, "starts_with(text, text)", TWO_TEXTS, BOOL, &[]),
        named(Length, "length(text)", &[Any(Text)], INTEGER, &[]),
        named(OctetLength, "octet_length(text)", TEXT, INTEGER, &[]),
        named(Ascii, "ascii(text)", TEXT, INTEGER, &[]),
        named(Substring, "substring(text, integer)", &[Only(Type::Text), Only(Type::Int32)], TO_TEXT, &[]),
        named(Substring, "substring(text, integer, integer)", PART, TO_TEXT, SUBSTRING),
        named(Left, "left(text, integer)", &[Only(Type::Text), Only(Type::Int32)], TO_TEXT, &[]),
        named(Right, "right(text, integer)", &[Only(Type::Text), Only(Type::Int32)], TO_TEXT, &[]),
        named(Position, "position(text, text)", TWO_TEXTS, INTEGER, &[]),
        named(Concat, "text || text", TWO_TEXTS, TO_TEXT, TOO_LONG),
        named(Replace, "replace(text, text, text)", THREE_TEXTS, TO_TEXT, TOO_LONG),
        named(Trim, "btrim(text)", TEXT, TO_TEXT, &[]),
        named(Trim, "btrim(text, text)", TWO_TEXTS, TO_TEXT, &[]),
        named(TrimLeft, "ltrim(text)", TEXT, TO_TEXT, &[]),
        named(TrimLeft, "ltrim(text, text)", TWO_TEXTS, TO_TEXT, &[]),
        named(TrimRight, "rtrim(text)", TEXT, TO_TEXT, &[]),
        named(TrimRight, "rtrim(text, text)", TWO_TEXTS, TO_TEXT, &[]),
        named(PadLeft, "lpad(text, integer, text)", PAD, TO_TEXT, TOO_LONG),
        named(PadRight, "rpad(text, integer, text)", PAD, TO_TEXT, TOO_LONG),
        named(Repeat, "repeat(text, integer)", &[Only(Type::Text), Only(Type::Int32)], TO_TEXT, TOO_LONG),
        named(Reverse, "reverse(text)", TEXT, TO_TEXT, &[]),
        named(SplitPart, "split_part(text, text, integer)", FIELD, TO_TEXT, SPLIT),
        named(Upper, "upper(text)", TEXT, TO_TEXT, &[]),
        named(Lower, "lower(text)", TEXT, TO_TEXT, &[]),
        named(UpperIn, "upper(text in locale)", TWO_TEXTS, TO_TEXT, &[]),
        named(LowerIn, "lower(text in locale)", TWO_TEXTS, TO_TEXT, &[]),
        named(CompareIn, "compare(text, text in locale)", &[Any(Text), Any(Text), Only(Type::Text)], INTEGER, &[]),
        named(CharToText, "char to text", &[Only(Type::Char)], TO_TEXT, &[]),
        named(Initcap, "initcap(text)", TEXT, TO_TEXT, &[]),
        named(InitcapIn, "initcap(text in locale)", TWO_TEXTS, TO_TEXT, &[]),
        named(Translate, "translate(text, text, text)", THREE_TEXTS, TO_TEXT, TOO_LONG),
        named(Chr, "chr(integer)", &[Only(Type::Int32)], TO_TEXT, NO_CHARACTER),
        named(Md5, "md5(text)", TEXT, TO_TEXT, &[]),
        named(Abs, "abs(integer)", INTEGERS, Rule::Same, OUT_OF_RANGE),
        named(Abs, "abs(real)", &[Any(Real)], Rule::Same, &[]),
        named(Abs, "abs(float)", FLOAT, Rule::Same, &[]),
        named(Abs, "abs(decimal)", DECIMAL, Rule::Wide, TOO_WIDE),
        named(Sign, "sign(float)", FLOAT, Rule::Same, &[]),
        named(Sign, "sign(decimal)", DECIMAL, WHOLE, &[]),
        named(Round, "round(float)", FLOAT, Rule::Same, &[]),
        named(Ceil, "ceil(float)", FLOAT, Rule::Same, &[]),
        named(Floor, "floor(float)", FLOAT, Rule::Same, &[]),
        named(Trunc, "trunc(float)", FLOAT, Rule::Same, &[]),
        named(MovedDown, "float moved, or the lowest", TWO_FLOATS, Rule::Same, &[]),
        named(MovedUp, "float moved, or the highest", TWO_FLOATS, Rule::Same, &[]),
        named(Round, "round(decimal)", DECIMAL, WIDE_WHOLE, &[]),
        named(Ceil, "ceil(decimal)", DECIMAL, WIDE_WHOLE, &[]),
        named(Floor, "floor(decimal)", DECIMAL, WIDE_WHOLE, &[]),
        named(Trunc, "trunc(decimal)", DECIMAL, WIDE_WHOLE, &[]),
        named(Round, "round(decimal) to the last operand's scale", TO_SCALE, Rule::Coarser, &[]),
        named(Trunc, "trunc(decimal) to the last operand's scale", TO_SCALE, Rule::Coarser, &[]),
        named(Abs, "abs(numeric)", NUMERIC, Rule::Same, &[]),
        named(Sign, "sign(numeric)", NUMERIC, Rule::Same, &[]),
        named(Ceil, "ceil(numeric)", NUMERIC, Rule::Same, &[]),
        named(Floor, "floor(numeric)", NUMERIC, Rule::Same, &[]),
        named(Round, "round(numeric, integer)", NUMERIC_AND_INTEGER, TO_NUMERIC, &[]),
        named(Trunc, "trunc(numeric, integer)", NUMERIC_AND_INTEGER, TO_NUMERIC, &[]),
        named(WholeQuotient, "div(numeric, numeric)", NUMERICS, Rule::Same, BY_ZERO),
        named(FromStored, "numeric of its bytes", &[Any(Kind::Opaque)], TO_NUMERIC, &[]),
        named(ToStored, "bytes of numeric", NUMERIC, Rule::Is(Type::Opaque), &[]),
        named(Trimmed, "trim_scale(numeric)", NUMERIC, Rule::Same, &[]),
        named(ShownWith, "decimal to numeric with digits", SHOWN_WITH, TO_NUMERIC, &[]),
        named(Fitted, "numeric(numeric, integer)", NUMERIC_AND_INTEGER, TO_NUMERIC, TOO_WIDE),
        named(ToText, "integer to text", INTEGERS, TO_TEXT, &[]),
        named(ToText, "numeric to text", NUMERIC, TO_TEXT, TOO_LONG),
        named(ToText, "bool to text", &[Any(Bool)], TO_TEXT, &[]),
        named(ToText, "time to text", &[Any(Time)], TO_TEXT, &[]),
        named(ToText, "uuid to text", &[Any(Uuid)], TO_TEXT, &[]),
        named(ToTextBy, "date to text by style", &[Any(Date), Only(Type::Text)], TO_TEXT, NO_STYLE),
        named(ToTextBy, "timestamp to text by style", &[Any(Timestamp), Only(Type::Text)], TO_TEXT, NO_STYLE),
        named(ToTextBy, "interval to text by style", &[Any(Kind::Interval), Only(Type::Text)], TO_TEXT, NO_STYLE),
        named(ToTextBy, "real to text by digits", &[Any(Real), Only(Type::Text)], TO_TEXT, NO_STYLE),
        named(ToTextBy, "float to text by digits", &[Any(Float), Only(Type::Text)], TO_TEXT, NO_STYLE),
        named(ToTextIn, "timestamptz to text by style", &[Any(TimestampTz), Only(Type::Text), ZONE], TO_TEXT, NO_STYLE),
        named(ToInt16, "text to smallint", TEXT, Rule::Is(Type::Int16), UNREAD),
        named(ToInt32, "text to integer", TEXT, Rule::Is(Type::Int32), UNREAD),
        named(ToInt64, "text to bigint", TEXT, Rule::Is(Type::Int64), UNREAD),
        named(ToFloat, "text to float", TEXT, TO_FLOAT, UNREAD),
        named(ToBool, "text to bool", TEXT, BOOL, UNREAD),
        named(ToNumeric, "text to numeric", TEXT, TO_NUMERIC, UNREAD),
        named(ToNumeric, "real to numeric", &[Any(Real)], TO_NUMERIC, &[]),
        named(ToNumeric, "float to numeric", FLOAT, TO_NUMERIC, &[]),
        named(ReadDate, "text to date", TEXT, Rule::Is(Type::Date), UNREAD),
        named(ReadTimestamp, "text to timestamp", TEXT, TO_TIMESTAMP, UNREAD),
        named(ReadTimestampIn, "text to timestamptz", &[Only(Type::Text), ZONE], TO_TIMESTAMPTZ, UNREAD),
        named(ReadUuid, "text to uuid", TEXT, Rule::Is(Type::Uuid), UNREAD),
        named(ToInt16, "numeric to smallint", NUMERIC, Rule::Is(Type::Int16), OUT_OF_RANGE),
        named(ToInt32, "numeric to integer", NUMERIC, Rule::Is(Type::Int32), OUT_OF_RANGE),
        named(ToInt64, "numeric to bigint", NUMERIC, Rule::Is(Type::Int64), OUT_OF_RANGE),
        named(ToFloat, "numeric to float", NUMERIC, TO_FLOAT, OVERFLOW),
        named(Sqrt, "sqrt(float)", FLOAT, Rule::Same, NEGATIVE),
        named(Cbrt, "cbrt(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Sin, "sin(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Cos, "cos(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Tan, "tan(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Asin, "asin(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Acos, "acos(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Atan, "atan(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Radians, "radians(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Degrees, "degrees(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Atan2, "atan2(float, float)", TWO_FLOATS, Rule::Same, UNDEFINED),
        named(Exp, "exp(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Ln, "ln(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Log, "log(float)", FLOAT, Rule::Same, UNDEFINED),
        named(Power, "power(float, float)", TWO_FLOATS, Rule::Same, UNDEFINED),
        named(Sqrt, "sqrt(numeric)", NUMERIC, Rule::Same, UNDEFINED),
        named(Exp, "exp(numeric)", NUMERIC, Rule::Same, UNDEFINED),
        named(Ln, "ln(numeric)", NUMERIC, Rule::Same, UNDEFINED),
        named(Log, "log(numeric, numeric)", NUMERICS, Rule::Same, UNDEFINED),
        named(Power, "power(numeric, numeric)", NUMERICS, Rule::Same, UNDEFINED),
        named(PowerSince16, "power(numeric, numeric) since 16", NUMERICS, Rule::Same, UNDEFINED),
        named(BitAnd, "integer & integer", TWO_INTEGERS, Rule::Same, &[]),
        named(BitOr, "integer | integer", TWO_INTEGERS, Rule::Same, &[]),
        named(BitXor, "integer # integer", TWO_INTEGERS, Rule::Same, &[]),
        named(BitNot, "~ integer", INTEGERS, Rule::Same, &[]),
        named(ShiftLeft, "smallint << integer", &[Only(Type::Int16), Only(Type::Int32)], Rule::Is(Type::Int16), &[]),
        named(ShiftLeft, "integer << integer", &[Only(Type::Int32), Only(Type::Int32)], Rule::Is(Type::Int32), &[]),
        named(ShiftLeft, "bigint << integer", &[Only(Type::Int64), Only(Type::Int32)], Rule::Is(Type::Int64), &[]),
        named(ShiftRight, "smallint >> integer", &[Only(Type::Int16), Only(Type::Int32)], Rule::Is(Type::Int16), &[]),
        named(ShiftRight, "integer >> integer", &[Only(Type::Int32), Only(Type::Int32)], Rule::Is(Type::Int32), &[]),
        named(ShiftRight, "bigint >> integer", &[Only(Type::Int64), Only(Type::Int32)], Rule::Is(Type::Int64), &[]),
        named(ToInt16, "integer to smallint", &[Any(Integer)], Rule::Is(Type::Int16), OUT_OF_RANGE),
        named(ToInt16, "real to smallint", &[Any(Real)], Rule::Is(Type::Int16), OUT_OF_RANGE),
        named(ToInt16, "float to smallint", &[Any(Float)], Rule::Is(Type::Int16), OUT_OF_RANGE),
        named(ToInt16, "decimal to smallint", &[Any(Decimal)], Rule::Is(Type::Int16), OUT_OF_RANGE),
        named(ToInt32, "bigint to integer", &[Only(Type::Int64)], Rule::Is(Type::Int32), OUT_OF_RANGE),
        named(ToInt32, "real to integer", &[Any(Real)], Rule::Is(Type::Int32), OUT_OF_RANGE),
        named(ToInt32, "float to integer", &[Any(Float)], Rule::Is(Type::Int32), OUT_OF_RANGE),
        named(ToInt32, "decimal to integer", &[Any(Decimal)], Rule::Is(Type::Int32), OUT_OF_RANGE),
        named(ToInt32, "bool to integer", &[Any(Bool)], Rule::Is(Type::Int32), &[]),
        named(ToInt64, "real to bigint", &[Any(Real)], Rule::Is(Type::Int64), OUT_OF_RANGE),
        named(ToInt64, "float to bigint", &[Any(Float)], Rule::Is(Type::Int64), OUT_OF_RANGE),
        named(ToInt64, "decimal to bigint", &[Any(Decimal)], Rule::Is(Type::Int64), OUT_OF_RANGE),
        named(OnlyRow, "only row of bigint", &[Only(Type::Int64)], Rule::Same, SEVERAL),
        named(Average, "average(decimal, bigint)", QUOTIENT, AVERAGE, TOO_WIDE),
        named(ShownAverage, "decimal by bigint", QUOTIENT, TO_NUMERIC, &[]),
        named(ShownAverage, "numeric by bigint", NUMERIC_AND_COUNT, TO_NUMERIC, &[]),
        named(ToFloat, "decimal to float", DECIMAL, Rule::Is(Type::Float64), &[]),
        named(ToBool, "integer to bool", &[Only(Type::Int32)], BOOL, &[]),
        named(Spread(VarPop), "var_pop of exact sums", NUMERIC_AND_COUNT, TO_NUMERIC, &[]),
        named(Spread(VarSamp), "var_samp of exact sums", NUMERIC_AND_COUNT, TO_NUMERIC, &[]),
        named(Spread(StddevPop), "stddev_pop of exact sums", NUMERIC_AND_COUNT, TO_NUMERIC, &[]),
        named(Spread(StddevSamp), "stddev_samp of exact sums", NUMERIC_AND_COUNT, TO_NUMERIC, &[]),
        named(Extract(Field::Millennium), "extract(millennium from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::Century), "extract(century from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::Decade), "extract(decade from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::Year), "extract(year from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::IsoYear), "extract(isoyear from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::Quarter), "extract(quarter from date)", DATE, WHOLE, &[]),
        named(Extract(Field::Month), "extract(month from date)", DATE, WHOLE, &[]),
        named(Extract(Field::Week), "extract(week from date)", DATE, WHOLE, &[]),
        named(Extract(Field::Day), "extract(day from date)", DATE, WHOLE, &[]),
        named(Extract(Field::DayOfYear), "extract(doy from date)", DATE, WHOLE, &[]),
        named(Extract(Field::DayOfWeek), "extract(dow from date)", DATE, WHOLE, &[]),
        named(Extract(Field::IsoDayOfWeek), "extract(isodow from date)", DATE, WHOLE, &[]),
        named(Extract(Field::Epoch), "extract(epoch from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::Julian), "extract(julian from date)", DATE, WHOLE, INFINITE),
        named(Extract(Field::Millennium), "extract(millennium from timestamp)", TIMESTAMP, WHOLE, INFINITE),
        named(Extract(Field::Century), "extract(century from timestamp)", TIMESTAMP, WHOLE, INFINITE),
        named(Extract(Field::Decade), "extract(decade from timestamp)", TIMESTAMP, WHOLE, INFINITE),
        named(Extract(Field::Year), "extract(year from timestamp)", TIMESTAMP, WHOLE, INFINITE),
        named(Extract(Field::IsoYear), "extract(isoyear from timestamp)", TIMESTAMP, WHOLE, INFINITE),
        named(Extract(Field::Quarter), "extract(quarter from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Month), "extract(month from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Week), "extract(week from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Day), "extract(day from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::DayOfYear), "extract(doy from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::DayOfWeek), "extract(dow from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::IsoDayOfWeek), "extract(isodow from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Hour), "extract(hour from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Minute), "extract(minute from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Second), "extract(second from timestamp)", TIMESTAMP, MICROS, &[]),
        named(Extract(Field::Milliseconds), "extract(milliseconds from timestamp)", TIMESTAMP, MILLIS, &[]),
        named(Extract(Field::Microseconds), "extract(microseconds from timestamp)", TIMESTAMP, WHOLE, &[]),
        named(Extract(Field::Epoch), "extract(epoch from timestamp)", TIMESTAMP, MICROS, EPOCH),
        named(DatePart(Field::Millennium), "date_part('millennium', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Century), "date_part('century', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Decade), "date_part('decade', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Year), "date_part('year', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::IsoYear), "date_part('isoyear', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Quarter), "date_part('quarter', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Month), "date_part('month', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Week), "date_part('week', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Day), "date_part('day', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::DayOfYear), "date_part('doy', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::DayOfWeek), "date_part('dow', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::IsoDayOfWeek), "date_part('isodow', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Hour), "date_part('hour', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Minute), "date_part('minute', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DatePart(Field::Microseconds), "date_part('microseconds', timestamp)", TIMESTAMP, Rule::Is(Type::Float64), &[]),
        named(DateTrunc(Field::Year), "date_trunc('year', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Quarter), "date_trunc('quarter', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Month), "date_trunc('month', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Week), "date_trunc('week', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Day), "date_trunc('day', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Hour), "date_trunc('hour', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Minute), "date_trunc('minute', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Second), "date_trunc('second', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Milliseconds), "date_trunc('milliseconds', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Microseconds), "date_trunc('microseconds', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(TimestampToTime, "timestamp to time", TIMESTAMP, Rule::Is(Type::Time), &[]),
        named(FromEpoch, "to_timestamp(float)", FLOAT, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(TimestampToDate, "timestamp to date", TIMESTAMP, Rule::Is(Type::Date), &[]),
        named(DatePart(Field::Second), "date_part('second', timestamp)", TIMESTAMP, TO_FLOAT, &[]),
        named(DatePart(Field::Milliseconds), "date_part('milliseconds', timestamp)", TIMESTAMP, TO_FLOAT, &[]),
        named(DatePart(Field::Epoch), "date_part('epoch', timestamp)", TIMESTAMP, TO_FLOAT, &[]),
        named(DatePart(Field::Julian), "date_part('julian', timestamp)", TIMESTAMP, TO_FLOAT, &[]),
        named(Extract(Field::Epoch), "extract(epoch from timestamptz)", TIMESTAMPTZ, MICROS, EPOCH),
        named(DatePart(Field::Epoch), "date_part('epoch', timestamptz)", TIMESTAMPTZ, TO_FLOAT, &[]),
        named(DateTrunc(Field::Millennium), "date_trunc('millennium', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Century), "date_trunc('century', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(DateTrunc(Field::Decade), "date_trunc('decade', timestamp)", TIMESTAMP, Rule::Same, NO_TIMESTAMP),
        named(LocalTime, "local time of timestamptz", TIMESTAMPTZ_IN, TO_TIMESTAMP, &[]),
        named(ToTimestamp, "timestamptz to timestamp", TIMESTAMPTZ_IN, TO_TIMESTAMP, NO_TIMESTAMP),
        named(ToTimestampTz, "date to timestamptz", DATE_IN, TO_TIMESTAMPTZ, NO_INSTANT),
        named(ToTimestampTz, "timestamp to timestamptz", TIMESTAMP_IN, TO_TIMESTAMPTZ, NO_INSTANT),
        named(Comparable, "date as timestamp", DATE, TO_TIMESTAMP, &[]),
        named(ComparableIn, "date as timestamptz", DATE_IN, TO_TIMESTAMPTZ, &[]),
        named(ComparableIn, "timestamp as timestamptz", TIMESTAMP_IN, TO_TIMESTAMPTZ, &[]),
        named(ZoneOffset, "offset of timestamptz", TIMESTAMPTZ_IN, INTEGER, &[]),
        named(DateTruncIn(Field::Millennium), "date_trunc('millennium', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Century), "date_trunc('century', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Decade), "date_trunc('decade', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Year), "date_trunc('year', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Quarter), "date_trunc('quarter', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Month), "date_trunc('month', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Week), "date_trunc('week', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Day), "date_trunc('day', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Hour), "date_trunc('hour', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Minute), "date_trunc('minute', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Second), "date_trunc('second', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Milliseconds), "date_trunc('milliseconds', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(DateTruncIn(Field::Microseconds), "date_trunc('microseconds', timestamptz)", TIMESTAMPTZ_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(PlusInterval, "timestamp + interval", AND_INTERVAL, TO_TIMESTAMP, NO_TIMESTAMP),
        named(PlusIntervalIn, "timestamptz + interval", AND_INTERVAL_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(MinusInterval, "timestamp - interval", AND_INTERVAL, TO_TIMESTAMP, NO_TIMESTAMP),
        named(MinusIntervalIn, "timestamptz - interval", AND_INTERVAL_IN, TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(Span, "span(interval)", INTERVAL, Rule::Is(Type::Decimal128 { scale: 6 }), &[]),
        named(IntervalOfStored, "interval of its bytes", &[Any(Kind::Opaque)], TO_INTERVAL, NO_INTERVAL),
        named(Extract(Field::Millennium), "extract(millennium from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Century), "extract(century from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Decade), "extract(decade from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Year), "extract(year from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Quarter), "extract(quarter from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Month), "extract(month from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Day), "extract(day from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Hour), "extract(hour from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Minute), "extract(minute from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Second), "extract(second from interval)", INTERVAL, MICROS, &[]),
        named(Extract(Field::Milliseconds), "extract(milliseconds from interval)", INTERVAL, MILLIS, &[]),
        named(Extract(Field::Microseconds), "extract(microseconds from interval)", INTERVAL, WHOLE, &[]),
        named(Extract(Field::Epoch), "extract(epoch from interval)", INTERVAL, MICROS, TOO_WIDE),
        named(DatePart(Field::Millennium), "date_part('millennium', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Century), "date_part('century', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Decade), "date_part('decade', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Year), "date_part('year', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Quarter), "date_part('quarter', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Month), "date_part('month', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Day), "date_part('day', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Hour), "date_part('hour', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Minute), "date_part('minute', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Second), "date_part('second', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Milliseconds), "date_part('milliseconds', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Microseconds), "date_part('microseconds', interval)", INTERVAL, TO_FLOAT, &[]),
        named(DatePart(Field::Epoch), "date_part('epoch', interval)", INTERVAL, TO_FLOAT, &[]),
        named(JustifyHours, "justify_hours(interval)", INTERVAL, Rule::Same, NO_INTERVAL),
        named(JustifyDays, "justify_days(interval)", INTERVAL, Rule::Same, NO_INTERVAL),
        named(JustifyInterval, "justify_interval(interval)", INTERVAL, Rule::Same, NO_INTERVAL),
        named(MakeInterval, "make_interval(integer, …, float)", PARTS_OF_INTERVAL, TO_INTERVAL, NO_INTERVAL),
        named(Age, "age(timestamp, timestamp)", TWO_TIMESTAMPS, TO_INTERVAL, NO_AGE),
        named(AgeIn, "age(timestamptz, timestamptz)", TWO_TIMESTAMPTZS_IN, TO_INTERVAL, NO_AGE),
        named(DateBin, "date_bin(bigint, timestamp, timestamp)", &[Any(Timestamp), Any(Timestamp), MICROSECONDS], TO_TIMESTAMP, NO_TIMESTAMP),
        named(DateBin, "date_bin(bigint, timestamptz, timestamptz)", &[Any(TimestampTz), Any(TimestampTz), MICROSECONDS], TO_TIMESTAMPTZ, NO_TIMESTAMP),
        named(MakeDate, "make_date(integer, integer, integer)", THREE_INTEGERS, Rule::Is(Type::Date), NO_DATE),
        named(Member(Document::Jsonb), "jsonb -> text", &[Any(Kind::Opaque), Only(Type::Text)], Rule::Is(Type::Opaque), TOO_LONG),
        named(Element(Document::Jsonb), "jsonb -> integer", &[Any(Kind::Opaque), Only(Type::Int32)], Rule::Is(Type::Opaque), TOO_LONG),
        named(Step(Document::Jsonb), "jsonb #> text", &[Any(Kind::Opaque), Only(Type::Text)], Rule::Is(Type::Opaque), TOO_LONG),
        named(MemberText(Document::Jsonb), "jsonb ->> text", &[Any(Kind::Opaque), Only(Type::Text)], TO_TEXT, TOO_LONG),
        named(ElementText(Document::Jsonb), "jsonb ->> integer", &[Any(Kind::Opaque), Only(Type::Int32)], TO_TEXT, TOO_LONG),
        named(StepText(Document::Jsonb), "jsonb #>> text", &[Any(Kind::Opaque), Only(Type::Text)], TO_TEXT, TOO_LONG),
        named(WholeText(Document::Jsonb), "jsonb #>> nothing", &[Any(Kind::Opaque)], TO_TEXT, TOO_LONG),
        named(TypeOf(Document::Jsonb), "jsonb_typeof", &[Any(Kind::Opaque)], TO_TEXT, &[]),
        named(ArrayLength(Document::Jsonb), "jsonb_array_length", &[Any(Kind::Opaque)], INTEGER, NO_ARRAY),
        named(Member(Document::Json), "json -> text", &[Any(Kind::Opaque), Only(Type::Text)], Rule::Is(Type::Opaque), TOO_LONG),
        named(Element(Document::Json), "json -> integer", &[Any(Kind::Opaque), Only(Type::Int32)], Rule::Is(Type::Opaque), TOO_LONG),
        named(Step(Document::Json), "json #> text", &[Any(Kind::Opaque), Only(Type::Text)], Rule::Is(Type::Opaque), TOO_LONG),
        named(MemberText(Document::Json), "json ->> text", &[Any(Kind::Opaque), Only(Type::Text)], TO_TEXT, TOO_LONG),
        named(ElementText(Document::Json), "json ->> integer", &[Any(Kind::Opaque), Only(Type::Int32)], TO_TEXT, TOO_LONG),
        named(StepText(Document::Json), "json #>> text", &[Any(Kind::Opaque), Only(Type::Text)], TO_TEXT, TOO_LONG),
        named(WholeText(Document::Json), "json #>> nothing", &[Any(Kind::Opaque)], TO_TEXT, TOO_LONG),
        named(TypeOf(Document::Json), "json_typeof", &[Any(Kind::Opaque)], TO_TEXT, &[]),
        named(ArrayLength(Document::Json), "json_array_length", &[Any(Kind::Opaque)], INTEGER, NO_ARRAY),
        named(Rank, "rank(enum)", &[Any(Kind::Enum), Any(Kind::Opaque)], INTEGER, &[]),
        named(Label, "enum to text", &[Any(Kind::Enum), Any(Kind::Opaque), Only(Type::Text), Only(Type::Text)], TO_TEXT, &[]),
        named(DimensionOf, "array_length(array, integer)", &[Any(Kind::Opaque), Only(Type::Int32)], INTEGER, &[]),
        named(Cardinality, "cardinality(array)", &[Any(Kind::Opaque)], INTEGER, &[]),
        of_array(IsElement, "integer = any (array)", &[Any(Integer), Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32)]),
        of_array(IsElement, "text = any (array)", &[Only(Type::Text), Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32)]),
        of_array(IsElement, "date = any (array)", &[Any(Date), Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32)]),
        of_array(IsElement, "uuid = any (array)", &[Any(Uuid), Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32)]),
        of_array(IsElement, "enum = any (array)", &[Any(Kind::Enum), Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32)]),
        named(ElementAt, "array[integer] of text", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Only(Type::Text)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of integer", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Integer)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of float", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Float)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of bool", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Bool)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of date", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Date)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of timestamp", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Timestamp)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of timestamptz", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(TimestampTz)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of uuid", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Uuid)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of numeric", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Kind::Numeric)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of enum", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Kind::Enum)], Rule::Last, &[]),
        named(ElementAt, "array[integer] of opaque", &[Any(Kind::Opaque), Only(Type::Int32), Only(Type::Int32), Only(Type::Int32), Any(Kind::Opaque)], Rule::Last, &[]),
        named(Shown, "jsonb to text", &[Any(Kind::Opaque)], TO_TEXT, TOO_LONG),
        named(HasKey, "jsonb ? text", &[Any(Kind::Opaque), Only(Type::Text)], BOOL, &[]),
        named(NumberOf, "jsonb to numeric", &[Any(Kind::Opaque)], TO_NUMERIC, UNREAD),
        named(ToChar, "to_char(timestamp, text)", &[Any(Timestamp), Only(Type::Text)], TO_TEXT, TOO_LONG),
    ]
};
