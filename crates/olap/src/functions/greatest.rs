//! GREATEST and LEAST of the values of a row. Nulls do not count, and the first of several equal values is returned.

use arrow_array::cast::AsArray;
use arrow_array::types::StringViewType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use locale::Locale;
use plan::catalogue::Extreme;

use crate::base::error::known_locale;
use crate::base::operand::{for_slots, select};
use crate::functions::order::{TextOrder, replaces};

/// The greatest or least text in the locale that the last argument names.
pub fn extreme_in_locale(which: Extreme, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    match args.split_last() {
        Some((ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name))), texts)) => {
            extreme_of(which, Some(known_locale(name)?), texts, rows)
        }
        _ => Err(DataFusionError::Internal("a locale that is not constant".into())),
    }
}

pub fn extreme_of(
    which: Extreme,
    locale: Option<&'static Locale>,
    args: &[ColumnarValue],
    rows: usize,
) -> Result<ArrayRef> {
    let mut order = TextOrder::of(locale);
    let mut result = args[0].to_array(rows)?;
    for arg in &args[1..] {
        let arg = arg.to_array(rows)?;
        let replaced = replaced(which, &mut order, &result, &arg)?;
        let kept = ColumnarValue::Array(result);
        result = select(&replaced, &ColumnarValue::Array(arg), &kept, rows)?;
    }
    Ok(result)
}

/// The rows in which `new` replaces `old`.
fn replaced(which: Extreme, texts: &mut TextOrder, old: &ArrayRef, new: &ArrayRef) -> Result<BooleanBuffer> {
    let better = |order: &mut dyn FnMut(usize) -> bool| {
        BooleanBuffer::collect_bool(old.len(), |i| new.is_valid(i) && (old.is_null(i) || order(i)))
    };
    for_slots!(old.data_type(), T => {
        let (old, new) = (old.as_primitive::<T>().values(), new.as_primitive::<T>().values());
        return Ok(better(&mut |i| replaces(which, &new[i], &old[i])));
    });
    let (old, new) = (old.as_string_view(), new.as_string_view());
    Ok(better(&mut |i| texts.replaces::<StringViewType>(which, new.value(i), old.value(i))))
}
