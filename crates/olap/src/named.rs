//! The functions that are called by their name: which loop computes what.

use arrow_array::ArrayRef;
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use plan::{Named, Type};

use crate::extreme::Extreme;
use crate::greatest::extreme_of;

/// A function's result, of type `ty`, for `rows` rows.
pub fn apply(function: Named, _ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match function {
        Named::Greatest => extreme_of(Extreme::Max, args, rows),
        Named::Least => extreme_of(Extreme::Min, args, rows),
    }
}
