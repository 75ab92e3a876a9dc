//! GREATEST and LEAST of the values of a row: nulls do not count, and of equal values it is the first.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use datafusion_common::error::Result;
use datafusion_expr::ColumnarValue;
use plan::catalogue::Extreme;

use crate::conditional::select;
use crate::extreme::replaces;
use crate::operand::for_slots;

pub fn extreme_of(which: Extreme, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let mut result = args[0].to_array(rows)?;
    for arg in &args[1..] {
        let arg = arg.to_array(rows)?;
        let replaced = replaced(which, &result, &arg)?;
        let kept = ColumnarValue::Array(result);
        result = select(&replaced, &ColumnarValue::Array(arg), &kept, rows)?;
    }
    Ok(result)
}

/// Rows in which `new` takes the place of `old`.
fn replaced(which: Extreme, old: &ArrayRef, new: &ArrayRef) -> Result<BooleanBuffer> {
    let better = |order: &dyn Fn(usize) -> bool| {
        BooleanBuffer::collect_bool(old.len(), |i| new.is_valid(i) && (old.is_null(i) || order(i)))
    };
    for_slots!(old.data_type(), T => {
        let (old, new) = (old.as_primitive::<T>().values(), new.as_primitive::<T>().values());
        return Ok(better(&|i| replaces(which, &new[i], &old[i])));
    });
    let (old, new) = (old.as_string_view(), new.as_string_view());
    Ok(better(&|i| replaces(which, new.value(i), old.value(i))))
}
