//! Concatenation of texts, or of bytes.

use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;

use super::list_of::{LONGEST, ListOf, Second, too_long};
use super::order::Order;
use super::rows::Grouped;

pub fn made(list: &ListOf, rows: &mut Grouped, order: &Order) -> Result<ArrayRef> {
    let mut out = BinaryViewBuilder::with_capacity(rows.groups());
    let constant = match &list.second {
        Second::Constant(ScalarValue::Utf8View(text)) => text.as_ref().map(String::as_bytes),
        Second::Constant(ScalarValue::BinaryView(bytes)) => bytes.as_deref(),
        _ => None,
    };
    let mut text = Vec::new();
    rows.each(|columns, rows| {
        if rows.is_empty() {
            out.append_null();
            return Ok(());
        }
        let rows = order.arranged(rows, list.distinct);
        text.clear();
        for (at, row) in rows.iter().enumerate() {
            let delimiter = match list.second {
                _ if at == 0 => None,
                Second::Column => bytes(&columns[1], *row),
                _ => constant,
            };
            for piece in [delimiter, bytes(&columns[0], *row)].into_iter().flatten() {
                text.extend_from_slice(piece);
            }
            if text.len() >= LONGEST {
                return Err(too_long());
            }
        }
        out.append_value(&text);
        Ok(())
    })?;
    let made = out.finish();
    match list.ty.is_text() {
        true => Ok(Arc::new(made.to_string_view()?)),
        false => Ok(Arc::new(made)),
    }
}

/// The bytes of a row's text or byte string; `None` for a null.
pub fn bytes(array: &ArrayRef, row: u32) -> Option<&[u8]> {
    let row = row as usize;
    let bytes = || match array.data_type() {
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        _ => array.as_binary_view().value(row),
    };
    array.is_valid(row).then(bytes)
}
