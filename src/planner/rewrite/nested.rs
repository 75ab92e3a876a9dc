//! DISTINCT and window functions of the top-level query: the engine computes them by reading the query as a subquery.
//! Rows of window functions without ORDER BY stay PostgreSQL's: it has them in the windows' order, and clients may
//! count on it.
//!
//! ```text
//!   SELECT DISTINCT kind, n + 1 FROM t ORDER BY kind LIMIT 3
//!   SELECT kind, n1 FROM (SELECT DISTINCT kind, n + 1 FROM t) AS rows (kind, n1) ORDER BY kind LIMIT 3
//! ```

use pgrx::prelude::*;

use crate::pg::tree::{Tree, make, push, string_node, text};
use crate::planner::words::query::has_order_of;

/// A query around another one.
pub struct Nested<'a> {
    pub query: &'a pg_sys::Query,
    /// The other one, in FROM.
    pub item: &'a pg_sys::RangeTblEntry,
}

/// The query in such a form, if that is of use.
pub fn nested<'a>(tree: Tree<'a>, query: &pg_sys::Query) -> Option<Nested<'a>> {
    let is_of_use = !query.distinctClause.is_null() || query.hasWindowFuncs && !query.sortClause.is_null();
    if !is_of_use || query.hasTargetSRFs || !query.setOperations.is_null() || !query.rowMarks.is_null() {
        return None;
    }
    let (inner, outer) = (make::<pg_sys::Query>(), make::<pg_sys::Query>());
    *inner = *query;
    let order = order_of(tree, query);
    // Of rows that are alike the order says which is kept.
    inner.sortClause = if query.hasDistinctOn { order } else { std::ptr::null_mut() };
    (inner.limitCount, inner.limitOffset) = (std::ptr::null_mut(), std::ptr::null_mut());
    inner.limitOption = pg_sys::LimitOption::LIMIT_OPTION_COUNT;
    (outer.commandType, outer.querySource, outer.canSetTag) = (query.commandType, query.querySource, query.canSetTag);
    (outer.stmt_location, outer.stmt_len) = (query.stmt_location, query.stmt_len);
    outer.sortClause = order;
    (outer.limitCount, outer.limitOffset, outer.limitOption) = (query.limitCount, query.limitOffset, query.limitOption);
    let names = share_targets(tree, order, inner, outer);
    let item = make::<pg_sys::RangeTblEntry>();
    item.rtekind = pg_sys::RTEKind::RTE_SUBQUERY;
    item.subquery = inner;
    item.inFromCl = true;
    // SAFETY: makes a node of valid parts.
    item.eref = unsafe { pg_sys::makeAlias(text("rows"), names) };
    push(&mut outer.rtable, std::ptr::from_mut(item));
    let reference = make::<pg_sys::RangeTblRef>();
    reference.rtindex = 1;
    outer.jointree = make::<pg_sys::FromExpr>();
    // SAFETY: a new node.
    push(unsafe { &mut (*outer.jointree).fromlist }, std::ptr::from_mut(reference));
    Some(Nested { query: outer, item })
}

/// ORDER BY; where that is how an order of all windows begins, all of it: in this order PostgreSQL has the rows then.
fn order_of(tree: Tree<'_>, query: &pg_sys::Query) -> *mut pg_sys::List {
    let mut windows = tree.list_of::<pg_sys::WindowClause>(query.windowClause);
    let is_open = query.hasDistinctOn || query.distinctClause.is_null();
    let has_ties = query.limitOption == pg_sys::LimitOption::LIMIT_OPTION_WITH_TIES;
    let Some(first) = windows.next().filter(|_| is_open && !has_ties && !query.sortClause.is_null()) else {
        return query.sortClause;
    };
    let keys = |list| tree.list_of::<pg_sys::SortGroupClause>(list);
    let all: Vec<_> = keys(first.partitionClause).chain(keys(first.orderClause)).collect();
    let same = |(one, other): (&pg_sys::SortGroupClause, &&pg_sys::SortGroupClause)| {
        let of = |key: &pg_sys::SortGroupClause| (key.tleSortGroupRef, key.sortop, key.nulls_first);
        of(one) == of(other)
    };
    let is_beginning = keys(query.sortClause).count() <= all.len() && keys(query.sortClause).zip(&all).all(same);
    let is_sorted = all.iter().all(|key| key.sortop != pg_sys::InvalidOid);
    if !is_beginning || !is_sorted || !windows.all(|other| has_order_of(first, other)) {
        return query.sortClause;
    }
    let mut order = std::ptr::null_mut();
    all.into_iter().for_each(|key| push(&mut order, std::ptr::from_ref(key).cast_mut()));
    order
}

/// Moves the computation to the inner query, with columns for the values that the outer one shows or orders by.
/// Returns their names.
fn share_targets(
    tree: Tree<'_>,
    order: *mut pg_sys::List,
    inner: &mut pg_sys::Query,
    outer: &mut pg_sys::Query,
) -> *mut pg_sys::List {
    let is_ordered_by = |target: &pg_sys::TargetEntry| {
        let mut clauses = tree.list_of::<pg_sys::SortGroupClause>(order);
        target.ressortgroupref != 0 && clauses.any(|clause| clause.tleSortGroupRef == target.ressortgroupref)
    };
    let targets = tree.list_of::<pg_sys::TargetEntry>(inner.targetList);
    let (columns, hidden): (Vec<&pg_sys::TargetEntry>, Vec<_>) =
        targets.partition(|target| !target.resjunk || is_ordered_by(target));
    let mut names = std::ptr::null_mut();
    (inner.targetList, outer.targetList) = (std::ptr::null_mut(), std::ptr::null_mut());
    let all = columns.into_iter().map(|target| (target, true)).chain(hidden.into_iter().map(|target| (target, false)));
    for (number, (target, is_column)) in (1..).zip(all) {
        let below = make::<pg_sys::TargetEntry>();
        *below = *target;
        (below.resno, below.resjunk) = (number, !is_column);
        push(&mut inner.targetList, std::ptr::from_mut(below));
        if is_column {
            let above = make::<pg_sys::TargetEntry>();
            *above = *target;
            above.resno = number;
            let expr = tree.required(target.expr);
            let (ty, modifier, collation) = (expr.sql_type(), expr.type_modifier(), expr.collation());
            // SAFETY: makes a node.
            above.expr = unsafe { pg_sys::makeVar(1, number, ty, modifier, collation, 0) }.cast();
            push(&mut outer.targetList, std::ptr::from_mut(above));
            push(&mut names, string_node("column"));
        }
    }
    names
}
