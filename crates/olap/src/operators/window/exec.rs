//! The operator that adds the columns of window functions.
//!
//! ```text
//!   partitions by hash of the keys, or one -> Sort by keys and order -> Windows
//! ```
//!
//! A partition's rows are together when they are computed, and small partitions with others.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use plan::catalogue::Extreme;
use plan::{Agg, ColumnId, Expr, Over, Rel, Type, WindowCall, WindowFunction};
use protocol::request::Failure;
use protocol::tree::Step;

use crate::base::arrow_form::arrow_type;
use crate::base::cancellation::Cancellation;
use crate::base::error::internal;
use crate::base::keys::{Keys, OwnedKey, SortColumn};
use crate::build::group::{locale, one_partition};
use crate::build::top::by_hash;
use crate::build::{Builder, Stage, columns_of};
use crate::expr::{Lowering, column_name};
use crate::operators::order::runs::Wanted;
use crate::operators::order::sort::{Sort, sort_columns};
use crate::operators::window::edges::{Framed, Reach};
use crate::operators::window::frames::Layout;
use crate::operators::window::totals::Total;
use crate::operators::window::windowed::{Call, Which};

impl Builder<'_> {
    pub fn window(
        &self,
        input: &Rel,
        over: &Over,
        calls: &[WindowCall],
        needed: &[ColumnId],
    ) -> Result<Stage, Failure> {
        let calls: Vec<&WindowCall> =
            calls.iter().filter(|call| call.columns.iter().any(|id| needed.contains(id))).collect();
        let own: Vec<ColumnId> = calls.iter().flat_map(|call| &call.columns).copied().collect();
        let arguments = calls.iter().flat_map(|call| call.expressions());
        let mut read = columns_of(over.expressions().chain(arguments));
        read.extend(needed.iter().filter(|id| !own.contains(id)));
        let Stage { plan, mut columns } = self.stage(input, &read)?;
        if calls.is_empty() {
            return Ok(Stage { plan, columns });
        }
        let lowering = self.lowering(&columns);
        let keys = over.partition.iter().map(|key| lowering.key(key)).collect::<Result<Vec<_>, _>>()?;
        let plan = if keys.is_empty() { one_partition(plan) } else { by_hash(plan, &keys)? };
        let partition: Vec<SortColumn> = keys.into_iter().map(SortColumn::any).collect();
        let order = sort_columns(&over.order, &lowering)?;
        let by = [&partition[..], &order, &sort_columns(&over.ties, &lowering)?].concat();
        let all = Wanted { rows: usize::MAX, ties: false };
        let sorted = if by.is_empty() { plan } else { self.observer.part(Arc::new(Sort::new(plan, by, all))) };
        let mut made = Vec::new();
        for call in &calls {
            made.extend(lowered(call, over, &lowering)?);
        }
        let fields =
            own.iter().map(|id| Field::new(column_name(*id), arrow_type(self.plan.type_of(&Expr::column(*id))), true));
        let fields: Vec<Field> = fields.collect();
        columns.extend(own);
        let cancellation = self.cancellation.clone();
        let windows = Arc::new(Windows::new(sorted, partition, order, made, fields, cancellation));
        let plan = self.observer.operator(windows, || {
            let functions = calls.iter().map(|call| call.function.clone()).collect();
            (Step::Window { over: Box::new(over.clone()), functions }, Some(self.statistics.rows(input)))
        });
        Ok(Stage { plan, columns })
    }
}

/// What computes each of a call's columns.
fn lowered(call: &WindowCall, over: &Over, lowering: &Lowering<'_>) -> Result<Vec<Call>, Failure> {
    let framed = framed(call, over, lowering)?;
    let frame = || framed.clone();
    let lower = |expr: &Expr| lowering.lower(expr);
    let nth = |value, which| Ok::<_, Failure>(Call::Nth { value: lower(value)?, which, frame: frame() });
    let total = |arg: &Expr, of| Ok::<_, Failure>(Call::Total { arg: lower(arg)?, of, frame: frame() });
    let count = |arg: &Expr| Ok::<_, Failure>(Call::Count { arg: Some(lower(arg)?), frame: frame() });
    let extreme = |arg: &Expr, locale, which| {
        Ok::<_, Failure>(Call::Extreme {
            arg: lower(arg)?,
            key: lowering.image_key(arg)?,
            locale,
            which,
            frame: frame(),
        })
    };
    let sum_of = |arg: &Expr| match lowering.plan.type_of(arg) {
        Type::Numeric => Total::Numerics,
        Type::Interval => Total::Intervals,
        _ => Total::Integers { narrow: false },
    };
    Ok(vec![match &call.function {
        WindowFunction::RowNumber => Call::RowNumber,
        WindowFunction::Rank => Call::Rank,
        WindowFunction::DenseRank => Call::DenseRank,
        WindowFunction::PercentRank => Call::PercentRank,
        WindowFunction::CumeDist => Call::CumeDist,
        WindowFunction::Ntile(buckets) => Call::Ntile(lower(buckets)?),
        WindowFunction::Shifted { value, by, back, otherwise } => Call::Shifted {
            value: lower(value)?,
            by: lower(by)?,
            back: *back,
            otherwise: otherwise.as_ref().map(lower).transpose()?,
        },
        WindowFunction::First(value) => nth(value, Which::First)?,
        WindowFunction::Last(value) => nth(value, Which::Last)?,
        WindowFunction::Nth(value, number) => nth(value, Which::Number(lower(number)?))?,
        WindowFunction::SumOfReals(arg) => total(arg, Total::Reals)?,
        WindowFunction::Aggregate(agg) => match agg {
            Agg::CountStar => Call::Count { arg: None, frame: frame() },
            Agg::Count(arg) => count(arg)?,
            Agg::Sum(arg) => {
                let narrow = agg.aggregate().row().output_types(lowering.plan.type_of(arg)).eq([Type::Int64]);
                total(arg, if narrow { Total::Integers { narrow } } else { sum_of(arg) })?
            }
            Agg::Avg(arg) => return Ok(vec![total(arg, sum_of(arg))?, count(arg)?]),
            Agg::Spread(arg) => return Ok(vec![total(arg, Total::Spread)?, count(arg)?]),
            Agg::Float(of, arg) => total(arg, Total::Floats(*of))?,
            Agg::Bits(of, arg) => total(arg, Total::Bits(*of))?,
            Agg::Min(arg) => extreme(arg, None, Extreme::Min)?,
            Agg::Max(arg) => extreme(arg, None, Extreme::Max)?,
            Agg::InLocale(which, pair) => extreme(&pair[0], Some(locale(&pair[1])?), *which)?,
            Agg::Pair(..) | Agg::Listed(_) => return Err(internal(format!("{agg:?} over a window"))),
        },
    }])
}

fn framed(call: &WindowCall, over: &Over, lowering: &Lowering<'_>) -> Result<Framed, Failure> {
    let reach = match (&call.reach, over.order.first()) {
        (Some(reach), Some(order)) => Some(Reach {
            value: lowering.key(&reach.value)?,
            start: reach.start.as_ref().map(|edge| lowering.key(edge)).transpose()?,
            end: reach.end.as_ref().map(|edge| lowering.key(edge)).transpose()?,
            descending: order.descending,
            nulls_first: order.nulls_first,
        }),
        _ => None,
    };
    Ok(Framed { frame: call.frame, reach })
}

#[derive(Debug)]
struct Windows {
    /// Sorted by partition and order, a partition's rows in one place.
    input: Arc<dyn ExecutionPlan>,
    partition: Arc<[SortColumn]>,
    order: Arc<[SortColumn]>,
    calls: Arc<[Call]>,
    fields: Vec<Field>,
    cancellation: Cancellation,
    properties: Arc<PlanProperties>,
}

impl Windows {
    /// `fields` are the columns that the calls make.
    fn new(
        input: Arc<dyn ExecutionPlan>,
        partition: Vec<SortColumn>,
        order: Vec<SortColumn>,
        calls: Vec<Call>,
        fields: Vec<Field>,
        cancellation: Cancellation,
    ) -> Windows {
        let own = input.schema().fields().iter().map(|field| Field::clone(field)).collect::<Vec<_>>();
        let schema = Schema::new([own, fields.clone()].concat());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema)),
            datafusion_physical_plan::Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let properties = Arc::new(properties);
        let (partition, order, calls) = (partition.into(), order.into(), calls.into());
        Windows { input, partition, order, calls, fields, cancellation, properties }
    }
}

/// Collects rows until some partitions are complete.
struct Collector {
    input_schema: SchemaRef,
    schema: SchemaRef,
    partition: Keys,
    order: Keys,
    calls: Arc<[Call]>,
    cancellation: Cancellation,
    waiting: Vec<RecordBatch>,
    rows: usize,
    /// The partition of the last row.
    last: Option<OwnedKey>,
    enough: usize,
    reservation: MemoryReservation,
}

impl Collector {
    /// One more batch; what is complete with it.
    fn push(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let keys = self.partition.of(&batch)?;
        let rows = batch.num_rows();
        // The last partition that begins in this batch is not complete.
        let begins = |at: &usize| match (at, &self.last) {
            (0, None) => true,
            (0, Some(last)) => last.key() != keys.row(0),
            (at, _) => keys.row(*at) != keys.row(at - 1),
        };
        let start = if self.rows + rows < self.enough { None } else { (0..rows).rev().find(begins) };
        if rows > 0 {
            self.last = Some(keys.row(rows - 1).owned());
        }
        let Some(start) = start else {
            self.wait(batch)?;
            return Ok(None);
        };
        self.wait(batch.slice(0, start))?;
        let complete = self.complete()?;
        self.wait(batch.slice(start, rows - start))?;
        Ok(complete)
    }

    fn wait(&mut self, batch: RecordBatch) -> Result<()> {
        self.reservation.try_grow(batch.get_array_memory_size())?;
        self.rows += batch.num_rows();
        self.waiting.push(batch);
        Ok(())
    }

    /// All that waits, with the columns of the calls.
    fn complete(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        // A second copy, keys, places in partitions and frames, and the results.
        self.reservation.try_grow(self.reservation.size() + self.rows * (64 + 48 * self.calls.len()))?;
        let batch = concat_batches(&self.input_schema, &self.waiting)?;
        self.waiting.clear();
        self.rows = 0;
        let layout = Layout::new(&batch, &self.partition, &self.order)?;
        let mut columns = batch.columns().to_vec();
        for call in self.calls.iter() {
            columns.push(call.evaluate(&batch, &layout, &self.cancellation)?);
        }
        self.reservation.free();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?))
    }
}

impl ExecutionPlan for Windows {
    fn name(&self) -> &str {
        "Windows"
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
        let mut recursion = TreeNodeRecursion::Continue;
        let keys = self.partition.iter().chain(self.order.iter()).map(|column| &column.expr);
        for expr in keys.chain(self.calls.iter().flat_map(Call::expressions)) {
            recursion = recursion.visit_sibling(|| f(expr))?;
        }
        Ok(recursion)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (partition, order, calls) = (self.partition.to_vec(), self.order.to_vec(), self.calls.to_vec());
        let (fields, cancellation) = (self.fields.clone(), self.cancellation.clone());
        Ok(Arc::new(Windows::new(children.remove(0), partition, order, calls, fields, cancellation)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (schema, input_schema) = (self.schema(), self.input.schema());
        let batch_size = context.session_config().batch_size();
        let mut collector = Collector {
            partition: Keys::new(self.partition.clone(), &input_schema)?,
            order: Keys::new(self.order.clone(), &input_schema)?,
            input_schema,
            schema: schema.clone(),
            calls: self.calls.clone(),
            cancellation: self.cancellation.clone(),
            waiting: Vec::new(),
            rows: 0,
            last: None,
            enough: batch_size,
            reservation: MemoryConsumer::new("Windows").register(context.memory_pool()),
        };
        let input = self.input.execute(partition, context)?.map(|batch| batch.map(Some));
        let end = stream::once(std::future::ready(Ok::<_, DataFusionError>(None)));
        let complete = input.chain(end).try_filter_map(move |batch| {
            std::future::ready(match batch {
                Some(batch) => collector.push(batch),
                None => collector.complete(),
            })
        });
        let slices = complete.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(batch_size);
            let slice = move |start: usize| Ok(batch.slice(start, batch_size.min(batch.num_rows() - start)));
            stream::iter(starts.map(slice))
        });
        let batches = slices.try_flatten().boxed();
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

impl DisplayAs for Windows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Windows")
    }
}
