//! Builds the plan tree: PostgreSQL's nodes over our scan, and the node that chooses between the two sides.
//!
//! The statement is the one that PostgreSQL has made for the heap, with its range table, permissions, locks and
//! invalidation. If the heap's plan is not made yet, [`super::unplanned`] supplies these. Two entries are added to the
//! range table, only so that EXPLAIN can name the columns.

use std::ffi::CStr;

use pgrx::prelude::*;
use route::Demand;

use super::above::Above;
use super::modifiers;
use super::split::Split;
use super::unplanned::Reads;
use crate::pg::catalog;
use crate::pg::compat;
use crate::pg::make;
use crate::pg::session;
use crate::pg::tree::{List, Node, Ref, Shape};
use crate::planner::rewrite::insert;
use crate::planner::translate::columns::ScanColumn;
use crate::planner::translate::level::sent::Sent;
use crate::planner::words::reason::{Reason, Why};
use crate::settings;
use crate::shared::{self, TableState};
use crate::spec::{CHOOSER, ChooserSpec, ENGINE, HeapSide, Unasked, to_node};

/// The engine's side: the plan of the upper query, in which our scan has replaced the function scan.
pub struct EngineSide {
    /// The statement of the upper query. If the heap has a finished statement, only the plan within this statement is
    /// used.
    statement: *mut pg_sys::PlannedStmt,
    plan: *mut pg_sys::Plan,
    leaf: *mut pg_sys::CustomScan,
    columns: Vec<ScanColumn>,
    /// The mirrored tables that the engine reads. The next field holds the statements for rows that are sent along.
    relids: Vec<pg_sys::Oid>,
    sent: Vec<*mut pg_sys::PlannedStmt>,
    demand: Demand,
    /// Whether rows are sent along for a reason that may not hold in the next transaction.
    is_momentary: bool,
}

impl EngineSide {
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// PostgreSQL's plans of the rows that are sent along.
    pub fn sent(&self) -> impl Iterator<Item = Ref<'_, pg_sys::Plan>> {
        // SAFETY: finished plans, which are left as they are.
        self.sent.iter().map(|statement| unsafe { Ref::new(*statement) }.planTree())
    }

    /// The counts of PostgreSQL's nodes above the engine's scan. The scan itself may replace a sort.
    pub fn above(&self) -> Above {
        let above = Above::of(Some(self.plan()));
        Above { sorts: above.sorts || self.demand.is_sorted, ..above }
    }

    /// Whether PostgreSQL removes some of the rows that the engine returns.
    pub fn filters_above(&self) -> bool {
        !self.scan().qual.is_null()
    }

    /// Whether PostgreSQL returns the engine's rows unchanged.
    pub fn hands_on(&self) -> bool {
        let mut targets = self.scan().targetlist().iter();
        let is_column = |target: Ref<'_, pg_sys::TargetEntry>| target.expr().tag() == pg_sys::NodeTag::T_Var;
        self.plan().is(self.scan()) && !self.filters_above() && targets.all(is_column)
    }

    /// Whether the engine's side returns the same types as `targets`, which are the columns of a query or plan. Type
    /// modifiers may differ, because values do not depend on them. The finished plan gets the modifiers of `targets`.
    pub fn has_columns(&self, targets: List<'_, pg_sys::TargetEntry>) -> bool {
        fn types<'a>(list: List<'a, pg_sys::TargetEntry>) -> impl Iterator<Item = Shape> + use<'a> {
            let columns = list.iter().filter(|entry| !entry.resjunk);
            columns.map(|entry| Shape { modifier: -1, ..entry.expr().shape() })
        }
        types(targets).eq(types(self.plan().targetlist()))
    }

    /// Whether the mirrors of the tables serve queries, as far as this process knows. An error names the first one that
    /// does not.
    pub fn is_live(&self) -> Result<(), Reason> {
        let database = session::database();
        self.relids.iter().try_for_each(|&relid| match shared::table(database, relid) {
            None => Err(shared::why_not_mirrored(database, relid)),
            Some(table) if table.state != TableState::Live => Err(shared::why_not_live(database, relid, &table)),
            Some(_) => Ok(()),
        })
    }

    fn plan(&self) -> Ref<'_, pg_sys::Plan> {
        // SAFETY: the plan belongs to this side, and only the side's owner changes it.
        unsafe { Ref::new(self.plan) }
    }

    fn scan(&self) -> Ref<'_, pg_sys::Plan> {
        // SAFETY: the scan belongs to this side.
        unsafe { Ref::new(&raw mut (*self.leaf).scan.plan) }
    }
}

/// The costs of both sides, for a query that did not ask for the engine.
#[derive(Clone, Copy)]
pub struct Compared {
    pub engine: f64,
    pub heap: f64,
}

const ENGINE_NUMBERS: i32 = 1 << 24;
const CHOOSER_NUMBERS: i32 = 1 << 25;

/// # Safety
///
/// `upper` is the finished plan of the upper query of [`super::split`], and the caller owns it. `sent` holds the plans
/// of the rows that are sent along.
pub unsafe fn engine_side(
    upper: *mut pg_sys::PlannedStmt,
    split: Split<'_>,
    sent: Vec<*mut pg_sys::PlannedStmt>,
) -> Result<EngineSide, Reason> {
    // SAFETY: the plan is ours to change; PostgreSQL's planner made the trees and lists that it points to.
    unsafe {
        let statement = &*upper;
        if !statement.subplans.is_null() || !statement.paramExecTypes.is_null() || !statement.rowMarks.is_null() {
            return Err(Why::PlanShape.of("subplan above the engine"));
        }
        let is_momentary = split.sent.iter().any(Sent::is_momentary) || sent.iter().any(|sent| (**sent).transientPlan);
        let mut link: *mut *mut pg_sys::Plan = &raw mut (*upper).planTree;
        while let Some(plan) = (*link).as_mut() {
            if !plan.initPlan.is_null() || !plan.righttree.is_null() {
                break;
            }
            match plan.type_ {
                pg_sys::NodeTag::T_FunctionScan => {
                    let mut private = vec![to_node(&split.spec)];
                    private.extend(sent.iter().map(|statement| statement.cast::<pg_sys::Node>()));
                    let leaf = leaf(plan, split.params, private);
                    *link = &raw mut (*leaf).scan.plan;
                    let relids = split.spec.plan.tables().map(|table| table.relid.into()).collect();
                    let (plan, demand) = ((*upper).planTree, Demand::of(&split.spec.plan));
                    return Ok(EngineSide {
                        statement: upper,
                        plan,
                        leaf,
                        columns: split.columns,
                        relids,
                        sent,
                        demand,
                        is_momentary,
                    });
                }
                pg_sys::NodeTag::T_Agg
                | pg_sys::NodeTag::T_Group
                | pg_sys::NodeTag::T_IncrementalSort
                | pg_sys::NodeTag::T_Limit
                | pg_sys::NodeTag::T_Material
                | pg_sys::NodeTag::T_ProjectSet
                | pg_sys::NodeTag::T_Result
                | pg_sys::NodeTag::T_Sort
                | pg_sys::NodeTag::T_Unique
                | pg_sys::NodeTag::T_WindowAgg => link = &raw mut plan.lefttree,
                _ => break,
            }
        }
        Err(Why::PlanShape.of("nothing to compute, or a plan shape above the engine that is not known"))
    }
}

/// The methods that the scan room has registered under this name.
fn methods(name: &CStr) -> *const pg_sys::CustomScanMethods {
    // SAFETY: both names are registered when the library is loaded.
    unsafe { pg_sys::GetCustomScanMethods(name.as_ptr(), false) }
}

/// Makes our scan, which replaces the function scan of the placeholder.
///
/// # Safety
///
/// The caller may change the function scan.
unsafe fn leaf(
    function_scan: &pg_sys::Plan,
    params: Vec<Node<'_>>,
    private: Vec<*mut pg_sys::Node>,
) -> *mut pg_sys::CustomScan {
    let params = make::list(params.into_iter().map(Node::as_ptr::<pg_sys::Node>));
    // SAFETY: the plan is well-formed, and the caller may change it. Its only variables are columns of the placeholder,
    // which is entry 1.
    unsafe {
        pg_sys::fix_opfuncids(params.cast());
        for list in [function_scan.targetlist, function_scan.qual] {
            let variables = pg_sys::pull_var_clause(list.cast(), 0);
            for at in 0..pg_sys::list_length(variables) {
                (*pg_sys::list_nth(variables, at).cast::<pg_sys::Var>()).varno = pg_sys::INDEX_VAR;
            }
        }
    }
    let mut scan: pg_sys::CustomScan = make::blank();
    scan.scan.plan = pg_sys::Plan { type_: pg_sys::NodeTag::T_CustomScan, ..*function_scan };
    scan.custom_exprs = params;
    scan.custom_private = make::list(private);
    scan.methods = methods(ENGINE);
    make::placed(scan)
}

/// Puts both sides under the node that chooses. `compared` is given if the query did not ask for the engine.
///
/// # Safety
///
/// `heap` is a finished plan that the caller owns; `side` was made from the same query.
pub unsafe fn with_engine(
    heap: *mut pg_sys::PlannedStmt,
    side: EngineSide,
    options: i32,
    compared: Option<Compared>,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns the finished plan, and the side is of the same query.
    unsafe {
        let rows = Ref::new(*insert::source(heap));
        if !side.has_columns(rows.targetlist()) {
            let reason = other_columns();
            return if compared.is_some() {
                left_alone(heap, &reason, None)
            } else {
                with_reason(heap, &reason, options)
            };
        }
        let mut node = engine_first(heap, &side, rows.targetlist(), rows);
        node.custom_plans = make::list([side.plan, rows.as_ptr()]);
        // The planner asks for compilation (JIT) because of the heap's cost. The nodes above the engine must not be
        // compiled, so only the heap's side gets the flags.
        let planned = HeapSide::Planned { jit_flags: std::mem::take(&mut (*heap).jitFlags) };
        let unasked = compared.map(|compared| Unasked { other_cost: Some(compared.heap) });
        node.custom_private = make::list([to_node(&ChooserSpec { heap: planned, unasked })]);
        if let Some(compared) = compared {
            node.scan.plan.startup_cost = settings::engine_costs().startup;
            node.scan.plan.total_cost = compared.engine;
        }
        finish(heap, node, options)
    }
}

/// Puts the engine's side alone under the node that chooses. The heap's plan is made from the query if it is needed.
/// The statement of the upper query is used, and gets the relations that the query reads.
///
/// # Safety
///
/// The caller owns `query`. The side was made from a copy of `query`, and has the same columns.
pub unsafe fn with_unplanned(
    side: EngineSide,
    query: *mut pg_sys::Query,
    reads: Reads,
    options: i32,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns query and side, and both are of the same query.
    unsafe {
        let statement = side.statement;
        reads.hand_to(&mut *statement);
        let columns = List::new(modifiers::planned_columns(Ref::new(query)));
        let mut node = engine_first(statement, &side, columns, side.plan());
        node.custom_plans = make::list([side.plan]);
        let spec = ChooserSpec { heap: HeapSide::Unplanned { options }, unasked: None };
        node.custom_private = make::list([to_node(&spec), query.cast()]);
        (*statement).jitFlags = 0;
        finish(statement, node, options)
    }
}

/// The node that chooses, with the engine's side as its first child. `rows` supplies the estimated number of rows.
unsafe fn engine_first(
    statement: *mut pg_sys::PlannedStmt,
    side: &EngineSide,
    targets: List<'_, pg_sys::TargetEntry>,
    rows: Ref<'_, pg_sys::Plan>,
) -> pg_sys::CustomScan {
    // SAFETY: the caller owns the statement and the side.
    unsafe {
        add_relations(statement, side);
        (*statement).transientPlan |= side.is_momentary;
        name_columns(side.leaf, statement, &side.columns);
        number_from(ENGINE_NUMBERS, side.plan);
        chooser(statement, targets, rows, side.plan())
    }
}

/// The reason for the heap if the two sides of a query have different columns.
pub fn other_columns() -> Reason {
    Why::PlanShape.of("the engine's side has other result columns")
}

/// Adds the relations that the engine's side reads but the heap's plan does not, such as pruned partitions. Then a
/// cached plan locks them before each run, and changes to them invalidate the plan.
unsafe fn add_relations(heap: *mut pg_sys::PlannedStmt, side: &EngineSide) {
    // SAFETY: the caller owns the plan.
    unsafe {
        let heap = &mut *heap;
        let mut relids = side.relids.clone();
        for statement in &side.sent {
            let entries = Ref::new(*statement).rtable().iter();
            relids.extend(entries.filter(|e| e.rtekind == pg_sys::RTEKind::RTE_RELATION).map(|e| e.relid));
            heap.relationOids = pg_sys::list_concat_unique_oid(heap.relationOids, (**statement).relationOids);
            heap.invalItems = pg_sys::list_concat(heap.invalItems, (**statement).invalItems);
        }
        for relid in relids {
            let mut known = List::<pg_sys::RangeTblEntry>::new(heap.rtable).iter();
            let is_it =
                |e: Ref<'_, pg_sys::RangeTblEntry>| e.rtekind == pg_sys::RTEKind::RTE_RELATION && e.relid == relid;
            if let Some(position) = known.position(is_it) {
                compat::is_always_read(heap, position + 1);
                continue;
            }
            let Some(relkind) = catalog::class(relid, |class| class.relkind) else { continue };
            let entry = make::placed(pg_sys::RangeTblEntry {
                rtekind: pg_sys::RTEKind::RTE_RELATION,
                relid,
                relkind,
                rellockmode: pg_sys::AccessShareLock as i32,
                eref: make::alias(&catalog::relation_name(relid), std::ptr::null_mut()),
                ..make::blank()
            });
            make::append(&mut heap.rtable, entry);
            compat::is_always_read(heap, pg_sys::list_length(heap.rtable) as usize);
            heap.relationOids = pg_sys::list_append_unique_oid(heap.relationOids, relid);
        }
    }
}

/// Puts the heap's plan alone under the node that chooses, so that EXPLAIN shows the reason.
///
/// # Safety
///
/// `heap` is a finished plan that the caller owns.
pub unsafe fn with_reason(heap: *mut pg_sys::PlannedStmt, reason: &Reason, options: i32) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns the finished plan.
    unsafe {
        (*heap).transientPlan |= reason.why.is_momentary();
        let node = heap_alone(heap, reason, None);
        finish(heap, node, options)
    }
}

/// Returns the heap's plan unchanged, for a query that did not ask for the engine. Only EXPLAIN gets a node that shows
/// the reason and the engine's cost.
///
/// # Safety
///
/// `heap` is a finished plan that the caller owns.
pub unsafe fn left_alone(
    heap: *mut pg_sys::PlannedStmt,
    reason: &Reason,
    engine_cost: Option<f64>,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns the finished plan.
    unsafe {
        (*heap).transientPlan |= reason.why.is_momentary();
        if !session::is_explaining() {
            return heap;
        }
        let node = heap_alone(heap, reason, Some(Unasked { other_cost: engine_cost }));
        finish(heap, node, 0)
    }
}

unsafe fn heap_alone(heap: *mut pg_sys::PlannedStmt, reason: &Reason, unasked: Option<Unasked>) -> pg_sys::CustomScan {
    // SAFETY: the callers own the finished plan.
    unsafe {
        let rows = Ref::new(*insert::source(heap));
        let mut node = chooser(heap, rows.targetlist(), rows, rows);
        node.custom_plans = make::list([rows.as_ptr::<pg_sys::Node>()]);
        node.custom_private = make::list([to_node(&ChooserSpec { heap: HeapSide::Alone(reason.clone()), unasked })]);
        node
    }
}

/// The node that chooses, with these columns. The node gets the costs of `costs`: the engine's plan, or the heap's plan
/// if no other exists. They matter only when PostgreSQL chooses between generic and custom plans. The engine's costs do
/// not depend on parameters, so a prepared statement gets its generic plan.
unsafe fn chooser(
    statement: *mut pg_sys::PlannedStmt,
    targets: List<'_, pg_sys::TargetEntry>,
    rows: Ref<'_, pg_sys::Plan>,
    costs: Ref<'_, pg_sys::Plan>,
) -> pg_sys::CustomScan {
    let entries: Vec<_> = targets.iter().filter(|entry| !entry.resjunk).collect();
    let columns = |item: i32| {
        let shapes = entries.iter().map(|entry| entry.expr().shape());
        (1..).zip(shapes).map(move |(number, shape)| make::placed(make::column(item, number, shape)))
    };
    let names = entries.iter().map(|entry| {
        let sval = if entry.resname.is_null() { make::text("?column?") } else { entry.resname };
        make::placed(pg_sys::String { sval, ..make::blank() })
    });
    // SAFETY: the caller owns the statement.
    let index = unsafe {
        make::append(&mut (*statement).rtable, name_entry("anker", make::list(names)));
        pg_sys::list_length((*statement).rtable)
    };
    let shown = (1..)
        .zip(&entries)
        .zip(columns(pg_sys::INDEX_VAR))
        .map(|((resno, entry), column)| make::placed(pg_sys::TargetEntry { expr: column.cast(), resno, ..**entry }));
    let mut node: pg_sys::CustomScan = make::blank();
    node.scan.plan.startup_cost = costs.startup_cost;
    node.scan.plan.total_cost = costs.total_cost;
    node.scan.plan.plan_rows = rows.plan_rows;
    node.scan.plan.plan_width = rows.plan_width;
    node.scan.plan.targetlist = make::list(shown);
    node.custom_scan_tlist = make::list((1..).zip(columns(index)).map(|(number, column)| make::target(column, number)));
    node.custom_relids = make::singleton(index);
    node.methods = methods(CHOOSER);
    node
}

/// Puts the node in the place of the plan that returns the statement's rows. If a cursor must scroll, a node above
/// stores the rows.
unsafe fn finish(
    heap: *mut pg_sys::PlannedStmt,
    mut node: pg_sys::CustomScan,
    options: i32,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns the plan, and the node is new.
    unsafe {
        let place = insert::source(heap);
        if place != &raw mut (*heap).planTree {
            let columns = List::new(node.scan.plan.targetlist);
            node.scan.plan.targetlist = with_constants(columns, Ref::new(*place));
        }
        let mut top = make::placed(node).cast::<pg_sys::Plan>();
        if must_scroll(Ref::new(heap), options) {
            top = material(Ref::new(top));
        }
        *place = top;
        number_from(CHOOSER_NUMBERS, top);
    }
    heap
}

/// The columns of a node over `rows`, with constants where `rows` has constants. An INSERT into a table with dropped
/// columns needs this, because the executor expects a constant for a dropped column.
fn with_constants(columns: List<'_, pg_sys::TargetEntry>, rows: Ref<'_, pg_sys::Plan>) -> *mut pg_sys::List {
    let originals = rows.targetlist().iter().filter(|entry| !entry.resjunk);
    make::list(columns.iter().zip(originals).map(|(column, original)| {
        let is_constant = original.expr().cast::<pg_sys::Const>().is_some();
        make::placed(pg_sys::TargetEntry { expr: if is_constant { original.expr } else { column.expr }, ..*column })
    }))
}

/// Whether a cursor must be able to scroll. It must if it was declared SCROLL. If it was declared without SCROLL or NO
/// SCROLL, it must if the heap's plan can run backwards.
fn must_scroll(heap: Ref<'_, pg_sys::PlannedStmt>, options: i32) -> bool {
    let has = |option: u32| options & option as i32 != 0;
    // SAFETY: the heap's plan is finished.
    let may_scroll = || unsafe { pg_sys::ExecSupportsBackwardScan(heap.planTree().as_ptr()) };
    let declared = has(pg_sys::CURSOR_OPT_FAST_PLAN) && !has(pg_sys::CURSOR_OPT_NO_SCROLL);
    has(pg_sys::CURSOR_OPT_SCROLL) || declared && may_scroll()
}

/// A node that stores the rows of the node below it.
fn material(below: Ref<'_, pg_sys::Plan>) -> *mut pg_sys::Plan {
    let columns = below.targetlist().iter().map(|entry| {
        let column = make::column(pg_sys::OUTER_VAR, entry.resno, entry.expr().shape());
        make::placed(pg_sys::TargetEntry { expr: make::placed(column).cast(), ..*entry })
    });
    let mut node: pg_sys::Material = make::blank();
    node.plan.startup_cost = below.startup_cost;
    node.plan.total_cost = below.total_cost;
    node.plan.plan_rows = below.plan_rows;
    node.plan.plan_width = below.plan_width;
    node.plan.targetlist = make::list(columns);
    node.plan.lefttree = below.as_ptr();
    make::placed(node).cast()
}

/// Adds a range table entry that names the scan's columns, and makes the scan refer to that entry.
unsafe fn name_columns(leaf: *mut pg_sys::CustomScan, heap: *mut pg_sys::PlannedStmt, columns: &[ScanColumn]) {
    let names = make::strings(columns.iter().map(|column| &column.name));
    // SAFETY: the caller owns both plans, and the nodes are new.
    unsafe {
        make::append(&mut (*heap).rtable, name_entry("engine", names));
        let index = pg_sys::list_length((*heap).rtable);
        let column = |(number, column): (i16, &ScanColumn)| {
            make::target(make::placed(make::column(index, number, column.shape)), number)
        };
        (*leaf).custom_scan_tlist = make::list((1..).zip(columns).map(column));
        (*leaf).custom_relids = pg_sys::bms_make_singleton(index);
    }
}

/// A range table entry that only holds names. It looks like the entry that PostgreSQL's planner leaves for a function
/// in FROM.
fn name_entry(name: &str, columns: *mut pg_sys::List) -> *mut pg_sys::RangeTblEntry {
    make::placed(pg_sys::RangeTblEntry {
        rtekind: pg_sys::RTEKind::RTE_FUNCTION,
        eref: make::alias(name, columns),
        inFromCl: true,
        ..make::blank()
    })
}

/// Numbers the nodes of a chain. Numbers must be unique within a statement. The heap's nodes keep their numbers, so the
/// engine's side starts far above them.
///
/// # Safety
///
/// The caller owns the chain of plan nodes.
unsafe fn number_from(start: i32, top: *mut pg_sys::Plan) {
    let mut next = start;
    let mut plan = top;
    // SAFETY: by the caller's promise.
    while let Some(node) = unsafe { plan.as_mut() } {
        node.plan_node_id = next;
        next += 1;
        plan = node.lefttree;
    }
}
