//! Types as the mirror stores them and as results travel.

use serde::{Deserialize, Serialize};

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

impl Type {
    /// Bytes of a value in its column; `None` for [`Type::Bool`], which takes one bit.
    pub fn slot_bytes(self) -> Option<usize> {
        match self {
            Type::Bool => None,
            Type::Int16 => Some(2),
            Type::Int32 | Type::Date => Some(4),
            Type::Int64 | Type::Float64 | Type::Decimal64 { .. } | Type::Timestamp | Type::TimestampTz => Some(8),
            Type::Decimal128 { .. } | Type::Text | Type::Char => Some(16),
        }
    }

    pub fn is_text(self) -> bool {
        matches!(self, Type::Text | Type::Char)
    }

    /// Digits after the point; 0 for the integers.
    pub fn scale(self) -> u8 {
        match self {
            Type::Decimal64 { scale } | Type::Decimal128 { scale } => scale,
            _ => 0,
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
