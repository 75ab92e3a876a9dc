//! DISTINCT and window functions of the top-level query. The engine can compute them if the query becomes a subquery. A
//! query with window functions but without ORDER BY stays as it is: PostgreSQL returns its rows in the order of the
//! windows, and clients may rely on that.
//!
//! ```text
//!   SELECT DISTINCT kind, n + 1 FROM t ORDER BY kind LIMIT 3
//!   SELECT kind, n1 FROM (SELECT DISTINCT kind, n + 1 FROM t) AS rows (kind, n1) ORDER BY kind LIMIT 3
//! ```

use pgrx::prelude::*;

use crate::pg::make;
use crate::pg::tree::{List, Ref};
use crate::planner::words::query::has_order_of;

/// A query that reads the original query as a subquery in FROM.
pub struct Nested<'a> {
    pub query: Ref<'a, pg_sys::Query>,
    /// The original query, as an item of FROM.
    pub item: Ref<'a, pg_sys::RangeTblEntry>,
}

/// Rewrites a query so that it reads its original form as a subquery; `None` if that does not help the engine.
pub fn nested(query: Ref<'_, pg_sys::Query>) -> Option<Nested<'_>> {
    let is_of_use = !query.distinctClause.is_null() || query.hasWindowFuncs && !query.sortClause.is_null();
    if !is_of_use || query.hasTargetSRFs || !query.setOperations.is_null() || !query.rowMarks.is_null() {
        return None;
    }
    let order = order_of(query);
    let Columns { inner: inner_targets, outer: outer_targets, names } = columns(order, query);
    let inner = pg_sys::Query {
        targetList: inner_targets,
        // For DISTINCT ON, the order decides which of several equal rows is kept.
        sortClause: if query.hasDistinctOn { order.as_ptr() } else { std::ptr::null_mut() },
        limitCount: std::ptr::null_mut(),
        limitOffset: std::ptr::null_mut(),
        limitOption: pg_sys::LimitOption::LIMIT_OPTION_COUNT,
        ..*query
    };
    let item = pg_sys::RangeTblEntry {
        rtekind: pg_sys::RTEKind::RTE_SUBQUERY,
        subquery: make::placed(inner),
        eref: make::alias("rows", names),
        inFromCl: true,
        ..make::blank()
    };
    // SAFETY: the subquery is new, and consists of parts of the query.
    let item = unsafe { query.memory().placed(item) };
    let outer = pg_sys::Query {
        commandType: query.commandType,
        querySource: query.querySource,
        canSetTag: query.canSetTag,
        stmt_location: query.stmt_location,
        stmt_len: query.stmt_len,
        rtable: make::list([item.as_ptr::<pg_sys::Node>()]),
        jointree: make::from_first(std::ptr::null_mut()),
        targetList: outer_targets,
        sortClause: order.as_ptr(),
        limitCount: query.limitCount,
        limitOffset: query.limitOffset,
        limitOption: query.limitOption,
        ..make::blank()
    };
    // SAFETY: the outer query is new. It reads the item, and has the order and limit of the original query.
    Some(Nested { query: unsafe { query.memory().placed(outer) }, item })
}

/// The sort keys of the outer query. These are usually the keys of ORDER BY. If all windows share one order that begins
/// with the keys of ORDER BY, the outer query sorts by that whole order, because PostgreSQL returns the rows in it.
fn order_of(query: Ref<'_, pg_sys::Query>) -> List<'_, pg_sys::SortGroupClause> {
    let mut windows = query.windowClause().iter();
    let is_open = query.hasDistinctOn || query.distinctClause.is_null();
    let has_ties = query.limitOption == pg_sys::LimitOption::LIMIT_OPTION_WITH_TIES;
    let Some(first) = windows.next().filter(|_| is_open && !has_ties && !query.sortClause.is_null()) else {
        return query.sortClause();
    };
    let all: Vec<_> = first.partitionClause().iter().chain(first.orderClause()).collect();
    let same = |(one, other): (Ref<'_, pg_sys::SortGroupClause>, &Ref<'_, pg_sys::SortGroupClause>)| {
        let of = |key: Ref<'_, pg_sys::SortGroupClause>| (key.tleSortGroupRef, key.sortop, key.nulls_first);
        of(one) == of(*other)
    };
    let sorted = query.sortClause();
    let is_beginning = sorted.len() <= all.len() && sorted.iter().zip(&all).all(same);
    let is_sorted = all.iter().all(|key| key.sortop != pg_sys::InvalidOid);
    if !is_beginning || !is_sorted || !windows.all(|other| has_order_of(first, other)) {
        return sorted;
    }
    // SAFETY: the list is new, and contains clauses of the query.
    unsafe { List::new(make::list(all.into_iter().map(Ref::as_ptr::<pg_sys::Node>))) }
}

/// The select lists of both queries, and the names of the inner query's columns.
struct Columns {
    inner: *mut pg_sys::List,
    outer: *mut pg_sys::List,
    names: *mut pg_sys::List,
}

/// Moves all computations to the inner query. It gets a column for each value that the outer query shows or orders by.
fn columns(order: List<'_, pg_sys::SortGroupClause>, query: Ref<'_, pg_sys::Query>) -> Columns {
    let is_ordered_by = |target: Ref<'_, pg_sys::TargetEntry>| {
        target.ressortgroupref != 0 && order.iter().any(|clause| clause.tleSortGroupRef == target.ressortgroupref)
    };
    let targets = query.targetList().iter();
    let (columns, hidden): (Vec<Ref<'_, pg_sys::TargetEntry>>, Vec<_>) =
        targets.partition(|target| !target.resjunk || is_ordered_by(*target));
    let placed = |resno: i16, target: Ref<'_, pg_sys::TargetEntry>, expr: *mut pg_sys::Expr, resjunk: bool| {
        make::placed(pg_sys::TargetEntry { expr, resno, resjunk, ..*target })
    };
    let outer = (1..).zip(&columns).map(|(number, target)| {
        let column = make::placed(make::column(1, number, target.expr().shape()));
        placed(number, *target, column.cast(), target.resjunk)
    });
    let (outer, names) = (make::list(outer), make::strings(columns.iter().map(|_| "column")));
    let all = columns.into_iter().map(|target| (target, false)).chain(hidden.into_iter().map(|target| (target, true)));
    let inner = (1..).zip(all).map(|(number, (target, resjunk))| placed(number, target, target.expr, resjunk));
    Columns { inner: make::list(inner), outer, names }
}
