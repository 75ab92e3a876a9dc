//! The first phase of grouping by integers with few values: accumulators that are indexed by the key, without hashing.
//!
//! The operator replaces `Aggregate(Partial)` and returns the same partial states, which the second phase merges. If
//! the keys turn out to spread too far, it returns the states so far, and groups the remaining rows as `PartialGroups`
//! does. With only one partition, this would do the second phase's work twice, so each remaining row becomes its own
//! state instead.
//!
//! ```text
//!   batch -> slot of each row = Σ (key - smallest) * stride -> rows[slot] += 1, sum[slot] += value
//! ```

mod slots;

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};

use self::slots::Slots;
use crate::operators::group::groups;

/// A partial state: a column of the result, after the keys.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// The number of rows.
    Rows,
    /// The number of rows in which this argument is not null.
    Count(usize),
    Sum(usize),
}

/// The aggregates to compute.
#[derive(Debug, Default)]
pub struct Shape {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    args: Vec<Argument>,
    states: Vec<State>,
}

#[derive(Debug)]
struct Argument {
    expr: Arc<dyn PhysicalExpr>,
    summed: bool,
}

impl Shape {
    /// A shape with at least one key; `None` if a key is no integer.
    pub fn new(keys: Vec<Arc<dyn PhysicalExpr>>, input: &SchemaRef) -> Option<Self> {
        let fit = !keys.is_empty() && keys.iter().all(|key| is_integer(key, input));
        fit.then(|| Shape { keys, ..Shape::default() })
    }

    pub fn count(&mut self, arg: Option<Arc<dyn PhysicalExpr>>) {
        let state = match arg {
            None => State::Rows,
            Some(expr) => State::Count(self.argument(expr, false)),
        };
        self.states.push(state);
    }

    /// Adds a sum, and returns whether its argument can be summed here.
    #[must_use]
    pub fn sum(&mut self, arg: Arc<dyn PhysicalExpr>, input: &SchemaRef) -> bool {
        let fit = is_integer(&arg, input);
        if fit {
            let state = State::Sum(self.argument(arg, true));
            self.states.push(state);
        }
        fit
    }

    fn argument(&mut self, expr: Arc<dyn PhysicalExpr>, summed: bool) -> usize {
        let known = self.args.iter().position(|a| *a.expr == *expr);
        let index = known.unwrap_or_else(|| {
            self.args.push(Argument { expr, summed });
            self.args.len() - 1
        });
        self.args[index].summed |= summed;
        index
    }
}

fn is_integer(expr: &Arc<dyn PhysicalExpr>, input: &SchemaRef) -> bool {
    matches!(expr.data_type(input), Ok(DataType::Int16 | DataType::Int32 | DataType::Int64))
}

#[derive(Debug)]
pub struct DenseGroups {
    shape: Arc<Shape>,
    general: Arc<groups::Shape>,
}

impl DenseGroups {
    /// `like` is the partial aggregation that this operator replaces. `shape` describes the same computation.
    pub fn new(shape: Shape, like: AggregateExec) -> Result<Self> {
        Ok(DenseGroups { shape: Arc::new(shape), general: Arc::new(groups::Shape::of(Arc::new(like))?) })
    }
}

impl ExecutionPlan for DenseGroups {
    fn name(&self) -> &str {
        "DenseGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.general.like.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.general.like.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.general.like.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let child = children.pop().ok_or_else(|| DataFusionError::Internal("DenseGroups has one child".into()))?;
        Ok(Arc::new(DenseGroups { shape: self.shape.clone(), general: Arc::new(self.general.over(child)?) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.general.like.input().execute(partition, context.clone())?;
        let schema = self.schema();
        let grouped = group(self.shape.clone(), self.general.clone(), input, context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(grouped).try_flatten())))
    }
}

impl DisplayAs for DenseGroups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DenseGroups: or ")?;
        self.general.like.fmt_as(DisplayFormatType::Default, f)
    }
}

/// The partial states of all rows of `input`.
async fn group(
    shape: Arc<Shape>,
    general: Arc<groups::Shape>,
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let schema = general.like.schema();
    let reservation = MemoryConsumer::new("DenseGroups").register(context.memory_pool());
    let mut slots = Slots::new(shape.keys.len(), shape.args.iter().map(|a| a.summed));
    while let Some(batch) = input.next().await.transpose()? {
        let keys = shape.keys.iter().map(|key| evaluate(key, &batch)).collect::<Result<Vec<_>>>()?;
        if !slots.make_room(&keys)? {
            let states = stream::iter([states(&shape, &slots, &schema)]);
            let remaining = stream::iter([Ok(batch)]).chain(input).boxed();
            let grouped = general.like.input().output_partitioning().partition_count() > 1;
            return Ok(states.chain(groups::states(&general, remaining, &context, grouped)?).boxed());
        }
        reservation.try_resize(slots.bytes())?;
        slots.add_rows(&keys)?;
        for (index, argument) in shape.args.iter().enumerate() {
            slots.add_argument(index, &evaluate(&argument.expr, &batch)?)?;
        }
    }
    let states = states(&shape, &slots, &schema)?;
    Ok(stream::iter([Ok(states)]).boxed())
}

fn states(shape: &Shape, slots: &Slots, schema: &SchemaRef) -> Result<RecordBatch> {
    let occupied = slots.occupied();
    let keys = (0..shape.keys.len()).map(|key| slots.key(key, &occupied, schema.field(key).data_type()));
    let states = shape.states.iter().map(|state| match state {
        State::Rows => slots.row_counts(&occupied),
        State::Count(arg) => slots.counts(*arg, &occupied),
        State::Sum(arg) => slots.sums(*arg, &occupied),
    });
    Ok(RecordBatch::try_new(schema.clone(), keys.chain(states).collect::<Result<_>>()?)?)
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(batch)?.into_array(batch.num_rows())
}
