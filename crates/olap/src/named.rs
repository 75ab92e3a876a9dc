//! The functions that are called by their name: which room computes what.

use arrow_array::ArrayRef;
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use plan::catalogue::Extreme;
use plan::{Named, Type};

use crate::greatest::extreme_of;
use crate::{calendar, maths, texts};

/// A function's result, of type `ty`, for `rows` rows; its first operand is of type `operand`.
pub fn apply(function: Named, operand: Type, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match function {
        Named::Greatest => extreme_of(Extreme::Max, args, rows),
        Named::Least => extreme_of(Extreme::Min, args, rows),
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
        Named::Extract(_) | Named::DatePart(_) | Named::DateTrunc(_) | Named::TimestampToDate => {
            calendar::apply(function, &args[0], rows)
        }
    }
}
