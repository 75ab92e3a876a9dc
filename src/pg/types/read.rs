//! Converts datums to values: columns of tuples, constants, parameters.

use std::ffi::CStr;

use pgrx::prelude::*;
use pgrx::varlena;
use plan::{Image, Kind, Literal, Stored, Type, numeric};
use protocol::change::Value;

use super::Form;

/// The meaning of a TOAST pointer to disk in a tuple.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    /// The update did not touch the value, and the WAL does not contain it.
    Unchanged,
    /// The value must be read from the TOAST table.
    Fetch,
}

/// A row or a key exceeds its greatest length. The values beyond that length were not read.
#[derive(Debug)]
pub struct TooWide;

/// The way in which datums of a column or of a parameter are read.
#[derive(Clone, Copy)]
pub struct Codec {
    stored: Stored,
    form: Form,
}

impl Codec {
    pub fn new(ty: Type, form: Form) -> Codec {
        Codec { stored: ty.stored(), form }
    }

    /// Reads a value. It lives as long as the datum and its memory or, if the value had to be decompressed, as the
    /// current memory context. A value of more than `most_bytes` is not decompressed, but refused.
    ///
    /// # Safety
    ///
    /// `datum` is not null. Its SQL type has the codec's type and form in the engine, and its memory stays in place
    /// during `'a`.
    #[inline]
    pub unsafe fn read<'a>(
        self,
        datum: &'a pg_sys::Datum,
        on_disk: OnDisk,
        most_bytes: usize,
    ) -> Result<Value<'a>, TooWide> {
        let bits = datum.value();
        // SAFETY: called only for a varlena, by the caller's promise.
        let content = || unsafe { content(*datum, on_disk, most_bytes) };
        // SAFETY: called only for a value of that many bytes behind a pointer, by the caller's promise.
        let fixed =
            |length: usize| unsafe { std::slice::from_raw_parts(datum.cast_mut_ptr::<u8>().cast_const(), length) };
        Ok(match self.stored {
            Stored::Bool => Value::Bool(bits as u8 != 0),
            Stored::Int16 => Value::Int(bits as i16 as i64),
            Stored::Int32 => Value::Int(bits as i32 as i64),
            Stored::Int64 => Value::Int(bits as i64),
            Stored::Unsigned => Value::Int(bits as u32 as i64),
            Stored::Real => Value::Float(f32::from_bits(bits as u32).into()),
            Stored::Float => Value::Float(f64::from_bits(bits as u64)),
            Stored::Scaled64 { scale } => match content()? {
                Some(bytes) => numeric::scaled_64(bytes, scale).map_or(Value::Unholdable, Value::Int),
                None => Value::Unchanged,
            },
            Stored::Scaled128 { scale } => match content()? {
                Some(bytes) => numeric::scaled(bytes, scale).map_or(Value::Unholdable, Value::Decimal),
                None => Value::Unchanged,
            },
            Stored::Image(image) => {
                image.number(fixed(image.length())).map_or(Value::Unholdable, |number| of_image(image, number))
            }
            Stored::Name => Value::Text(name(fixed(pg_sys::NAMEDATALEN as usize))),
            Stored::Varlena => content()?.map_or(Value::Unchanged, Value::Text),
            Stored::Padded => content()?.map_or(Value::Unchanged, |bytes| Value::Text(trimmed(bytes))),
            Stored::Kept => match self.form {
                Form::Varlena => content()?.map_or(Value::Unchanged, Value::Text),
                Form::Fixed(length) => Value::Text(fixed(length)),
                Form::Inline(length) => {
                    // SAFETY: a datum has at least that many bytes, and the low ones come first.
                    Value::Text(unsafe { std::slice::from_raw_parts(std::ptr::from_ref(datum).cast(), length) })
                }
            },
            Stored::Nowhere => Value::Unholdable,
        })
    }
}

/// Converts a value that is not null to a literal of `ty`. The error says why the engine cannot hold the value.
///
/// # Safety
///
/// `datum` is a value of an SQL type for which [`super::type_of`] returned `ty` (with any scale). Only varlenas are
/// opaque.
pub unsafe fn literal(datum: pg_sys::Datum, ty: Type) -> Result<Literal, String> {
    // SAFETY: by the caller's promise.
    let value = unsafe { Codec::new(ty, Form::Varlena).read(&datum, OnDisk::Fetch, usize::MAX) };
    let unheld = || match ty.kind() {
        Kind::Decimal => "a numeric value is not finite, or has more digits than the engine compares",
        Kind::Interval => "an interval is longer than the engine's can be",
        // Columns and parameters of text exist only in UTF-8 databases, but their values may be invalid.
        Kind::Text => "a text value is not UTF-8",
        _ => "the engine cannot hold a value",
    };
    value.ok().and_then(|value| value.literal(ty)).ok_or_else(|| unheld().into())
}

/// The text of a constant of unknown type.
///
/// # Safety
///
/// `datum` is a value of the type unknown.
pub unsafe fn unknown(datum: pg_sys::Datum) -> Result<String, String> {
    // SAFETY: by the caller's promise, a string that ends with a zero.
    text(unsafe { CStr::from_ptr(datum.cast_mut_ptr()) }.to_bytes().to_vec())
}

/// A numeric as an unscaled integer, and its display scale.
///
/// # Safety
///
/// `datum` is a numeric.
pub unsafe fn numeric(datum: pg_sys::Datum) -> Result<(i128, u8), String> {
    // SAFETY: the datum is a numeric, by the caller's promise. The output function returns a C string.
    let text = unsafe {
        let out = pg_sys::OidOutputFunctionCall(pg_sys::Oid::from(pg_sys::F_NUMERIC_OUT), datum);
        CStr::from_ptr(out).to_string_lossy().into_owned()
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}");
    let value = digits.parse::<i128>().ok().filter(|&v| fits(v));
    match (value, u8::try_from(fraction.len())) {
        (Some(value), Ok(scale)) if scale <= 38 => Ok((value, scale)),
        _ => Err(format!("the engine cannot hold the numeric value {text}")),
    }
}

/// Whether a scaled integer has at most 38 digits.
fn fits(value: i128) -> bool {
    value.unsigned_abs() < 10u128.pow(38)
}

/// The bytes without trailing blanks.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The content of a varlena, without its length; `None` for an unchanged value in the TOAST table.
unsafe fn content<'a>(datum: pg_sys::Datum, on_disk: OnDisk, most_bytes: usize) -> Result<Option<&'a [u8]>, TooWide> {
    let mut pointer = datum.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: the datum is not null, and its type has variable length, so it points to a varlena. Detoasting returns
    // another varlena.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) {
            let tag = varlena::vartag_external(pointer) as pg_sys::vartag_external::Type;
            if tag == pg_sys::vartag_external::VARTAG_ONDISK && on_disk == OnDisk::Unchanged {
                return Ok(None);
            }
        }
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            // The value's header states its length, so it is checked before memory is allocated for the value.
            if pg_sys::toast_raw_datum_size(datum) > most_bytes {
                return Err(TooWide);
            }
            pointer = pg_sys::pg_detoast_datum_packed(pointer);
        }
        Ok(Some(varlena::varlena_to_byte_slice(pointer)))
    }
}

/// The bytes of a name, up to its first zero byte.
fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn of_image(image: Image, number: i128) -> Value<'static> {
    if image.is_wide() { Value::Decimal(number) } else { Value::Int(number as i64) }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    // Text is read only in UTF-8 databases, but a value may be invalid.
    String::from_utf8(bytes).map_err(|_| "a text value is not UTF-8".to_string())
}
