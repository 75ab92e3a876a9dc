//! Why a query, or a part of it, stays on the heap: what EXPLAIN says then.

use pgrx::prelude::*;

use crate::pg::catalog;
use crate::pg::tree::Node;

pub type Reason = String;
pub type Attempt<T> = Result<T, Reason>;

pub fn operator_reason(operator: pg_sys::Oid) -> Reason {
    format!("operator {}", catalog::operator_name(operator))
}

pub fn function_reason(function: pg_sys::Oid) -> Reason {
    format!("function {}", catalog::function_name(function))
}

pub fn type_reason(ty: pg_sys::Oid) -> Reason {
    format!("type {}", catalog::type_name(ty))
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
