//! The Arrow form of plan types, and of constants.

use arrow_schema::DataType;
use datafusion_common::scalar::ScalarValue;
use plan::{Literal, Physical, Type};
use protocol::request::Failure;

use crate::base::error::internal;

/// Raw integers of 128 bits. The scale exists only in the plan's type, so that no arithmetic of Arrow or DataFusion
/// ever uses it.
pub const RAW_DECIMAL: DataType = DataType::Decimal128(38, 0);

pub fn arrow_type(ty: Type) -> DataType {
    match ty.physical() {
        Physical::Bit => DataType::Boolean,
        Physical::Int16 => DataType::Int16,
        Physical::Int32 => DataType::Int32,
        Physical::Int64 => DataType::Int64,
        Physical::Float64 => DataType::Float64,
        Physical::Int128 => RAW_DECIMAL,
        Physical::Text => DataType::Utf8View,
        Physical::Bytes => DataType::BinaryView,
    }
}

/// A constant of type `ty`; an error if the literal does not belong to the type.
pub fn scalar(ty: Type, value: Option<&Literal>) -> Result<ScalarValue, Failure> {
    let mismatch = || internal(format!("constant {value:?} is not of type {ty:?}"));
    let Some(value) = value else {
        return ScalarValue::try_from(&arrow_type(ty)).map_err(|e| internal(e.to_string()));
    };
    Ok(match (ty.physical(), value) {
        (Physical::Bit, Literal::Bool(b)) => ScalarValue::Boolean(Some(*b)),
        (Physical::Int16, Literal::Int(i)) => ScalarValue::Int16(Some(i16::try_from(*i).map_err(|_| mismatch())?)),
        (Physical::Int32, Literal::Int(i)) => ScalarValue::Int32(Some(i32::try_from(*i).map_err(|_| mismatch())?)),
        (Physical::Int64, Literal::Int(i)) => ScalarValue::Int64(Some(*i)),
        (Physical::Float64, Literal::Float(f)) => ScalarValue::Float64(Some(*f)),
        (Physical::Int128, Literal::Decimal(d)) => ScalarValue::Decimal128(Some(*d), 38, 0),
        (Physical::Text, Literal::Text(t)) => ScalarValue::Utf8View(Some(t.clone())),
        (Physical::Bytes, Literal::Bytes(b)) => ScalarValue::BinaryView(Some(b.clone())),
        _ => return Err(mismatch()),
    })
}
