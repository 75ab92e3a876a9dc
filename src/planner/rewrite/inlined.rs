//! Functions in FROM whose body is a query, which are like views with parameters. PostgreSQL's planner replaces the
//! call by that query, and the engine must get the query, too.

use std::ffi::c_void;

use pgrx::prelude::*;

use crate::pg::tree::Ref;
use crate::pg::{catalog, compat, make, walk};

/// The greatest number of calls that are replaced in a query. Without a limit, replacing a function that calls itself
/// would never end.
const MAX_CALLS: u32 = 64;

/// Whether the query, or a subquery of it, calls a function in FROM that is written in SQL.
///
/// # Safety
///
/// `query` is a rewritten query.
pub unsafe fn has_any(query: *mut pg_sys::Query) -> bool {
    // SAFETY: a rewritten query; the walker needs no context.
    unsafe { walk::walk(query.cast(), finds_body, std::ptr::null_mut()) }
}

/// Finds functions with bodies in SQL. Called for every node of a query. The function owns nothing, so an error may
/// jump over it. It needs no more stack than PostgreSQL's own walkers.
unsafe extern "C-unwind" fn finds_body(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with null or a valid node; tags tell types.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else { return false };
        match tag {
            pg_sys::NodeTag::T_RangeTblEntry => has_body(node.cast()),
            pg_sys::NodeTag::T_Query => {
                let before = pg_sys::QTW_EXAMINE_RTES_BEFORE as i32;
                compat::query_tree_walker(node.cast(), finds_body, context, before)
            }
            _ => compat::expression_tree_walker(node, finds_body, context),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn has_body(entry: *mut pg_sys::RangeTblEntry) -> bool {
    // SAFETY: called with a valid entry.
    unsafe { (*entry).rtekind == pg_sys::RTEKind::RTE_FUNCTION && is_in_sql(Ref::new(entry)) }
}

fn is_in_sql(entry: Ref<'_, pg_sys::RangeTblEntry>) -> bool {
    let mut functions = entry.functions().iter();
    functions.any(|function| {
        // The server's own functions are left out, because they never read a user's table.
        function.funcexpr().cast::<pg_sys::FuncExpr>().is_some_and(|call| {
            call.funcid.to_u32() >= pg_sys::FirstUnpinnedObjectId && catalog::is_written_in_sql(call.funcid)
        })
    })
}

/// The state of a walk over a query.
struct Inlining {
    root: *mut pg_sys::PlannerInfo,
    calls: u32,
}

/// Replaces calls of functions by their bodies, as PostgreSQL's planner does. The plan of the engine's side does not
/// record that it depends on these functions, because the heap's plan of the same query does.
///
/// # Safety
///
/// `query` is a rewritten query that the caller may change.
pub unsafe fn inline(query: *mut pg_sys::Query) {
    let mut root: pg_sys::PlannerInfo = make::blank();
    (root.parse, root.glob, root.query_level) = (query, make::placed(make::blank::<pg_sys::PlannerGlobal>()), 1);
    // SAFETY: the caller may change the query; the walker gets the context that it expects. The planner's state names
    // the memory in which everything is made.
    unsafe {
        root.planner_cxt = pg_sys::CurrentMemoryContext;
        let mut inlining = Inlining { root: make::placed(root), calls: 0 };
        walk::walk(query.cast(), inline_entries, (&raw mut inlining).cast());
    }
}

/// Replaces entries of the range table. The function owns nothing, so an error may jump over it.
unsafe extern "C-unwind" fn inline_entries(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called with null or a valid node, and the context of `inline`; tags tell types.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else { return false };
        match tag {
            // After this, the walk visits the query that has replaced the entry.
            pg_sys::NodeTag::T_RangeTblEntry => {
                inline_entry(node.cast(), context.cast());
                false
            }
            pg_sys::NodeTag::T_Query => {
                let before = pg_sys::QTW_EXAMINE_RTES_BEFORE as i32;
                compat::query_tree_walker(node.cast(), inline_entries, context, before)
            }
            _ => compat::expression_tree_walker(node, inline_entries, context),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn inline_entry(entry: *mut pg_sys::RangeTblEntry, inlining: *mut Inlining) {
    // SAFETY: called with a valid entry, whose expressions do not change meanwhile, and with the walk's own state.
    let (is_in_sql, entry, inlining) = unsafe { (has_body(entry), &mut *entry, &mut *inlining) };
    if inlining.calls == MAX_CALLS || !is_in_sql {
        return;
    }
    // SAFETY: the entry belongs to a query that is being planned, and its arguments are simplified, as PostgreSQL's
    // planner does first. The function records the body's dependencies in `glob`.
    let (body, collations) = unsafe {
        entry.functions = pg_sys::eval_const_expressions(inlining.root, entry.functions.cast()).cast();
        let body = Ref::or_null(compat::inlined_body(inlining.root, entry));
        let call = Ref::new(entry).functions().iter().map(|function| function.funcexpr()).next();
        (body, call.and_then(|call| catalog::collations_of_rows(call.as_ptr())))
    };
    if let (Some(body), Some(collations)) = (body, collations)
        && has_collations(body, &collations)
    {
        inlining.calls += 1;
        (entry.rtekind, entry.subquery) = (pg_sys::RTEKind::RTE_SUBQUERY, body.as_ptr());
        (entry.functions, entry.funcordinality) = (std::ptr::null_mut(), false);
    }
}

/// Whether the columns of a body have the collations of the function's columns. If the two differ, either of them may
/// determine PostgreSQL's order, depending on how far PostgreSQL inlines the body.
fn has_collations(body: Ref<'_, pg_sys::Query>, collations: &[pg_sys::Oid]) -> bool {
    let targets = body.targetList().iter().filter(|target| !target.resjunk);
    targets.zip(collations).all(|(target, collation)| {
        let own = target.expr().collation();
        own == *collation || own == pg_sys::InvalidOid
    })
}
