//! Merges plain subqueries in FROM, such as simple views, into the query around them. PostgreSQL's planner later does
//! the same in its own copy of the query.

use pgrx::prelude::*;

use crate::pg::compat;
use crate::pg::tree::{Node, Ref};

/// Merges subqueries into the query as far as possible. A subquery that cannot be merged stays, and may later be the
/// reason why the query runs on the heap.
///
/// # Safety
///
/// `query` is a rewritten query that the caller owns.
pub unsafe fn pull_up_subqueries(mut query: *mut pg_sys::Query) -> *mut pg_sys::Query {
    // SAFETY: the caller owns the query, and no reference into it outlives a change. The loop also reaches the entries
    // that a merge appends to the range table, and so the subqueries within subqueries.
    unsafe {
        let mut index = 1;
        while index <= pg_sys::list_length((*query).rtable) {
            let entry = pg_sys::list_nth((*query).rtable, index - 1).cast::<pg_sys::RangeTblEntry>();
            // In a grouping set without a key, every expression that is equal to the key is null. An expression of the
            // subquery would be simplified together with its surroundings, and would then not be recognized as the key.
            let may_be_nulled = !(*query).groupingSets.is_null();
            let fits = |sub: Ref<'_, pg_sys::Query>| !may_be_nulled || gives_columns_alone(sub);
            let from = Ref::new(query).jointree();
            if is_plain(Ref::new(entry))
                && from.is_some_and(|from| is_joined_inner(from.node(), index))
                && fits(Ref::new((*entry).subquery))
            {
                query = merge(query, entry, index);
            }
            index += 1;
        }
    }
    query
}

fn is_plain(entry: Ref<'_, pg_sys::RangeTblEntry>) -> bool {
    if entry.rtekind != pg_sys::RTEKind::RTE_SUBQUERY || entry.lateral || entry.security_barrier {
        return false;
    }
    let Some(sub) = entry.subquery() else { return false };
    let lists = [
        sub.cteList,
        sub.groupClause,
        sub.groupingSets,
        sub.distinctClause,
        sub.sortClause,
        sub.windowClause,
        sub.rowMarks,
        entry.securityQuals,
    ];
    let nodes = [sub.havingQual, sub.limitOffset, sub.limitCount, sub.setOperations];
    sub.commandType == pg_sys::CmdType::CMD_SELECT
        && !(sub.hasAggs || sub.hasWindowFuncs || sub.hasTargetSRFs || sub.hasSubLinks || sub.hasRowSecurity)
        && lists.iter().all(|list| list.is_null())
        && nodes.iter().all(|node| node.is_null())
        // A volatile column that the query uses twice would be computed twice after the merge.
        && !sub.targetList().node().is_some_and(Node::is_volatile)
}

fn gives_columns_alone(sub: Ref<'_, pg_sys::Query>) -> bool {
    let mut targets = sub.targetList().iter();
    targets.all(|target| target.expr().cast::<pg_sys::Var>().is_some())
}

/// Whether each row of the query contains a row of this entry. On the nullable side of an outer join, the entry's
/// columns may be null instead, and its expressions must not be computed then.
fn is_joined_inner(item: Node<'_>, index: i32) -> bool {
    if let Some(reference) = item.cast::<pg_sys::RangeTblRef>() {
        reference.rtindex == index
    } else if let Some(from) = item.cast::<pg_sys::FromExpr>() {
        from.fromlist().iter().any(|item| is_joined_inner(item, index))
    } else if let Some(join) = item.cast::<pg_sys::JoinExpr>() {
        let mut sides = [join.larg(), join.rarg()].into_iter();
        join.jointype == pg_sys::JoinType::JOIN_INNER && sides.any(|side| is_joined_inner(side, index))
    } else {
        false
    }
}

/// # Safety
///
/// `entry`, number `index` of the range table of `query`, is a plain subquery; the caller owns both.
unsafe fn merge(query: *mut pg_sys::Query, entry: *mut pg_sys::RangeTblEntry, index: i32) -> *mut pg_sys::Query {
    // SAFETY: the caller owns the query and its entry, a plain subquery.
    unsafe {
        let sub = (*entry).subquery;
        pg_sys::OffsetVarNodes(sub.cast(), pg_sys::list_length((*query).rtable), 0);
        pg_sys::IncrementVarSublevelsUp(sub.cast(), -1, 1);
        let merged = compat::replace_columns(query, index, entry, (*sub).targetList);
        put_in_place((*merged).jointree.cast(), index, (*sub).jointree.cast());
        compat::append_range_table(&mut *merged, &*sub);
        merged
    }
}

/// Replaces the reference to range table entry `index`, somewhere below `item`, by `tree`.
///
/// # Safety
///
/// `item` is a join tree that the caller owns.
unsafe fn put_in_place(item: *mut pg_sys::Node, index: i32, tree: *mut pg_sys::Node) {
    // SAFETY: the caller owns the join tree; tags tell types.
    unsafe {
        let replace = |link: *mut *mut pg_sys::Node| match (**link).type_ {
            pg_sys::NodeTag::T_RangeTblRef => {
                if (*(*link).cast::<pg_sys::RangeTblRef>()).rtindex == index {
                    *link = tree;
                }
            }
            _ => put_in_place(*link, index, tree),
        };
        match (*item).type_ {
            pg_sys::NodeTag::T_FromExpr => {
                let list = (*item.cast::<pg_sys::FromExpr>()).fromlist;
                for position in 0..pg_sys::list_length(list) {
                    replace((&raw mut (*(*list).elements.add(position as usize)).ptr_value).cast());
                }
            }
            pg_sys::NodeTag::T_JoinExpr => {
                let join = item.cast::<pg_sys::JoinExpr>();
                replace(&raw mut (*join).larg);
                replace(&raw mut (*join).rarg);
            }
            _ => {}
        }
    }
}
