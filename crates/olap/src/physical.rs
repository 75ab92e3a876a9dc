//! Puts the physical plan together: scans, filters, joins, grouping, result columns.
//!
//! There is no logical plan and no optimizer in between: a [`Plan`] is one SELECT level, so the few decisions are made
//! here, where they can be seen, and no rewriting rule can change a meaning.
//!
//! ```text
//!              Projection c0, c1, …
//!              [Aggregate]
//!              [Filter]                   what needs several relations and is no join key
//!              HashJoin                  of two stages, the one with fewer rows as build side
//!              /      \
//!           Scan      HashJoin
//!                     /      \
//!           [Filter] Scan   [Filter] Scan
//! ```
//!
//! The order of the joins is [`crate::join_order`]'s.
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
use crate::expr::{ColumnId, Lowering, column_name, columns_of, joined, planning};
use crate::join_order::{self, Classes, Pair, Relation, Statistics, Tree, relations_of};
use crate::scan::ViewScan;
use crate::statistics::Sampled;

/// Build sides beyond this many rows are split between the threads, where that is possible.
const SHARED_BUILD_ROWS: f64 = 200_000.0;

/// Rows of some relations, joined and filtered as far as that is possible.
struct Stage {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<ColumnId>,
    relations: Vec<u16>,
}

/// A well-formed plan as DataFusion executes it; the views fit its relations.
pub fn build(
    plan: &Plan,
    params: &[Option<Literal>],
    views: Vec<Arc<dyn TableView>>,
    threads: usize,
) -> Result<Arc<dyn ExecutionPlan>, Failure> {
    let mut conditions = plan.filters.iter().collect();
    let classes = Classes::extract(&mut conditions);
    let relations: Vec<Relation> = views.iter().map(|view| relation(view.as_ref())).collect();
    let sampled = Sampled { views: &views };
    // Two relations can be joined in one order only.
    let statistics: &dyn Statistics = if relations.len() > 2 { &sampled } else { &NoStatistics };
    let tree = join_order::order(&relations, &classes, &conditions, statistics);
    let implied: Vec<Expr> = (0..relations.len() as u16).flat_map(|rel| classes.within(rel)).map(equality).collect();
    let pending = conditions.into_iter().chain(&implied).collect();
    let mut builder = Builder { plan, params, views: &views, threads, pending };
    let all = builder.assemble(&tree, &[])?;
    builder.finish(all)
}

fn relation(view: &dyn TableView) -> Relation {
    let key = view.key().map(|key| key.iter().map(|&col| col as u16).collect());
    Relation { rows: view.row_count() as f64, key }
}

fn equality((left, right): Pair<'_>) -> Expr {
    Expr::Cmp { op: CmpOp::Eq, left: Box::new(left.clone()), right: Box::new(right.clone()) }
}

struct NoStatistics;

impl Statistics for NoStatistics {
    fn distinct(&self, _: u16, _: &Expr) -> Option<f64> {
        None
    }
}

struct Builder<'a> {
    plan: &'a Plan,
    params: &'a [Option<Literal>],
    views: &'a [Arc<dyn TableView>],
    threads: usize,
    /// Filters that are not yet part of any stage.
    pending: Vec<&'a Expr>,
}

impl<'a> Builder<'a> {
    fn lowering<'b>(&self, columns: &'b [ColumnId]) -> Lowering<'b>
    where
        'a: 'b,
    {
        Lowering { plan: self.plan, params: self.params, columns }
    }

    /// `above`: keys of the joins that the stage will be part of.
    fn assemble(&mut self, tree: &Tree<'a>, above: &[&'a Expr]) -> Result<Stage, Failure> {
        match tree {
            Tree::Scan(rel) => self.scan(*rel, above),
            Tree::Join { build, probe, keys, build_rows } => {
                let read: Vec<&Expr> = keys.iter().flat_map(|&(a, b)| [a, b]).chain(above.iter().copied()).collect();
                let build = self.assemble(build, &read)?;
                let probe = self.assemble(probe, &read)?;
                let joined = self.join(build, probe, keys, *build_rows, above)?;
                self.filter(joined, above)
            }
        }
    }

    fn scan(&mut self, rel: u16, above: &[&Expr]) -> Result<Stage, Failure> {
        let relation = &self.plan.relations[rel as usize];
        let columns: Vec<ColumnId> = (0..relation.columns.len() as u16).map(|col| (rel, col)).collect();
        let fields = columns.iter().zip(&relation.columns);
        let fields = fields.map(|(id, column)| Field::new(column_name(*id), arrow_type(column.ty), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let view = self.views[rel as usize].clone();
        let plan: Arc<dyn ExecutionPlan> = Arc::new(ViewScan::new(view, schema, self.threads));
        self.filter(Stage { plan, columns, relations: vec![rel] }, above)
    }

    /// Applies the pending filters that the stage can evaluate: first those that cannot raise an error, so that they
    /// guard the others.
    fn filter(&mut self, mut stage: Stage, above: &[&Expr]) -> Result<Stage, Failure> {
        let (ready, pending): (Vec<&Expr>, Vec<&Expr>) =
            self.pending.iter().partition(|f| relations_of(f).iter().all(|rel| stage.relations.contains(rel)));
        self.pending = pending;
        let (raising, safe): (Vec<&Expr>, Vec<&Expr>) = ready.into_iter().partition(|f| f.can_raise());
        let still_read = [&raising, above].concat();
        for (filters, still_read) in [(&safe, &still_read[..]), (&raising, above)] {
            stage = self.filter_by(stage, filters, still_read)?;
        }
        Ok(stage)
    }

    fn filter_by(&self, mut stage: Stage, filters: &[&Expr], still_read: &[&Expr]) -> Result<Stage, Failure> {
        if filters.is_empty() {
            return Ok(stage);
        }
        let lowering = self.lowering(&stage.columns);
        let predicates = filters.iter().map(|f| lowering.lower(f)).collect::<Result<Vec<_>, _>>()?;
        let predicate = joined(BoolOp::And, predicates);
        let kept = self.kept(&stage.columns, still_read);
        let filter = FilterExecBuilder::new(predicate, stage.plan).apply_projection(Some(kept.clone()));
        stage.plan = Arc::new(filter.and_then(|f| f.build()).map_err(planning)?);
        stage.columns = kept.into_iter().map(|i| stage.columns[i]).collect();
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

    /// `keys`: of the build side and of the probe side. Pending equalities whose sides are complete now are keys, too.
    fn join(
        &mut self,
        build: Stage,
        probe: Stage,
        keys: &[Pair<'a>],
        build_rows: f64,
        above: &[&Expr],
    ) -> Result<Stage, Failure> {
        let compared = self.pending.iter().filter_map(|f| compared_sides(f, &build, &probe));
        let keys: Vec<Pair<'a>> = keys.iter().copied().chain(compared).collect();
        self.pending.retain(|f| compared_sides(f, &build, &probe).is_none());
        let columns: Vec<ColumnId> = build.columns.iter().chain(&probe.columns).copied().collect();
        let relations = build.relations.iter().chain(&probe.relations).copied().collect();
        if keys.is_empty() {
            let plan = cooperative(CrossJoinExec::new(one_partition(build.plan), probe.plan));
            return Ok(Stage { plan, columns, relations });
        }
        let kept = self.kept(&columns, above);
        let plan = self.hash_join(&keys, build, probe, build_rows, kept.clone())?;
        Ok(Stage { plan, columns: kept.into_iter().map(|i| columns[i]).collect(), relations })
    }

    fn hash_join(
        &self,
        keys: &[Pair<'_>],
        build: Stage,
        probe: Stage,
        build_rows: f64,
        kept: Vec<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, Failure> {
        let mut on = Vec::new();
        for (build_key, probe_key) in keys {
            let (probe_type, build_type) = (self.plan.type_of(probe_key), self.plan.type_of(build_key));
            on.push((
                self.lowering(&build.columns).join_key(build_key, probe_type)?,
                self.lowering(&probe.columns).join_key(probe_key, build_type)?,
            ));
        }
        let partitions = probe.plan.output_partitioning().partition_count();
        // The exchange needs memory as long as it runs. A result that streams must not fail on that half way.
        let shared = partitions > 1 && build_rows > SHARED_BUILD_ROWS && self.plan.grouping.is_some();
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
        let lowering = self.lowering(&stage.columns);
        let (plan, output) = match &self.plan.grouping {
            None => {
                let output = self.plan.output.iter().map(|e| lowering.lower(e)).collect::<Result<Vec<_>, _>>()?;
                (stage.plan, output)
            }
            Some(grouping) => {
                let (plan, positions) = aggregate::group(grouping, &lowering, stage.plan)?;
                let schema = plan.schema();
                let column = |i| Arc::new(Column::new(schema.field(i).name(), i)) as Arc<dyn PhysicalExpr>;
                (plan.clone(), positions.into_iter().map(column).collect())
            }
        };
        let named = output.into_iter().enumerate().map(|(i, expr)| ProjectionExpr { expr, alias: format!("c{i}") });
        Ok(Arc::new(ProjectionExec::try_new(named, plan).map_err(planning)?))
    }
}

/// The sides of an equality between two stages.
fn compared_sides<'a>(filter: &'a Expr, build: &Stage, probe: &Stage) -> Option<Pair<'a>> {
    let Expr::Cmp { op: CmpOp::Eq, left, right } = filter else { return None };
    let of = |expr: &Expr, stage: &Stage| {
        let relations = relations_of(expr);
        !relations.is_empty() && relations.iter().all(|rel| stage.relations.contains(rel))
    };
    if of(left, build) && of(right, probe) {
        Some((left, right))
    } else if of(left, probe) && of(right, build) {
        Some((right, left))
    } else {
        None
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
