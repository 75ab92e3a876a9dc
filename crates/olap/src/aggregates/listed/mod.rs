//! Aggregates over a group's values in an order: texts and arrays of them all, percentiles, the most frequent one.
//!
//! Rows are kept, column by column, until all are there. Then they are parted by group, and each group's are put in order:
//!
//! ```text
//!   value  delimiter  order | group          group 0: rows 1 4        -> 'b, a'
//!   array  array      array | numbers  ->    group 1: rows 3 0 2      -> ...
//! ```
//!
//! So all rows of a group must come to one place: there are no partial states.

mod arrays;
mod joined;
mod order;
mod ranked;
mod rows;

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, SortOptions};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal as Constant;
use locale::Locale;
use plan::{Element, Listed, Listing, Type};
use protocol::request::Failure;

use self::order::Order;
use self::rows::Rows;
use crate::aggregates::sum::included;
use crate::base::arrow_form::arrow_type;
use crate::base::error::{internal, known_locale};
use crate::expr::{Lowering, planning};

/// PostgreSQL's MaxAllocSize: a longer value it has no memory for.
const LONGEST: usize = 0x3fff_ffff;

/// What is made of the rows, whose columns are its arguments: the value, what comes with it unless that is constant, and the
/// keys of the order as far as they are none of these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListOf {
    of: Listing,
    /// Of the value.
    ty: Type,
    element: Option<Element>,
    second: Second,
    order: Vec<Sorted>,
    /// Of those that are equal in the order the first.
    distinct: bool,
    signature: Signature,
}

/// What comes with the value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Second {
    None,
    Constant(ScalarValue),
    Column,
}

/// A key of the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sorted {
    column: usize,
    locale: Option<&'static Locale>,
    options: SortOptions,
}

impl ListOf {
    /// With its arguments.
    pub fn lowered(
        listed: &Listed,
        distinct: bool,
        lowering: &Lowering<'_>,
    ) -> Result<(ListOf, Vec<Arc<dyn PhysicalExpr>>), Failure> {
        let (own, keys) = listed.parts();
        let mut known = vec![&own[0]];
        let mut arguments = vec![lowering.lower(&own[0])?];
        let mut second = Second::None;
        if let Some(expr) = own.get(1) {
            let lowered = lowering.lower(expr)?;
            second = match constant(&lowered) {
                Some(constant) => Second::Constant(constant.value().clone()),
                None if matches!(listed.of, Listing::Discrete | Listing::Continuous) => {
                    return Err(internal("a percentile that is not constant"));
                }
                None => {
                    known.push(expr);
                    arguments.push(lowered);
                    Second::Column
                }
            };
        }
        let mut order = Vec::new();
        for (key, direction) in keys.iter().zip(&listed.order) {
            let column = match known.iter().position(|other| *other == key) {
                Some(at) => at,
                None => {
                    let lowered = lowering.lower(key)?;
                    if constant(&lowered).is_some() && !order.is_empty() {
                        continue;
                    }
                    known.push(key);
                    arguments.push(lowered);
                    known.len() - 1
                }
            };
            let locale = direction.locale.as_deref().map(known_locale).transpose().map_err(planning)?;
            let options = SortOptions { descending: direction.descending, nulls_first: direction.nulls_first };
            order.push(Sorted { column, locale, options });
        }
        let signature = Signature::any(arguments.len(), Volatility::Immutable);
        let ty = lowering.plan.type_of(&own[0]);
        Ok((ListOf { of: listed.of, ty, element: listed.element, second, order, distinct, signature }, arguments))
    }

    /// The rows that are listed.
    fn included(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<NullBuffer> {
        match (self.of, &self.second) {
            (Listing::Array, Second::Column) => {
                let belonging = included(None, Some(arguments[1].as_boolean()));
                NullBuffer::union(belonging.as_ref(), included(None, filter).as_ref())
            }
            (Listing::Array, Second::Constant(ScalarValue::Boolean(Some(true)))) => included(None, filter),
            (Listing::Array, _) => Some(NullBuffer::new_null(arguments[0].len())),
            _ => included(arguments[0].logical_nulls().as_ref(), filter),
        }
    }

    fn result(&self) -> DataType {
        match self.of {
            Listing::Array => DataType::BinaryView,
            _ => arrow_type(self.ty),
        }
    }

    /// A value for each of so many groups.
    fn made(&self, rows: Rows, groups: usize) -> Result<ArrayRef> {
        if matches!(self.of, Listing::Discrete | Listing::Continuous) {
            ranked::share(self)?;
        }
        if rows.len() == 0 {
            return Ok(new_null_array(&self.result(), groups));
        }
        let mut rows = rows.by_group(groups)?;
        let order = Order::of(&self.order, &rows.columns)?;
        match self.of {
            Listing::Joined => joined::made(self, &mut rows, &order),
            Listing::Array => arrays::made(self, &mut rows, &order),
            Listing::Discrete | Listing::Continuous | Listing::Mode => ranked::made(self, &mut rows, &order),
        }
    }

    /// What so many rows take, in columns of so many bytes, until something is made of them: as they are kept; put behind one
    /// another; with what they are ordered by; and as what is made of them.
    fn bytes(&self, rows: &Rows) -> usize {
        let listed = match self.of {
            Listing::Joined | Listing::Array => rows.bytes(),
            Listing::Discrete | Listing::Continuous | Listing::Mode => 0,
        };
        2 * rows.bytes() + listed + rows.len() * Order::bytes_of_row(&self.order)
    }
}

impl AggregateUDFImpl for ListOf {
    fn name(&self) -> &str {
        plan::catalogue::Aggregate::Listed(self.of).row().name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(self.collecting())))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.collecting()))
    }
}

impl ListOf {
    fn collecting(&self) -> Collecting {
        Collecting { list: self.clone(), rows: Rows::default(), groups: 0 }
    }
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<&Constant> {
    (&**expr as &dyn std::any::Any).downcast_ref()
}

fn no_partial_states<T>() -> Result<T> {
    Err(DataFusionError::Internal("a list in two phases".into()))
}

/// The rows so far of so many groups.
struct Collecting {
    list: ListOf,
    rows: Rows,
    groups: usize,
}

impl fmt::Debug for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collecting").field("list", &self.list).field("rows", &self.rows.len()).finish()
    }
}

impl GroupsAccumulator for Collecting {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.groups = total_groups;
        self.rows.add(values, self.list.included(values, filter), |row| groups[row])
    }

    fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        match emit_to {
            EmitTo::All => self.list.made(std::mem::take(&mut self.rows), self.groups),
            EmitTo::First(_) => Err(DataFusionError::Internal("lists of some of the groups".into())),
        }
    }

    fn state(&mut self, _: EmitTo) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        self.list.bytes(&self.rows)
    }
}

/// All rows are one group.
#[derive(Debug)]
struct One(Collecting);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let included = self.0.list.included(values, None);
        self.0.rows.add(values, included, |_| 0)
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let made = self.0.list.made(std::mem::take(&mut self.0.rows), 1)?;
        ScalarValue::try_from_array(&made, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

fn too_long() -> DataFusionError {
    DataFusionError::ResourcesExhausted("a value of more than a gigabyte".into())
}
