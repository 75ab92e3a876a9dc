//! PostgreSQL's types as the engine sees them, and values that are known before it starts: constants of the query,
//! parameters, stable expressions.

use std::ffi::CStr;
use std::ptr;

use pgrx::prelude::*;
use plan::{Element, Interval, Literal, Type, float_order, text_order};
use serde::{Deserialize, Serialize};

use super::catalog;
use super::numeric::Numeric;

/// Digits behind the point that a numeric parameter may have; leaves 20 before it.
pub const PARAMETER_SCALE: u8 = 18;
/// Characters of the first half of a uuid's bytes.
const UUID_HALF: usize = 18;

/// The type in which a value of an SQL type travels; numeric is decided by the value.
pub fn type_of(sql_type: pg_sys::Oid) -> Option<Type> {
    Some(match sql_type {
        pg_sys::BOOLOID => Type::Bool,
        pg_sys::INT2OID => Type::Int16,
        pg_sys::INT4OID => Type::Int32,
        pg_sys::INT8OID => Type::Int64,
        pg_sys::FLOAT4OID => Type::Float32,
        pg_sys::FLOAT8OID => Type::Float64,
        pg_sys::NUMERICOID => Type::Decimal128 { scale: PARAMETER_SCALE },
        pg_sys::DATEOID => Type::Date,
        pg_sys::TIMESTAMPOID => Type::Timestamp,
        pg_sys::TIMESTAMPTZOID => Type::TimestampTz,
        pg_sys::TIMEOID => Type::Time,
        pg_sys::INTERVALOID => Type::Interval,
        pg_sys::OIDOID => Type::Oid,
        pg_sys::UUIDOID => Type::Uuid,
        pg_sys::TEXTOID | pg_sys::VARCHAROID => Type::Text,
        pg_sys::NAMEOID => Type::Name,
        pg_sys::BPCHAROID => Type::Char,
        pg_sys::BYTEAOID => Type::Bytes,
        other => match kind(other) {
            pg_sys::TYPTYPE_ENUM => Type::Enum,
            pg_sys::TYPTYPE_DOMAIN => return type_of(without_domain(other, -1).0),
            _ => return None,
        },
    })
}

/// The same; of others those travel as they are that say themselves how long they are.
pub fn type_or_kept(sql_type: pg_sys::Oid) -> Option<Type> {
    type_of(sql_type).or_else(|| (Form::of_type(sql_type)? == Form::Varlena).then_some(Type::Opaque))
}

/// Whether equal values of a type that the engine only keeps have equal bytes.
pub fn has_one_image(sql_type: pg_sys::Oid) -> bool {
    matches!(
        without_domain(sql_type, -1).0,
        pg_sys::BITOID
            | pg_sys::CHAROID
            | pg_sys::CIDROID
            | pg_sys::INETOID
            | pg_sys::MACADDROID
            | pg_sys::MACADDR8OID
            | pg_sys::MONEYOID
            | pg_sys::PG_LSNOID
            | pg_sys::TIMETZOID
            | pg_sys::VARBITOID
    )
}

fn kind(sql_type: pg_sys::Oid) -> u8 {
    // SAFETY: a catalog lookup; what is gone is of no kind.
    unsafe { pg_sys::get_typtype(sql_type) as u8 }
}

/// The type behind a domain, and its modifier; other types as they are.
pub fn without_domain(sql_type: pg_sys::Oid, modifier: i32) -> (pg_sys::Oid, i32) {
    if kind(sql_type) != pg_sys::TYPTYPE_DOMAIN {
        return (sql_type, modifier);
    }
    let mut modifier = -1;
    // SAFETY: a catalog lookup of a type that something is of.
    let base = unsafe { pg_sys::getBaseTypeAndTypmod(sql_type, &mut modifier) };
    (base, modifier)
}

/// How PostgreSQL keeps values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    Varlena,
    /// Behind a pointer, with this many bytes.
    Fixed(usize),
    /// In the datum, with this many bytes.
    Inline(usize),
}

impl Form {
    /// `None`: values that end with a zero byte, which no table has.
    pub fn of(length: i16, by_value: bool) -> Option<Form> {
        match (length, by_value) {
            (-1, _) => Some(Form::Varlena),
            (length @ 1.., false) => Some(Form::Fixed(length as usize)),
            (length @ 1..=8, true) => Some(Form::Inline(length as usize)),
            _ => None,
        }
    }

    pub fn of_type(sql_type: pg_sys::Oid) -> Option<Form> {
        let (mut length, mut by_value) = (0, false);
        // SAFETY: a catalog lookup of a type that something is of.
        unsafe { pg_sys::get_typlenbyval(sql_type, &mut length, &mut by_value) };
        Form::of(length, by_value)
    }
}

/// The element type of an array type; `None` if it is no array, or one that the engine cannot make.
pub fn element_of(array: pg_sys::Oid) -> Option<Element> {
    let (mut length, mut by_value, mut align) = (0, false, 0);
    // SAFETY: catalog lookups of a type that something is of, and of its elements'.
    let oid = unsafe {
        let element = pg_sys::get_element_type(array);
        if element == pg_sys::InvalidOid {
            return None;
        }
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        element.to_u32()
    };
    let align = match align as u8 {
        pg_sys::TYPALIGN_CHAR => 1,
        pg_sys::TYPALIGN_SHORT => 2,
        pg_sys::TYPALIGN_INT => 4,
        _ => 8,
    };
    let length = match Form::of(length, by_value)? {
        Form::Varlena => None,
        Form::Fixed(length) | Form::Inline(length) => Some(u16::try_from(length).ok()?),
    };
    Some(Element { oid, align, length, padded: 0 })
}

/// The type of arrays of such values; `None`: they are arrays themselves, or none are made of them.
pub fn array_of(element: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: catalog lookups; absence is an invalid oid.
    unsafe {
        let of_arrays = pg_sys::get_element_type(element) != pg_sys::InvalidOid;
        let array = pg_sys::get_array_type(element);
        (!of_arrays && array != pg_sys::InvalidOid).then_some(array)
    }
}

/// The type of a constant array's elements, which is not null, and these as constants.
pub fn elements(array: &pg_sys::Const) -> (pg_sys::Oid, Vec<pg_sys::Const>) {
    // SAFETY: a constant's value is of its type; deconstruct_array fills all three.
    unsafe {
        let array = pg_sys::pg_detoast_datum(array.constvalue.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let (ty, none) = ((*array).elemtype, pg_sys::InvalidOid);
        let (mut length, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign(ty, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (ptr::null_mut(), ptr::null_mut(), 0);
        let width = i32::from(length);
        pg_sys::deconstruct_array(array, ty, width, by_value, align, &mut values, &mut nulls, &mut count);
        let element = |i| *pg_sys::makeConst(ty, -1, none, width, *values.add(i), *nulls.add(i), by_value);
        (ty, (0..count as usize).map(element).collect())
    }
}

/// An array of this type without elements.
pub fn empty_array(array: pg_sys::Oid) -> *mut pg_sys::Node {
    let (collation, no_modifier, length) = (pg_sys::InvalidOid, -1, -1);
    // SAFETY: a new array of the type's elements, and a node around it.
    unsafe {
        let empty = pg_sys::construct_empty_array(pg_sys::get_element_type(array));
        pg_sys::makeConst(array, no_modifier, collation, length, empty.into(), false, false).cast()
    }
}

/// The order of these integers is that of the bytes.
pub fn uuid(bytes: [u8; 16]) -> i128 {
    i128::from_be_bytes(bytes) ^ i128::MIN
}

/// The opposite.
pub fn uuid_bytes(uuid: i128) -> [u8; 16] {
    (uuid ^ i128::MIN).to_be_bytes()
}

/// Whether values of an SQL type travel in this type, with whatever scale. Any may be opaque.
pub(super) fn travels_as(sql_type: pg_sys::Oid, ty: Type) -> bool {
    let is_decimal = |ty| matches!(ty, Type::Decimal64 { .. } | Type::Decimal128 { .. });
    ty == Type::Opaque || type_of(sql_type).is_some_and(|own| own == ty || is_decimal(own) && is_decimal(ty))
}

/// A not-null value as a literal of `ty`.
///
/// # Safety
///
/// `datum` is a value of an SQL type for which [`type_of`] gave `ty` (with whatever scale); opaque are varlenas alone.
pub unsafe fn literal(datum: pg_sys::Datum, ty: Type) -> Result<Literal, String> {
    let bits = datum.value();
    // SAFETY: where it is asked for, text, varchar, char or bytea by the caller's promise.
    let bytes = || unsafe { bytes(datum) };
    Ok(match ty {
        Type::Bool => Literal::Bool(bits != 0),
        Type::Int16 => Literal::Int(bits as i16 as i64),
        Type::Int32 | Type::Date | Type::Enum => Literal::Int(bits as i32 as i64),
        Type::Int64 | Type::Timestamp | Type::TimestampTz | Type::Time => Literal::Int(bits as i64),
        Type::Oid => Literal::Int(bits as u32 as i64),
        Type::Float32 => Literal::Float(f32::from_bits(bits as u32).into()),
        Type::Float64 => Literal::Float(f64::from_bits(bits as u64)),
        Type::Decimal64 { scale } | Type::Decimal128 { scale } => {
            // SAFETY: a numeric by the caller's promise.
            let (value, own) = unsafe { numeric(datum) }?;
            let shift = scale.checked_sub(own).ok_or("a numeric value has more digits than the engine compares")?;
            let wide = 10i128.checked_pow(shift as u32).and_then(|power| value.checked_mul(power));
            Literal::Decimal(wide.filter(|&w| fits(w)).ok_or("a numeric value has too many digits")?)
        }
        Type::Interval => {
            // SAFETY: an interval by the caller's promise: 16 bytes.
            let interval = Interval::of_stored(unsafe { &*datum.cast_mut_ptr::<[u8; 16]>() });
            let number = interval.and_then(Interval::number).ok_or("an interval is longer than the engine's can be")?;
            Literal::Decimal(number)
        }
        // SAFETY: a uuid by the caller's promise: 16 bytes.
        Type::Uuid => Literal::Decimal(uuid(unsafe { *datum.cast_mut_ptr::<[u8; 16]>() })),
        Type::Text => Literal::Text(text(bytes())?),
        // SAFETY: a name by the caller's promise.
        Type::Name => Literal::Text(text(unsafe { name(datum) }.to_vec())?),
        Type::Char => Literal::Text(text(bytes())?.trim_end_matches(' ').to_string()),
        Type::Bytes | Type::Opaque => Literal::Bytes(bytes()),
        Type::Numeric => return Err("a numeric in a form of the engine's own".into()),
    })
}

/// The text of a constant of unknown type.
///
/// # Safety
///
/// `datum` is of type unknown.
pub unsafe fn unknown(datum: pg_sys::Datum) -> Result<String, String> {
    // SAFETY: by the caller's promise, a string that ends with a zero.
    text(unsafe { CStr::from_ptr(datum.cast_mut_ptr()) }.to_bytes().to_vec())
}

/// The output function's text of a datum.
///
/// # Safety
///
/// The datum is of the function's type.
unsafe fn output(function: u32, datum: pg_sys::Datum) -> String {
    // SAFETY: by the caller's promise; a C string comes back.
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
    // SAFETY: the number is what a value of the type is.
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

/// PostgreSQL's text of a value that is a number to the mirror; `None` if it is not known, or if the values have no
/// order. The ends of 64 bits also stand for everything beyond.
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
        // Its second half is not known.
        Type::Uuid => Some(format!("{}...", &uuid_text(number)[..UUID_HALF])),
        Type::Text | Type::Name | Type::Char | Type::Bytes => Some(start_text(ty, number)),
        other => time_text(other, short),
    }
}

/// How the texts, or bytes, of a place begin.
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

fn uuid_text(uuid: i128) -> String {
    let bytes = uuid_bytes(uuid);
    // SAFETY: the output function of a uuid, given its 16 bytes.
    unsafe { output(pg_sys::F_UUID_OUT, pg_sys::Datum::from(bytes.as_ptr())) }
}

/// PostgreSQL's text of a literal that is neither a number, nor a text, nor a truth value.
pub fn shown(ty: Type, literal: &Literal) -> String {
    // SAFETY: an output function of the type that the callers below have a value of.
    let of_datum = |function: u32, datum: pg_sys::Datum| unsafe { output(function, datum) };
    let of_time = |number: i64| time_text(ty, number).unwrap_or_default();
    match (ty, literal) {
        (Type::Date, Literal::Int(days)) => format!("'{}'::date", of_time(*days)),
        (Type::Timestamp, Literal::Int(time)) => format!("'{}'::timestamp", of_time(*time)),
        (Type::TimestampTz, Literal::Int(time)) => format!("'{}'::timestamptz", of_time(*time)),
        (Type::Time, Literal::Int(time)) => format!("'{}'::time", of_time(*time)),
        (Type::Interval, Literal::Decimal(number)) => {
            let stored = Interval::of_number(*number).stored();
            let text = of_datum(pg_sys::F_INTERVAL_OUT, pg_sys::Datum::from(stored.as_ptr()));
            format!("'{text}'::interval")
        }
        (Type::Enum, Literal::Int(label)) => {
            format!("'{}'", of_datum(pg_sys::F_ENUM_OUT, pg_sys::Oid::from(*label as u32).into()))
        }
        (Type::Uuid, Literal::Decimal(uuid)) => format!("'{}'::uuid", uuid_text(*uuid)),
        (Type::Opaque, Literal::Bytes(bytes)) => Numeric::of_bytes(bytes).text(),
        (_, Literal::Bytes(bytes)) => {
            format!("'\\x{}'::bytea", hexadecimal(&bytes[..bytes.len().min(100)]))
        }
        (_, other) => format!("{other:?}"),
    }
}

/// A name, without the zeros behind it.
///
/// # Safety
///
/// `datum` is a name, which stays where it is during `'a`.
pub(super) unsafe fn name<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: by the caller's promise.
    let name = unsafe { &*datum.cast_mut_ptr::<[u8; pg_sys::NAMEDATALEN as usize]>() };
    name.split(|&byte| byte == 0).next().unwrap_or_default()
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

/// # Safety
///
/// `datum` is a varlena.
unsafe fn bytes(datum: pg_sys::Datum) -> Vec<u8> {
    // SAFETY: a varlena by the caller's promise, detoasted here; it lives in the current memory context.
    unsafe {
        let value = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        pgrx::varlena::varlena_to_byte_slice(value).to_vec()
    }
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    // The planner lets text through only in UTF-8 databases.
    String::from_utf8(bytes).map_err(|_| "a text value is not UTF-8".to_string())
}
