//! Dispatches each named function to the module that computes it.

use arrow_array::ArrayRef;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::catalogue::{Extreme, Kind};
use plan::{Named, Type};

use crate::functions::convert::{read, written};
use crate::functions::greatest::{extreme_in_locale, extreme_of};
use crate::functions::numbers::maths;
use crate::functions::text::calls as texts;
use crate::functions::time::{calendar, differences, intervals, to_char};
use crate::functions::{arrays, documents, enums, numerics};

/// Computes a function for `rows` rows. The result has type `ty`, and the first operand has type `operand`.
pub fn apply(function: Named, operand: Type, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match function {
        Named::ToText if !matches!(operand.kind(), Kind::Integer | Kind::Decimal) => {
            written::apply(operand, args, rows)
        }
        Named::ToTextBy => written::apply(operand, args, rows),
        Named::ReadDate | Named::ReadTimestamp | Named::ReadUuid => read::apply(function, ty, args, rows),
        Named::ToBool | Named::ToInt16 | Named::ToInt32 | Named::ToInt64 | Named::ToFloat | Named::ToNumeric
            if operand.is_text() =>
        {
            read::apply(function, ty, args, rows)
        }
        Named::ToNumeric => numerics::from_floats(operand == Type::Float32, args, rows),
        Named::FromStored => numerics::from_stored(args, rows),
        Named::ToText => numerics::written(args, rows),
        Named::Greatest => extreme_of(Extreme::Max, None, args, rows),
        Named::Least => extreme_of(Extreme::Min, None, args, rows),
        Named::GreatestIn => extreme_in_locale(Extreme::Max, args, rows),
        Named::LeastIn => extreme_in_locale(Extreme::Min, args, rows),
        Named::Like
        | Named::Matches
        | Named::MatchesAnyCase
        | Named::MatchedPart
        | Named::ReplacedMatch
        | Named::ReplacedMatches
        | Named::Initcap
        | Named::InitcapIn
        | Named::Translate
        | Named::Chr
        | Named::Md5
        | Named::StartsWith
        | Named::Length
        | Named::OctetLength
        | Named::Ascii
        | Named::Substring
        | Named::Left
        | Named::Right
        | Named::Position
        | Named::Concat
        | Named::Replace
        | Named::Trim
        | Named::TrimLeft
        | Named::TrimRight
        | Named::PadLeft
        | Named::PadRight
        | Named::Repeat
        | Named::Reverse
        | Named::SplitPart
        | Named::Upper
        | Named::Lower
        | Named::UpperIn
        | Named::LowerIn
        | Named::CompareIn
        | Named::CharToText => texts::apply(function, ty, args, rows),
        Named::Abs
        | Named::Sign
        | Named::Round
        | Named::Ceil
        | Named::Floor
        | Named::Trunc
        | Named::Sqrt
        | Named::Exp
        | Named::Ln
        | Named::Log
        | Named::Power
        | Named::PowerSince16
        | Named::Cbrt
        | Named::Sin
        | Named::Cos
        | Named::Tan
        | Named::Asin
        | Named::Acos
        | Named::Atan
        | Named::Atan2
        | Named::Radians
        | Named::Degrees
        | Named::FromEpoch
        | Named::MovedDown
        | Named::MovedUp
        | Named::BitAnd
        | Named::BitOr
        | Named::BitXor
        | Named::BitNot
        | Named::ShiftLeft
        | Named::ShiftRight
        | Named::ToInt16
        | Named::ToInt32
        | Named::ToInt64
        | Named::ToFloat
        | Named::ToBool
        | Named::OnlyRow
        | Named::Average => maths::apply(function, operand, ty, args, rows),
        Named::Extract(_) | Named::DatePart(_) if operand == Type::Interval => {
            intervals::apply(function, operand, args, rows)
        }
        Named::Span
        | Named::IntervalOfStored
        | Named::Between
        | Named::BetweenTimes
        | Named::TimePlusInterval
        | Named::TimeMinusInterval
        | Named::IntervalSum
        | Named::IntervalDifference
        | Named::IntervalNegated
        | Named::IntervalTimes
        | Named::IntervalBy
        | Named::JustifyHours
        | Named::JustifyDays
        | Named::JustifyInterval
        | Named::MakeInterval
        | Named::Age => intervals::apply(function, operand, args, rows),
        Named::Extract(_)
        | Named::DatePart(_)
        | Named::DateTrunc(_)
        | Named::TimestampToDate
        | Named::TimestampToTime => calendar::apply(function, &args[0], rows),
        Named::Member(_)
        | Named::Element(_)
        | Named::Step(_)
        | Named::MemberText(_)
        | Named::ElementText(_)
        | Named::StepText(_)
        | Named::WholeText(_)
        | Named::Shown
        | Named::TypeOf(_)
        | Named::ArrayLength(_)
        | Named::HasKey
        | Named::NumberOf => documents::apply(function, ty, args, rows),
        Named::DimensionOf => arrays::length(args, rows),
        Named::Cardinality => arrays::cardinality(args, rows),
        Named::ElementAt => arrays::element_at(ty, args, rows),
        Named::IsElement => arrays::has_element(operand, args, rows),
        Named::Rank => enums::ranks(args, rows),
        Named::Label => enums::labels(args, rows),
        Named::Comparable => intervals::comparable(args, rows),
        Named::PlusInterval | Named::MinusInterval => intervals::shifted(function, args, rows),
        Named::DateBin => differences::date_bin(args, rows),
        Named::MakeDate => differences::make_date(args, rows),
        Named::ToChar => to_char::apply(args, rows),
        Named::LocalTime
        | Named::ToTimestamp
        | Named::ToTimestampTz
        | Named::ComparableIn
        | Named::ZoneOffset
        | Named::DateTruncIn(_)
        | Named::PlusIntervalIn
        | Named::MinusIntervalIn
        | Named::ToTextIn
        | Named::ReadTimestampIn
        | Named::AgeIn => Err(DataFusionError::Internal(format!("{function:?} without its zone"))),
        Named::ToStored
        | Named::Trimmed
        | Named::ShownWith
        | Named::ShownAverage
        | Named::Spread(_)
        | Named::Fitted
        | Named::WholeQuotient => {
            Err(DataFusionError::Internal(format!("{function:?} of something else than numerics")))
        }
    }
}
