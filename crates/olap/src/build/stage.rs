//! A stage: a physical plan, and the columns of the query's plan that its rows contain. Also operators that change how
//! rows are partitioned.

use std::sync::Arc;

use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::coop::CooperativeExec;
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use plan::{ColumnId, Expr};
use protocol::request::Failure;

use crate::base::compact::compact;
use crate::expr::planning;

/// A physical plan, and the ids of the columns that its rows contain.
pub struct Stage {
    pub plan: Arc<dyn ExecutionPlan>,
    pub columns: Vec<ColumnId>,
}

impl Stage {
    /// The positions of the needed columns.
    pub fn positions(&self, needed: impl Fn(&ColumnId) -> bool) -> Vec<usize> {
        (0..self.columns.len()).filter(|i| needed(&self.columns[*i])).collect()
    }

    pub fn has(&self, expr: &Expr) -> bool {
        expr.columns().iter().all(|id| self.columns.contains(id))
    }
}

/// The columns that the expressions read, each once.
pub fn columns_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Vec<ColumnId> {
    let mut columns: Vec<ColumnId> = exprs.into_iter().flat_map(Expr::columns).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Makes a join yield its thread now and then, because it can return any number of batches for one input batch.
pub fn cooperative(join: impl ExecutionPlan + 'static) -> Arc<dyn ExecutionPlan> {
    Arc::new(CooperativeExec::new(Arc::new(join)))
}

/// The rows of `plan` in one partition.
pub fn one_partition(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

/// The rows of `plan`, partitioned by hash so that all rows of a group are in one partition.
pub fn by_hash(
    plan: Arc<dyn ExecutionPlan>,
    keys: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn ExecutionPlan>, Failure> {
    match plan.output_partitioning().partition_count() {
        1 => Ok(plan),
        partitions => {
            let by_hash = RepartitionExec::try_new(compact(plan), Partitioning::Hash(keys.to_vec(), partitions));
            Ok(Arc::new(by_hash.map_err(planning)?))
        }
    }
}
