//! Tests of the form of a Query.

use pgrx::prelude::*;

use crate::pg::tree::{List, Node, Ref};

/// Whether the query groups its rows. One group of all rows counts, too.
pub fn is_grouped(query: &pg_sys::Query) -> bool {
    query.hasAggs || !query.groupClause.is_null() || !query.groupingSets.is_null()
}

/// Whether the query has LIMIT or OFFSET.
pub fn is_limited(query: &pg_sys::Query) -> bool {
    !query.limitCount.is_null() || !query.limitOffset.is_null()
}

/// Whether a condition is the constant true, to which a condition without parts is simplified.
pub fn is_true(condition: Node<'_>) -> bool {
    condition.cast::<pg_sys::Const>().is_some_and(|value| !value.constisnull && value.constvalue.value() != 0)
}

/// Whether two windows have the same partitions and the same order.
pub fn has_order_of(one: Ref<'_, pg_sys::WindowClause>, other: Ref<'_, pg_sys::WindowClause>) -> bool {
    let same = |one: List<'_, _>, other: List<'_, _>| match (one.node(), other.node()) {
        (Some(one), Some(other)) => one.equals(other),
        (one, other) => one.is_none() && other.is_none(),
    };
    same(one.partitionClause(), other.partitionClause()) && same(one.orderClause(), other.orderClause())
}
