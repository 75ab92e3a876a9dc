//! Replaces a query that only reads a subquery, as a query on a view does, by that subquery. PostgreSQL can then do the
//! same work above the engine as for any top-level query, and the order of the rows stays.
//!
//! ```text
//!   SELECT g, names FROM (SELECT g, string_agg(x, ',') AS names, max(y) AS y FROM t GROUP BY g) AS v WHERE y > 3
//!   SELECT g, string_agg(x, ',') AS names FROM t GROUP BY g HAVING max(y) > 3
//! ```

use std::ffi::c_void;

use pgrx::prelude::*;

use super::pull_up::pull_up_subqueries;
use crate::pg::tree::{Node, Tree};
use crate::pg::{compat, make, walk};
use crate::planner::words::query::{is_grouped, is_limited, is_true};

/// The query with everything merged that can be: plain subqueries in FROM, then the query itself into the subquery that
/// it reads.
///
/// # Safety
///
/// `query` is a rewritten query that the caller owns.
pub unsafe fn unwrapped(query: *mut pg_sys::Query) -> *mut pg_sys::Query {
    // SAFETY: the caller owns the query.
    unsafe {
        let mut query = pull_up_subqueries(query);
        flatten(query);
        while let Some(index) = only_item(Tree::new(), &*query) {
            let Some(inner) = merged(query, index) else { break };
            query = pull_up_subqueries(inner);
            flatten(query);
        }
        query
    }
}

/// Merges subqueries into the sorted subqueries below them, so that LIMIT meets the order. It starts with the deepest.
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
        let tree = Tree::new();
        if let Some(index) = only_item(tree, &*query).filter(|index| has_order(tree, &*query, *index))
            && let Some(inner) = merged(query, index)
        {
            *query = *inner;
        }
    }
    false
}

/// Whether item `index` is a subquery with ORDER BY.
fn has_order(tree: Tree<'_>, query: &pg_sys::Query, index: i32) -> bool {
    let entry = tree.list_of::<pg_sys::RangeTblEntry>(query.rtable).nth(index as usize - 1);
    entry.and_then(|entry| tree.subquery(entry)).is_some_and(|query| !query.sortClause.is_null())
}

/// Whether FROM is one subquery with ordered rows.
pub fn reads_in_order(tree: Tree<'_>, query: &pg_sys::Query) -> bool {
    only_item(tree, query).is_some_and(|index| has_order(tree, query, index))
}

/// The number of the single item of FROM.
pub fn only_item(tree: Tree<'_>, query: &pg_sys::Query) -> Option<i32> {
    let from = tree.node(query.jointree)?.cast::<pg_sys::FromExpr>()?;
    let mut items = tree.list(from.fromlist);
    let item = items.next().filter(|_| items.next().is_none())?;
    item.cast::<pg_sys::RangeTblRef>().map(|reference| reference.rtindex)
}

/// Moves conditions of FROM's nested levels to the query's own WHERE. Merged subqueries leave such levels behind, which
/// join nothing.
///
/// # Safety
///
/// The caller owns the query.
unsafe fn flatten(query: *mut pg_sys::Query) {
    // SAFETY: the caller owns the query; tags tell types.
    unsafe {
        let tree = Tree::new();
        while let Some(from) = (*query).jointree.as_mut() {
            let mut items = tree.list(from.fromlist);
            let only = items.next().filter(|_| items.next().is_none());
            let Some(inner) = only.and_then(|item| item.cast::<pg_sys::FromExpr>()) else { return };
            from.quals = both(tree, from.quals, inner.quals);
            from.fromlist = inner.fromlist;
        }
    }
}

/// The conjunction of two conditions, either of which may be missing.
fn both(tree: Tree<'_>, one: *mut pg_sys::Node, other: *mut pg_sys::Node) -> *mut pg_sys::Node {
    match (tree.node(one), tree.node(other)) {
        (None, None) => std::ptr::null_mut(),
        (one, other) => make::all_of(one.into_iter().chain(other).map(Node::as_ptr::<pg_sys::Node>)),
    }
}

/// Turns the subquery `index` into one that returns the rows of the query around it; `None` if the query must stay.
///
/// # Safety
///
/// The caller owns the query.
unsafe fn merged(query: *mut pg_sys::Query, index: i32) -> Option<*mut pg_sys::Query> {
    // SAFETY: the caller owns the query; entries and lists are those of a valid query.
    unsafe {
        let tree = Tree::new();
        let entry = pg_sys::list_nth((*query).rtable, index - 1).cast::<pg_sys::RangeTblEntry>();
        let inner = subquery(tree, &*query, &*entry)?;
        let condition = tree.node((*(*query).jointree).quals).map(Node::simplified);
        let condition = condition.filter(|condition| !is_true(*condition));
        if !is_plain(&*query)
            || !can_take_over(tree, &*inner)
            || !(*query).cteList.is_null() && !(*inner).cteList.is_null()
        {
            return None;
        }
        let sorts = !(*query).sortClause.is_null();
        // The subquery does these steps last, so the query's own steps must not come before them.
        let finishes =
            !(*inner).distinctClause.is_null() || !(*inner).setOperations.is_null() || !(*inner).groupingSets.is_null();
        // The query's expressions must not be computed for rows that LIMIT drops. Nor may they skip values that the
        // subquery computes, since computing them may raise an error.
        if !returns_columns(tree, &*query) && (is_limited(&*inner) || may_leave_out(tree, &*query, &*inner)) {
            return None;
        }
        if is_limited(&*inner) && (sorts || is_limited(&*query))
            || finishes && (sorts || !returns_all(tree, &*query, &*inner))
        {
            return None;
        }
        if let Some(condition) = condition {
            let later = finishes || is_limited(&*inner) || (*inner).hasWindowFuncs;
            if later || condition.is_volatile() {
                return None;
            }
        }
        if (*entry).rtekind == pg_sys::RTEKind::RTE_CTE {
            let is_other = |with: &&pg_sys::CommonTableExpr| !std::ptr::eq(with.ctequery, inner.cast());
            let others = tree.list_of::<pg_sys::CommonTableExpr>((*query).cteList).filter(is_other);
            (*query).cteList = make::list(others.map(|with| std::ptr::from_ref(with).cast_mut()));
        }
        pg_sys::IncrementVarSublevelsUp(inner.cast(), -1, 1);
        if !finishes {
            let outer = compat::replace_columns(query, index, entry, (*inner).targetList);
            take_targets(tree, &mut *inner, &*outer);
            if condition.is_some() {
                let place = match is_grouped(&*inner) {
                    true => &raw mut (*inner).havingQual,
                    false => &raw mut (*(*inner).jointree).quals,
                };
                *place = both(tree, *place, (*(*outer).jointree).quals);
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

/// The query of a subquery in FROM, or of a WITH query with no other reference.
fn subquery(tree: Tree<'_>, query: &pg_sys::Query, entry: &pg_sys::RangeTblEntry) -> Option<*mut pg_sys::Query> {
    match entry.rtekind {
        _ if entry.lateral || entry.security_barrier || !entry.securityQuals.is_null() => None,
        pg_sys::RTEKind::RTE_SUBQUERY => Some(entry.subquery),
        pg_sys::RTEKind::RTE_CTE if entry.ctelevelsup == 0 && !entry.self_reference => {
            let is_it = |with: &&pg_sys::CommonTableExpr| tree.name(with.ctename) == tree.name(entry.ctename);
            let with = tree.list_of::<pg_sys::CommonTableExpr>(query.cteList).find(is_it)?;
            let is_fence = with.ctematerialized == pg_sys::CTEMaterialize::CTEMaterializeAlways;
            let alone = with.cterefcount == 1 && !with.cterecursive && !is_fence;
            alone.then_some(with.ctequery.cast())
        }
        _ => None,
    }
}

/// Whether a query only computes expressions, filters, sorts and limits.
fn is_plain(query: &pg_sys::Query) -> bool {
    query.commandType == pg_sys::CmdType::CMD_SELECT
        && !is_grouped(query)
        && !(query.hasWindowFuncs || query.hasTargetSRFs || query.hasSubLinks || query.hasModifyingCTE)
        && query.distinctClause.is_null()
        && query.setOperations.is_null()
        && query.rowMarks.is_null()
}

/// Whether a subquery may also compute the expressions of the query around it.
fn can_take_over(tree: Tree<'_>, inner: &pg_sys::Query) -> bool {
    inner.commandType == pg_sys::CmdType::CMD_SELECT
        && !(inner.hasTargetSRFs || inner.hasModifyingCTE || inner.hasForUpdate)
        && inner.rowMarks.is_null()
        && !tree.node(inner.targetList).is_some_and(Node::is_volatile)
}

/// Whether a query returns columns as they are, without computing anything from them.
fn returns_columns(tree: Tree<'_>, query: &pg_sys::Query) -> bool {
    let mut entries = tree.list_of::<pg_sys::TargetEntry>(query.targetList);
    entries.all(|entry| tree.required(entry.expr).cast::<pg_sys::Var>().is_some())
}

/// Whether the query's expressions may skip some of the values that the subquery computes, and with them their errors.
fn may_leave_out(tree: Tree<'_>, query: &pg_sys::Query, inner: &pg_sys::Query) -> bool {
    let chooses = |node: Node<'_>| {
        use pg_sys::NodeTag::*;
        matches!(node.tag(), T_CaseExpr | T_CoalesceExpr | T_BoolExpr | T_NullIfExpr | T_MinMaxExpr)
    };
    let is_plain = |node: Node<'_>| matches!(node.tag(), pg_sys::NodeTag::T_Var | pg_sys::NodeTag::T_Const);
    let mut outer = tree.list_of::<pg_sys::TargetEntry>(query.targetList).map(|entry| tree.required(entry.expr));
    let mut own = tree.list_of::<pg_sys::TargetEntry>(inner.targetList).map(|entry| tree.required(entry.expr));
    outer.any(|node| node.is_volatile() || node.any(chooses)) && !own.all(is_plain)
}

/// Whether the query returns all columns of the subquery, unchanged and in their order.
fn returns_all(tree: Tree<'_>, query: &pg_sys::Query, inner: &pg_sys::Query) -> bool {
    let columns = tree.list_of::<pg_sys::TargetEntry>(inner.targetList).filter(|entry| !entry.resjunk).count();
    let entries: Vec<_> = tree.list_of::<pg_sys::TargetEntry>(query.targetList).collect();
    let is_column = |(number, entry): (i16, &&pg_sys::TargetEntry)| {
        tree.required(entry.expr).cast::<pg_sys::Var>().is_some_and(|var| var.varattno == number)
    };
    entries.len() == columns && (1..).zip(&entries).all(is_column)
}

/// Makes the subquery return the columns of `outer`, with its own expressions in place of its columns. If `outer` has
/// an order, the subquery gets it.
fn take_targets(tree: Tree<'_>, inner: &mut pg_sys::Query, outer: &pg_sys::Query) {
    let own: Vec<&pg_sys::TargetEntry> = tree.list_of(inner.targetList).collect();
    let names = own.iter().map(|entry| entry.ressortgroupref).max().unwrap_or(0);
    let renamed = |name: u32| if name == 0 { 0 } else { name + names };
    let mut targets = Vec::new();
    let mut add = |entry: &pg_sys::TargetEntry, name: u32, junk: bool| {
        let resno = targets.len() as i16 + 1;
        targets.push(make::placed(pg_sys::TargetEntry { resno, ressortgroupref: name, resjunk: junk, ..*entry }));
    };
    for entry in tree.list_of::<pg_sys::TargetEntry>(outer.targetList) {
        add(entry, renamed(entry.ressortgroupref), entry.resjunk);
    }
    own.into_iter().filter(|entry| entry.ressortgroupref > 0).for_each(|entry| add(entry, entry.ressortgroupref, true));
    inner.targetList = make::list(targets);
    if !outer.sortClause.is_null() {
        let clauses = tree.list_of::<pg_sys::SortGroupClause>(outer.sortClause).map(|clause| {
            let name = renamed(clause.tleSortGroupRef);
            make::placed(pg_sys::SortGroupClause { tleSortGroupRef: name, ..*clause })
        });
        inner.sortClause = make::list(clauses);
    }
}
