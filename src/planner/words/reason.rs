//! Makes the reasons why a query, or a part of it, runs on the heap. EXPLAIN shows them.

use pgrx::prelude::*;

use crate::pg::catalog;
use crate::pg::tree::Node;

pub use crate::reason::{Reason, Why};

pub type Attempt<T> = Result<T, Reason>;

pub fn operator_reason(operator: pg_sys::Oid) -> Reason {
    Why::Operator.of(format!("operator {}", catalog::operator_name(operator)))
}

pub fn function_reason(function: pg_sys::Oid) -> Reason {
    Why::Function.of(format!("function {}", catalog::function_name(function)))
}

pub fn type_reason(ty: pg_sys::Oid) -> Reason {
    Why::Type.of(format!("type {}", catalog::type_name(ty)))
}

pub fn node_reason(node: Node<'_>) -> Reason {
    use pg_sys::NodeTag::*;
    let (why, what) = match node.tag() {
        T_CaseExpr => (Why::Expression, "CASE"),
        T_CoalesceExpr => (Why::Expression, "COALESCE"),
        T_NullIfExpr => (Why::Expression, "NULLIF"),
        T_MinMaxExpr => (Why::Expression, "GREATEST or LEAST"),
        T_DistinctExpr => (Why::Expression, "IS DISTINCT FROM"),
        T_SubLink | T_SubPlan => (Why::Subquery, "subquery in an expression"),
        T_Aggref => (Why::Aggregate, "nested aggregate"),
        T_GroupingFunc => (Why::Grouping, "GROUPING"),
        T_WindowFunc => (Why::WindowFunction, "window function below the aggregation"),
        T_RowExpr | T_FieldSelect | T_RowCompareExpr | T_ConvertRowtypeExpr => (Why::Expression, "row value"),
        T_ArrayExpr | T_SubscriptingRef | T_ArrayCoerceExpr => (Why::Expression, "array"),
        T_CoerceToDomain => (Why::Expression, "domain"),
        T_CoerceViaIO => (Why::Expression, "conversion through text"),
        T_XmlExpr => (Why::Expression, "XML"),
        other => return Why::Expression.of(format!("expression {other:?}")),
    };
    why.of(what)
}
