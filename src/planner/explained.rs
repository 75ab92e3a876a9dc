//! `EXPLAIN (ANKER)` tells about any query, also one that never asked for the engine, which side would run it and why.
//! PostgreSQL has such options since version 18.
//!
//! The query is looked at before PostgreSQL plans it: a copy is planned for both sides, and both costs are computed. So
//! EXPLAIN takes longer than without the option.

use std::ffi::c_void;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::hook::{self, about_heap, both_sides, not_asked, reads_rows};
use super::rewrite::flag;
use super::words::reason::{Reason, Why};
use crate::pg::attempt::attempt;
use crate::pg::catalog::relation_name;
use crate::pg::compat::{self, Asking};
use crate::pg::explain::Explain;
use crate::pg::relation::{self, Lock};
use crate::pg::tree::{List, Node, Ref};
use crate::pg::{make, session};
use crate::settings::{ROUTE, Route, STARTUP_COST};
use crate::shared;
use crate::spec::{from_node, to_node};

pub fn init() {
    compat::add_explain_option(c"anker", look, show);
}

/// The findings about a query.
#[derive(Serialize, Deserialize)]
struct Found {
    route: String,
    /// The reason why the query does not ask for the engine; `None` if it does.
    unasked: Option<String>,
    /// The costs in the engine and on the heap, or the reason why the engine cannot run the query.
    sides: Result<(f64, f64), Reason>,
    /// The tables that the query reads.
    tables: Vec<Table>,
}

#[derive(Serialize, Deserialize)]
struct Table {
    relid: u32,
    /// The state of its mirror.
    state: String,
}

/// Looks at a query before it is planned.
#[pg_guard]
unsafe extern "C-unwind" fn look(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::Node {
    // SAFETY: EXPLAIN calls this with a rewritten query, whose relations are locked. Only a copy is changed.
    unsafe {
        let query: *mut pg_sys::Query = pg_sys::copyObjectImpl(query.cast()).cast();
        let flagged = flag::take(query);
        let route = ROUTE.get();
        let tables = tables_of(query);
        let mut unasked = not_asked(Ref::new(query), route, flagged);
        if !flagged {
            unasked = unasked.or_else(|| about_heap(query, route, asking.options));
            if tables.iter().all(|table| table.state == NOT_MIRRORED) {
                unasked = unasked.or(Some("no table of it is mirrored"));
            }
        }
        let for_client = session::plans_for_client();
        let sides = match reads_rows(Ref::new(query)) {
            true => attempt(AssertUnwindSafe(|| both_sides(query, asking, for_client))),
            false => Err(Why::Statement.of("the statement only changes rows, or reads none")),
        };
        if let (Route::Auto, false, Ok(costs)) = (route, flagged, &sides)
            && costs.heap <= STARTUP_COST.get()
        {
            unasked = unasked.or(Some("the heap costs no more than anker.engine_startup_cost"));
        }
        to_node(&Found {
            route: name(route).into(),
            unasked: unasked.map(str::to_owned),
            sides: sides.map(|costs| (costs.engine, costs.heap)),
            tables,
        })
    }
}

/// Shows what was found, below the plan.
#[pg_guard]
unsafe extern "C-unwind" fn show(
    state: *mut pg_sys::ExplainState,
    statement: *mut pg_sys::PlannedStmt,
    found: *mut pg_sys::Node,
) {
    // SAFETY: EXPLAIN calls this with its state and a finished statement; `found` is a node of `look`, or an empty
    // string.
    let (out, found, statement) =
        unsafe { (Explain::below_plan(state), Node::or_null(found).and_then(from_node), Ref::new(statement)) };
    out.group(c"Anker", || match found {
        Some(found) => show_found(&out, &found),
        // A prepared statement has a plan already.
        None => {
            out.property(c"Asked", "when the statement was planned");
            show_tables(&out, &statement.rtable().iter().filter_map(table).collect::<Vec<_>>());
        }
    });
}

fn show_found(out: &Explain<'_>, found: &Found) {
    out.property(c"Route", &found.route);
    match &found.unasked {
        Some(why) => out.property(c"Asked", &format!("no, because {why}")),
        None => out.property(c"Asked", "yes"),
    }
    match &found.sides {
        Ok((engine, heap)) => {
            out.property(c"Engine", "can run the query");
            out.cost(c"Engine Cost", *engine);
            out.cost(c"Heap Cost", *heap);
        }
        Err(reason) => {
            out.property(c"Engine", &format!("cannot run the query, because {reason}"));
            if out.is_verbose() || !out.is_text() {
                out.property(c"Heap Reason", reason.why.name());
            }
        }
    }
    show_tables(out, &found.tables);
}

fn show_tables(out: &Explain<'_>, tables: &[Table]) {
    let shown = |table: &Table| format!("{} ({})", relation_name(table.relid.into()), table.state);
    out.list(c"Tables", tables.iter().map(shown));
}

fn name(route: Route) -> &'static str {
    match route {
        Route::Hint => "hint",
        Route::Auto => "auto",
        Route::Prefer => "prefer",
        Route::Force => "force",
        Route::Off => "off",
    }
}

const NOT_MIRRORED: &str = "not mirrored";

/// The tables that a query reads, in the order of their first appearance.
///
/// # Safety
///
/// `query` is a valid query.
unsafe fn tables_of(query: *mut pg_sys::Query) -> Vec<Table> {
    let mut entries: *mut pg_sys::List = std::ptr::null_mut();
    // SAFETY: a valid query, which is only read; the walker gets the context that it expects, and makes a list of the
    // query's entries.
    let entries = unsafe {
        let flags = pg_sys::QTW_EXAMINE_RTES_BEFORE as i32;
        compat::query_tree_walker(query, collect, (&raw mut entries).cast(), flags);
        List::<pg_sys::RangeTblEntry>::new(entries)
    };
    let mut tables: Vec<Table> = Vec::new();
    for table in entries.iter().filter_map(table) {
        if !tables.iter().any(|known| known.relid == table.relid) {
            tables.push(table);
        }
    }
    tables
}

/// A table that a statement reads, if the entry is one.
fn table(entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<Table> {
    // A view's entry stands beside the subquery that replaces the view. The target of a change is not read.
    let is_read = entry.rtekind == pg_sys::RTEKind::RTE_RELATION
        && entry.relkind as u8 != pg_sys::RELKIND_VIEW
        && entry.rellockmode != pg_sys::RowExclusiveLock as i32;
    is_read.then(|| Table { relid: entry.relid.to_u32(), state: state(entry) })
}

/// The state of a table's mirror. For a partitioned table, that of its partitions.
fn state(entry: Ref<'_, pg_sys::RangeTblEntry>) -> String {
    let database = session::database();
    let of = |relid| shared::table(database, relid).map_or(NOT_MIRRORED, |table| table.state.name());
    if entry.relkind as u8 != pg_sys::RELKIND_PARTITIONED_TABLE {
        return of(entry.relid).into();
    }
    if !hook::is_mirrored(entry) {
        return NOT_MIRRORED.into();
    }
    let parts =
        relation::family(entry.relid, Lock::None).into_iter().filter(|part| shared::table(database, *part).is_some());
    let mut states: Vec<_> = parts.map(of).collect();
    states.sort_unstable();
    states.dedup();
    states.join(", ")
}

#[pg_guard]
unsafe extern "C-unwind" fn add(entries: *mut c_void, entry: *mut pg_sys::Node) {
    // SAFETY: called by `collect` with its context.
    unsafe { make::append(&mut *entries.cast::<*mut pg_sys::List>(), entry) };
}

/// Collects the entries of relations in a query and its subqueries. The function owns nothing, so errors may jump over
/// it.
unsafe extern "C-unwind" fn collect(node: *mut pg_sys::Node, entries: *mut c_void) -> bool {
    // SAFETY: called by PostgreSQL's walkers with null or a valid node, and the context of `tables_of`.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else { return false };
        match tag {
            pg_sys::NodeTag::T_RangeTblEntry => {
                add(entries, node);
                false
            }
            pg_sys::NodeTag::T_Query => {
                compat::query_tree_walker(node.cast(), collect, entries, pg_sys::QTW_EXAMINE_RTES_BEFORE as i32)
            }
            _ => compat::expression_tree_walker(node, collect, entries),
        }
    }
}
