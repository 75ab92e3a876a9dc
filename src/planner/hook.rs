//! The planner hook, which plans each query.
//!
//! Most queries do not concern the engine. For them, the hook costs only one walk over the query to look for
//! `anker.olap()`.

use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::rewrite::generated::compute_virtual_columns;
use super::rewrite::own::OwnFunction;
use super::rewrite::unwrap::{merge_into_sorted, unwrapped};
use super::rewrite::{flag, inlined, insert};
use super::route::{by_key, cost};
use super::translate::level::sent::Sent;
use super::tree::nodes;
use super::tree::split::split;
use super::tree::unplanned::{self, Reads};
use super::words::reason::{Reason, Why};
use crate::pg::attempt::attempt;
use crate::pg::compat::{self, Asking, Plan, Planner};
use crate::pg::error::Error;
use crate::pg::planning;
use crate::pg::relation::{self, Lock};
use crate::pg::session;
use crate::pg::tree::{Node, Ref};
use crate::settings::{self, ROUTE, Route, STARTUP_COST};
use crate::shared;
use crate::spec::{from_node, to_node};

/// The factor by which PostgreSQL's estimate of the bytes that are sent along may exceed `anker.max_sent`. The factor
/// is generous because estimates may be wrong. The true number of bytes is checked when the query runs.
const BAD_ESTIMATE: f64 = 4.0;

/// The SQL function that stands for the engine's rows in FROM while PostgreSQL plans the part of a query above them.
static PLACEHOLDER: OwnFunction = OwnFunction::named(c"engine_result");

static INSTALLED: AtomicBool = AtomicBool::new(false);

pub fn init() {
    if !INSTALLED.swap(true, Ordering::Relaxed) {
        compat::plan_by::<Hook>();
    }
}

/// The planner hook, which PostgreSQL calls for every query of the server. Planning may evaluate functions, and these
/// may raise errors. pgrx's guards would lose the context and the names of such an error, so PostgreSQL plans outside
/// any guard. The error may jump over this frame, because the frame owns nothing.
struct Hook;

impl Plan for Hook {
    unsafe fn plan(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt {
        // SAFETY: the query was rewritten, and the planner may change it.
        unsafe {
            if let Some(options) = planning::options_for_heap(asking.options) {
                return compat::previous_planner(query, asking.with_options(options));
            }
            let asked = copy_if_asked(query, asking);
            let refusal = match asked.can_wait {
                true => match without_heap(query, asked, asking) {
                    First { statement, .. } if !statement.is_null() => return statement,
                    First { refusal, .. } => refusal,
                },
                false => std::ptr::null_mut(),
            };
            let heap = compat::previous_planner(query, asking);
            let is_cheap = || asked.by_cost && cost::of_heap(heap) <= STARTUP_COST.get();
            match asked.copy.is_null() || is_cheap() {
                true => heap,
                false => with_choice(heap, asked, refusal, asking),
            }
        }
    }
}

/// How a query asks for the engine.
#[derive(Clone, Copy)]
#[repr(C)]
struct Asked {
    /// A copy of the query from before planning; null if the query runs on the heap.
    copy: *mut pg_sys::Query,
    /// Whether the engine is used only if it costs less than the heap.
    by_cost: bool,
    /// Whether the heap's plan can be made later, when the query runs.
    can_wait: bool,
    /// Whether only the engine may answer the query.
    must_run: bool,
}

impl Asked {
    /// No request: the query runs on the heap.
    const NOT: Asked = Asked { copy: std::ptr::null_mut(), by_cost: false, can_wait: false, must_run: false };
}

/// The result of planning the engine's side alone, for a query whose heap plan can be made later.
#[repr(C)]
struct First {
    /// The finished plan; null if the heap's plan is needed now.
    statement: *mut pg_sys::PlannedStmt,
    /// The [`Reason`] why the engine cannot run the query, as a node; null if no reason is known yet.
    refusal: *mut pg_sys::Node,
}

/// Removes the calls of `anker.olap()` from the query, and copies the query if the engine may run it.
#[pg_guard]
unsafe extern "C-unwind" fn copy_if_asked(query: *mut pg_sys::Query, asking: Asking) -> Asked {
    // SAFETY: the query is valid by the caller's promise.
    unsafe {
        let flagged = flag::take(query);
        let route = ROUTE.get();
        let by_cost = route == Route::Auto && !flagged;
        if not_asked(Ref::new(query), route, flagged).is_some() {
            return Asked::NOT;
        }
        // The planner changes its query, so the copy is made before planning.
        let mut copy = std::ptr::null_mut();
        if !session::in_parallel_mode() && inlined::has_any(query) {
            let bodies = attempt(AssertUnwindSafe(|| {
                let copy = pg_sys::copyObjectImpl(query.cast()).cast();
                inlined::inline(copy);
                flag::take(copy);
                Ok::<*mut pg_sys::Query, String>(copy)
            }));
            // Inlining has raised an error. The copy keeps the calls of functions, because the heap raises the same
            // error if it ever evaluates the function.
            copy = bodies.unwrap_or_else(|_| pg_sys::copyObjectImpl(query.cast()).cast());
        }
        let has_bodies = !copy.is_null();
        let read = if has_bodies { copy } else { query };
        if !flagged && (about_heap(query, route, asking.options).is_some() || !census(read).any_mirrored) {
            return Asked::NOT;
        }
        if !has_bodies {
            copy = pg_sys::copyObjectImpl(query.cast()).cast();
        }
        let can_wait = !by_cost && !has_bodies && (*query).rowMarks.is_null() && unplanned::can_wait(query, asking);
        let must_run = route == Route::Force && all_mirrored(copy);
        Asked { copy, by_cost, can_wait, must_run }
    }
}

/// The reason why a query does not ask for the engine, as far as its statement and the settings tell; `None` if it
/// does. `flagged` says that it has called `anker.olap()`.
pub fn not_asked(query: Ref<'_, pg_sys::Query>, route: Route, flagged: bool) -> Option<&'static str> {
    match route {
        Route::Off => Some("anker.route is off"),
        Route::Hint if !flagged => Some("anker.route is hint, and the query does not call anker.olap()"),
        _ if !reads_rows(query) => Some("the statement only changes rows, or reads none"),
        Route::Auto if !flagged && by_key::reads_one_row(query) => Some("it reads one row by its primary key"),
        _ => None,
    }
}

/// The reason why a query without a flag needs the heap's own rows; `None` if it does not.
///
/// # Safety
///
/// `query` is a valid query.
pub unsafe fn about_heap(query: *const pg_sys::Query, route: Route, options: i32) -> Option<&'static str> {
    // Such a cursor may be used to update rows (WHERE CURRENT OF).
    let is_cursor = options & pg_sys::CURSOR_OPT_FAST_PLAN as i32 != 0;
    // SAFETY: by the caller's promise.
    match unsafe { !(*query).rowMarks.is_null() } {
        // PostgreSQL also checks foreign keys by such queries.
        true => Some("it locks rows"),
        false if is_cursor && route != Route::Force => Some("it is a cursor, which may be used to update rows"),
        false => None,
    }
}

/// Whether a statement reads rows at all.
pub fn reads_rows(query: Ref<'_, pg_sys::Query>) -> bool {
    let is_select = query.commandType == pg_sys::CmdType::CMD_SELECT && query.utilityStmt.is_null();
    // PL/pgSQL evaluates a query without FROM itself, and expects its plan to have a certain form.
    let reads_nothing = query.rtable.is_null() && query.cteList.is_null() && !query.hasSubLinks;
    !reads_nothing && (is_select || insert::reads_rows(query))
}

/// Plans only the engine's side, for a query whose heap plan can be made later.
#[pg_guard]
unsafe extern "C-unwind" fn without_heap(query: *mut pg_sys::Query, asked: Asked, asking: Asking) -> First {
    let wanted = |refusal| First { statement: std::ptr::null_mut(), refusal };
    // SAFETY: the query is rewritten, and its tree stays in place; `asked.copy` is a copy of it.
    unsafe {
        let reads = Reads::of(query);
        if !reads.are_there() || !reads.are_permitted() {
            return wanted(std::ptr::null_mut());
        }
        let side = attempt(AssertUnwindSafe(|| analytic(asked.copy, compat::previous_planner, asking)));
        match side {
            Ok(side) if side.has_columns(Ref::new(query).targetList()) => {
                let statement = nodes::with_unplanned(side, query, reads, asking.options);
                First { statement, refusal: std::ptr::null_mut() }
            }
            Ok(_) => wanted(to_node(&nodes::other_columns())),
            Err(reason) => wanted(to_node(&reason)),
        }
    }
}

/// Plans the engine's side, and combines it with the heap's plan. If the engine cannot run the query, combines the
/// heap's plan with the reason instead. `refusal` is that reason if an earlier step has found it, otherwise null.
#[pg_guard]
unsafe extern "C-unwind" fn with_choice(
    heap: *mut pg_sys::PlannedStmt,
    asked: Asked,
    refusal: *mut pg_sys::Node,
    asking: Asking,
) -> *mut pg_sys::PlannedStmt {
    let (Asked { copy: query, by_cost, must_run, .. }, options) = (asked, asking.options);
    // SAFETY: the caller may change the heap's plan; `query` is the copy from before planning.
    unsafe {
        let is_insert = (*query).commandType == pg_sys::CmdType::CMD_INSERT;
        if by_cost && cost::is_below_engine(heap) {
            return nodes::left_alone(heap, &cheaper(), None);
        }
        // Translation may raise an error: by evaluating an expression that the heap would never evaluate, or because
        // the query is nested too deeply.
        let side = match Node::or_null(refusal).and_then(from_node) {
            Some(reason) => Err(reason),
            None if session::in_parallel_mode() => Err(Why::Parallel.of("query runs within a parallel query")),
            None => attempt(AssertUnwindSafe(|| {
                if is_insert {
                    insert::rows_of(query, heap)?;
                }
                analytic(query, planning::part, asking)
            })),
        };
        match side {
            Ok(side) if by_cost => by_cost_of_both(heap, side, options, !is_insert && session::plans_for_client()),
            Err(reason) if by_cost => nodes::left_alone(heap, &reason, None),
            Ok(side) => nodes::with_engine(heap, side, options, None),
            Err(reason) if must_run => refuse(&reason),
            Err(reason) => nodes::with_reason(heap, &reason, options),
        }
    }
}

/// The reason why a query runs on the heap if `anker.route = auto` finds the heap cheaper.
fn cheaper() -> Reason {
    Why::Cost.of("it costs less there")
}

/// Keeps the engine's side only if it costs less than the heap. `for_client` says that the query's rows go to the
/// client.
///
/// # Safety
///
/// The conditions of [`nodes::with_engine`].
unsafe fn by_cost_of_both(
    heap: *mut pg_sys::PlannedStmt,
    side: nodes::EngineSide,
    options: i32,
    for_client: bool,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns the heap's finished plan, and `side` was made from the same query.
    unsafe {
        let compared = nodes::Compared { engine: cost::of_engine(heap, &side, for_client), heap: cost::of_heap(heap) };
        match compared.engine < compared.heap {
            true => nodes::with_engine(heap, side, options, Some(compared)),
            false => nodes::left_alone(heap, &cheaper(), Some(compared.engine)),
        }
    }
}

/// The costs of a query on both sides, if the engine can run it. `for_client` says that its rows go to the client.
///
/// # Safety
///
/// `query` is a rewritten query, which the caller owns, from which calls of `anker.olap()` were removed. Its relations
/// are locked.
pub unsafe fn both_sides(
    query: *mut pg_sys::Query,
    asking: Asking,
    for_client: bool,
) -> Result<nodes::Compared, Reason> {
    // SAFETY: by the caller's promise. The planner gets a copy, because it changes its query.
    unsafe {
        let copy = pg_sys::copyObjectImpl(query.cast()).cast();
        let heap = pg_guard_ffi_boundary(|| planning::part(copy, asking));
        inlined::inline(query);
        flag::take(query);
        let is_insert = (*query).commandType == pg_sys::CmdType::CMD_INSERT;
        if is_insert {
            insert::rows_of(query, heap)?;
        }
        let side = analytic(query, planning::part, asking)?;
        side.is_live()?;
        let for_client = for_client && !is_insert;
        Ok(nodes::Compared { engine: cost::of_engine(heap, &side, for_client), heap: cost::of_heap(heap) })
    }
}

/// Plans the engine's side. `planner` plans the upper query, which PostgreSQL runs above the engine. All queries
/// planned here pass through the planner hooks of other extensions, because the other hooks of these extensions rely on
/// state that their planner hooks set up.
///
/// # Safety
///
/// `query` is a rewritten SELECT, owned by the caller, whose relations are locked.
unsafe fn analytic(query: *mut pg_sys::Query, planner: Planner, asking: Asking) -> Result<nodes::EngineSide, Reason> {
    let placeholder =
        PLACEHOLDER.oid().ok_or_else(|| Why::Engine.of("extension pg_anker is not installed in this database"))?;
    // SAFETY: the tree of the query stays in place; the upper query is new.
    unsafe {
        compute_virtual_columns(query);
        merge_into_sorted(query);
        let split = split(Ref::new(unwrapped(query)), placeholder)?;
        // If a cursor must scroll, a node above both sides stores the rows, so the engine's side need not scroll.
        let asking = asking.with_options(asking.options & !(pg_sys::CURSOR_OPT_SCROLL as i32));
        let upper = pg_guard_ffi_boundary(|| planner(split.upper, asking));
        let sent =
            split.sent.iter().map(|sent| planned(sent, asking.with_options(0))).collect::<Result<Vec<_>, _>>()?;
        nodes::engine_side(upper, split, sent)
    }
}

/// The plan for rows that PostgreSQL computes and sends to the engine; an error if PostgreSQL estimates too many bytes.
/// The query for these rows may read mirrored tables, too, so a plan that uses the engine for them is tried.
unsafe fn planned(sent: &Sent<'_>, asking: Asking) -> Result<*mut pg_sys::PlannedStmt, Reason> {
    // SAFETY: the query is new, and its relations were locked for the original query.
    unsafe {
        let copy = pg_sys::copyObjectImpl(sent.query().cast()).cast();
        let query = sent.query();
        let statement = pg_guard_ffi_boundary(|| planning::part(query, asking));
        let plan = &*(*statement).planTree;
        let bytes = plan.plan_rows * f64::from(plan.plan_width.max(8));
        let limit = f64::from(settings::MAX_SENT_KB.get()) * 1024.0;
        if bytes > limit * BAD_ESTIMATE {
            return Err(sent.too_many());
        }
        match attempt(AssertUnwindSafe(|| analytic(copy, planning::part, asking))) {
            Ok(side) if ROUTE.get() == Route::Auto => Ok(by_cost_of_both(statement, side, 0, false)),
            Ok(side) => Ok(nodes::with_engine(statement, side, 0, None)),
            Err(_) => Ok(statement),
        }
    }
}

fn refuse(reason: &Reason) -> ! {
    Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, "the columnar engine cannot run this query")
        .detail(&reason.text)
        .hint("Set anker.route to another value than force.")
        .raise()
}

/// The facts that a walk over a query has found about the query's relations.
struct Census {
    any_mirrored: bool,
    all_mirrored: bool,
}

/// Whether the query reads tables and all of them are mirrored.
///
/// # Safety
///
/// `query` is a valid query.
unsafe fn all_mirrored(query: *mut pg_sys::Query) -> bool {
    // SAFETY: a valid query, which is only read.
    let census = unsafe { census(query) };
    census.any_mirrored && census.all_mirrored
}

/// # Safety
///
/// `query` is a valid query.
unsafe fn census(query: *mut pg_sys::Query) -> Census {
    let mut census = Census { any_mirrored: false, all_mirrored: true };
    // SAFETY: a valid query; the walker gets the context that it expects.
    unsafe {
        let flags = pg_sys::QTW_EXAMINE_RTES_BEFORE as i32;
        compat::query_tree_walker(query, count_relations, (&raw mut census).cast(), flags);
    }
    census
}

/// Examines a node, and ends the walk (returns true) as soon as both a mirrored and another table were found. The
/// function owns nothing, so errors may jump over it.
unsafe extern "C-unwind" fn count_relations(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: called by PostgreSQL's walkers with null or a valid node, and the context of `all_mirrored`.
    unsafe {
        if node.is_null() {
            return false;
        }
        match (*node).type_ {
            pg_sys::NodeTag::T_RangeTblEntry => {
                let entry = Ref::new(node.cast::<pg_sys::RangeTblEntry>());
                // Two kinds of entries are not read: a view's, because the range table also has the subquery that
                // replaces the view, and the target of a change.
                let is_read =
                    entry.relkind as u8 != pg_sys::RELKIND_VIEW && entry.rellockmode != pg_sys::RowExclusiveLock as i32;
                if entry.rtekind == pg_sys::RTEKind::RTE_RELATION && is_read {
                    let census = &mut *context.cast::<Census>();
                    let is_mirrored = is_mirrored(entry);
                    census.any_mirrored |= is_mirrored;
                    census.all_mirrored &= is_mirrored;
                    return census.any_mirrored && !census.all_mirrored;
                }
                false
            }
            pg_sys::NodeTag::T_Query => {
                compat::query_tree_walker(node.cast(), count_relations, context, pg_sys::QTW_EXAMINE_RTES_BEFORE as i32)
            }
            _ => compat::expression_tree_walker(node, count_relations, context),
        }
    }
}

/// Whether a table, or one of its partitions, is mirrored.
pub fn is_mirrored(entry: Ref<'_, pg_sys::RangeTblEntry>) -> bool {
    let database = session::database();
    let has = |relid| shared::table(database, relid).is_some();
    match entry.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE {
        true => relation::family(entry.relid, Lock::None).into_iter().any(has),
        false => has(entry.relid),
    }
}
