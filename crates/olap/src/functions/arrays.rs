//! Elements of PostgreSQL's arrays as Arrow arrays. The arrays may have any number of dimensions; `listed/arrays.rs`
//! shows their form.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, BooleanBuilder, Decimal128Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder,
    StringViewBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;
use numeric::Numeric;
use plan::{Element, Image, Stored, Type};
use protocol::request::FailureKind;

use crate::base::arrow_form::RAW_DECIMAL;
use crate::base::error::QueryError;
use crate::functions::numerics::Collected;

type Outcome<T> = std::result::Result<T, QueryError>;

/// The error for bytes that are no array. Such bytes may occur, because the mirror copies a table's values without
/// checking them.
const BROKEN: QueryError = QueryError(FailureKind::Internal);
/// The bytes of a varlena's length, which is already removed from the values here.
const LENGTH: usize = 4;
/// The number of bytes before the dimensions, including the varlena's length.
const HEADER: usize = 16;
/// The offset of the lower bound, which is the number of the first element, in an array of one dimension.
const LOWER: usize = HEADER + 4 - LENGTH;

fn word(bytes: &[u8], at: usize) -> Outcome<usize> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).ok_or(BROKEN)?;
    usize::try_from(i32::from_ne_bytes(word)).map_err(|_| BROKEN)
}

/// The lengths of an array's dimensions.
pub fn dimensions(bytes: &[u8]) -> Outcome<Vec<usize>> {
    (0..word(bytes, 0)?).map(|at| word(bytes, HEADER - LENGTH + 4 * at)).collect()
}

/// All elements, in the order in which they are stored; `None` for a null.
pub fn elements(bytes: &[u8], element: Element) -> Outcome<Vec<Option<&[u8]>>> {
    let dimensions = dimensions(bytes)?;
    if dimensions.is_empty() {
        return Ok(Vec::new());
    }
    let count = dimensions.iter().try_fold(1usize, |all, one| all.checked_mul(*one)).ok_or(BROKEN)?;
    let behind = HEADER + 8 * dimensions.len();
    // The offset in the array counts from the beginning of the varlena's length.
    let (nulls, mut at) = match word(bytes, 4)? {
        0 => (None, behind.next_multiple_of(8)),
        start => (Some(bytes.get(behind - LENGTH..).ok_or(BROKEN)?), start),
    };
    let mut all = Vec::with_capacity(count.min(bytes.len()));
    for number in 0..count {
        let is_null = match nulls {
            Some(nulls) => nulls.get(number / 8).ok_or(BROKEN)? >> (number % 8) & 1 == 0,
            None => false,
        };
        if is_null {
            all.push(None);
            continue;
        }
        let from = at.checked_sub(LENGTH).ok_or(BROKEN)?;
        let (start, end) = match element.length {
            Some(length) => (from, from + usize::from(length)),
            None if bytes.get(from).ok_or(BROKEN)? & 1 == 1 => (from + 1, from + usize::from(bytes[from] >> 1)),
            None => (from + 4, from + (word(bytes, from)? >> 2)),
        };
        all.push(Some(bytes.get(start..end).ok_or(BROKEN)?));
        at = (end + LENGTH).next_multiple_of(element.align.into());
    }
    Ok(all)
}

/// A builder that collects elements as values of a type.
pub enum Values {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Unsigned(Int64Builder),
    Float64(Float64Builder),
    Image(Image, Int64Builder),
    WideImage(Image, Decimal128Builder),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
    Numeric(Collected),
}

impl Values {
    pub fn of(ty: Type) -> Result<Values> {
        Ok(match ty.stored() {
            Stored::Bool => Values::Bool(BooleanBuilder::new()),
            Stored::Int16 => Values::Int16(Int16Builder::new()),
            Stored::Int32 => Values::Int32(Int32Builder::new()),
            Stored::Int64 => Values::Int64(Int64Builder::new()),
            Stored::Unsigned => Values::Unsigned(Int64Builder::new()),
            Stored::Float => Values::Float64(Float64Builder::new()),
            Stored::Image(image) if image.is_wide() => {
                Values::WideImage(image, Decimal128Builder::new().with_data_type(RAW_DECIMAL))
            }
            Stored::Image(image) => Values::Image(image, Int64Builder::new()),
            Stored::Varlena if ty.is_text() => Values::Text(StringViewBuilder::new()),
            Stored::Varlena | Stored::Kept => Values::Bytes(BinaryViewBuilder::new()),
            Stored::Nowhere => Values::Numeric(Collected::with_capacity(0)),
            Stored::Real | Stored::Scaled64 { .. } | Stored::Scaled128 { .. } | Stored::Name | Stored::Padded => {
                return Err(DataFusionError::Internal(format!("elements of type {ty:?}")));
            }
        })
    }

    pub fn push(&mut self, element: Option<&[u8]>) -> Outcome<()> {
        fn fixed<const N: usize>(bytes: &[u8]) -> Outcome<[u8; N]> {
            bytes.try_into().map_err(|_| BROKEN)
        }
        match self {
            Values::Bool(values) => values.append_option(element.map(|bytes| bytes.first() == Some(&1))),
            Values::Int16(values) => values.append_option(element.map(fixed).transpose()?.map(i16::from_ne_bytes)),
            Values::Int32(values) => values.append_option(element.map(fixed).transpose()?.map(i32::from_ne_bytes)),
            Values::Int64(values) => values.append_option(element.map(fixed).transpose()?.map(i64::from_ne_bytes)),
            Values::Unsigned(values) => {
                values.append_option(element.map(fixed).transpose()?.map(u32::from_ne_bytes).map(i64::from));
            }
            Values::Float64(values) => values.append_option(element.map(fixed).transpose()?.map(f64::from_ne_bytes)),
            Values::Image(image, values) => {
                let number = element.map(|bytes| image.number(bytes).ok_or(BROKEN)).transpose()?;
                values.append_option(number.map(|number| number as i64));
            }
            Values::WideImage(image, values) => {
                values.append_option(element.map(|bytes| image.number(bytes).ok_or(BROKEN)).transpose()?);
            }
            Values::Text(values) => {
                values.append_option(element.map(std::str::from_utf8).transpose().map_err(|_| BROKEN)?);
            }
            Values::Bytes(values) => values.append_option(element),
            Values::Numeric(values) => {
                let numeric = element.map(|bytes| Numeric::from_stored(bytes).ok_or(BROKEN)).transpose()?;
                values.push(numeric.as_ref());
            }
        }
        Ok(())
    }

    pub fn push_integer(&mut self, number: i64) {
        match self {
            Values::Int32(values) => values.append_value(number as i32),
            Values::Int64(values) => values.append_value(number),
            _ => {}
        }
    }

    pub fn finish(self) -> ArrayRef {
        match self {
            Values::Bool(mut values) => Arc::new(values.finish()),
            Values::Int16(mut values) => Arc::new(values.finish()),
            Values::Int32(mut values) => Arc::new(values.finish()),
            Values::Int64(mut values) | Values::Unsigned(mut values) | Values::Image(_, mut values) => {
                Arc::new(values.finish())
            }
            Values::Float64(mut values) => Arc::new(values.finish()),
            Values::WideImage(_, mut values) => Arc::new(values.finish()),
            Values::Text(mut values) => Arc::new(values.finish()),
            Values::Bytes(mut values) => Arc::new(values.finish()),
            Values::Numeric(values) => values.finish(),
        }
    }
}

/// The length of one of an array's dimensions, counted from 1; null if the array has no such dimension.
pub fn length(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (arrays, which) = (args[0].to_array(rows)?, args[1].to_array(rows)?);
    let (arrays, which) = (arrays.as_binary_view(), which.as_primitive::<Int32Type>());
    let length = |row: usize| -> Result<Option<i32>> {
        if arrays.is_null(row) || which.is_null(row) {
            return Ok(None);
        }
        let dimensions = dimensions(arrays.value(row))?;
        let at = usize::try_from(which.value(row)).ok().and_then(|which| which.checked_sub(1));
        Ok(at.and_then(|at| dimensions.get(at)).map(|length| *length as i32))
    };
    Ok(Arc::new((0..rows).map(length).collect::<Result<Int32Array>>()?))
}

/// The number of elements in all dimensions.
pub fn cardinality(args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let arrays = args[0].to_array(rows)?;
    let count = |bytes: Option<&[u8]>| -> Result<Option<i32>> {
        let Some(bytes) = bytes else { return Ok(None) };
        let dimensions = dimensions(bytes)?;
        Ok(Some(if dimensions.is_empty() { 0 } else { dimensions.iter().product::<usize>() as i32 }))
    };
    Ok(Arc::new(arrays.as_binary_view().iter().map(count).collect::<Result<Int32Array>>()?))
}

/// Whether a value of type `ty` is among an array's elements. If the value is not found, but an element is null, the
/// result is null. A null value gives null, or false if the array is empty. The operands are the value, the array, the
/// elements' alignment, and their length or -1.
pub fn has_element(ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (values, arrays) = (args[0].to_array(rows)?, args[1].to_array(rows)?);
    let element = element_of(args)?;
    let arrays = arrays.as_binary_view();
    let mut found = Vec::with_capacity(rows);
    let mut wanted = Vec::new();
    for row in 0..rows {
        if arrays.is_null(row) {
            found.push(None);
            continue;
        }
        let all = elements(arrays.value(row), element)?;
        if all.is_empty() || values.is_null(row) {
            found.push(all.is_empty().then_some(false));
            continue;
        }
        bytes_of(ty, &values, row, &mut wanted)?;
        found.push(match all.contains(&Some(wanted.as_slice())) {
            true => Some(true),
            false if all.contains(&None) => None,
            false => Some(false),
        });
    }
    Ok(Arc::new(BooleanArray::from(found)))
}

/// The element with a given number in an array of one dimension, whose numbers need not begin at 1. The result is null
/// if there is no such element, or if the array has several dimensions.
pub fn element_at(ty: Type, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (arrays, places) = (args[0].to_array(rows)?, args[1].to_array(rows)?);
    let element = element_of(args)?;
    let (arrays, places) = (arrays.as_binary_view(), places.as_primitive::<Int32Type>());
    let mut values = Values::of(ty)?;
    for row in 0..rows {
        if arrays.is_null(row) || places.is_null(row) {
            values.push(None)?;
            continue;
        }
        let bytes = arrays.value(row);
        let at = match dimensions(bytes)?[..] {
            [_] => {
                let first = bytes.get(LOWER..LOWER + 4).and_then(|word| word.try_into().ok()).ok_or(BROKEN)?;
                i64::from(places.value(row)) - i64::from(i32::from_ne_bytes(first))
            }
            _ => -1,
        };
        let all = elements(bytes, element)?;
        values.push(usize::try_from(at).ok().and_then(|at| all.get(at).copied()).flatten())?;
    }
    Ok(values.finish())
}

/// The element type that the third and the fourth operand describe.
fn element_of(args: &[ColumnarValue]) -> Result<Element> {
    let number = |at: usize| -> Result<i32> { Ok(args[at].to_array(1)?.as_primitive::<Int32Type>().value(0)) };
    let (align, length) = (number(2)?, number(3)?);
    Ok(Element { oid: 0, align: align as u8, length: u16::try_from(length).ok(), padded: 0 })
}

/// Appends a value in the form in which an array holds it.
fn bytes_of(ty: Type, values: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<()> {
    use arrow_array::types::{Decimal128Type, Int16Type, Int64Type};
    out.clear();
    match ty.stored() {
        Stored::Int16 => out.extend(values.as_primitive::<Int16Type>().value(row).to_ne_bytes()),
        Stored::Int32 => out.extend(values.as_primitive::<Int32Type>().value(row).to_ne_bytes()),
        Stored::Int64 => {
            out.extend(values.as_primitive::<Int64Type>().value(row).to_ne_bytes());
        }
        Stored::Image(image) if image.is_wide() => {
            out.extend_from_slice(&image.bytes(values.as_primitive::<Decimal128Type>().value(row)));
        }
        Stored::Image(image) => {
            out.extend_from_slice(&image.bytes(values.as_primitive::<Int64Type>().value(row).into()));
        }
        Stored::Varlena if ty.is_text() => out.extend(values.as_string_view().value(row).as_bytes()),
        _ => return Err(DataFusionError::Internal(format!("an element of type {ty:?}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrays `{{1,NULL},{3,4}}` and `{a,bcdef}`.
    fn arrays() -> (Vec<u8>, Vec<u8>) {
        let words = |words: &[i32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut numbers = words(&[2, 40, 23, 2, 2, 1, 1]);
        numbers.push(0b1101);
        numbers.resize(36, 0);
        numbers.extend(words(&[1, 3, 4]));
        let mut texts = words(&[1, 0, 25, 2, 1, 5 << 2]);
        texts.extend(b"a\0\0\0");
        texts.extend(words(&[9 << 2]));
        texts.extend(b"bcdef");
        (numbers, texts)
    }

    #[test]
    fn elements_of_any_dimensions() {
        let (numbers, texts) = arrays();
        let four = Element { oid: 23, align: 4, length: Some(4), padded: 0 };
        let all = elements(&numbers, four).unwrap();
        let (one, three) = (1i32.to_ne_bytes(), 3i32.to_ne_bytes());
        assert_eq!(all[..3], [Some(&one[..]), None, Some(&three[..])]);
        assert_eq!((all.len(), dimensions(&numbers).unwrap()), (4, vec![2, 2]));
        let text = Element { oid: 25, align: 4, length: None, padded: 0 };
        assert_eq!(elements(&texts, text).unwrap(), [Some(&b"a"[..]), Some(b"bcdef")]);
        assert!(elements(&[0, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0], four).unwrap().is_empty());
        for length in 0..numbers.len() {
            assert!(elements(&numbers[..length], four).is_err(), "{length}");
        }
    }
}
