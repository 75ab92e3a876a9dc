//! The operator that returns each row once for each element of its list.

use std::fmt;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::take::take;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion_physical_plan::coop::cooperative;
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, stream};
use plan::{List, Type};
use protocol::request::FailureKind;

use crate::base::error::QueryError;
use crate::base::visit::visit_each;
use crate::functions::arrays::{Values, elements};
use crate::functions::documents;

/// The list that is made for each row.
#[derive(Clone, Debug)]
pub struct Lists {
    pub list: List,
    /// The type of an element.
    pub ty: Type,
    pub arguments: Vec<Arc<dyn PhysicalExpr>>,
    /// The input's columns that are returned.
    pub kept: Vec<usize>,
    pub numbered: bool,
    pub outer: bool,
    pub schema: SchemaRef,
}

#[derive(Debug)]
pub struct Unfolded {
    input: Arc<dyn ExecutionPlan>,
    lists: Lists,
    properties: Arc<PlanProperties>,
}

impl Unfolded {
    pub fn new(input: Arc<dyn ExecutionPlan>, lists: Lists) -> Unfolded {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(lists.schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Unfolded { input, lists, properties: Arc::new(properties) }
    }
}

impl ExecutionPlan for Unfolded {
    fn name(&self) -> &str {
        "Unfold"
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
        visit_each(&self.lists.arguments, f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Unfolded::new(children.remove(0), self.lists.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_size = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        let (lists, schema) = (self.lists.clone(), self.lists.schema.clone());
        let state = State { input, expansion: None, lists };
        let batches = stream::try_unfold(state, move |state| state.next(batch_size));
        Ok(Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches.boxed()))))
    }
}

impl DisplayAs for Unfolded {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unfold: {:?}", self.lists.list)
    }
}

/// The state of the stream.
struct State {
    input: SendableRecordBatchStream,
    /// The input batch whose rows are being returned.
    expansion: Option<Expansion>,
    lists: Lists,
}

impl State {
    async fn next(mut self, batch_size: usize) -> Result<Option<(RecordBatch, State)>> {
        loop {
            if let Some(expansion) = &mut self.expansion
                && let Some(batch) = expansion.next(&self.lists, batch_size)?
            {
                return Ok(Some((batch, self)));
            }
            match self.input.next().await {
                None => return Ok(None),
                Some(batch) => self.expansion = Some(Expansion::of(batch?, &self.lists)?),
            }
        }
    }
}

/// A batch of the input, and the row in it from which the next output row comes.
struct Expansion {
    batch: RecordBatch,
    arguments: Vec<ArrayRef>,
    row: usize,
    /// The remaining elements of the list of `row`; `None` if the list was not computed yet.
    items: Option<Items>,
}

/// The remaining elements of one row's list.
struct Items {
    left: Left,
    /// The number of elements that were returned before.
    taken: i64,
}

enum Left {
    /// Numbers from `next` to `last` in steps of `by`; `next` is `None` if there are no more.
    Series {
        next: Option<i64>,
        last: i64,
        by: i64,
    },
    Elements(std::vec::IntoIter<Option<Vec<u8>>>),
}

/// An element.
enum Item {
    Number(i64),
    Bytes(Option<Vec<u8>>),
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let item = match &mut self.left {
            Left::Series { next, last, by } => {
                let number = next.filter(|number| if *by > 0 { *number <= *last } else { *number >= *last })?;
                *next = number.checked_add(*by);
                Item::Number(number)
            }
            Left::Elements(all) => Item::Bytes(all.next()?),
        };
        self.taken += 1;
        Some(item)
    }
}

impl Expansion {
    fn of(batch: RecordBatch, lists: &Lists) -> Result<Expansion> {
        let value = |e: &Arc<dyn PhysicalExpr>| e.evaluate(&batch)?.into_array(batch.num_rows());
        let arguments = lists.arguments.iter().map(value).collect::<Result<Vec<_>>>()?;
        Ok(Expansion { batch, arguments, row: 0, items: None })
    }

    /// At most `most` of the next rows; `None` if there are no more.
    fn next(&mut self, lists: &Lists, most: usize) -> Result<Option<RecordBatch>> {
        let mut values = Values::of(lists.ty)?;
        let (mut rows, mut numbers) = (UInt32Builder::new(), Int64Builder::new());
        let mut count = 0;
        while count < most && self.row < self.batch.num_rows() {
            let items = match &mut self.items {
                Some(items) => items,
                None => self.items.insert(items(lists, &self.arguments, self.row)?),
            };
            let item = items.next();
            let number = items.taken;
            match item {
                Some(Item::Number(number)) => values.push_integer(number),
                Some(Item::Bytes(bytes)) => values.push(bytes.as_deref())?,
                None => {
                    self.items = None;
                    self.row += 1;
                    if !lists.outer || number > 0 {
                        continue;
                    }
                    values.push(None)?;
                    rows.append_value(self.row as u32 - 1);
                    numbers.append_null();
                    count += 1;
                    continue;
                }
            }
            rows.append_value(self.row as u32);
            numbers.append_value(number);
            count += 1;
        }
        if count == 0 {
            return Ok(None);
        }
        let rows = rows.finish();
        let kept = |at: &usize| -> Result<ArrayRef> { Ok(take(self.batch.column(*at), &rows, None)?) };
        let mut columns = lists.kept.iter().map(kept).collect::<Result<Vec<_>>>()?;
        columns.push(values.finish());
        if lists.numbered {
            columns.push(Arc::new(numbers.finish()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(Some(RecordBatch::try_new_with_options(lists.schema.clone(), columns, &options)?))
    }
}

/// The elements of a row's list; a null list has none.
fn items(lists: &Lists, arguments: &[ArrayRef], row: usize) -> Result<Items> {
    let none = || Items { left: Left::Elements(Vec::new().into_iter()), taken: 0 };
    if arguments.iter().any(|argument| argument.is_null(row)) {
        return Ok(none());
    }
    let number = |at: usize| match lists.ty {
        Type::Int32 => i64::from(arguments[at].as_primitive::<Int32Type>().value(row)),
        _ => arguments[at].as_primitive::<Int64Type>().value(row),
    };
    let wrong = || DataFusionError::Internal("a list that is none".into());
    let bytes = || arguments[0].as_binary_view_opt().map(|all| all.value(row)).ok_or_else(wrong);
    let all: Vec<Option<Vec<u8>>> = match lists.list {
        List::Series => {
            let left = Left::Series { next: Some(number(0)), last: number(1), by: number(2) };
            return Ok(Items { left, taken: 0 });
        }
        List::Elements(element) => {
            let all = elements(bytes()?, element)?;
            all.into_iter().map(|element| element.map(<[u8]>::to_vec)).collect()
        }
        List::Documents(of) => documents::elements(bytes()?, of, false)?.ok_or(QueryError(FailureKind::NoArray))?,
        List::Texts(of) => documents::elements(bytes()?, of, true)?.ok_or(QueryError(FailureKind::NoArray))?,
        List::Fields => {
            let texts = arguments[0].as_string_view_opt().zip(arguments[1].as_string_view_opt());
            let (text, delimiter) = texts.map(|(a, b)| (a.value(row), b.value(row))).ok_or_else(wrong)?;
            match (text, delimiter) {
                ("", _) => Vec::new(),
                (text, "") => vec![Some(text.as_bytes().to_vec())],
                _ => text.split(delimiter).map(|field| Some(field.as_bytes().to_vec())).collect(),
            }
        }
    };
    Ok(Items { left: Left::Elements(all.into_iter()), taken: 0 })
}
