//! PostgreSQL's types as the engine sees them, and their values on the way there and back.
//!
//! | file | job |
//! |---|---|
//! | `read` | datums to values: columns of tuples, constants, parameters |
//! | `write` | columns of the engine's result to datums |
//! | `shown` | values as PostgreSQL shows them |
//!
//! All three go by [`plan::Stored`], which says for each type how PostgreSQL has its values.

mod read;
mod shown;
mod write;

use std::ptr;

use pgrx::prelude::*;
use plan::{Element, Type};
use serde::{Deserialize, Serialize};

pub use self::read::{Codec, OnDisk, TooWide, literal, numeric, unknown};
pub use self::shown::{number_text, shown};
pub use self::write::{Arena, Datums, Unwritten, is_pointed_to, kept, padded, plain};

/// Digits behind the point that a numeric parameter may have; leaves 20 before it.
pub const PARAMETER_SCALE: u8 = 18;

/// An SQL type that the engine computes with.
struct SqlType {
    oid: pg_sys::Oid,
    /// In which its values travel; numeric is decided by the value.
    ty: Type,
}

const fn row(oid: pg_sys::Oid, ty: Type) -> SqlType {
    SqlType { oid, ty }
}

/// All of them, but for enums and domains.
const TYPES: &[SqlType] = &[
    row(pg_sys::BOOLOID, Type::Bool),
    row(pg_sys::INT2OID, Type::Int16),
    row(pg_sys::INT4OID, Type::Int32),
    row(pg_sys::INT8OID, Type::Int64),
    row(pg_sys::FLOAT4OID, Type::Float32),
    row(pg_sys::FLOAT8OID, Type::Float64),
    row(pg_sys::NUMERICOID, Type::Decimal128 { scale: PARAMETER_SCALE }),
    row(pg_sys::DATEOID, Type::Date),
    row(pg_sys::TIMESTAMPOID, Type::Timestamp),
    row(pg_sys::TIMESTAMPTZOID, Type::TimestampTz),
    row(pg_sys::TIMEOID, Type::Time),
    row(pg_sys::INTERVALOID, Type::Interval),
    row(pg_sys::OIDOID, Type::Oid),
    row(pg_sys::UUIDOID, Type::Uuid),
    row(pg_sys::TEXTOID, Type::Text),
    row(pg_sys::VARCHAROID, Type::Text),
    row(pg_sys::NAMEOID, Type::Name),
    row(pg_sys::BPCHAROID, Type::Char),
    row(pg_sys::BYTEAOID, Type::Bytes),
];

/// The type in which a value of an SQL type travels; numeric is decided by the value.
pub fn type_of(sql_type: pg_sys::Oid) -> Option<Type> {
    if let Some(row) = TYPES.iter().find(|row| row.oid == sql_type) {
        return Some(row.ty);
    }
    match kind(sql_type) {
        pg_sys::TYPTYPE_ENUM => Some(Type::Enum),
        pg_sys::TYPTYPE_DOMAIN => type_of(without_domain(sql_type, -1).0),
        _ => None,
    }
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

/// Whether values of an SQL type travel in this type, with whatever scale. Any may be opaque.
pub(super) fn travels_as(sql_type: pg_sys::Oid, ty: Type) -> bool {
    let is_decimal = |ty| matches!(ty, Type::Decimal64 { .. } | Type::Decimal128 { .. });
    ty == Type::Opaque || type_of(sql_type).is_some_and(|own| own == ty || is_decimal(own) && is_decimal(ty))
}
