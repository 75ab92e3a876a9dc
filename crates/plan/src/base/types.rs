//! The types of values, as the mirror stores them and as results are sent.

use serde::{Deserialize, Serialize};

use crate::values::image::Image;

/// A type of the mirror. Its values and their order are those of the PostgreSQL type that it stands for.
///
/// | type | PostgreSQL | stored as | travels as (Arrow) |
/// |---|---|---|---|
/// | `Bool` | boolean | one bit | `Boolean` |
/// | `Int16`, `Int32`, `Int64` | smallint, integer, bigint | the integer | `Int16`, `Int32`, `Int64` |
/// | `Float32` | real | the same value as a double, which holds every real | `Float64` |
/// | `Float64` | double precision | IEEE bits, sign of zero and NaN payload kept | `Float64` |
/// | `Decimal64 { scale }` | numeric(p, s), p <= 18 | value * 10^scale as i64 | `Int64` |
/// | `Decimal128 { scale }` | numeric(p, s), p <= 38 | value * 10^scale as i128 | `Decimal128(38, 0)`, unscaled |
/// | `Numeric` | any numeric | nowhere | `BinaryView`: the key form of `anker_numeric` |
/// | `Date` | date | days since 2000-01-01 as i32; infinities are i32::MIN and MAX | `Int32` |
/// | `Timestamp`, `TimestampTz` | timestamp(tz) | microseconds since 2000-01-01 as i64; ends: infinite | `Int64` |
/// | `Time` | time | microseconds since midnight as i64 | `Int64` |
/// | `TimeTz` | timetz | see [`Image::TimeTz`] | `Int64` |
/// | `Oid` | oid | the number as i64 | `Int64` |
/// | `Enum` | any enum | the bits of the label's oid as i32 | `Int32` |
/// | `Interval` | interval | nowhere | `Decimal128(38, 0)`: see [`crate::Interval`] |
/// | `Uuid` | uuid | its bytes as a big-endian i128, sign flipped to keep their order | `Decimal128(38, 0)` |
/// | `Text` | text, varchar | UTF-8 bytes | `Utf8View` |
/// | `Name` | name | UTF-8 bytes up to the first zero | `Utf8View` |
/// | `Char` | char(n) | UTF-8 bytes *without* trailing blanks, which are added to show it | `Utf8View` |
/// | `Bytes` | bytea | the bytes | `BinaryView` |
/// | `Opaque` | any other | the bytes of a varlena without its length, or of the fixed length | `BinaryView` |
///
/// Texts are ordered by their bytes, which is PostgreSQL's order only for collation "C"; the translator uses no other.
/// Enums are ordered by their bits here, which is not PostgreSQL's order, so the translator compares them only for
/// equality. Opaque values and numerics are compared by their bytes. The bytes of opaque values do not have
/// PostgreSQL's order, so the translator never compares opaque values. The bytes of a numeric end with its display
/// scale. So equal numerics have the same bytes only once they are `Trimmed`, which the translator ensures. Intervals
/// are compared by their `Span`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    Bool,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Decimal64 { scale: u8 },
    Decimal128 { scale: u8 },
    Numeric,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    TimeTz,
    Interval,
    Oid,
    Enum,
    Uuid,
    Text,
    Name,
    Char,
    Bytes,
    Opaque,
}

/// The precision and the scale in a numeric's type modifier; `None` if it does not limit the digits.
pub fn numeric_modifier(modifier: i32) -> Option<(i32, i32)> {
    /// PostgreSQL adds this number to the modifiers of types of variable length.
    const FIRST: i32 = 4;
    (modifier >= FIRST).then(|| {
        let both = modifier - FIRST;
        // The scale is an 11-bit two's complement number.
        ((both >> 16) & 0xffff, ((both & 0x7ff) ^ 1024) - 1024)
    })
}

/// A value's form in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Physical {
    Bit,
    Int16,
    Int32,
    Int64,
    Float64,
    Int128,
    /// UTF-8 of any length. In a column, each text has an Arrow view of 16 bytes.
    Text,
    /// Bytes of any length, stored like `Text`.
    Bytes,
}

/// Groups of types that functions treat alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Bool,
    Integer,
    Real,
    Float,
    Decimal,
    Numeric,
    Date,
    Timestamp,
    TimestampTz,
    Time,
    TimeTz,
    Interval,
    Oid,
    Enum,
    Uuid,
    Text,
    Bytes,
    Opaque,
}

/// The form in which PostgreSQL stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A byte, 0 or 1.
    Bool,
    Int16,
    Int32,
    Int64,
    /// An unsigned integer of 32 bits.
    Unsigned,
    /// A float of 32 bits.
    Real,
    Float,
    /// PostgreSQL's numeric, after its length. The mirror stores it as a scaled integer of 64 bits.
    Scaled64 {
        scale: u8,
    },
    /// PostgreSQL's numeric, after its length. The mirror stores it as a scaled integer of 128 bits.
    Scaled128 {
        scale: u8,
    },
    Image(Image),
    /// Bytes of a fixed length, filled up with zeros.
    Name,
    /// Bytes after their length, padded with blanks to a number of characters.
    Padded,
    /// Bytes after their length.
    Varlena,
    /// Bytes that the mirror keeps unchanged. In PostgreSQL, they stand after their length; a type of fixed length has
    /// none.
    Kept,
    /// Not stored: PostgreSQL has no values of the type.
    Nowhere,
}

impl Type {
    /// The form in which values are stored, sent and computed. Code that depends on the bytes of values uses this form.
    pub fn physical(self) -> Physical {
        match self {
            Type::Bool => Physical::Bit,
            Type::Int16 => Physical::Int16,
            Type::Int32 | Type::Date | Type::Enum => Physical::Int32,
            Type::Int64 | Type::Decimal64 { .. } | Type::Oid => Physical::Int64,
            Type::Timestamp | Type::TimestampTz | Type::Time | Type::TimeTz => Physical::Int64,
            Type::Float32 | Type::Float64 => Physical::Float64,
            Type::Decimal128 { .. } | Type::Uuid | Type::Interval => Physical::Int128,
            Type::Text | Type::Name | Type::Char => Physical::Text,
            Type::Numeric | Type::Bytes | Type::Opaque => Physical::Bytes,
        }
    }

    /// The form in which PostgreSQL stores the values. Code that converts from datums or to datums uses this form.
    pub fn stored(self) -> Stored {
        match self {
            Type::Bool => Stored::Bool,
            Type::Int16 => Stored::Int16,
            Type::Int32 | Type::Date | Type::Enum => Stored::Int32,
            Type::Int64 | Type::Timestamp | Type::TimestampTz | Type::Time => Stored::Int64,
            Type::Oid => Stored::Unsigned,
            Type::Float32 => Stored::Real,
            Type::Float64 => Stored::Float,
            Type::Decimal64 { scale } => Stored::Scaled64 { scale },
            Type::Decimal128 { scale } => Stored::Scaled128 { scale },
            Type::TimeTz => Stored::Image(Image::TimeTz),
            Type::Interval => Stored::Image(Image::Interval),
            Type::Uuid => Stored::Image(Image::Uuid),
            Type::Name => Stored::Name,
            Type::Char => Stored::Padded,
            Type::Text | Type::Bytes => Stored::Varlena,
            Type::Opaque => Stored::Kept,
            Type::Numeric => Stored::Nowhere,
        }
    }

    /// The number of bytes that a value takes in its column; for texts and bytes, that is the view. `None` if a value
    /// takes one bit.
    pub fn slot_bytes(self) -> Option<usize> {
        match self.physical() {
            Physical::Bit => None,
            Physical::Int16 => Some(2),
            Physical::Int32 => Some(4),
            Physical::Int64 | Physical::Float64 => Some(8),
            Physical::Int128 | Physical::Text | Physical::Bytes => Some(16),
        }
    }

    /// The kind of the type, by which functions distinguish their operands.
    pub fn kind(self) -> Kind {
        match self {
            Type::Bool => Kind::Bool,
            Type::Int16 | Type::Int32 | Type::Int64 => Kind::Integer,
            Type::Float32 => Kind::Real,
            Type::Float64 => Kind::Float,
            Type::Decimal64 { .. } | Type::Decimal128 { .. } => Kind::Decimal,
            Type::Numeric => Kind::Numeric,
            Type::Date => Kind::Date,
            Type::Timestamp => Kind::Timestamp,
            Type::TimestampTz => Kind::TimestampTz,
            Type::Time => Kind::Time,
            Type::TimeTz => Kind::TimeTz,
            Type::Interval => Kind::Interval,
            Type::Oid => Kind::Oid,
            Type::Enum => Kind::Enum,
            Type::Uuid => Kind::Uuid,
            Type::Text | Type::Name | Type::Char => Kind::Text,
            Type::Bytes => Kind::Bytes,
            Type::Opaque => Kind::Opaque,
        }
    }

    pub fn is_text(self) -> bool {
        self.kind() == Kind::Text
    }

    /// Whether this is a type of floats. Equal floats may have different bits: -0 and 0, and all NaNs.
    pub fn is_float(self) -> bool {
        matches!(self, Type::Float32 | Type::Float64)
    }

    /// The number of digits behind the decimal point; 0 for integers.
    pub fn scale(self) -> u8 {
        match self {
            Type::Decimal64 { scale } | Type::Decimal128 { scale } => scale,
            Type::Bool
            | Type::Int16
            | Type::Int32
            | Type::Int64
            | Type::Float32
            | Type::Float64
            | Type::Numeric
            | Type::Date
            | Type::Timestamp
            | Type::TimestampTz
            | Type::Time
            | Type::TimeTz
            | Type::Interval
            | Type::Oid
            | Type::Enum
            | Type::Uuid
            | Type::Text
            | Type::Name
            | Type::Char
            | Type::Bytes
            | Type::Opaque => 0,
        }
    }
}

/// A column of a mirrored table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorColumn {
    /// PostgreSQL's attribute number.
    pub attnum: i16,
    pub ty: Type,
}

/// The way in which a row of a table is identified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// The columns of the replica identity index, as positions in [`TableLayout::columns`].
    Key(Vec<u16>),
    /// The row's address, see [`TableLayout::address`].
    Address,
}

/// The mirror's layout of a table, with the fingerprint of the table's definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableLayout {
    pub relid: u32,
    /// A hash of everything that must not change while this layout is in use: see `src/layout.rs`.
    pub fingerprint: u64,
    /// The columns in attribute order.
    pub columns: Vec<MirrorColumn>,
    pub identity: Identity,
}

impl TableLayout {
    /// The type of addresses, see [`TableLayout::address`].
    pub const ADDRESS: Type = Type::Int64;

    /// The types of a row's values: of its columns, and of its address.
    pub fn types(&self) -> Vec<Type> {
        self.columns.iter().map(|column| column.ty).chain([Self::ADDRESS]).collect()
    }

    /// The position in [`types`](Self::types) of the row's address in PostgreSQL's table. An update changes the
    /// address. No query reads it.
    pub fn address(&self) -> usize {
        self.columns.len()
    }

    /// The positions in [`types`](Self::types) of the values that identify a row.
    pub fn key(&self) -> Vec<usize> {
        match &self.identity {
            Identity::Key(positions) => positions.iter().map(|&position| position.into()).collect(),
            Identity::Address => vec![self.address()],
        }
    }

    pub fn position(&self, attnum: i16) -> Option<usize> {
        self.columns.iter().position(|c| c.attnum == attnum)
    }
}
