//! PostgreSQL's arrays of one dimension, in its stored form:
//!
//! ```text
//!   length  dimensions  offset of the values  element type  elements  from  | nulls |  values
//!   i32     1           0 without nulls       oid           i32       1     | a bit each, set: not null |
//! ```
//!
//! Offsets count from the varlena's length, which is not written here. The values begin at a multiple of eight bytes,
//! and each value is aligned as its type requires.

use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use datafusion_common::error::{DataFusionError, Result};
use plan::{Element, Stored, Type, numeric};

use super::joined::bytes;
use super::list_of::{LONGEST, ListOf, too_long};
use super::order::Order;
use super::rows::Grouped;

/// The number of bytes of a varlena's length word, which precedes the bytes written here.
const LENGTH: usize = 4;
/// The number of bytes before the null bitmap, including the length word.
const HEADER: usize = 24;
/// The values begin at a multiple of this number of bytes.
const ALIGN: usize = 8;
/// The number of bytes that a value of type `name` takes.
const NAME: usize = 64;

pub fn made(list: &ListOf, rows: &mut Grouped, order: &Order) -> Result<ArrayRef> {
    let element = list.element.ok_or_else(|| DataFusionError::Internal("an array of nothing".into()))?;
    let mut out = BinaryViewBuilder::with_capacity(rows.groups());
    let mut writer = Writer { element, ty: list.ty, out: Vec::new() };
    rows.each(|columns, rows| {
        if rows.is_empty() {
            out.append_null();
            return Ok(());
        }
        let rows = order.arranged(rows, list.distinct);
        writer.array(&columns[0], rows)?;
        out.append_value(&writer.out);
        Ok(())
    })?;
    Ok(Arc::new(out.finish()))
}

struct Writer {
    element: Element,
    /// The type of the values.
    ty: Type,
    /// The bytes written so far, without the length word.
    out: Vec<u8>,
}

impl Writer {
    fn array(&mut self, values: &ArrayRef, rows: &[u32]) -> Result<()> {
        let any_null = values.null_count() > 0 && rows.iter().any(|row| values.is_null(*row as usize));
        let nulls = if any_null { rows.len().div_ceil(8) } else { 0 };
        let start = (HEADER + nulls).next_multiple_of(ALIGN);
        let count = i32::try_from(rows.len()).map_err(|_| too_long())?;
        self.out.clear();
        self.out.extend(1i32.to_ne_bytes());
        self.out.extend((if any_null { start as i32 } else { 0 }).to_ne_bytes());
        self.out.extend(self.element.oid.to_ne_bytes());
        self.out.extend(count.to_ne_bytes());
        self.out.extend(1i32.to_ne_bytes());
        self.out.resize(start - LENGTH, 0);
        for (at, row) in rows.iter().enumerate() {
            if any_null && values.is_null(*row as usize) {
                continue;
            }
            if any_null {
                self.out[HEADER - LENGTH + at / 8] |= 1 << (at % 8);
            }
            self.value(values, *row)?;
            let end = (LENGTH + self.out.len()).next_multiple_of(self.element.align.into());
            self.out.resize(end - LENGTH, 0);
            if end > LONGEST {
                return Err(too_long());
            }
        }
        Ok(())
    }

    fn value(&mut self, values: &ArrayRef, row: u32) -> Result<()> {
        let at = row as usize;
        let int64 = || values.as_primitive::<Int64Type>().value(at);
        let wide = || values.as_primitive::<Decimal128Type>().value(at);
        match self.ty.stored() {
            Stored::Bool => self.out.push(values.as_boolean().value(at).into()),
            Stored::Int16 => self.out.extend(values.as_primitive::<Int16Type>().value(at).to_ne_bytes()),
            Stored::Int32 => {
                self.out.extend(values.as_primitive::<Int32Type>().value(at).to_ne_bytes());
            }
            Stored::Int64 => self.out.extend(int64().to_ne_bytes()),
            Stored::Unsigned => self.out.extend((int64() as u32).to_ne_bytes()),
            Stored::Real => {
                let float = values.as_primitive::<Float64Type>().value(at) as f32;
                self.out.extend(float.to_bits().to_ne_bytes());
            }
            Stored::Float => {
                self.out.extend(values.as_primitive::<Float64Type>().value(at).to_bits().to_ne_bytes());
            }
            Stored::Scaled64 { scale } => self.varlena(numeric::encode(int64().into(), scale).bytes(), 0),
            Stored::Scaled128 { scale } => self.varlena(numeric::encode(wide(), scale).bytes(), 0),
            Stored::Image(image) => {
                let number = if image.is_wide() { wide() } else { int64().into() };
                self.out.extend_from_slice(&image.bytes(number));
            }
            Stored::Name => {
                let end = self.out.len() + NAME;
                self.out.extend_from_slice(bytes(values, row).unwrap_or_default());
                self.out.resize(end, 0);
            }
            Stored::Padded => {
                let text = values.as_string_view().value(at);
                let blanks = (self.element.padded as usize).saturating_sub(text.chars().count());
                self.varlena(text.as_bytes(), blanks);
            }
            Stored::Varlena | Stored::Kept => {
                let bytes = bytes(values, row).unwrap_or_default();
                match self.element.length {
                    None => self.varlena(bytes, 0),
                    Some(length) if bytes.len() == usize::from(length) => self.out.extend_from_slice(bytes),
                    Some(_) => return Err(DataFusionError::Internal("an element of another length".into())),
                }
            }
            Stored::Nowhere => {
                return Err(DataFusionError::Internal("an array of numerics in the engine's form".into()));
            }
        }
        Ok(())
    }

    /// Writes a varlena with a length of four bytes. On little-endian machines, its two lowest bits mark this form.
    fn varlena(&mut self, bytes: &[u8], blanks: usize) {
        let length = (LENGTH + bytes.len() + blanks) as u32;
        let length = if cfg!(target_endian = "little") { length << 2 } else { length };
        self.out.extend(length.to_ne_bytes());
        self.out.extend_from_slice(bytes);
        self.out.resize(self.out.len() + blanks, b' ');
    }
}
