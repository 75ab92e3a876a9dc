//! Why a query, or a part of it, stays on the heap: what EXPLAIN says then.

use std::ffi::CStr;

use pgrx::prelude::*;

use crate::pg::tree::Node;

pub type Reason = String;
pub type Attempt<T> = Result<T, Reason>;

pub fn operator_reason(operator: pg_sys::Oid) -> Reason {
    // SAFETY: returns a C string for any oid.
    format!("operator {}", unsafe { c_string(pg_sys::format_operator(operator)) })
}

pub fn function_reason(function: pg_sys::Oid) -> Reason {
    format!("function {}", function_name(function))
}

pub fn function_name(function: pg_sys::Oid) -> String {
    // SAFETY: returns a C string for any oid.
    unsafe { c_string(pg_sys::format_procedure(function)) }
}

pub fn type_reason(ty: pg_sys::Oid) -> Reason {
    // SAFETY: returns a C string for any oid.
    format!("type {}", unsafe { c_string(pg_sys::format_type_be(ty)) })
}

unsafe fn c_string(pointer: *const std::ffi::c_char) -> String {
    // SAFETY: a C string by the callers above.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

pub fn node_reason(node: Node<'_>) -> Reason {
    use pg_sys::NodeTag::*;
    match node.tag() {
        T_CaseExpr => "CASE",
        T_CoalesceExpr => "COALESCE",
        T_NullIfExpr => "NULLIF",
        T_MinMaxExpr => "GREATEST or LEAST",
        T_DistinctExpr => "IS DISTINCT FROM",
        T_SubLink | T_SubPlan => "subquery in an expression",
        T_Aggref => "nested aggregate",
        T_GroupingFunc => "GROUPING",
        T_WindowFunc => "window function below the aggregation",
        T_RowExpr | T_FieldSelect | T_RowCompareExpr | T_ConvertRowtypeExpr => "row value",
        T_ArrayExpr | T_SubscriptingRef | T_ArrayCoerceExpr => "array",
        T_CoerceToDomain => "domain",
        T_CoerceViaIO => "conversion through text",
        T_XmlExpr => "XML",
        other => return format!("expression {other:?}"),
    }
    .to_string()
}
