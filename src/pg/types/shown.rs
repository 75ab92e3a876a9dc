//! Values as PostgreSQL prints them.

use pgrx::prelude::*;
use plan::{Image, Literal, Type, float_order, text_order};

use super::Arena;
use crate::pg::catalog;

/// The number of characters in the text of a uuid's first eight bytes.
const UUID_HALF: usize = 18;

/// The text that an output function returns for a datum.
///
/// # Safety
///
/// `datum` has the type that the function takes.
unsafe fn output(function: u32, datum: pg_sys::Datum) -> String {
    // SAFETY: by the caller's promise; the function returns a C string.
    unsafe { catalog::text(pg_sys::OidOutputFunctionCall(function.into(), datum)) }.unwrap_or_default()
}

/// PostgreSQL's text of a date or a time.
fn time_text(ty: Type, number: i64) -> Option<String> {
    let (function, datum) = match ty {
        Type::Date => (pg_sys::F_DATE_OUT, pg_sys::Datum::from(number as i32)),
        Type::Timestamp => (pg_sys::F_TIMESTAMP_OUT, number.into()),
        Type::TimestampTz => (pg_sys::F_TIMESTAMPTZ_OUT, number.into()),
        Type::Time => (pg_sys::F_TIME_OUT, number.into()),
        _ => return None,
    };
    // SAFETY: the number is a value of the type.
    Some(unsafe { output(function, datum) })
}

fn float_text(ty: Type, value: f64) -> String {
    let (function, datum) = match ty {
        Type::Float32 => (pg_sys::F_FLOAT4OUT, (value as f32).into_datum()),
        _ => (pg_sys::F_FLOAT8OUT, value.into_datum()),
    };
    // SAFETY: the datum is a float of that size.
    unsafe { output(function, datum.unwrap_or(pg_sys::Datum::null())) }
}

/// PostgreSQL's text of a value that the mirror holds as a number. `None` if the text is not known, or if the values
/// have no order. The two ends of the 64-bit range also stand for all values beyond them.
pub fn number_text(ty: Type, number: i128) -> Option<String> {
    let short = number.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    match ty {
        Type::Int16 | Type::Int32 | Type::Int64 | Type::Oid => Some(short.to_string()),
        Type::Decimal64 { scale } => Some(plan::words::decimal(short.into(), scale)),
        Type::Decimal128 { scale } => {
            let is_known = (i128::from(i64::MIN) + 1..i128::from(i64::MAX)).contains(&number);
            is_known.then(|| plan::words::decimal(number, scale))
        }
        Type::Float32 | Type::Float64 => Some(float_text(ty, float_order::of_rank(short))),
        Type::Bool => Some(if number == 0 { "f" } else { "t" }.into()),
        // The number holds only the first half of the uuid.
        Type::Uuid => Some(format!("{}...", &image_text(Image::Uuid, number)[..UUID_HALF])),
        Type::Text | Type::Name | Type::Char | Type::Bytes => Some(start_text(ty, number)),
        Type::TimeTz => Some(image_text(Image::TimeTz, number)),
        other => time_text(other, short),
    }
}

/// The characters or bytes with which all texts begin that have the position `place` in the order of texts.
fn start_text(ty: Type, place: i128) -> String {
    let (bytes, may_be_longer) = text_order::start(place);
    let mut start = match ty {
        Type::Bytes => format!("\\x{}", hexadecimal(&bytes)),
        _ => bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()).to_string(),
    };
    if may_be_longer {
        start.push_str("...");
    }
    start
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn image_text(image: Image, number: i128) -> String {
    let function = match image {
        Image::Uuid => pg_sys::F_UUID_OUT,
        Image::Interval => pg_sys::F_INTERVAL_OUT,
        Image::TimeTz => pg_sys::F_TIMETZ_OUT,
    };
    let bytes = image.bytes(number);
    // SAFETY: the output function of a type whose value lies in these bytes.
    unsafe { output(function, pg_sys::Datum::from(bytes.as_ptr())) }
}

/// The digits of a numeric with these bytes, which lack the length.
fn numeric_text(bytes: &[u8]) -> String {
    let mut arena = Arena::default();
    match arena.push(bytes, 0) {
        // SAFETY: the arena begins with the numeric.
        Ok(_) => unsafe { output(pg_sys::F_NUMERIC_OUT, pg_sys::Datum::from(arena.start())) },
        Err(_) => String::new(),
    }
}

/// PostgreSQL's text of a literal that is not a number, a text or a truth value.
pub fn shown(ty: Type, literal: &Literal) -> String {
    // SAFETY: the calls below pass the output function of the datum's type.
    let of_datum = |function: u32, datum: pg_sys::Datum| unsafe { output(function, datum) };
    let of_time = |number: i64| time_text(ty, number).unwrap_or_default();
    match (ty, literal) {
        (Type::Date, Literal::Int(days)) => format!("'{}'::date", of_time(*days)),
        (Type::Timestamp, Literal::Int(time)) => format!("'{}'::timestamp", of_time(*time)),
        (Type::TimestampTz, Literal::Int(time)) => format!("'{}'::timestamptz", of_time(*time)),
        (Type::Time, Literal::Int(time)) => format!("'{}'::time", of_time(*time)),
        (Type::TimeTz, Literal::Int(time)) => format!("'{}'::timetz", image_text(Image::TimeTz, (*time).into())),
        (Type::Interval, Literal::Decimal(number)) => format!("'{}'::interval", image_text(Image::Interval, *number)),
        (Type::Enum, Literal::Int(label)) => {
            format!("'{}'", of_datum(pg_sys::F_ENUM_OUT, pg_sys::Oid::from(*label as u32).into()))
        }
        (Type::Uuid, Literal::Decimal(uuid)) => format!("'{}'::uuid", image_text(Image::Uuid, *uuid)),
        (Type::Opaque, Literal::Bytes(bytes)) => numeric_text(bytes),
        (_, Literal::Bytes(bytes)) => {
            format!("'\\x{}'::bytea", hexadecimal(&bytes[..bytes.len().min(100)]))
        }
        (_, other) => format!("{other:?}"),
    }
}
