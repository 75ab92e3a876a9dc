//! Functions in FROM whose body is a query, as views with parameters are: PostgreSQL's planner puts that query in their place, and
//! the engine is asked for it.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::pg::tree::{Tree, make};
use crate::pg::{catalog, symbols, walk};

/// A function that calls itself would never come to an end.
const MAX_CALLS: u32 = 64;

/// Whether FROM, or a subquery there or behind WITH, has a function that is written in SQL.
pub fn has_any(tree: Tree<'_>, query: &pg_sys::Query) -> bool {
    let has_any = |node: *mut pg_sys::Node| {
        let inner = tree.node(node).and_then(|node| node.cast::<pg_sys::Query>());
        inner.is_some_and(|query| has_any(tree, query))
    };
    let mut entries = tree.list_of::<pg_sys::RangeTblEntry>(query.rtable);
    let is_one = |entry: &pg_sys::RangeTblEntry| match entry.rtekind {
        pg_sys::RTEKind::RTE_FUNCTION => is_in_sql(tree, entry),
        pg_sys::RTEKind::RTE_SUBQUERY => has_any(entry.subquery.cast()),
        _ => false,
    };
    entries.any(is_one) || tree.list_of::<pg_sys::CommonTableExpr>(query.cteList).any(|with| has_any(with.ctequery))
}

fn is_in_sql(tree: Tree<'_>, entry: &pg_sys::RangeTblEntry) -> bool {
    let mut functions = tree.list_of::<pg_sys::RangeTblFunction>(entry.functions);
    functions.any(|function| {
        let call = tree.node(function.funcexpr).and_then(|node| node.cast::<pg_sys::FuncExpr>());
        // None of the server's own reads a user's table.
        call.is_some_and(|call| {
            call.funcid.to_u32() >= pg_sys::FirstUnpinnedObjectId && catalog::is_written_in_sql(call.funcid)
        })
    })
}

/// What the walk over a query knows.
struct Inlining {
    root: *mut pg_sys::PlannerInfo,
    calls: u32,
}

/// Puts the bodies of functions in their places, where PostgreSQL's planner does. What the plan depends on thereby is said by the
/// heap's plan of the same query.
///
/// # Safety
///
/// `query` is a rewritten query that the caller may change.
pub unsafe fn inline(query: *mut pg_sys::Query) {
    let root = make::<pg_sys::PlannerInfo>();
    (root.parse, root.glob, root.query_level) = (query, make::<pg_sys::PlannerGlobal>(), 1);
    let mut inlining = Inlining { root, calls: 0 };
    // SAFETY: by the caller's promise; the walker gets the context that it expects.
    unsafe { walk::walk(query.cast(), inline_entries, (&raw mut inlining).cast()) };
}

#[pg_guard]
unsafe extern "C-unwind" fn inline_entries(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with null or a valid node, and the context of `inline`; tags tell types.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else { return false };
        match tag {
            // The query that takes an entry's place is walked through next.
            pg_sys::NodeTag::T_RangeTblEntry => {
                inline_entry(&mut *node.cast(), &mut *context.cast());
                false
            }
            pg_sys::NodeTag::T_Query => {
                let before = pg_sys::QTW_EXAMINE_RTES_BEFORE as i32;
                symbols::query_tree_walker(node.cast(), inline_entries, context, before)
            }
            _ => symbols::expression_tree_walker(node, inline_entries, context),
        }
    }
}

fn inline_entry(entry: &mut pg_sys::RangeTblEntry, inlining: &mut Inlining) {
    // SAFETY: the entry's expressions do not change meanwhile.
    let tree = unsafe { Tree::new() };
    if entry.rtekind != pg_sys::RTEKind::RTE_FUNCTION || inlining.calls == MAX_CALLS || !is_in_sql(tree, entry) {
        return;
    }
    // SAFETY: an entry of a query that is being planned, with its arguments in their places, as the planner has them; what the
    // body depends on is noted in `glob`.
    let body = unsafe {
        entry.functions = pg_sys::eval_const_expressions(inlining.root, entry.functions.cast()).cast();
        pg_sys::inline_set_returning_function(inlining.root, entry)
    };
    if !body.is_null() {
        inlining.calls += 1;
        (entry.rtekind, entry.subquery) = (pg_sys::RTEKind::RTE_SUBQUERY, body);
        (entry.functions, entry.funcordinality) = (std::ptr::null_mut(), false);
    }
}
