//! Builds the physical plan, operator by operator, from the top down.
//!
//! The plan is executed as it is built here: DataFusion's own optimizer does not run, so that none of its rules can
//! change the plan's meaning. Every operator of the plan becomes one physical operator, except scans, filters and inner
//! joins. These form blocks, in which the relations may be joined in any order (see [`crate::build::inner_join`]).
//!
//! Columns are dropped as soon as no operator above reads them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Schema;
use colstore::TableView;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion_physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_physical_plan::union::UnionExec;
use optimizer::Common;
use optimizer::join_order::Choice as JoinOrder;
use plan::{Aggregation, ColumnId, Computed, Expr, Literal, Part, Plan, Rel};
use protocol::request::{Failure, FailureKind};
use protocol::tree::Step;

use super::group;
use super::shared::{Which, is_kept};
use super::stage::{Stage, columns_of, one_partition};
use super::statistics::Sampled;
use crate::base::cancellation::Cancellation;
use crate::expr::{Lowering, column_name, planning};
use crate::observe::Observer;
use crate::operators::scan::runtime_filter::JoinKeys;
use crate::operators::shared::SharedRows;

/// Options for running one query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Whether the work of the operators is counted for EXPLAIN.
    pub observed: bool,
    pub order: JoinOrder,
    /// The number of threads of the query, if it is less than the runtime's.
    pub threads: Option<u32>,
    /// The working memory that the query may have, within the limit for all queries.
    pub memory_bytes: Option<u64>,
    /// The bytes that the query may have on disk, within the limit for all queries.
    pub disk_bytes: Option<u64>,
}

pub struct Builder<'a> {
    pub plan: &'a Plan,
    pub params: &'a [Option<Literal>],
    pub views: &'a [Arc<dyn TableView>],
    pub threads: usize,
    pub statistics: Sampled<'a>,
    pub cancellation: &'a Cancellation,
    pub observer: Observer,
    /// The way in which the join order is chosen.
    pub order: JoinOrder,
    pub common: Common<'a>,
    /// The runtime filters of the joins above the operator that is being built. Each comes with the column that it
    /// tests.
    pub partners: RefCell<Vec<(ColumnId, Arc<JoinKeys>)>>,
    /// The shared subplans that are built already, each with its number in EXPLAIN.
    pub shared: RefCell<HashMap<Which, (u16, Arc<SharedRows>)>>,
}

/// Turns a well-formed and optimized plan into the physical plan that DataFusion executes. `views` are the tables of
/// `plan.relations`, in the same order.
pub fn build(
    plan: &Plan,
    params: &[Option<Literal>],
    views: &[Arc<dyn TableView>],
    threads: usize,
    cancellation: &Cancellation,
    Manner { observed, order, .. }: Manner,
) -> Result<Arc<dyn ExecutionPlan>, Failure> {
    let observer = Observer(observed);
    let statistics = Sampled::new(plan, params, views);
    let common = Common::of(plan, &|rel| is_kept(rel, &statistics));
    let (partners, shared) = (RefCell::default(), RefCell::default());
    let builder =
        Builder { plan, params, views, threads, statistics, cancellation, observer, order, common, partners, shared };
    let read = columns_of(&plan.output);
    let stage = match plan.order() {
        Some((order, rel)) => builder.in_order(rel, order, &read)?,
        None => builder.stage(&plan.root, &read)?,
    };
    if plan.output.iter().cloned().eq(stage.columns.iter().copied().map(Expr::column)) {
        return Ok(stage.plan);
    }
    let lowering = builder.lowering(&stage.columns);
    let output = plan.output.iter().map(|e| lowering.lower(e)).collect::<Result<Vec<_>, _>>()?;
    let named = output.into_iter().enumerate().map(|(i, expr)| ProjectionExpr { expr, alias: format!("c{i}") });
    Ok(observer.output(Arc::new(ProjectionExec::try_new(named, stage.plan).map_err(planning)?)))
}

impl<'a> Builder<'a> {
    pub fn lowering<'b>(&self, columns: &'b [ColumnId]) -> Lowering<'b>
    where
        'a: 'b,
    {
        Lowering { plan: self.plan, params: self.params, columns, known: &[] }
    }

    /// Builds the stage that returns the rows of `rel`. The stage has the `needed` columns, and perhaps further
    /// columns.
    pub fn stage(&self, rel: &'a Rel, needed: &[ColumnId]) -> Result<Stage, Failure> {
        if let Some(stage) = self.common(rel, needed)? {
            return Ok(stage);
        }
        // Runtime filters of joins above may remove rows below the operators named here. Other operators would return a
        // different result without these rows, or do not pass on the columns of their inputs.
        let is_transparent = match rel {
            Rel::Scan { .. } | Rel::Filter { .. } | Rel::Map { .. } => true,
            Rel::Join { conditions, .. } => !conditions.iter().any(Expr::can_raise),
            _ => false,
        };
        let columns = if is_transparent { rel.columns() } else { Vec::new() };
        self.with_partners_of(&columns, || self.alone(rel, needed))
    }

    /// Like `stage`, for an operator that no other part of the plan shares.
    pub fn alone(&self, rel: &'a Rel, needed: &[ColumnId]) -> Result<Stage, Failure> {
        match rel {
            Rel::Scan { .. } | Rel::Filter { .. } => self.block(rel, needed),
            Rel::Row => {
                let row = Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())));
                Ok(Stage { plan: self.observer.operator(row, || (Step::Row, Some(1.0))), columns: vec![] })
            }
            Rel::Join { kind, left, right, conditions } => match kind {
                plan::JoinKind::Inner => self.block(rel, needed),
                kind => self.outer_join(*kind, left, right, conditions, needed, || self.statistics.rows(rel)),
            },
            // The optimizer turns applications into joins. It leaves one in the plan only if the joins would be too
            // many.
            Rel::Apply { .. } => {
                let kind = FailureKind::TooLarge;
                Err(Failure { kind, message: kind.message().into() })
            }
            Rel::Map { input, computed } => self.map(input, computed, needed),
            Rel::Union { columns, inputs } => self.union(columns, inputs, needed),
            Rel::Aggregate { input, keys, aggregates } => {
                let read: Vec<&Expr> = rel.expressions();
                let read = columns_of(read);
                let input = match self.deciding_extremes(input, keys, aggregates, &read)? {
                    Some(stage) => stage,
                    None => self.stage(input, &read)?,
                };
                self.groups(keys, aggregates, input, || self.statistics.rows(rel))
            }
            Rel::GroupingSets { input, grouping } => self.grouping_sets(input, grouping),
            Rel::Top { input, keys, order, range } => self.top(input, keys, order, range, needed),
            Rel::Unfold { input, unfold } => self.unfold(input, unfold, needed, || self.statistics.rows(rel)),
            Rel::Window { input, over, calls } => self.window(input, over, calls, needed),
        }
    }

    /// Groups the rows of `input`. `rows` estimates the number of groups.
    pub fn groups(
        &self,
        keys: &[Computed],
        aggregates: &[Aggregation],
        input: Stage,
        rows: impl FnOnce() -> f64,
    ) -> Result<Stage, Failure> {
        let lowering = self.lowering(&input.columns);
        let Stage { plan, columns } = group::group(keys, aggregates, &lowering, input.plan, self.observer)?;
        let plan = self.observer.operator(plan, || {
            (Step::Aggregate { keys: keys.to_vec(), aggregates: aggregates.to_vec() }, Some(rows()))
        });
        Ok(Stage { plan, columns })
    }

    fn union(&self, columns: &[ColumnId], inputs: &[Part], needed: &[ColumnId]) -> Result<Stage, Failure> {
        let wanted: Vec<usize> = (0..columns.len()).filter(|i| needed.contains(&columns[*i])).collect();
        let part = |part: &Part| -> Result<Arc<dyn ExecutionPlan>, Failure> {
            let exprs: Vec<&Expr> = wanted.iter().map(|i| &part.exprs[*i]).collect();
            let input = self.stage(&part.rel, &columns_of(exprs.iter().copied()))?;
            let lowering = self.lowering(&input.columns);
            let mut projected = Vec::new();
            for (expr, i) in exprs.into_iter().zip(&wanted) {
                projected.push(ProjectionExpr { expr: lowering.lower(expr)?, alias: column_name(columns[*i]) });
            }
            Ok(self.observer.output(Arc::new(ProjectionExec::try_new(projected, input.plan).map_err(planning)?)))
        };
        let parts = inputs.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let is_spelled_out = inputs.iter().all(|part| part.rel == Rel::Row);
        let mut plan = self.observer.operator(UnionExec::try_new(parts).map_err(planning)?, || {
            let rows = inputs.iter().map(|part| self.statistics.rows(&part.rel)).sum();
            let step = if is_spelled_out { Step::Values { rows: inputs.len() as u64 } } else { Step::Union };
            (step, Some(rows))
        });
        if is_spelled_out {
            plan = one_partition(plan);
        }
        Ok(Stage { plan, columns: wanted.into_iter().map(|i| columns[i]).collect() })
    }

    fn map(&self, input: &Rel, computed: &[Computed], needed: &[ColumnId]) -> Result<Stage, Failure> {
        let wanted: Vec<&Computed> = computed.iter().filter(|c| needed.contains(&c.column)).collect();
        let mut below = columns_of(wanted.iter().map(|c| &c.expr));
        below.extend(needed.iter().filter(|id| computed.iter().all(|c| c.column != **id)));
        let input = self.stage(input, &below)?;
        if wanted.is_empty() {
            return Ok(input);
        }
        let lowering = self.lowering(&input.columns);
        let mut projected = Vec::new();
        let mut columns = Vec::new();
        for (i, id) in input.columns.iter().enumerate().filter(|(_, id)| needed.contains(id)) {
            projected
                .push(ProjectionExpr { expr: Arc::new(Column::new(&column_name(*id), i)), alias: column_name(*id) });
            columns.push(*id);
        }
        for Computed { column, expr } in wanted {
            projected.push(ProjectionExpr { expr: lowering.lower(expr)?, alias: column_name(*column) });
            columns.push(*column);
        }
        let plan = ProjectionExec::try_new(projected, input.plan).map_err(planning)?;
        Ok(Stage { plan: self.observer.output(Arc::new(plan)), columns })
    }
}
