//! PostgreSQL's types as the engine knows them, and the conversion of values in both directions.
//!
//! | file | job |
//! |---|---|
//! | `read` | datums to values: columns of tuples, constants, parameters |
//! | `write` | columns of the engine's result to datums |
//! | `shown` | values as PostgreSQL prints them |
//!
//! All three use [`plan::Stored`], which tells how PostgreSQL stores the values of each type.

mod read;
mod shown;
mod write;

use std::ptr;

use pgrx::prelude::*;
use plan::catalogue::Extreme;
use plan::{Element, Kind, Type};
use serde::{Deserialize, Serialize};

use super::tree::{Memory, Node, Ref};

pub use self::read::{Codec, OnDisk, TooWide, literal, numeric, unknown};
pub use self::shown::{number_text, shown};
pub use self::write::{Arena, Datums, Unwritten, is_pointed_to, kept, padded, plain};

/// The number of digits behind the point that a numeric parameter may have. That leaves 20 digits before the point.
pub const PARAMETER_SCALE: u8 = 18;

/// The operator families of the default B-tree operator classes (pg_opfamily.dat). PostgreSQL's headers name only some
/// of them.
pub mod family {
    pub const BOOL: u32 = 424;
    pub const BPCHAR: u32 = 426;
    pub const BYTEA: u32 = 428;
    pub const DATETIME: u32 = 434;
    pub const ENUM: u32 = 3522;
    pub const FLOAT: u32 = 1970;
    pub const INTEGER: u32 = 1976;
    pub const INTERVAL: u32 = 1982;
    pub const NUMERIC: u32 = 1988;
    pub const OID: u32 = 1989;
    pub const TEXT: u32 = 1994;
    pub const TIME: u32 = 1996;
    pub const TIMETZ: u32 = 2000;
    pub const UUID: u32 = 2968;
}

// pgrx gives the type Oid to every constant with "oid" in its name, and so also to the oids of these functions.
const MIN_OID: u32 = pg_sys::F_MIN_OID.to_u32();
const MAX_OID: u32 = pg_sys::F_MAX_OID.to_u32();

/// An SQL type that the engine computes with.
struct SqlType {
    oid: pg_sys::Oid,
    /// The engine's type for the values. For numeric, the scale depends on the value.
    ty: Type,
    /// The operator family that orders the values.
    family: u32,
    /// The functions min() and max() for the type, if it has them.
    extremes: Option<[u32; 2]>,
}

const fn row(oid: pg_sys::Oid, ty: Type, family: u32, extremes: Option<[u32; 2]>) -> SqlType {
    SqlType { oid, ty, family, extremes }
}

/// All SQL types that the engine computes with, except enums and domains.
#[rustfmt::skip]
const TYPES: &[SqlType] = &[
    row(pg_sys::BOOLOID, Type::Bool, family::BOOL, None),
    row(pg_sys::INT2OID, Type::Int16, family::INTEGER, Some([pg_sys::F_MIN_INT2, pg_sys::F_MAX_INT2])),
    row(pg_sys::INT4OID, Type::Int32, family::INTEGER, Some([pg_sys::F_MIN_INT4, pg_sys::F_MAX_INT4])),
    row(pg_sys::INT8OID, Type::Int64, family::INTEGER, Some([pg_sys::F_MIN_INT8, pg_sys::F_MAX_INT8])),
    row(pg_sys::FLOAT4OID, Type::Float32, family::FLOAT, Some([pg_sys::F_MIN_FLOAT4, pg_sys::F_MAX_FLOAT4])),
    row(pg_sys::FLOAT8OID, Type::Float64, family::FLOAT, Some([pg_sys::F_MIN_FLOAT8, pg_sys::F_MAX_FLOAT8])),
    row(pg_sys::NUMERICOID, Type::Decimal128 { scale: PARAMETER_SCALE }, family::NUMERIC,
        Some([pg_sys::F_MIN_NUMERIC, pg_sys::F_MAX_NUMERIC])),
    row(pg_sys::DATEOID, Type::Date, family::DATETIME, Some([pg_sys::F_MIN_DATE, pg_sys::F_MAX_DATE])),
    row(pg_sys::TIMESTAMPOID, Type::Timestamp, family::DATETIME, Some([pg_sys::F_MIN_TIMESTAMP, pg_sys::F_MAX_TIMESTAMP])),
    row(pg_sys::TIMESTAMPTZOID, Type::TimestampTz, family::DATETIME,
        Some([pg_sys::F_MIN_TIMESTAMPTZ, pg_sys::F_MAX_TIMESTAMPTZ])),
    row(pg_sys::TIMEOID, Type::Time, family::TIME, Some([pg_sys::F_MIN_TIME, pg_sys::F_MAX_TIME])),
    row(pg_sys::TIMETZOID, Type::TimeTz, family::TIMETZ, Some([pg_sys::F_MIN_TIMETZ, pg_sys::F_MAX_TIMETZ])),
    row(pg_sys::INTERVALOID, Type::Interval, family::INTERVAL, Some([pg_sys::F_MIN_INTERVAL, pg_sys::F_MAX_INTERVAL])),
    row(pg_sys::OIDOID, Type::Oid, family::OID, Some([MIN_OID, MAX_OID])),
    row(pg_sys::UUIDOID, Type::Uuid, family::UUID, None),
    row(pg_sys::TEXTOID, Type::Text, family::TEXT, Some([pg_sys::F_MIN_TEXT, pg_sys::F_MAX_TEXT])),
    row(pg_sys::VARCHAROID, Type::Text, family::TEXT, None),
    row(pg_sys::NAMEOID, Type::Name, family::TEXT, None),
    row(pg_sys::BPCHAROID, Type::Char, family::BPCHAR, Some([pg_sys::F_MIN_BPCHAR, pg_sys::F_MAX_BPCHAR])),
    row(pg_sys::BYTEAOID, Type::Bytes, family::BYTEA, None),
];

/// The operator family that orders the values of a type; `None` if it is not known.
pub fn family_of(ty: Type) -> Option<u32> {
    let is_it = |row: &&SqlType| row.ty == ty || row.ty.kind() == Kind::Decimal && ty.kind() == Kind::Decimal;
    match ty {
        Type::Enum => Some(family::ENUM),
        _ => TYPES.iter().find(is_it).map(|row| row.family),
    }
}

/// Whether the operator family orders a type that the engine computes with.
pub fn has_family(family: u32) -> bool {
    family == family::ENUM || TYPES.iter().any(|row| row.family == family)
}

/// The [`Extreme`] that an aggregate function computes.
pub fn extreme(function: u32) -> Option<Extreme> {
    const ENUMS: [u32; 2] = [pg_sys::F_MIN_ANYENUM, pg_sys::F_MAX_ANYENUM];
    let pairs = TYPES.iter().filter_map(|row| row.extremes).chain([ENUMS]);
    let is_min =
        pairs.into_iter().find_map(|[min, max]| (function == min || function == max).then_some(function == min))?;
    Some(if is_min { Extreme::Min } else { Extreme::Max })
}

/// The engine's type for values of an SQL type; `None` if the engine does not compute with it. For numeric, the scale
/// depends on the value.
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

/// Like [`type_of`], but also allows other SQL types whose values contain their own length. The engine keeps those
/// unchanged.
pub fn type_or_kept(sql_type: pg_sys::Oid) -> Option<Type> {
    type_of(sql_type).or_else(|| (Form::of_type(sql_type)? == Form::Varlena).then_some(Type::Opaque))
}

/// Whether equal values of a type that the engine only keeps always have equal bytes.
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
            | pg_sys::VARBITOID
    )
}

fn kind(sql_type: pg_sys::Oid) -> u8 {
    // SAFETY: a catalog look-up; a type that is gone has no kind.
    unsafe { pg_sys::get_typtype(sql_type) as u8 }
}

/// The type on which a domain is based, and its modifier. A type that is no domain is returned unchanged.
pub fn without_domain(sql_type: pg_sys::Oid, modifier: i32) -> (pg_sys::Oid, i32) {
    if kind(sql_type) != pg_sys::TYPTYPE_DOMAIN {
        return (sql_type, modifier);
    }
    let mut modifier = -1;
    // SAFETY: a catalog look-up. The type exists, because a value or expression has this type.
    let base = unsafe { pg_sys::getBaseTypeAndTypmod(sql_type, &mut modifier) };
    (base, modifier)
}

/// The form in which PostgreSQL passes values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    Varlena,
    /// The values have this many bytes, and the datum points to them.
    Fixed(usize),
    /// The values have this many bytes, and lie in the datum itself.
    Inline(usize),
}

impl Form {
    /// The form of a type; `None` for C strings, because no table holds them.
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
        // SAFETY: a catalog look-up. The type exists, because a value or expression has this type.
        unsafe { pg_sys::get_typlenbyval(sql_type, &mut length, &mut by_value) };
        Form::of(length, by_value)
    }
}

/// The element type of an array type; `None` if the type is no array, or if the engine cannot make arrays of it.
pub fn element_of(array: pg_sys::Oid) -> Option<Element> {
    let (mut length, mut by_value, mut align) = (0, false, 0);
    // SAFETY: catalog look-ups of a type that exists, because an expression has this type, and of the type of its
    // elements.
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

/// The array type for these elements; `None` if the elements are arrays themselves, or have no array type.
pub fn array_of(element: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: catalog look-ups, which return an invalid oid if there is no such type.
    unsafe {
        let of_arrays = pg_sys::get_element_type(element) != pg_sys::InvalidOid;
        let array = pg_sys::get_array_type(element);
        (!of_arrays && array != pg_sys::InvalidOid).then_some(array)
    }
}

/// The element type of a constant array that is not null, and the elements as constants.
pub fn elements(array: Ref<'_, pg_sys::Const>) -> (pg_sys::Oid, Vec<Ref<'_, pg_sys::Const>>) {
    // SAFETY: the constant's value has the constant's type. deconstruct_array fills all three variables.
    unsafe {
        let array = pg_sys::pg_detoast_datum(array.constvalue.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let (ty, none) = ((*array).elemtype, pg_sys::InvalidOid);
        let (mut length, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign(ty, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (ptr::null_mut(), ptr::null_mut(), 0);
        let width = i32::from(length);
        pg_sys::deconstruct_array(array, ty, width, by_value, align, &mut values, &mut nulls, &mut count);
        let element = |i| Ref::new(pg_sys::makeConst(ty, -1, none, width, *values.add(i), *nulls.add(i), by_value));
        (ty, (0..count as usize).map(element).collect())
    }
}

/// A constant array of this array type, without elements.
pub fn empty_array(_: Memory<'_>, array: pg_sys::Oid) -> Node<'_> {
    let (collation, no_modifier, length) = (pg_sys::InvalidOid, -1, -1);
    // SAFETY: a new array of the type's elements, and a node around it.
    unsafe {
        let empty = pg_sys::construct_empty_array(pg_sys::get_element_type(array));
        Node::new(pg_sys::makeConst(array, no_modifier, collation, length, empty.into(), false, false).cast())
    }
}

/// Whether the engine may get values of an SQL type as `ty`, with any scale. Values of every type may be opaque.
pub(super) fn travels_as(sql_type: pg_sys::Oid, ty: Type) -> bool {
    let is_decimal = |ty| matches!(ty, Type::Decimal64 { .. } | Type::Decimal128 { .. });
    ty == Type::Opaque || type_of(sql_type).is_some_and(|own| own == ty || is_decimal(own) && is_decimal(ty))
}
