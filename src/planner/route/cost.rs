//! The cost of a query in the engine. It is computed from the query's translation and from the heap's plan, which
//! contains estimates of row counts. The heap may repeat a node for each of many rows. The engine never does so: it
//! reads whole tables, and joins where PostgreSQL would look up rows.

use std::collections::HashMap;

use pgrx::prelude::*;
use route::{Costs, Flow};

use super::partners::{Way, compared, way};
use crate::pg::relation::expected_rows;
use crate::pg::session;
use crate::pg::tree::{List, Node, Ref, Tagged};
use crate::planner::rewrite::insert;
use crate::planner::tree::above::Above;
use crate::planner::tree::nodes::EngineSide;
use crate::settings;

/// The assumed share of the engine's rows that pass PostgreSQL's filters above it. The planner uses the same guess if
/// it knows nothing about a condition.
const KEPT_ABOVE: f64 = 1.0 / 3.0;

/// The cost of sorting one row, as a number of compared pairs.
const PAIRS_OF_SORTED: f64 = 16.0;

/// The cost of the heap's plan, without the work that an INSERT does with its rows.
///
/// # Safety
///
/// `heap` is a finished plan.
pub unsafe fn of_heap(heap: *const pg_sys::PlannedStmt) -> f64 {
    // SAFETY: a finished plan, which is only read.
    unsafe { (**insert::source(heap.cast_mut())).total_cost }
}

/// Whether the heap costs less than the engine possibly can: the engine has to read at least one value of each row of a
/// table, and to return one row. If so, the query need not be translated.
///
/// # Safety
///
/// `heap` is a finished plan whose relations are locked.
pub unsafe fn is_below_engine(heap: *const pg_sys::PlannedStmt) -> bool {
    let costs = settings::engine_costs();
    // SAFETY: a finished plan, which stays as it is while this runs.
    let (heap_cost, heap) = unsafe { (of_heap(heap), Ref::new(heap.cast_mut())) };
    let mut budget = heap_cost - costs.startup;
    heap.rtable().iter().filter_map(table).any(|relid| {
        budget -= costs.value * expected_rows(relid);
        budget <= 0.0
    })
}

/// The cost of the query in the engine. `for_client` says that its rows go to the client.
///
/// # Safety
///
/// `heap` is a finished plan whose relations are locked, and `side` is the engine's side for the same query.
pub unsafe fn of_engine(heap: *const pg_sys::PlannedStmt, side: &EngineSide, for_client: bool) -> f64 {
    let costs = settings::engine_costs();
    // SAFETY: a finished plan, which stays as it is while this runs.
    unsafe {
        let above = side.above();
        let boundary = boundary(Ref::new(*insert::source(heap.cast_mut())), &above, side.demand().is_limited);
        let mut heap_plan = HeapPlan::new(Ref::new(heap.cast_mut()));
        let returned = boundary.returned / if side.filters_above() { KEPT_ABOVE } else { 1.0 };
        let flow = Flow { returned, ..heap_plan.flow() };
        let mut work = side.demand().work(|relid| heap_plan.rows_of_table(relid.into()), flow);
        if for_client && side.hands_on() {
            // The heap's rows must be written for the client, too, but the heap's cost does not contain that. Writing
            // the engine's rows takes no longer, so it is not counted either.
            work.results = 0.0;
        }
        costs.of(work) + boundary.cost_above + sent(side, &costs)
    }
}

/// The cost of computing the rows that are sent along, and of sending them.
fn sent(side: &EngineSide, costs: &Costs) -> f64 {
    let cost = |plan: Ref<'_, pg_sys::Plan>| {
        let columns = plan.targetlist().len();
        plan.total_cost + plan.plan_rows * (columns + 1) as f64 * costs.result
    };
    side.sent().map(cost).sum()
}

/// The node of the heap's plan in whose place the engine would return rows. Both sides have the same nodes above it.
struct Boundary {
    returned: f64,
    /// The cost of the nodes above that node, which is the same on both sides.
    cost_above: f64,
}

fn boundary<'a>(top: Ref<'a, pg_sys::Plan>, above: &Above, is_limited: bool) -> Boundary {
    use pg_sys::NodeTag::*;
    let (mut plan, mut cost_above, mut times, mut sorted) = (top, 0.0, 1.0, false);
    let Above { mut groups, mut uniques, windows, .. } = *above;
    while let Some(below) = plan.lefttree() {
        let own = (plan.total_cost - below.total_cost - of_subqueries(plan)).max(0.0);
        match plan.type_ {
            T_Sort | T_IncrementalSort => {
                sorted = true;
                cost_above += own;
            }
            T_Result | T_ProjectSet => cost_above += own,
            T_WindowAgg if windows > 0 => cost_above += own,
            T_Unique if uniques > 0 => {
                uniques -= 1;
                cost_above += own;
            }
            // The engine applies the limit itself, but unlike the heap, it saves no work below the limit.
            T_Limit | T_Material => {}
            T_Gather | T_GatherMerge => times = divisor(plan.node()),
            T_Agg if is_partial(plan) && groups < above.groups => cost_above += own,
            T_Agg | T_Group if groups > 0 => {
                groups -= 1;
                cost_above += own;
            }
            _ => break,
        }
        plan = below;
    }
    let returned = if is_limited { top.plan_rows } else { plan.plan_rows * times };
    if above.sorts && !sorted {
        // The heap reads the rows from an index in order, so only the engine's side needs a sort.
        cost_above += 2.0 * session::cpu_operator_cost() * returned * returned.max(2.0).log2();
    }
    Boundary { returned, cost_above }
}

/// The part of a node's cost that comes from its initplans. The engine computes those subqueries itself.
fn of_subqueries(plan: Ref<'_, pg_sys::Plan>) -> f64 {
    let subqueries = plan.initPlan().iter();
    subqueries.map(|subquery| subquery.startup_cost + subquery.per_call_cost).sum()
}

fn is_partial(plan: Ref<'_, pg_sys::Plan>) -> bool {
    let skips = |agg: Ref<'_, pg_sys::Agg>| agg.aggsplit & pg_sys::AGGSPLITOP_SKIPFINAL != 0;
    plan.node().cast::<pg_sys::Agg>().is_some_and(skips)
}

/// The number of processes that share the rows below a Gather node, by the planner's own formula.
fn divisor(gather: Node<'_>) -> f64 {
    let workers = match (gather.cast::<pg_sys::Gather>(), gather.cast::<pg_sys::GatherMerge>()) {
        (Some(gather), _) => gather.num_workers,
        (_, Some(gather)) => gather.num_workers,
        _ => 0,
    };
    let workers = f64::from(workers);
    workers + (1.0 - 0.3 * workers).max(0.0)
}

/// The table of a range table entry; `None` if the entry is no table with rows.
fn table(entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<pg_sys::Oid> {
    let kind = entry.relkind as u8;
    let has_rows = kind == pg_sys::RELKIND_RELATION || kind == pg_sys::RELKIND_MATVIEW;
    (entry.rtekind == pg_sys::RTEKind::RTE_RELATION && has_rows).then_some(entry.relid)
}

/// How often a part of the heap's plan runs, and in how many processes.
#[derive(Clone, Copy)]
struct Turns {
    /// The number of runs, each with other parameters. It is infinite if the part runs once for each outer row and the
    /// number of outer rows is unknown.
    repeats: f64,
    processes: f64,
}

/// A walk through the heap's plan that counts the rows that are joined or grouped.
struct HeapPlan<'a> {
    statement: Ref<'a, pg_sys::PlannedStmt>,
    tables: HashMap<pg_sys::Oid, f64>,
    flow: Flow,
}

impl<'a> HeapPlan<'a> {
    fn new(statement: Ref<'a, pg_sys::PlannedStmt>) -> HeapPlan<'a> {
        HeapPlan { statement, tables: HashMap::new(), flow: Flow::default() }
    }

    fn rows_of_table(&mut self, relid: pg_sys::Oid) -> f64 {
        *self.tables.entry(relid).or_insert_with(|| expected_rows(relid))
    }

    /// The numbers of rows that are joined and grouped in the heap's plan.
    fn flow(&mut self) -> Flow {
        let once = Turns { repeats: 1.0, processes: 1.0 };
        self.rows(self.statement.planTree(), once);
        for subplan in self.statement.subplans().iter() {
            let Some(plan) = subplan else { continue };
            // If a subquery reads outer rows, the engine computes it once, for all of these rows together.
            let repeats = if plan.count_of_params() > 0 { f64::INFINITY } else { 1.0 };
            self.rows(plan, Turns { repeats, ..once });
        }
        self.flow
    }

    fn of<T: Tagged>(&self, plan: Ref<'a, pg_sys::Plan>) -> Option<Ref<'a, T>> {
        plan.node().cast()
    }

    fn below(&mut self, plan: Option<Ref<'a, pg_sys::Plan>>, turns: Turns) -> f64 {
        plan.map_or(0.0, |plan| self.rows(plan, turns))
    }

    fn each_below(&mut self, plans: Option<List<'a, pg_sys::Plan>>, turns: Turns) -> f64 {
        plans.into_iter().flatten().map(|plan| self.below(plan, turns)).sum()
    }

    /// The number of rows that a node returns in all its runs. Adds to `flow` the rows that are joined and grouped in
    /// this node and below it.
    fn rows(&mut self, plan: Ref<'a, pg_sys::Plan>, turns: Turns) -> f64 {
        use pg_sys::NodeTag::*;
        let expected = plan.plan_rows.max(1.0) * turns.processes * turns.repeats;
        let or_at_most = |most: f64| if expected.is_finite() { expected } else { most };
        match plan.type_ {
            T_SeqScan | T_SampleScan | T_IndexScan | T_IndexOnlyScan | T_BitmapHeapScan | T_TidScan
            | T_TidRangeScan => {
                let most = self.scanned(plan);
                expected.min(most)
            }
            T_NestLoop => {
                let outer = self.below(plan.lefttree(), turns);
                let looks_up = self.of::<pg_sys::NestLoop>(plan).is_some_and(|join| !join.nestParams.is_null());
                // `outer` counts the rows of all processes together.
                let repeats = if looks_up { outer.max(1.0) / turns.processes } else { turns.repeats };
                let inner = self.below(plan.righttree(), Turns { repeats, ..turns });
                self.flow.paired += self.pairs(plan, outer, inner, looks_up);
                self.join(outer, inner, or_at_most(outer.max(inner)))
            }
            T_HashJoin | T_MergeJoin => {
                let outer = self.below(plan.lefttree(), turns);
                let inner = self.below(plan.righttree(), turns);
                self.join(outer, inner, or_at_most(outer.max(inner)))
            }
            T_Agg | T_Group | T_Unique | T_WindowAgg => {
                let input = self.below(plan.lefttree(), turns);
                self.flow.grouped += input;
                expected.min(input)
            }
            T_Gather | T_GatherMerge => {
                let processes = divisor(plan.node());
                self.below(plan.lefttree(), Turns { processes, ..turns })
            }
            T_Append => {
                let parts = self.of::<pg_sys::Append>(plan).map(|append| append.appendplans());
                self.each_below(parts, turns)
            }
            T_MergeAppend => {
                let parts = self.of::<pg_sys::MergeAppend>(plan).map(|append| append.mergeplans());
                self.each_below(parts, turns)
            }
            T_SubqueryScan => {
                let below = self.of::<pg_sys::SubqueryScan>(plan).and_then(|scan| scan.subplan());
                self.below(below, turns)
            }
            _ if plan.lefttree.is_null() => or_at_most(plan.plan_rows.max(1.0)),
            _ => {
                let input = self.below(plan.lefttree(), turns);
                self.below(plan.righttree(), turns);
                expected.min(input)
            }
        }
    }

    fn join(&mut self, outer: f64, inner: f64, result: f64) -> f64 {
        self.flow.joined += outer + inner + result;
        result
    }

    /// The number of row pairs that the engine compares where the heap runs a nested loop. If the engine sorts rows
    /// instead of comparing all pairs, the number of pairs whose comparison costs as much.
    fn pairs(&mut self, plan: Ref<'a, pg_sys::Plan>, outer: f64, inner: f64, looks_up: bool) -> f64 {
        let Some(join) = self.of::<pg_sys::NestLoop>(plan) else { return 0.0 };
        let found = if looks_up { self.looked_up(plan.righttree()) } else { None };
        let others = found.map_or(inner, |(_, rows)| rows);
        let ways = way(compared(join.joinqual())).into_iter().chain(found.map(|(way, _)| way));
        let way = match ways.min() {
            // The engine can use no condition of this index look-up. The rows are then counted as joined rows, so no
            // pairs are added.
            None | Some(Way::Pairs) if looks_up && found.is_none() => return 0.0,
            best => best.unwrap_or(Way::Pairs),
        };
        let sorted = match join.join.jointype {
            // In a semijoin or antijoin, each row looks for a single partner among the rows of the other side.
            pg_sys::JoinType::JOIN_SEMI | pg_sys::JoinType::JOIN_ANTI => others,
            _ => others.min(outer),
        };
        match way {
            Way::Table => 0.0,
            Way::Order => PAIRS_OF_SORTED * sorted,
            Way::Pairs => outer * others,
        }
    }

    /// For a nested loop in which the heap looks partners up in an index: the way in which the engine would find the
    /// partners, and the number of rows that the engine would search.
    fn looked_up(&mut self, side: Option<Ref<'a, pg_sys::Plan>>) -> Option<(Way, f64)> {
        use pg_sys::NodeTag::*;
        let plan = side?;
        let index = match plan.type_ {
            T_Memoize | T_Material | T_Result | T_Sort | T_Unique => return self.looked_up(plan.lefttree()),
            T_IndexScan => self.of::<pg_sys::IndexScan>(plan).map(|scan| scan.indexqual()),
            T_IndexOnlyScan => self.of::<pg_sys::IndexOnlyScan>(plan).map(|scan| scan.indexqual()),
            T_BitmapHeapScan => self.of::<pg_sys::BitmapIndexScan>(plan.lefttree()?).map(|scan| scan.indexqual()),
            _ => None,
        };
        let given = compared(index?);
        Some((way(given.filter(|condition| condition.reads_param()))?, self.scanned(plan)))
    }

    /// The number of rows of the table that a scan node reads.
    fn scanned(&mut self, scan: Ref<'_, pg_sys::Plan>) -> f64 {
        // SAFETY: nodes of this kind begin with a scan.
        let number = unsafe { (*scan.as_ptr::<pg_sys::Scan>()).scanrelid } as usize;
        let entry = self.statement.rtable().iter().nth(number - 1);
        entry.and_then(table).map_or(0.0, |relid| self.rows_of_table(relid))
    }
}
