//! The order of an enum's values, and their labels. Both are looked up in an array of all values, an operand that
//! PostgreSQL computes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;

/// The offset of the elements in an array of one dimension without nulls, not counting the varlena's length.
const ELEMENTS: usize = 20;

pub fn ranks(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (values, places) = (args[0].to_array(rows)?, places(&args[1])?);
    let rank = |value: Option<i32>| value.map(|value| places.get(&value).copied().ok_or_else(unknown)).transpose();
    let ranks = values.as_primitive::<Int32Type>().iter().map(rank).collect::<Result<Int32Array>>()?;
    Ok(Arc::new(ranks))
}

pub fn labels(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (values, places) = (args[0].to_array(rows)?, places(&args[1])?);
    let (
        ColumnarValue::Scalar(ScalarValue::Utf8View(all)),
        ColumnarValue::Scalar(ScalarValue::Utf8View(Some(between))),
    ) = (&args[2], &args[3])
    else {
        return Err(unknown());
    };
    let labels: Vec<&str> = all.as_deref().unwrap_or_default().split(between.as_str()).collect();
    // There are more labels than values if a label contains the separator.
    if labels.len() != places.len().max(1) {
        return Err(unknown());
    }
    let mut texts = StringViewBuilder::with_capacity(rows);
    for value in values.as_primitive::<Int32Type>() {
        let label = value.map(|value| places.get(&value).map(|at| labels[*at as usize]).ok_or_else(unknown));
        texts.append_option(label.transpose()?);
    }
    Ok(Arc::new(texts.finish()))
}

fn unknown() -> DataFusionError {
    DataFusionError::Internal("an enum's value that is none of its labels".into())
}

/// The position of each value in the enum's order.
fn places(all: &ColumnarValue) -> Result<HashMap<i32, i32>> {
    let ColumnarValue::Scalar(ScalarValue::BinaryView(all)) = all else { return Err(unknown()) };
    let bytes = all.as_deref().unwrap_or_default();
    let elements = bytes.get(ELEMENTS..).unwrap_or_default();
    let value = |bytes: &[u8]| i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(elements.chunks_exact(4).map(value).zip(0..).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_their_places() {
        let header = [1, 0, 9999, 3, 1];
        let array: Vec<u8> = header.iter().chain(&[30, 10, 20]).flat_map(|n: &i32| n.to_ne_bytes()).collect();
        let array = ColumnarValue::Scalar(ScalarValue::BinaryView(Some(array)));
        let text = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.into())));
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(10), None, Some(20), Some(30)]));
        let values = ColumnarValue::Array(values);
        let found = ranks(&[values.clone(), array.clone()], 4).unwrap();
        assert_eq!(found.as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(1), None, Some(2), Some(0)]));
        let labelled = labels(&[values.clone(), array.clone(), text("x\u{1}y\u{1}z"), text("\u{1}")], 4).unwrap();
        let labelled: Vec<Option<&str>> = labelled.as_string_view().iter().collect();
        assert_eq!(labelled, [Some("y"), None, Some("z"), Some("x")]);
        assert!(labels(&[values, array, text("x\u{1}y\u{1}z\u{1}!"), text("\u{1}")], 4).is_err());
    }
}
