//! Returns the first rows of each group of sorted rows.

use std::fmt;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use datafusion_common::error::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::TryStreamExt;

use crate::base::keys::{Keys, OwnedKey, SortColumn};
use crate::base::visit::visit_each;
use crate::operators::order::section::Section;

#[derive(Debug)]
pub struct FirstOfGroups {
    /// The input, sorted by keys and order, with all rows of a group in one partition.
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<[SortColumn]>,
    order: Arc<[SortColumn]>,
    section: Section,
    properties: Arc<PlanProperties>,
}

impl FirstOfGroups {
    pub fn new(input: Arc<dyn ExecutionPlan>, keys: Vec<SortColumn>, order: Vec<SortColumn>, section: Section) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        FirstOfGroups { input, keys: keys.into(), order: order.into(), section, properties: Arc::new(properties) }
    }
}

/// The state of the walk through a partition's rows.
struct Walk {
    keys: Keys,
    order: Keys,
    section: Section,
    /// The group of the last row.
    group: Option<OwnedKey>,
    /// The number of rows of this group so far.
    rows: usize,
    /// With ties: the order key of the last wanted row, once this row has come. Rows with an equal key are kept, too.
    last: Option<OwnedKey>,
}

impl Walk {
    fn filter(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (keys, order) = (self.keys.of(batch)?, self.order.of(batch)?);
        let Section { offset, count, ties } = self.section;
        let end = offset.saturating_add(count);
        let mut kept = Vec::with_capacity(batch.num_rows());
        for at in 0..batch.num_rows() {
            let key = keys.row(at);
            if self.group.as_ref().is_none_or(|group| group.key() != key) {
                self.group = Some(key.owned());
                self.rows = 0;
                self.last = None;
            }
            let is_tie = self.last.as_ref().is_some_and(|last| last.key() == order.row(at));
            kept.push(self.rows >= offset && self.rows < end || is_tie);
            self.rows += 1;
            if ties && self.rows == end {
                self.last = Some(order.row(at).owned());
            }
        }
        Ok(filter_record_batch(batch, &BooleanArray::from(kept))?)
    }
}

impl ExecutionPlan for FirstOfGroups {
    fn name(&self) -> &str {
        "FirstOfGroups"
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
        visit_each(self.keys.iter().chain(self.order.iter()).map(|column| &column.expr), f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (keys, order) = (self.keys.to_vec(), self.order.to_vec());
        Ok(Arc::new(FirstOfGroups::new(children.remove(0), keys, order, self.section)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let mut walk = Walk {
            keys: Keys::new(self.keys.clone(), &schema)?,
            order: Keys::new(self.order.clone(), &schema)?,
            section: self.section,
            group: None,
            rows: 0,
            last: None,
        };
        let input = self.input.execute(partition, context)?;
        let kept = input.and_then(move |batch| std::future::ready(walk.filter(&batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, kept)))
    }
}

impl DisplayAs for FirstOfGroups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FirstOfGroups")
    }
}
