//! The functions that are called by their name: which room computes what.

use arrow_array::ArrayRef;
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use plan::{Named, Type};

use crate::extreme::Extreme;
use crate::greatest::extreme_of;
use crate::texts;

/// A function's result, of type `ty`, for `rows` rows.
pub fn apply(function: Named, ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match function {
        Named::Greatest => extreme_of(Extreme::Max, args, rows),
        Named::Least => extreme_of(Extreme::Min, args, rows),
        Named::Like
        | Named::StartsWith
        | Named::Length
        | Named::OctetLength
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
        | Named::CharToText => texts::apply(function, ty, args, rows),
    }
}
