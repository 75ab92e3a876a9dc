//! Merges a query that only reads a subquery, such as a query on a view, into that subquery. PostgreSQL can then do the
//! same work above the engine as for any top-level query, and the rows keep their order.
//!
//! ```text
//!   SELECT g, names FROM (SELECT g, string_agg(x, ',') AS names, max(y) AS y FROM t GROUP BY g) AS v WHERE y > 3
//!   SELECT g, string_agg(x, ',') AS names FROM t GROUP BY g HAVING max(y) > 3
//! ```

use std::ffi::c_void;

use pgrx::prelude::*;

use super::pull_up::pull_up_subqueries;
use crate::pg::tree::{Node, Ref, all_of};
use crate::pg::{compat, make, walk};
use crate::planner::words::query::{is_grouped, is_limited, is_true};

/// Merges as much as possible: plain subqueries in FROM into the query, and then the query itself into the only
/// subquery that it reads.
///
/// # Safety
///
/// `query` is a rewritten query that the caller owns.
pub unsafe fn unwrapped(query: *mut pg_sys::Query) -> *mut pg_sys::Query {
    // SAFETY: the caller owns the query.
    unsafe {
        let mut query = pull_up_subqueries(query);
        flatten(query);
        while let Some(index) = only_item(Ref::new(query)) {
            let Some(inner) = merged(query, index) else { break };
            query = pull_up_subqueries(inner);
            flatten(query);
        }
        query
    }
}

/// Merges each query into the sorted subquery that it reads, so that one query has both LIMIT and the order. The
/// deepest queries come first.
///
/// # Safety
///
/// `query` is a rewritten query that the caller owns.
pub unsafe fn merge_into_sorted(query: *mut pg_sys::Query) {
    // SAFETY: the caller owns the query; the walker needs no context.
    unsafe { walk::walk_query(query, merge_below, std::ptr::null_mut()) };
}

#[pg_guard]
unsafe extern "C-unwind" fn merge_below(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with null or a node of a query that the caller of `merge_into_sorted` owns; the tags tell types.
    unsafe {
        if node.is_null() {
            return false;
        }
        if (*node).type_ != pg_sys::NodeTag::T_Query {
            return walk::walk_children(node, merge_below, context);
        }
        let query = node.cast::<pg_sys::Query>();
        walk::walk_query(query, merge_below, context);
        let read = Ref::new(query);
        if let Some(index) = only_item(read).filter(|index| has_order(read, *index))
            && let Some(inner) = merged(query, index)
        {
            *query = *inner;
        }
    }
    false
}

/// Whether the item `index` of FROM is a subquery with ORDER BY.
fn has_order(query: Ref<'_, pg_sys::Query>, index: i32) -> bool {
    let entry = query.rtable().iter().nth(index as usize - 1);
    entry.and_then(|entry| entry.subquery()).is_some_and(|query| !query.sortClause.is_null())
}

/// Whether FROM is a single subquery with ORDER BY.
pub fn reads_in_order(query: Ref<'_, pg_sys::Query>) -> bool {
    only_item(query).is_some_and(|index| has_order(query, index))
}

/// The range table number of FROM's only item; `None` if FROM has several items or a join.
pub fn only_item(query: Ref<'_, pg_sys::Query>) -> Option<i32> {
    let from = query.jointree()?;
    let mut items = from.fromlist().iter();
    let item = items.next().filter(|_| items.next().is_none())?;
    item.cast::<pg_sys::RangeTblRef>().map(|reference| reference.rtindex)
}

/// Moves conditions from nested levels of FROM to the query's own WHERE. Merging a subquery leaves a nested level with
/// a single item.
///
/// # Safety
///
/// The caller owns the query.
unsafe fn flatten(query: *mut pg_sys::Query) {
    // SAFETY: the caller owns the query; tags tell types.
    unsafe {
        while !(*query).jointree.is_null() {
            let from = (*query).jointree;
            let read = Ref::new((*query).jointree);
            let mut items = read.fromlist().iter();
            let only = items.next().filter(|_| items.next().is_none());
            let Some(inner) = only.and_then(|item| item.cast::<pg_sys::FromExpr>()) else { return };
            (*from).quals = both(read.quals(), inner.quals());
            (*from).fromlist = inner.fromlist;
        }
    }
}

/// The conjunction of two conditions, each of which may be missing.
fn both(one: Option<Node<'_>>, other: Option<Node<'_>>) -> *mut pg_sys::Node {
    all_of(one.into_iter().chain(other)).map_or(std::ptr::null_mut(), Node::as_ptr)
}

/// Turns the subquery `index` into a query that returns the rows of the query around it; `None` if that is not
/// possible.
///
/// # Safety
///
/// The caller owns the query.
unsafe fn merged(query: *mut pg_sys::Query, index: i32) -> Option<*mut pg_sys::Query> {
    // SAFETY: the caller owns the query, whose entries and lists are valid.
    unsafe {
        let entry = pg_sys::list_nth((*query).rtable, index - 1).cast::<pg_sys::RangeTblEntry>();
        let read = Ref::new(query);
        let inner = subquery(read, Ref::new(entry))?;
        let read_inner = Ref::new(inner);
        let condition = read.jointree()?.quals().map(Node::simplified);
        let condition = condition.filter(|condition| !is_true(*condition));
        if !is_plain(read) || !can_take_over(read_inner) || !(*query).cteList.is_null() && !(*inner).cteList.is_null() {
            return None;
        }
        let sorts = !(*query).sortClause.is_null();
        // DISTINCT, set operations and grouping sets are the subquery's last steps. Steps of the outer query that
        // follow them must not be moved before them.
        let finishes =
            !(*inner).distinctClause.is_null() || !(*inner).setOperations.is_null() || !(*inner).groupingSets.is_null();
        // After merging, the outer query's expressions must not be computed for rows that the subquery's LIMIT drops.
        // Nor may they leave out a value of the subquery, because PostgreSQL computes every such value, and one may
        // raise an error.
        if !returns_columns(read) && (is_limited(&read_inner) || may_leave_out(read, read_inner)) {
            return None;
        }
        if is_limited(&read_inner) && (sorts || is_limited(&read))
            || finishes && (sorts || !returns_all(read, read_inner))
        {
            return None;
        }
        if let Some(condition) = condition {
            let later = finishes || is_limited(&read_inner) || (*inner).hasWindowFuncs;
            if later || condition.is_volatile() {
                return None;
            }
        }
        if (*entry).rtekind == pg_sys::RTEKind::RTE_CTE {
            let is_other = |with: &Ref<'_, pg_sys::CommonTableExpr>| !std::ptr::eq(with.ctequery, inner.cast());
            let others = read.cteList().iter().filter(is_other);
            (*query).cteList = make::list(others.map(Ref::as_ptr::<pg_sys::Node>));
        }
        pg_sys::IncrementVarSublevelsUp(inner.cast(), -1, 1);
        if !finishes {
            let outer = compat::replace_columns(query, index, entry, (*inner).targetList);
            take_targets(inner, Ref::new(outer));
            if condition.is_some() {
                let place = match is_grouped(&*inner) {
                    true => &raw mut (*inner).havingQual,
                    false => &raw mut (*(*inner).jointree).quals,
                };
                *place = both(Node::or_null(*place), Node::or_null((*(*outer).jointree).quals));
            }
        }
        if is_limited(&*query) {
            ((*inner).limitCount, (*inner).limitOffset) = ((*query).limitCount, (*query).limitOffset);
            (*inner).limitOption = (*query).limitOption;
        }
        if !(*query).cteList.is_null() {
            ((*inner).cteList, (*inner).hasRecursive) = ((*query).cteList, (*query).hasRecursive);
        }
        (*inner).hasSubLinks |= (*query).hasSubLinks;
        (*inner).hasRowSecurity |= (*query).hasRowSecurity;
        Some(inner)
    }
}

/// The query of a subquery in FROM, or of a WITH query to which nothing else refers.
fn subquery(query: Ref<'_, pg_sys::Query>, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<*mut pg_sys::Query> {
    match entry.rtekind {
        _ if entry.lateral || entry.security_barrier || !entry.securityQuals.is_null() => None,
        pg_sys::RTEKind::RTE_SUBQUERY => Some(entry.subquery),
        pg_sys::RTEKind::RTE_CTE if entry.ctelevelsup == 0 && !entry.self_reference => {
            let is_it = |with: &Ref<'_, pg_sys::CommonTableExpr>| with.ctename() == entry.ctename();
            let with = query.cteList().iter().find(is_it)?;
            let is_fence = with.ctematerialized == pg_sys::CTEMaterialize::CTEMaterializeAlways;
            let alone = with.cterefcount == 1 && !with.cterecursive && !is_fence;
            alone.then_some(with.ctequery.cast())
        }
        _ => None,
    }
}

/// Whether a query does nothing but compute expressions, filter, sort and limit.
fn is_plain(query: Ref<'_, pg_sys::Query>) -> bool {
    query.commandType == pg_sys::CmdType::CMD_SELECT
        && !is_grouped(&query)
        && !(query.hasWindowFuncs || query.hasTargetSRFs || query.hasSubLinks || query.hasModifyingCTE)
        && query.distinctClause.is_null()
        && query.setOperations.is_null()
        && query.rowMarks.is_null()
}

/// Whether a subquery can also compute the expressions of the query around it.
fn can_take_over(inner: Ref<'_, pg_sys::Query>) -> bool {
    inner.commandType == pg_sys::CmdType::CMD_SELECT
        && !(inner.hasTargetSRFs || inner.hasModifyingCTE || inner.hasForUpdate)
        && inner.rowMarks.is_null()
        && !inner.targetList().node().is_some_and(Node::is_volatile)
}

/// Whether a query only returns columns, and computes nothing from them.
fn returns_columns(query: Ref<'_, pg_sys::Query>) -> bool {
    let mut entries = query.targetList().iter();
    entries.all(|entry| entry.expr().cast::<pg_sys::Var>().is_some())
}

/// Whether the query's expressions may leave some of the subquery's values uncomputed, so that errors in them would be
/// lost.
fn may_leave_out(query: Ref<'_, pg_sys::Query>, inner: Ref<'_, pg_sys::Query>) -> bool {
    let chooses = |node: Node<'_>| {
        use pg_sys::NodeTag::*;
        matches!(node.tag(), T_CaseExpr | T_CoalesceExpr | T_BoolExpr | T_NullIfExpr | T_MinMaxExpr)
    };
    let is_plain = |node: Node<'_>| matches!(node.tag(), pg_sys::NodeTag::T_Var | pg_sys::NodeTag::T_Const);
    let mut outer = query.targetList().iter().map(|entry| entry.expr());
    let mut own = inner.targetList().iter().map(|entry| entry.expr());
    outer.any(|node| node.is_volatile() || node.any(chooses)) && !own.all(is_plain)
}

/// Whether the query returns all columns of the subquery, unchanged and in the same order.
fn returns_all(query: Ref<'_, pg_sys::Query>, inner: Ref<'_, pg_sys::Query>) -> bool {
    let columns = inner.targetList().iter().filter(|entry| !entry.resjunk).count();
    let entries: Vec<_> = query.targetList().iter().collect();
    let is_column = |(number, entry): (i16, &Ref<'_, pg_sys::TargetEntry>)| {
        entry.expr().cast::<pg_sys::Var>().is_some_and(|var| var.varattno == number)
    };
    entries.len() == columns && (1..).zip(&entries).all(is_column)
}

/// Makes the subquery return the select list of `outer`. In this list, the subquery's expressions replace references to
/// the subquery's columns. If `outer` has an order, the subquery gets that order.
///
/// # Safety
///
/// The caller owns the subquery.
unsafe fn take_targets(inner: *mut pg_sys::Query, outer: Ref<'_, pg_sys::Query>) {
    // SAFETY: by the caller's promise; the entries stay as they are.
    let own: Vec<_> = unsafe { Ref::new(inner) }.targetList().iter().collect();
    let names = own.iter().map(|entry| entry.ressortgroupref).max().unwrap_or(0);
    let renamed = |name: u32| if name == 0 { 0 } else { name + names };
    let mut targets = Vec::new();
    let mut add = |entry: Ref<'_, pg_sys::TargetEntry>, name: u32, junk: bool| {
        let resno = targets.len() as i16 + 1;
        targets.push(make::placed(pg_sys::TargetEntry { resno, ressortgroupref: name, resjunk: junk, ..*entry }));
    };
    for entry in outer.targetList().iter() {
        add(entry, renamed(entry.ressortgroupref), entry.resjunk);
    }
    own.into_iter().filter(|entry| entry.ressortgroupref > 0).for_each(|entry| add(entry, entry.ressortgroupref, true));
    let targets = make::list(targets);
    // SAFETY: by the caller's promise.
    let inner = unsafe { &mut *inner };
    inner.targetList = targets;
    if !outer.sortClause.is_null() {
        let clauses = outer.sortClause().iter().map(|clause| {
            let name = renamed(clause.tleSortGroupRef);
            make::placed(pg_sys::SortGroupClause { tleSortGroupRef: name, ..*clause })
        });
        inner.sortClause = make::list(clauses);
    }
}
