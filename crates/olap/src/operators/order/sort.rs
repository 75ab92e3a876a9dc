//! The operator that sorts the rows of each partition separately.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SortOptions;
use datafusion_common::error::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use plan::SortKey;
use protocol::request::Failure;

use crate::base::error::known_locale;
use crate::base::keys::SortColumn;
use crate::base::visit::visit_each;
use crate::expr::{Lowering, planning};
use crate::operators::order::runs::Wanted;
use crate::operators::order::sorter::Sorter;
use crate::spill::{Means, paced};

/// The sort columns of a plan's keys.
pub fn sort_columns(keys: &[SortKey], lowering: &Lowering<'_>) -> Result<Vec<SortColumn>, Failure> {
    let column = |key: &SortKey| {
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        let locale = key.locale.as_deref().map(known_locale).transpose().map_err(planning)?;
        Ok(SortColumn { expr: lowering.key(&key.expr)?, locale, options })
    };
    keys.iter().map(column).collect()
}

#[derive(Debug)]
pub struct Sort {
    input: Arc<dyn ExecutionPlan>,
    columns: Arc<[SortColumn]>,
    wanted: Wanted,
    properties: Arc<PlanProperties>,
}

impl Sort {
    pub fn new(input: Arc<dyn ExecutionPlan>, columns: Vec<SortColumn>, wanted: Wanted) -> Sort {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Sort { input, columns: columns.into(), wanted, properties: Arc::new(properties) }
    }
}

impl ExecutionPlan for Sort {
    fn name(&self) -> &str {
        "Sort"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        visit_each(self.columns.iter().map(|column| &column.expr), f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Sort::new(children.remove(0), self.columns.to_vec(), self.wanted)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let means = Means::new("Sort", &context);
        let batch_size = context.session_config().batch_size();
        let mut sorter = Sorter::new(self.columns.clone(), schema.clone(), self.wanted, batch_size, means)?;
        let mut input = paced(&self.input, partition, context)?;
        let batches = async move {
            while let Some(batch) = input.try_next().await? {
                sorter.insert(&batch)?;
            }
            // The input is dropped now, so that everything that it holds is released.
            drop(input);
            sorter.sorted().await
        };
        let batches = stream::once(batches).try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

impl DisplayAs for Sort {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wanted.rows {
            usize::MAX => write!(f, "Sort"),
            rows => write!(f, "Sort: first={rows}"),
        }
    }
}
