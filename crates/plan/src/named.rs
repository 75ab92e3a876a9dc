//! The functions that a plan calls by their name, a row each.

use serde::{Deserialize, Serialize};

use crate::catalogue::{FunctionRow, Kind, Rule, Takes, named, of_all};
use crate::{FailureKind, Type};

/// A function, whatever its operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Named {
    /// The first of the equal ones.
    Greatest,
    Least,
    /// By PostgreSQL's rules for deterministic collations, with `\` as escape.
    Like,
    StartsWith,
    /// In characters.
    Length,
    OctetLength,
    /// From a position on, as long as is said if that is said.
    Substring,
    Left,
    Right,
    /// Of the second text in the first, from 1; 0 if there is none.
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
    /// A char(n) without its trailing blanks.
    CharToText,
}

const TEXT: &[Takes] = &[Takes::Only(Type::Text)];
const TWO_TEXTS: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Text)];
const THREE_TEXTS: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Text), Takes::Only(Type::Text)];
const PART: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Int32), Takes::Only(Type::Int32)];
const PAD: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Int32), Takes::Only(Type::Text)];
const FIELD: &[Takes] = &[Takes::Only(Type::Text), Takes::Only(Type::Text), Takes::Only(Type::Int32)];

const BOOL: Rule = Rule::Is(Type::Bool);
const INTEGER: Rule = Rule::Is(Type::Int32);
const TO_TEXT: Rule = Rule::Is(Type::Text);

const LIKE: &[FailureKind] = &[FailureKind::PatternEndsInEscape];
const SUBSTRING: &[FailureKind] = &[FailureKind::NegativeSubstring];
const SPLIT: &[FailureKind] = &[FailureKind::FieldZero];
/// Results are held to what the memory of the engine can bear; PostgreSQL's limit is far beyond.
const TOO_LONG: &[FailureKind] = &[FailureKind::OutOfMemory];

#[rustfmt::skip]
pub(crate) const NAMED: &[FunctionRow] = {
    use Kind::{Date, Decimal, Float, Integer, Text, Timestamp, TimestampTz};
    use Named::*;
    use Takes::{Any, Only};
    &[
        of_all(Greatest, "greatest(integer, …)", &[Any(Integer)]),
        of_all(Greatest, "greatest(float, …)", &[Any(Float)]),
        of_all(Greatest, "greatest(decimal, …)", &[Any(Decimal)]),
        of_all(Greatest, "greatest(date, …)", &[Any(Date)]),
        of_all(Greatest, "greatest(timestamp, …)", &[Any(Timestamp)]),
        of_all(Greatest, "greatest(timestamptz, …)", &[Any(TimestampTz)]),
        of_all(Greatest, "greatest(text, …)", &[Any(Text)]),
        of_all(Least, "least(integer, …)", &[Any(Integer)]),
        of_all(Least, "least(float, …)", &[Any(Float)]),
        of_all(Least, "least(decimal, …)", &[Any(Decimal)]),
        of_all(Least, "least(date, …)", &[Any(Date)]),
        of_all(Least, "least(timestamp, …)", &[Any(Timestamp)]),
        of_all(Least, "least(timestamptz, …)", &[Any(TimestampTz)]),
        of_all(Least, "least(text, …)", &[Any(Text)]),
        named(Like, "text like text", TWO_TEXTS, BOOL, LIKE),
        named(StartsWith, "starts_with(text, text)", TWO_TEXTS, BOOL, &[]),
        named(Length, "length(text)", &[Any(Text)], INTEGER, &[]),
        named(OctetLength, "octet_length(text)", TEXT, INTEGER, &[]),
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
        named(CharToText, "char to text", &[Only(Type::Char)], TO_TEXT, &[]),
    ]
};
