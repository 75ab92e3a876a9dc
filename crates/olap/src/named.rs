//! The functions that are called by their name: which room computes what.

use arrow_array::ArrayRef;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use plan::catalogue::Extreme;
use plan::{Named, Type};

use crate::greatest::{extreme_in_locale, extreme_of};
use crate::{calendar, differences, exact_spread, intervals, maths, numerics, texts, to_char};

/// A function's result, of type `ty`, for `rows` rows; its first operand is of type `operand`.
pub fn apply(function: Named, operand: Type, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match function {
        _ if operand == Type::Numeric => numerics::apply(function, 0, args, rows),
        Named::FromStored
        | Named::ToStored
        | Named::Trimmed
        | Named::ShownWith
        | Named::Fitted
        | Named::WholeQuotient
        | Named::ToText => numerics::apply(function, operand.scale(), args, rows),
        Named::Spread(of) => exact_spread::finished(of, args, rows),
        Named::Greatest => extreme_of(Extreme::Max, None, args, rows),
        Named::Least => extreme_of(Extreme::Min, None, args, rows),
        Named::GreatestIn => extreme_in_locale(Extreme::Max, args, rows),
        Named::LeastIn => extreme_in_locale(Extreme::Min, args, rows),
        Named::Like
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
        Named::Extract(_) | Named::DatePart(_) | Named::DateTrunc(_) | Named::TimestampToDate => {
            calendar::apply(function, &args[0], rows)
        }
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
        | Named::AgeIn => Err(DataFusionError::Internal(format!("{function:?} without its zone"))),
    }
}
