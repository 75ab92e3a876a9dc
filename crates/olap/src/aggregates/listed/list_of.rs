//! A list aggregate: its arguments, and their order.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, SortOptions};
use datafusion_common::error::DataFusionError;
use datafusion_common::scalar::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Literal as Constant;
use locale::Locale;
use plan::{Element, Listed, Listing, Type};
use protocol::request::Failure;

use crate::aggregates::fold::included;
use crate::base::arrow_form::arrow_type;
use crate::base::error::{internal, known_locale};
use crate::expr::{Lowering, planning};

/// PostgreSQL's MaxAllocSize, the greatest length of a value.
pub const LONGEST: usize = 0x3fff_ffff;

/// A list aggregate, such as `string_agg`. Its rows have these columns: the value, the second argument unless that is
/// constant, and each sort key that is not already one of these columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListOf {
    pub of: Listing,
    /// The type of the value.
    pub ty: Type,
    pub element: Option<Element>,
    pub second: Second,
    pub order: Vec<Sorted>,
    /// Whether only the first of several values that are equal in the order is listed.
    pub distinct: bool,
    pub arguments: usize,
}

/// The second argument of the aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Second {
    None,
    Constant(ScalarValue),
    Column,
}

/// A key of the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sorted {
    pub column: usize,
    pub locale: Option<&'static Locale>,
    pub options: SortOptions,
}

impl ListOf {
    /// The aggregate with its lowered arguments.
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
        let ty = lowering.plan.type_of(&own[0]);
        let (of, element, count) = (listed.of, listed.element, arguments.len());
        Ok((ListOf { of, ty, element, second, order, distinct, arguments: count }, arguments))
    }

    /// The rows that are listed; `None` if all are.
    pub fn included(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<NullBuffer> {
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

    pub fn result(&self) -> DataType {
        match self.of {
            Listing::Array => DataType::BinaryView,
            _ => arrow_type(self.ty),
        }
    }
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<&Constant> {
    (&**expr as &dyn std::any::Any).downcast_ref()
}

pub fn too_long() -> DataFusionError {
    DataFusionError::ResourcesExhausted("a value of more than a gigabyte".into())
}
