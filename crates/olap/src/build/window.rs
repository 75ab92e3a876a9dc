//! Window functions. Rows are sorted by the partition keys and then by the window's order. The operator `Windows` then
//! adds the columns of the functions.
//!
//! ```text
//!   partitions by hash of the keys, or one -> Sort by keys and order -> Windows
//! ```

use std::sync::Arc;

use arrow_schema::Field;
use plan::catalogue::Extreme;
use plan::{Agg, ColumnId, Expr, Over, Rel, Type, WindowCall, WindowFunction};
use protocol::request::Failure;
use protocol::tree::Step;

use super::builder::Builder;
use super::stage::{Stage, by_hash, columns_of, one_partition};
use crate::base::arrow_form::arrow_type;
use crate::base::error::internal;
use crate::base::keys::SortColumn;
use crate::expr::{Lowering, column_name, locale};
use crate::operators::order::runs::Wanted;
use crate::operators::order::sort::{Sort, sort_columns};
use crate::operators::window::edges::{Framed, Reach};
use crate::operators::window::exec::Windows;
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

/// Lowers a window call of the plan to the operator's `Call`s, one for each output column.
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
            Agg::Spread(arg) => {
                let scale = lowering.plan.type_of(arg).scale();
                return Ok(vec![total(arg, Total::Spread { scale })?, count(arg)?]);
            }
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
