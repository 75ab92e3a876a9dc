//! Rows about which DataFusion assumes nothing but their number of partitions.
//!
//! DataFusion skips work if it knows that values below an operator are constant or sorted. If there are constants below
//! outer joins, DataFusion takes unsorted rows for sorted rows, and groups them wrongly. This operator hides constants
//! and orders.

use std::fmt;
use std::sync::Arc;

use datafusion_common::error::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

#[derive(Debug)]
struct Unordered {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// An operator that returns the same rows, without constants and orders that DataFusion knows of.
pub fn unordered(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let known = input.equivalence_properties();
    match known.oeq_class().is_empty() && known.constants().is_empty() {
        true => input,
        false => without_properties(input),
    }
}

fn without_properties(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let partitions = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
    let below = input.properties();
    let properties = PlanProperties::new(
        EquivalenceProperties::new(input.schema()),
        partitions,
        below.emission_type,
        below.boundedness,
    )
    .with_scheduling_type(below.scheduling_type);
    Arc::new(Unordered { input, properties: Arc::new(properties) })
}

impl ExecutionPlan for Unordered {
    fn name(&self) -> &str {
        "Unordered"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(without_properties(children.remove(0)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

impl DisplayAs for Unordered {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unordered")
    }
}
