//! The Arrow form of plan types, and of constants.

use arrow_schema::DataType;
use datafusion_common::scalar::ScalarValue;
use plan::{Literal, Type};
use protocol::request::Failure;

use crate::error::internal;

/// Raw 128-bit integers: the scale lives in the plan's type only, so that no arithmetic of Arrow or DataFusion ever
/// sees one.
pub const RAW_DECIMAL: DataType = DataType::Decimal128(38, 0);

pub fn arrow_type(ty: Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Int16 => DataType::Int16,
        Type::Int32 | Type::Date => DataType::Int32,
        Type::Int64 | Type::Decimal64 { .. } | Type::Timestamp | Type::TimestampTz => DataType::Int64,
        Type::Float64 => DataType::Float64,
        Type::Decimal128 { .. } => RAW_DECIMAL,
        Type::Text | Type::Char => DataType::Utf8View,
    }
}

/// A constant of type `ty`; an error if the literal does not belong to the type.
pub fn scalar(ty: Type, value: Option<&Literal>) -> Result<ScalarValue, Failure> {
    let mismatch = || internal(format!("constant {value:?} is not of type {ty:?}"));
    let Some(value) = value else {
        return ScalarValue::try_from(&arrow_type(ty)).map_err(|e| internal(e.to_string()));
    };
    Ok(match (ty, value) {
        (Type::Bool, Literal::Bool(b)) => ScalarValue::Boolean(Some(*b)),
        (Type::Int16, Literal::Int(i)) => ScalarValue::Int16(Some(i16::try_from(*i).map_err(|_| mismatch())?)),
        (Type::Int32 | Type::Date, Literal::Int(i)) => {
            ScalarValue::Int32(Some(i32::try_from(*i).map_err(|_| mismatch())?))
        }
        (Type::Int64 | Type::Decimal64 { .. } | Type::Timestamp | Type::TimestampTz, Literal::Int(i)) => {
            ScalarValue::Int64(Some(*i))
        }
        (Type::Float64, Literal::Float(f)) => ScalarValue::Float64(Some(*f)),
        (Type::Decimal128 { .. }, Literal::Decimal(d)) => ScalarValue::Decimal128(Some(*d), 38, 0),
        (Type::Text | Type::Char, Literal::Text(t)) => ScalarValue::Utf8View(Some(t.clone())),
        _ => return Err(mismatch()),
    })
}
