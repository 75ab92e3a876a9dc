//! The first phase of grouping by integers that take few values: accumulators indexed by the key, no hashing.
//!
//! Stands in for `Aggregate(Partial)` and gives the same partial states, so that the same second phase merges them. If
//! the keys turn out to spread too far, the states so far are handed on, and the second phase merges them with those of
//! the remaining rows. These come from the ordinary `Aggregate(Partial)`; if there is only one partition it would do the
//! second phase's work twice, and each row is its own state.
//!
//! ```text
//!   batch -> slot of each row = Σ (key - smallest) * stride -> rows[slot] += 1, sum[slot] += value
//! ```

mod slots;

use std::fmt;
use std::sync::{Arc, Mutex};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use self::slots::Slots;
use crate::sum;

/// A partial state: a column of the result behind the keys.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// The number of rows.
    Rows,
    /// The number of rows in which this argument is not null.
    Count(usize),
    Sum(usize),
}

/// What to compute.
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
    /// At least one key; `None` if their types have no small domains.
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

    /// Whether this kind of number can be summed here.
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
    general: Arc<AggregateExec>,
}

impl DenseGroups {
    /// `shape` describes what `general`, of mode Partial, computes.
    pub fn new(shape: Shape, general: AggregateExec) -> Self {
        DenseGroups { shape: Arc::new(shape), general: Arc::new(general) }
    }
}

impl ExecutionPlan for DenseGroups {
    fn name(&self) -> &str {
        "DenseGroups"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.general.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.general.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.general.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let child = children.pop().ok_or_else(|| DataFusionError::Internal("DenseGroups has one child".into()))?;
        let general = general_over(&self.general, child)?;
        Ok(Arc::new(DenseGroups { shape: self.shape.clone(), general: Arc::new(general) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.general.input().execute(partition, context.clone())?;
        let schema = self.schema();
        let grouped = group(self.shape.clone(), self.general.clone(), input, context);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(grouped).try_flatten())))
    }
}

impl DisplayAs for DenseGroups {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DenseGroups: or ")?;
        self.general.fmt_as(DisplayFormatType::Default, f)
    }
}

/// The partial states of all rows of `input`.
async fn group(
    shape: Arc<Shape>,
    general: Arc<AggregateExec>,
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = general.schema();
    let reservation = MemoryConsumer::new("DenseGroups").register(context.memory_pool());
    let mut slots = Slots::new(shape.keys.len(), shape.args.iter().map(|a| a.summed));
    while let Some(batch) = input.next().await.transpose()? {
        let keys = shape.keys.iter().map(|key| evaluate(key, &batch)).collect::<Result<Vec<_>>>()?;
        if !slots.make_room(&keys)? {
            let states = stream::iter([states(&shape, &slots, &schema)]);
            let remaining = stream::iter([Ok(batch)]).chain(input);
            if general.input().output_partitioning().partition_count() == 1 {
                let rows = remaining.map(move |batch| states_of_rows(&shape, &batch?, &general.schema()));
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, states.chain(rows))));
            }
            let remaining = Remaining::plan(remaining, general.input_schema())?;
            let remaining = general_over(&general, remaining)?.execute(0, context)?;
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, states.chain(remaining))));
        }
        reservation.try_resize(slots.bytes())?;
        slots.add_rows(&keys)?;
        for (index, argument) in shape.args.iter().enumerate() {
            slots.add_argument(index, &evaluate(&argument.expr, &batch)?)?;
        }
    }
    let states = states(&shape, &slots, &schema)?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter([Ok(states)]))))
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

/// Every row as a state of its own.
fn states_of_rows(shape: &Shape, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let keys = shape.keys.iter().map(|key| evaluate(key, batch));
    let states = shape.states.iter().map(|state| match state {
        State::Rows => Ok(Arc::new(Int64Array::from_value(1, batch.num_rows())) as ArrayRef),
        State::Count(arg) => {
            let values = evaluate(&shape.args[*arg].expr, batch)?;
            let nulls = values.logical_nulls();
            let counts = (0..values.len()).map(|row| nulls.as_ref().is_none_or(|n| n.is_valid(row)) as i64);
            Ok(Arc::new(Int64Array::from_iter_values(counts)) as ArrayRef)
        }
        State::Sum(arg) => sum::states_of_rows(&evaluate(&shape.args[*arg].expr, batch)?, None),
    });
    Ok(RecordBatch::try_new(schema.clone(), keys.chain(states).collect::<Result<_>>()?)?)
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef> {
    expr.evaluate(batch)?.into_array(batch.num_rows())
}

fn general_over(general: &AggregateExec, input: Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Partial,
        general.group_expr().clone(),
        general.aggr_expr().to_vec(),
        general.filter_expr().to_vec(),
        input,
        general.input_schema(),
    )
}

/// The rest of a stream as the only partition of a plan that is executed once.
struct Remaining {
    schema: SchemaRef,
    stream: Mutex<Option<SendableRecordBatchStream>>,
}

impl Remaining {
    fn plan(
        stream: impl stream::Stream<Item = Result<RecordBatch>> + Send + 'static,
        schema: SchemaRef,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), stream));
        let only = Arc::new(Remaining { schema: schema.clone(), stream: Mutex::new(Some(stream)) });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![only], None, [], false, None)?))
    }
}

impl fmt::Debug for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remaining")
    }
}

impl PartitionStream for Remaining {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = self.stream.lock().ok().and_then(|mut stream| stream.take());
        let gone = || DataFusionError::Internal("the remaining rows were read twice".into());
        stream.unwrap_or_else(|| {
            Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream::once(async move { Err(gone()) })))
        })
    }
}
