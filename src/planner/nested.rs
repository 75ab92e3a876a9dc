//! DISTINCT and window functions of the query itself are the engine's if it is read as a subquery. Rows of window functions
//! that are not put in order stay PostgreSQL's: it has them in the windows' order, and who reads them may count on it.
//!
//! ```text
//!   SELECT DISTINCT kind, n + 1 FROM t ORDER BY kind LIMIT 3
//!   SELECT kind, n1 FROM (SELECT DISTINCT kind, n + 1 FROM t) AS rows (kind, n1) ORDER BY kind LIMIT 3
//! ```

use pgrx::prelude::*;

use crate::pg::tree::{Tree, make, push, string_node, text};

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
    (inner.limitCount, inner.limitOffset) = (std::ptr::null_mut(), std::ptr::null_mut());
    inner.limitOption = pg_sys::LimitOption::LIMIT_OPTION_COUNT;
    // Of rows that are alike the order says which is kept.
    if !query.hasDistinctOn {
        inner.sortClause = std::ptr::null_mut();
    }
    (outer.commandType, outer.querySource, outer.canSetTag) = (query.commandType, query.querySource, query.canSetTag);
    (outer.stmt_location, outer.stmt_len) = (query.stmt_location, query.stmt_len);
    outer.sortClause = query.sortClause;
    (outer.limitCount, outer.limitOffset, outer.limitOption) = (query.limitCount, query.limitOffset, query.limitOption);
    let names = share_targets(tree, query, inner, outer);
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

/// The inner query computes all, and has columns of what is shown or ordered by, which the outer one reads. Their names.
fn share_targets(
    tree: Tree<'_>,
    query: &pg_sys::Query,
    inner: &mut pg_sys::Query,
    outer: &mut pg_sys::Query,
) -> *mut pg_sys::List {
    let is_ordered_by = |target: &pg_sys::TargetEntry| {
        let mut clauses = tree.list_of::<pg_sys::SortGroupClause>(query.sortClause);
        target.ressortgroupref != 0 && clauses.any(|clause| clause.tleSortGroupRef == target.ressortgroupref)
    };
    let targets = tree.list_of::<pg_sys::TargetEntry>(query.targetList);
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
