//! The plan tree: PostgreSQL's nodes over our scan, both sides under the node that chooses.
//!
//! The statement stays the one that PostgreSQL made for the heap: range table, permissions, locks and invalidation
//! come from it. If the heap is not planned yet, they come from [`super::unplanned`]. Two entries are added to its
//! range table that stand for nothing but names in EXPLAIN.

use std::ffi::CStr;

use pgrx::prelude::*;
use route::Demand;

use super::above::Above;
use super::split::Split;
use super::unplanned::Reads;
use crate::pg::catalog;
use crate::pg::compat;
use crate::pg::session;
use crate::pg::tree::{Node, Tree, make, push, string_node, text};
use crate::planner::rewrite::insert;
use crate::planner::translate::columns::ScanColumn;
use crate::planner::translate::level::sent::Sent;
use crate::planner::words::reason::{Reason, Why};
use crate::settings;
use crate::spec::{CHOOSER, ChooserSpec, ENGINE, HeapSide, ScanSpec, Unasked, to_node};

/// The plan of the upper query, its function scan replaced by the engine's.
pub struct EngineSide {
    /// The upper query's, of which nothing else is used if there is one for the heap.
    statement: *mut pg_sys::PlannedStmt,
    plan: *mut pg_sys::Plan,
    leaf: *mut pg_sys::CustomScan,
    columns: Vec<ScanColumn>,
    /// The mirrored tables that it reads, and the statements for rows that it is sent.
    relids: Vec<pg_sys::Oid>,
    sent: Vec<*mut pg_sys::PlannedStmt>,
    demand: Demand,
    /// Whether it is so for a reason that another transaction need not have.
    is_momentary: bool,
}

impl EngineSide {
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// PostgreSQL's plans of what is sent.
    pub fn sent(&self) -> impl Iterator<Item = &pg_sys::Plan> {
        // SAFETY: finished plans, each with its tree.
        self.sent.iter().map(|statement| unsafe { &*(**statement).planTree })
    }

    /// PostgreSQL's nodes above the engine's scan, which itself may sort in place of one.
    pub fn above(&self) -> Above {
        // SAFETY: a finished plan.
        let above = unsafe { Above::of(self.plan) };
        Above { sorts: above.sorts || self.demand.is_sorted, ..above }
    }

    /// Whether PostgreSQL takes away some of the rows that the engine returns.
    pub fn filters_above(&self) -> bool {
        !self.scan().qual.is_null()
    }

    /// Whether PostgreSQL does nothing with the engine's rows but to hand them on.
    pub fn hands_on(&self) -> bool {
        // SAFETY: a finished plan, whose tree is left as it is.
        let mut targets = unsafe { Tree::new() }.list_of::<pg_sys::TargetEntry>(self.scan().targetlist);
        let is_column = |target: &pg_sys::TargetEntry| {
            // SAFETY: a target has an expression.
            unsafe { (*target.expr).type_ == pg_sys::NodeTag::T_Var }
        };
        std::ptr::eq(self.plan, self.scan()) && !self.filters_above() && targets.all(is_column)
    }

    /// Whether executor and client see rows of the same type as those of a query or plan with these columns.
    pub fn has_columns(&self, targets: *mut pg_sys::List) -> bool {
        // SAFETY: columns of a valid query or plan, and of the side's own.
        let (tree, own) = unsafe { (Tree::new(), (*self.plan).targetlist) };
        let types = |list| {
            tree.list_of::<pg_sys::TargetEntry>(list).filter(|entry| !entry.resjunk).map(move |entry| {
                let expr = tree.required(entry.expr);
                (expr.sql_type(), modifier_when_planned(expr), expr.collation())
            })
        };
        types(targets).eq(types(own))
    }

    fn scan(&self) -> &pg_sys::Plan {
        // SAFETY: the side's own scan.
        unsafe { &(*self.leaf).scan.plan }
    }
}

/// The planner may leave but one branch of a choice, which has a modifier where all of them have none in common.
fn modifier_when_planned(expr: Node<'_>) -> i32 {
    let is_choice = expr.cast::<pg_sys::CaseExpr>().is_some() || expr.cast::<pg_sys::CoalesceExpr>().is_some();
    match expr.type_modifier() {
        -1 if is_choice => expr.simplified().type_modifier(),
        modifier => modifier,
    }
}

/// The comparison by `anker.route = auto` for a query that asks for no side itself.
#[derive(Clone, Copy)]
pub struct Compared {
    pub engine: f64,
    pub heap: f64,
}

const ENGINE_NUMBERS: i32 = 1 << 24;
const CHOOSER_NUMBERS: i32 = 1 << 25;

/// # Safety
///
/// `upper` is a plan, owned by the caller, for the upper query of [`super::split`], `sent` those for what it has to
/// send.
pub unsafe fn engine_side(
    upper: *mut pg_sys::PlannedStmt,
    split: Split<'_>,
    sent: Vec<*mut pg_sys::PlannedStmt>,
) -> Result<EngineSide, Reason> {
    // SAFETY: the plan is ours to change, tree and list pointers are what PostgreSQL's planner made.
    unsafe {
        let statement = &*upper;
        if !statement.subplans.is_null() || !statement.paramExecTypes.is_null() || !statement.rowMarks.is_null() {
            return Err(Why::PlanShape.of("subplan above the engine"));
        }
        let tree = Tree::new();
        let is_momentary = split.sent.iter().any(Sent::is_momentary) || sent.iter().any(|sent| (**sent).transientPlan);
        let mut link: *mut *mut pg_sys::Plan = &raw mut (*upper).planTree;
        while let Some(plan) = (*link).as_mut() {
            if !plan.initPlan.is_null() || !plan.righttree.is_null() {
                break;
            }
            match plan.type_ {
                pg_sys::NodeTag::T_FunctionScan => {
                    let leaf = leaf(tree, plan, &split.spec, split.params);
                    *link = &raw mut (*leaf).scan.plan;
                    sent.iter().for_each(|statement| push(&mut (*leaf).custom_private, *statement));
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

/// The methods that the scan has registered under the name.
fn methods(name: &CStr) -> *const pg_sys::CustomScanMethods {
    // SAFETY: both names are registered when the library is loaded.
    unsafe { pg_sys::GetCustomScanMethods(name.as_ptr(), false) }
}

/// Our scan in the place of a function scan on the placeholder.
unsafe fn leaf(
    tree: Tree<'_>,
    function_scan: &pg_sys::Plan,
    spec: &ScanSpec,
    params: *mut pg_sys::List,
) -> *mut pg_sys::CustomScan {
    let leaf = make::<pg_sys::CustomScan>();
    leaf.scan.plan = *function_scan;
    leaf.scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
    leaf.custom_exprs = params;
    push(&mut leaf.custom_private, to_node(spec));
    leaf.methods = methods(ENGINE);
    // SAFETY: a well-formed plan that is ours: its only variables are those of the placeholder, entry 1.
    unsafe {
        pg_sys::fix_opfuncids(params.cast());
        for list in [function_scan.targetlist, function_scan.qual] {
            let variables = pg_sys::pull_var_clause(list.cast(), 0);
            for var in tree.list_of::<pg_sys::Var>(variables) {
                (*std::ptr::from_ref(var).cast_mut()).varno = pg_sys::INDEX_VAR;
            }
        }
    }
    leaf
}

/// Both sides under the node that chooses; `compared` if the query did not ask for the engine.
///
/// # Safety
///
/// `heap` is a finished plan that the caller owns; `side` was made of the same query.
pub unsafe fn with_engine(
    heap: *mut pg_sys::PlannedStmt,
    side: EngineSide,
    options: i32,
    compared: Option<Compared>,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise.
    unsafe {
        let tree = Tree::new();
        let rows = &**insert::source(heap);
        if !side.has_columns(rows.targetlist) {
            let reason = other_columns();
            return if compared.is_some() {
                left_alone(heap, &reason, None)
            } else {
                with_reason(heap, &reason, options)
            };
        }
        let node = engine_first(tree, heap, &side, rows.targetlist, rows);
        push(&mut node.custom_plans, std::ptr::from_ref(rows).cast_mut());
        // The cost of the heap's plan is no reason to compile the nodes above the engine.
        let side = HeapSide::Planned { jit_flags: std::mem::take(&mut (*heap).jitFlags) };
        let unasked = compared.map(|compared| Unasked { other_cost: Some(compared.heap) });
        push(&mut node.custom_private, to_node(&ChooserSpec { heap: side, unasked }));
        if let Some(compared) = compared {
            node.scan.plan.startup_cost = settings::engine_costs().startup;
            node.scan.plan.total_cost = compared.engine;
        }
        finish(heap, node, options)
    }
}

/// The engine's side alone; the heap's plan is made from the query if it is needed. Without a statement that lists
/// the relations, the upper query's list is used.
///
/// # Safety
///
/// The caller owns `query`. The side was made from a copy of it and has the same columns.
pub unsafe fn with_unplanned(
    side: EngineSide,
    query: *mut pg_sys::Query,
    reads: Reads,
    options: i32,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise.
    unsafe {
        let (tree, statement) = (Tree::new(), side.statement);
        reads.hand_to(&mut *statement);
        let node = engine_first(tree, statement, &side, (*query).targetList, &*side.plan);
        let spec = ChooserSpec { heap: HeapSide::Unplanned { options }, unasked: None };
        push(&mut node.custom_private, to_node(&spec));
        push(&mut node.custom_private, query);
        (*statement).jitFlags = 0;
        finish(statement, node, options)
    }
}

/// A node that chooses, with the engine's side as its first, and as many rows as `rows` says.
unsafe fn engine_first(
    tree: Tree<'_>,
    statement: *mut pg_sys::PlannedStmt,
    side: &EngineSide,
    targets: *mut pg_sys::List,
    rows: &pg_sys::Plan,
) -> &'static mut pg_sys::CustomScan {
    // SAFETY: the caller's statement, which it owns, as it does the side.
    unsafe {
        add_relations(tree, statement, side);
        (*statement).transientPlan |= side.is_momentary;
        name_columns(side.leaf, statement, &side.columns);
        number_from(ENGINE_NUMBERS, side.plan);
        let node = chooser(tree, statement, targets, rows, &*side.plan);
        push(&mut node.custom_plans, side.plan);
        node
    }
}

/// Why a side of a query cannot take the place of the other.
pub fn other_columns() -> Reason {
    Why::PlanShape.of("the engine's side has other result columns")
}

/// Adds relations that the engine's side reads and the heap's plan does not, such as pruned partitions. Executing the
/// plan again locks them first, and changes to them invalidate the plan.
unsafe fn add_relations(tree: Tree<'_>, heap: *mut pg_sys::PlannedStmt, side: &EngineSide) {
    // SAFETY: the caller's plan, which it owns.
    unsafe {
        let heap = &mut *heap;
        let mut relids = side.relids.clone();
        for statement in &side.sent {
            let entries = tree.list_of::<pg_sys::RangeTblEntry>((**statement).rtable);
            relids.extend(entries.filter(|e| e.rtekind == pg_sys::RTEKind::RTE_RELATION).map(|e| e.relid));
            heap.relationOids = pg_sys::list_concat_unique_oid(heap.relationOids, (**statement).relationOids);
            heap.invalItems = pg_sys::list_concat(heap.invalItems, (**statement).invalItems);
        }
        for relid in relids {
            let mut known = tree.list_of::<pg_sys::RangeTblEntry>(heap.rtable);
            let is_it = |e: &pg_sys::RangeTblEntry| e.rtekind == pg_sys::RTEKind::RTE_RELATION && e.relid == relid;
            if let Some(position) = known.position(is_it) {
                compat::is_always_read(heap, position + 1);
                continue;
            }
            let Some(relkind) = catalog::class(relid, |class| class.relkind) else { continue };
            let entry = make::<pg_sys::RangeTblEntry>();
            entry.rtekind = pg_sys::RTEKind::RTE_RELATION;
            entry.relid = relid;
            entry.relkind = relkind;
            entry.rellockmode = pg_sys::AccessShareLock as i32;
            entry.eref = pg_sys::makeAlias(text(&catalog::relation_name(relid)), std::ptr::null_mut());
            push(&mut heap.rtable, std::ptr::from_mut(entry));
            compat::is_always_read(heap, tree.list(heap.rtable).len());
            heap.relationOids = pg_sys::list_append_unique_oid(heap.relationOids, relid);
        }
    }
}

/// The heap plan alone under the node that chooses, so that EXPLAIN names the reason.
///
/// # Safety
///
/// `heap` is a finished plan that the caller owns.
pub unsafe fn with_reason(heap: *mut pg_sys::PlannedStmt, reason: &Reason, options: i32) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise.
    unsafe {
        (*heap).transientPlan |= reason.why.is_momentary();
        let node = heap_alone(heap, reason, None);
        finish(heap, node, options)
    }
}

/// The heap's plan of a query that did not ask for the engine, as it is; EXPLAIN alone is told why, and what the engine
/// would cost.
///
/// # Safety
///
/// `heap` is a finished plan that the caller owns.
pub unsafe fn left_alone(
    heap: *mut pg_sys::PlannedStmt,
    reason: &Reason,
    engine_cost: Option<f64>,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: by the caller's promise.
    unsafe {
        (*heap).transientPlan |= reason.why.is_momentary();
        if !session::is_explaining() {
            return heap;
        }
        let node = heap_alone(heap, reason, Some(Unasked { other_cost: engine_cost }));
        finish(heap, node, 0)
    }
}

unsafe fn heap_alone(
    heap: *mut pg_sys::PlannedStmt,
    reason: &Reason,
    unasked: Option<Unasked>,
) -> &'static mut pg_sys::CustomScan {
    // SAFETY: by the callers' promise.
    unsafe {
        let rows = &**insert::source(heap);
        let node = chooser(Tree::new(), heap, rows.targetlist, rows, rows);
        push(&mut node.custom_plans, std::ptr::from_ref(rows).cast_mut());
        let spec = ChooserSpec { heap: HeapSide::Alone(reason.clone()), unasked };
        push(&mut node.custom_private, to_node(&spec));
        node
    }
}

/// The node that chooses, with these columns. Its costs matter only for the choice between generic and custom plans.
/// The engine's costs do not depend on parameters, so a prepared statement gets its generic plan. With the heap's
/// plan alone, its own costs are right.
unsafe fn chooser(
    tree: Tree<'_>,
    statement: *mut pg_sys::PlannedStmt,
    targets: *mut pg_sys::List,
    rows: &pg_sys::Plan,
    costs: &pg_sys::Plan,
) -> &'static mut pg_sys::CustomScan {
    let node = make::<pg_sys::CustomScan>();
    node.scan.plan.startup_cost = costs.startup_cost;
    node.scan.plan.total_cost = costs.total_cost;
    node.methods = methods(CHOOSER);
    // SAFETY: the caller's plan, which it owns.
    unsafe {
        node.scan.plan.plan_rows = rows.plan_rows;
        node.scan.plan.plan_width = rows.plan_width;
        let index = pg_sys::list_length((*statement).rtable) + 1;
        let mut names = std::ptr::null_mut();
        let entries = tree.list_of::<pg_sys::TargetEntry>(targets).filter(|e| !e.resjunk);
        for (position, entry) in entries.enumerate() {
            let number = (position + 1) as i16;
            let expr = tree.required(entry.expr);
            let var =
                |varno| pg_sys::makeVar(varno, number, expr.sql_type(), expr.type_modifier(), expr.collation(), 0);
            let column = make::<pg_sys::TargetEntry>();
            *column = *entry;
            column.expr = var(pg_sys::INDEX_VAR).cast();
            column.resno = number;
            push(&mut node.scan.plan.targetlist, std::ptr::from_mut(column));
            let target = pg_sys::makeTargetEntry(var(index).cast(), number, std::ptr::null_mut(), false);
            push(&mut node.custom_scan_tlist, target);
            let name = if entry.resname.is_null() { text("?column?") } else { entry.resname };
            push(&mut names, pg_sys::makeString(name));
        }
        push(&mut (*statement).rtable, name_entry("anker", names));
        node.custom_relids = pg_sys::bms_make_singleton(index);
    }
    node
}

/// Puts the node where the statement's rows come from; above it what makes a cursor scroll, if that is wanted.
unsafe fn finish(
    heap: *mut pg_sys::PlannedStmt,
    node: &'static mut pg_sys::CustomScan,
    options: i32,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller's plan, which it owns; the node is new.
    unsafe {
        let place = insert::source(heap);
        if place != &raw mut (*heap).planTree {
            keep_constants(node, &**place);
        }
        let mut top = &raw mut node.scan.plan;
        if must_scroll(&*heap, options) {
            top = material(Tree::new(), &mut *top);
        }
        *place = top;
        number_from(CHOOSER_NUMBERS, top);
    }
    heap
}

/// For a dropped column of the table that an INSERT fills the executor wants to see a constant.
unsafe fn keep_constants(node: &mut pg_sys::CustomScan, rows: &pg_sys::Plan) {
    // SAFETY: lists of finished plans; the node's entries are its own.
    unsafe {
        let tree = Tree::new();
        let entries = tree.list_of::<pg_sys::TargetEntry>(node.scan.plan.targetlist);
        let originals = tree.list_of::<pg_sys::TargetEntry>(rows.targetlist).filter(|entry| !entry.resjunk);
        for (column, entry) in entries.zip(originals) {
            if tree.required(entry.expr).cast::<pg_sys::Const>().is_some() {
                (*std::ptr::from_ref(column).cast_mut()).expr = entry.expr;
            }
        }
    }
}

/// A cursor scrolls if it was declared so, or, unless it was declared not to, if its heap plan can run backwards.
unsafe fn must_scroll(heap: &pg_sys::PlannedStmt, options: i32) -> bool {
    let has = |option: u32| options & option as i32 != 0;
    // SAFETY: the heap's finished plan.
    let may_scroll = || unsafe { pg_sys::ExecSupportsBackwardScan(heap.planTree) };
    let declared = has(pg_sys::CURSOR_OPT_FAST_PLAN) && !has(pg_sys::CURSOR_OPT_NO_SCROLL);
    has(pg_sys::CURSOR_OPT_SCROLL) || declared && may_scroll()
}

unsafe fn material(tree: Tree<'_>, below: &'static mut pg_sys::Plan) -> *mut pg_sys::Plan {
    let node = make::<pg_sys::Material>();
    node.plan.startup_cost = below.startup_cost;
    node.plan.total_cost = below.total_cost;
    node.plan.plan_rows = below.plan_rows;
    node.plan.plan_width = below.plan_width;
    for entry in tree.list_of::<pg_sys::TargetEntry>(below.targetlist) {
        let column = make::<pg_sys::TargetEntry>();
        *column = *entry;
        let expr = tree.required(entry.expr);
        let (ty, modifier, collation) = (expr.sql_type(), expr.type_modifier(), expr.collation());
        // SAFETY: makes a node.
        column.expr = unsafe { pg_sys::makeVar(pg_sys::OUTER_VAR, entry.resno, ty, modifier, collation, 0) }.cast();
        push(&mut node.plan.targetlist, std::ptr::from_mut(column));
    }
    node.plan.lefttree = below;
    &raw mut node.plan
}

/// The scan's own columns, over a range table entry that gives them names.
unsafe fn name_columns(leaf: *mut pg_sys::CustomScan, heap: *mut pg_sys::PlannedStmt, columns: &[ScanColumn]) {
    let mut names = std::ptr::null_mut();
    // SAFETY: the caller's plan, which it owns; new nodes.
    unsafe {
        let index = pg_sys::list_length((*heap).rtable) + 1;
        for (position, column) in columns.iter().enumerate() {
            let number = (position + 1) as i16;
            let var = pg_sys::makeVar(index, number, column.ty, column.modifier, column.collation, 0);
            let target = pg_sys::makeTargetEntry(var.cast(), number, std::ptr::null_mut(), false);
            push(&mut (*leaf).custom_scan_tlist, target);
            push(&mut names, string_node(&column.name));
        }
        push(&mut (*heap).rtable, name_entry("engine", names));
        (*leaf).custom_relids = pg_sys::bms_make_singleton(index);
    }
}

/// A range table entry as the planner leaves it of a function: nothing but names.
fn name_entry(name: &str, columns: *mut pg_sys::List) -> *mut pg_sys::RangeTblEntry {
    let entry = make::<pg_sys::RangeTblEntry>();
    entry.rtekind = pg_sys::RTEKind::RTE_FUNCTION;
    // SAFETY: makes a node of valid parts.
    entry.eref = unsafe { pg_sys::makeAlias(text(name), columns) };
    entry.inFromCl = true;
    entry
}

/// Numbers of nodes must differ within a statement: those of the heap plan stay, ours begin far behind.
fn number_from(start: i32, top: *mut pg_sys::Plan) {
    let mut next = start;
    let mut plan = top;
    // SAFETY: a chain of plan nodes that the caller owns.
    while let Some(node) = unsafe { plan.as_mut() } {
        node.plan_node_id = next;
        next += 1;
        plan = node.lefttree;
    }
}
