//! Types as the mirror stores them and as results travel.

use serde::{Deserialize, Serialize};

use crate::catalogue::Kind;

/// A type of the mirror. The value domain and the order are those of the PostgreSQL type that it stands for.
///
/// | type | PostgreSQL | stored as | travels as (Arrow) |
/// |---|---|---|---|
/// | `Bool` | boolean | one bit | `Boolean` |
/// | `Int16`, `Int32`, `Int64` | smallint, integer, bigint | the integer | `Int16`, `Int32`, `Int64` |
/// | `Float64` | double precision | IEEE bits, sign of zero and NaN payload kept | `Float64` |
/// | `Decimal64 { scale }` | numeric(p, s), p <= 18 | value * 10^scale as i64 | `Int64` |
/// | `Decimal128 { scale }` | numeric(p, s), p <= 38 | value * 10^scale as i128 | `Decimal128(38, 0)`: the raw integer, scale kept in the plan |
/// | `Date` | date | days since 2000-01-01 as i32; infinities are i32::MIN and MAX | `Int32` |
/// | `Timestamp`, `TimestampTz` | timestamp, timestamptz | microseconds since 2000-01-01 as i64; infinities are i64::MIN and MAX | `Int64` |
/// | `Text` | text, varchar | UTF-8 bytes | `Utf8View` |
/// | `Char` | char(n) | UTF-8 bytes *without* trailing blanks; who shows it pads it again to n | `Utf8View` |
///
/// Order of text is known only where the collation is "C"; the translator asks for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Type {
    Bool,
    Int16,
    Int32,
    Int64,
    Float64,
    Decimal64 { scale: u8 },
    Decimal128 { scale: u8 },
    Date,
    Timestamp,
    TimestampTz,
    Text,
    Char,
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
    /// UTF-8, of any length; what is stored in place is a view of 16 bytes.
    Text,
}

impl Type {
    /// How values are stored, sent and computed with: all that knows about bytes goes by this.
    pub fn physical(self) -> Physical {
        match self {
            Type::Bool => Physical::Bit,
            Type::Int16 => Physical::Int16,
            Type::Int32 | Type::Date => Physical::Int32,
            Type::Int64 | Type::Decimal64 { .. } | Type::Timestamp | Type::TimestampTz => Physical::Int64,
            Type::Float64 => Physical::Float64,
            Type::Decimal128 { .. } => Physical::Int128,
            Type::Text | Type::Char => Physical::Text,
        }
    }

    /// Bytes of a value in its column; `None` for what takes one bit.
    pub fn slot_bytes(self) -> Option<usize> {
        match self.physical() {
            Physical::Bit => None,
            Physical::Int16 => Some(2),
            Physical::Int32 => Some(4),
            Physical::Int64 | Physical::Float64 => Some(8),
            Physical::Int128 | Physical::Text => Some(16),
        }
    }

    /// The kind of values, by which functions take it.
    pub fn kind(self) -> Kind {
        match self {
            Type::Bool => Kind::Bool,
            Type::Int16 | Type::Int32 | Type::Int64 => Kind::Integer,
            Type::Float64 => Kind::Float,
            Type::Decimal64 { .. } | Type::Decimal128 { .. } => Kind::Decimal,
            Type::Date => Kind::Date,
            Type::Timestamp => Kind::Timestamp,
            Type::TimestampTz => Kind::TimestampTz,
            Type::Text | Type::Char => Kind::Text,
        }
    }

    pub fn is_text(self) -> bool {
        self.kind() == Kind::Text
    }

    /// Digits after the point; 0 for the integers.
    pub fn scale(self) -> u8 {
        match self {
            Type::Decimal64 { scale } | Type::Decimal128 { scale } => scale,
            Type::Bool
            | Type::Int16
            | Type::Int32
            | Type::Int64
            | Type::Float64
            | Type::Date
            | Type::Timestamp
            | Type::TimestampTz
            | Type::Text
            | Type::Char => 0,
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

/// How a row of a table is found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// The columns of the replica identity index, as positions in [`TableLayout::columns`].
    Key(Vec<u16>),
    /// REPLICA IDENTITY FULL: all columns, and equal rows are interchangeable.
    Full,
}

/// What the mirror keeps of a table, and when that description holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableLayout {
    pub relid: u32,
    /// Hash of all that must not change while this layout is in use: see `src/fingerprint.rs`.
    pub fingerprint: u64,
    /// In attribute order.
    pub columns: Vec<MirrorColumn>,
    pub identity: Identity,
}

impl TableLayout {
    pub fn position(&self, attnum: i16) -> Option<usize> {
        self.columns.iter().position(|c| c.attnum == attnum)
    }
}
