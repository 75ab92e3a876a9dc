//! Values that are known before the engine starts: constants of the query, parameters, stable expressions.

use std::ffi::CStr;

use pgrx::prelude::*;
use plan::{Literal, Type};

/// Digits behind the point that a numeric parameter may have; leaves 20 before it.
pub const PARAMETER_SCALE: u8 = 18;

/// The type in which a value of an SQL type travels; numeric is decided by the value.
pub fn type_of(sql_type: pg_sys::Oid) -> Option<Type> {
    Some(match sql_type {
        pg_sys::BOOLOID => Type::Bool,
        pg_sys::INT2OID => Type::Int16,
        pg_sys::INT4OID => Type::Int32,
        pg_sys::INT8OID => Type::Int64,
        pg_sys::FLOAT8OID => Type::Float64,
        pg_sys::NUMERICOID => Type::Decimal128 { scale: PARAMETER_SCALE },
        pg_sys::DATEOID => Type::Date,
        pg_sys::TIMESTAMPOID => Type::Timestamp,
        pg_sys::TIMESTAMPTZOID => Type::TimestampTz,
        pg_sys::TEXTOID | pg_sys::VARCHAROID => Type::Text,
        pg_sys::BPCHAROID => Type::Char,
        _ => return None,
    })
}

/// Whether values of an SQL type travel in this type, with whatever scale.
pub(super) fn travels_as(sql_type: pg_sys::Oid, ty: Type) -> bool {
    let is_decimal = |ty| matches!(ty, Type::Decimal64 { .. } | Type::Decimal128 { .. });
    type_of(sql_type).is_some_and(|own| own == ty || is_decimal(own) && is_decimal(ty))
}

/// A not-null value as a literal of `ty`.
///
/// # Safety
///
/// `datum` is a value of an SQL type for which [`type_of`] gave `ty` (with whatever scale).
pub unsafe fn literal(datum: pg_sys::Datum, ty: Type) -> Result<Literal, String> {
    let bits = datum.value();
    // SAFETY: where it is asked for, text, varchar or char by the caller's promise.
    let text = || unsafe { text(datum) };
    Ok(match ty {
        Type::Bool => Literal::Bool(bits != 0),
        Type::Int16 => Literal::Int(bits as i16 as i64),
        Type::Int32 | Type::Date => Literal::Int(bits as i32 as i64),
        Type::Int64 | Type::Timestamp | Type::TimestampTz => Literal::Int(bits as i64),
        Type::Float64 => Literal::Float(f64::from_bits(bits as u64)),
        Type::Decimal64 { scale } | Type::Decimal128 { scale } => {
            // SAFETY: a numeric by the caller's promise.
            let (value, own) = unsafe { numeric(datum) }?;
            let shift = scale.checked_sub(own).ok_or("a numeric value has more digits than the engine compares")?;
            let wide = 10i128.checked_pow(shift as u32).and_then(|power| value.checked_mul(power));
            Literal::Decimal(wide.filter(|&w| fits(w)).ok_or("a numeric value has too many digits")?)
        }
        Type::Text => Literal::Text(text()?),
        Type::Char => Literal::Text(text()?.trim_end_matches(' ').to_string()),
    })
}

/// A numeric as unscaled integer and display scale.
///
/// # Safety
///
/// `datum` is a numeric.
pub unsafe fn numeric(datum: pg_sys::Datum) -> Result<(i128, u8), String> {
    // SAFETY: a numeric by the caller's promise; the output function returns a C string.
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

unsafe fn text(datum: pg_sys::Datum) -> Result<String, String> {
    // SAFETY: a varlena by the caller's promise, detoasted here; it lives in the current memory context.
    let bytes = unsafe {
        let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        pgrx::varlena::varlena_to_byte_slice(value)
    };
    // The planner lets text through only in UTF-8 databases.
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text value is not UTF-8".to_string())
}
