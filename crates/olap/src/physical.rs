//! Puts the physical plan together: scans, filters, joins, grouping, result columns.
//!
//! There is no logical plan and no optimizer in between: a [`Plan`] is one SELECT level, so the few decisions are made
//! here, where they can be seen, and no rewriting rule can change a meaning.
//!
//! ```text
//!              Projection c0, c1, …
//!              [Aggregate]
//!              [Filter]                   what needs several relations and is no join key
//!              HashJoin                  of two stages, the smaller one as build side
//!              /      \
//!           Scan      HashJoin
//!                     /      \
//!           [Filter] Scan   [Filter] Scan
//! ```
//!
//! Joins are chosen greedily, the pair with the fewest rows first, so that the largest table usually streams through all
//! of them while small ones are joined among themselves. Row counts are exact below filters and guesses above.
//!
//! Each relation is filtered where it is scanned, and columns are dropped as soon as nothing above reads them.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use colstore::TableView;
use datafusion_common::error::Result as DataFusionResult;
use datafusion_common::{JoinType, NullEquality};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::coop::CooperativeExec;
use datafusion_physical_plan::filter::FilterExecBuilder;
use datafusion_physical_plan::joins::{CrossJoinExec, HashJoinExec, PartitionMode};
use datafusion_physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use plan::{BoolOp, CmpOp, Expr, Literal, Plan};
use protocol::request::Failure;

use crate::aggregate::{self, one_partition};
use crate::arrow_form::arrow_type;
use crate::error::internal;
use crate::expr::{ColumnId, Translator, column_name, columns_of, joined, planning};
use crate::scan::ViewScan;

/// Build sides beyond this many rows are split between the threads, where that is possible.
const SHARED_BUILD_ROWS: f64 = 200_000.0;

/// Rows of some relations, joined and filtered as far as that is possible.
struct Stage {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<ColumnId>,
    relations: Vec<u16>,
    /// A guess, from exact row counts and the kind of filters.
    rows: f64,
    /// Rows of the largest relation in it, before any filter.
    unfiltered: f64,
}

impl Stage {
    /// Rows of an equality join, taking the smaller table's key as unique.
    fn joined_rows(&self, other: &Stage) -> f64 {
        self.rows * other.rows / self.unfiltered.min(other.unfiltered).max(1.0)
    }
}

/// A well-formed plan as DataFusion executes it; the views fit its relations.
pub fn build(
    plan: &Plan,
    params: &[Option<Literal>],
    views: Vec<Arc<dyn TableView>>,
    threads: usize,
) -> Result<Arc<dyn ExecutionPlan>, Failure> {
    let mut builder = Builder { plan, params, threads, pending: plan.filters.iter().collect() };
    let mut stages = Vec::new();
    for (rel, view) in views.into_iter().enumerate() {
        stages.push(builder.scan(rel as u16, view)?);
    }
    while stages.len() > 1 {
        let joined = builder.join_next(&mut stages)?;
        stages.push(joined);
    }
    let all = stages.pop().ok_or_else(|| internal("plan without relations"))?;
    builder.finish(all)
}

struct Builder<'a> {
    plan: &'a Plan,
    params: &'a [Option<Literal>],
    threads: usize,
    /// Filters that are not yet part of any stage.
    pending: Vec<&'a Expr>,
}

/// The sides of an equality: the probe side's key and the build side's.
type KeyPair<'a> = (&'a Expr, &'a Expr);

impl<'a> Builder<'a> {
    fn translator<'b>(&self, columns: &'b [ColumnId]) -> Translator<'b>
    where
        'a: 'b,
    {
        Translator { plan: self.plan, params: self.params, columns }
    }

    fn scan(&mut self, rel: u16, view: Arc<dyn TableView>) -> Result<Stage, Failure> {
        let relation = &self.plan.relations[rel as usize];
        let columns: Vec<ColumnId> = (0..relation.columns.len() as u16).map(|col| (rel, col)).collect();
        let fields = columns.iter().zip(&relation.columns);
        let fields = fields.map(|(id, column)| Field::new(column_name(*id), arrow_type(column.ty), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let rows = view.row_count() as f64;
        let plan: Arc<dyn ExecutionPlan> = Arc::new(ViewScan::new(view, schema, self.threads));
        self.filter(Stage { plan, columns, relations: vec![rel], rows, unfiltered: rows })
    }

    /// Applies the pending filters that the stage can evaluate: first those that cannot raise an error, so that they
    /// guard the others.
    fn filter(&mut self, mut stage: Stage) -> Result<Stage, Failure> {
        let (ready, pending): (Vec<&Expr>, Vec<&Expr>) =
            self.pending.iter().partition(|f| relations_of(f).iter().all(|rel| stage.relations.contains(rel)));
        self.pending = pending;
        let (raising, safe): (Vec<&Expr>, Vec<&Expr>) = ready.into_iter().partition(|f| f.can_raise());
        for (i, filters) in [&safe, &raising].into_iter().enumerate() {
            let still_read = if i == 0 { raising.as_slice() } else { &[] };
            stage = self.filter_by(stage, filters, still_read)?;
        }
        Ok(stage)
    }

    fn filter_by(&self, mut stage: Stage, filters: &[&Expr], still_read: &[&Expr]) -> Result<Stage, Failure> {
        if filters.is_empty() {
            return Ok(stage);
        }
        let translator = self.translator(&stage.columns);
        let predicates = filters.iter().map(|f| translator.translate(f)).collect::<Result<Vec<_>, _>>()?;
        let predicate = joined(BoolOp::And, predicates);
        let kept = self.kept(&stage.columns, still_read);
        let filter = FilterExecBuilder::new(predicate, stage.plan).apply_projection(Some(kept.clone()));
        stage.plan = Arc::new(filter.and_then(|f| f.build()).map_err(planning)?);
        stage.columns = kept.into_iter().map(|i| stage.columns[i]).collect();
        stage.rows *= filters.iter().map(|f| selectivity(f)).product::<f64>();
        Ok(stage)
    }

    /// Positions of the columns that something above still reads.
    fn kept(&self, columns: &[ColumnId], still_read: &[&Expr]) -> Vec<usize> {
        let mut read = Vec::new();
        self.pending.iter().chain(still_read).for_each(|e| columns_of(e, &mut read));
        self.plan.output.iter().for_each(|e| columns_of(e, &mut read));
        if let Some(grouping) = &self.plan.grouping {
            let args = grouping.aggregates.iter().filter_map(|a| a.argument());
            grouping.keys.iter().chain(args).for_each(|e| columns_of(e, &mut read));
        }
        (0..columns.len()).filter(|i| read.contains(&columns[*i])).collect()
    }

    /// Takes two stages, of which there are at least two, and joins them: those that an equality connects with the
    /// fewest rows in the result or, if there are none, the smallest.
    fn join_next(&mut self, stages: &mut Vec<Stage>) -> Result<Stage, Failure> {
        let pairs = (0..stages.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let cost = |(i, j): (usize, usize)| {
            let (a, b) = (&stages[i], &stages[j]);
            let connected = self.pending.iter().any(|f| join_keys(f, a, b).is_some());
            (!connected, if connected { a.joined_rows(b) } else { a.rows * b.rows })
        };
        let costs = pairs.map(|pair| (cost(pair), pair));
        let best = costs.min_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (_, (i, j)) = best.ok_or_else(|| internal("nothing to join"))?;
        let (later, earlier) = (stages.remove(j), stages.remove(i));
        let (build, probe) = if later.rows < earlier.rows { (later, earlier) } else { (earlier, later) };
        let keys: Vec<KeyPair<'a>> = self.pending.iter().filter_map(|f| join_keys(f, &probe, &build)).collect();
        self.pending.retain(|f| join_keys(f, &probe, &build).is_none());

        let columns: Vec<ColumnId> = build.columns.iter().chain(&probe.columns).copied().collect();
        let relations = build.relations.iter().chain(&probe.relations).copied().collect();
        let unfiltered = build.unfiltered.max(probe.unfiltered);
        let joined = if keys.is_empty() {
            let rows = build.rows * probe.rows;
            let plan = cooperative(CrossJoinExec::new(one_partition(build.plan), probe.plan));
            Stage { plan, columns, relations, rows, unfiltered }
        } else {
            let rows = build.joined_rows(&probe);
            let kept = self.kept(&columns, &[]);
            let plan = self.hash_join(&keys, build, probe, kept.clone())?;
            Stage { plan, columns: kept.into_iter().map(|i| columns[i]).collect(), relations, rows, unfiltered }
        };
        self.filter(joined)
    }

    fn hash_join(
        &self,
        keys: &[KeyPair<'_>],
        build: Stage,
        probe: Stage,
        kept: Vec<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, Failure> {
        let mut on = Vec::new();
        for (probe_key, build_key) in keys {
            let (probe_type, build_type) = (self.plan.type_of(probe_key), self.plan.type_of(build_key));
            on.push((
                self.translator(&build.columns).join_key(build_key, probe_type)?,
                self.translator(&probe.columns).join_key(probe_key, build_type)?,
            ));
        }
        let partitions = probe.plan.output_partitioning().partition_count();
        // The exchange needs memory as long as it runs. A result that streams must not fail on that half way.
        let shared = partitions > 1 && build.rows > SHARED_BUILD_ROWS && self.plan.grouping.is_some();
        let (build, probe, mode) = if shared {
            let (build_keys, probe_keys) = on.iter().cloned().unzip();
            let build = by_hash(build.plan, build_keys, partitions).map_err(planning)?;
            let probe = by_hash(probe.plan, probe_keys, partitions).map_err(planning)?;
            (build, probe, PartitionMode::Partitioned)
        } else {
            (one_partition(build.plan), probe.plan, PartitionMode::CollectLeft)
        };
        let nulls = NullEquality::NullEqualsNothing;
        let join = HashJoinExec::try_new(build, probe, on, None, &JoinType::Inner, Some(kept), mode, nulls, false);
        Ok(cooperative(join.map_err(planning)?))
    }

    fn finish(self, stage: Stage) -> Result<Arc<dyn ExecutionPlan>, Failure> {
        let translator = self.translator(&stage.columns);
        let (plan, output) = match &self.plan.grouping {
            None => {
                let output = self.plan.output.iter().map(|e| translator.translate(e)).collect::<Result<Vec<_>, _>>()?;
                (stage.plan, output)
            }
            Some(grouping) => {
                let (plan, positions) = aggregate::group(grouping, &translator, stage.plan)?;
                let schema = plan.schema();
                let column = |i| Arc::new(Column::new(schema.field(i).name(), i)) as Arc<dyn PhysicalExpr>;
                (plan.clone(), positions.into_iter().map(column).collect())
            }
        };
        let named = output.into_iter().enumerate().map(|(i, expr)| ProjectionExpr { expr, alias: format!("c{i}") });
        Ok(Arc::new(ProjectionExec::try_new(named, plan).map_err(planning)?))
    }
}

fn relations_of(expr: &Expr) -> Vec<u16> {
    let mut columns = Vec::new();
    columns_of(expr, &mut columns);
    columns.into_iter().map(|(rel, _)| rel).collect()
}

/// The sides of an equality between two stages.
fn join_keys<'a>(filter: &'a Expr, probe: &Stage, build: &Stage) -> Option<KeyPair<'a>> {
    let Expr::Cmp { op: CmpOp::Eq, left, right } = filter else { return None };
    let of = |expr: &Expr, stage: &Stage| {
        let relations = relations_of(expr);
        !relations.is_empty() && relations.iter().all(|rel| stage.relations.contains(rel))
    };
    if of(left, probe) && of(right, build) {
        Some((left, right))
    } else if of(left, build) && of(right, probe) {
        Some((right, left))
    } else {
        None
    }
}

/// A guess at the share of rows that pass.
fn selectivity(filter: &Expr) -> f64 {
    match filter {
        Expr::Cmp { op: CmpOp::Eq, .. } => 0.05,
        Expr::Cmp { op: CmpOp::Ne, .. } | Expr::IsNull { negated: true, .. } => 0.9,
        _ => 0.3,
    }
}

/// A join can make any number of batches from one that it reads: it has to leave its thread to others by itself.
fn cooperative(join: impl ExecutionPlan + 'static) -> Arc<dyn ExecutionPlan> {
    Arc::new(CooperativeExec::new(Arc::new(join)))
}

fn by_hash(
    plan: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    partitions: usize,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(RepartitionExec::try_new(plan, Partitioning::Hash(keys, partitions))?))
}
