//! Grouping: keys and aggregates over rows, in one phase or, with several partitions, in two.
//!
//! ```text
//!  rows of a scan      FusedGroups, which passes rows that it cannot group on to the first phase below
//!  integer keys        DenseGroups in place of PartialGroups
//!  one partition       Aggregate(Single)
//!  no keys             Aggregate(Partial) -> one partition -> Aggregate(Final)
//!  keys                PartialGroups -> partitions by hash of the keys -> Aggregate(FinalPartitioned)
//!  distinct values,    one partition, or partitions by hash of the keys -> Aggregate(Single)
//!  lists
//! ```
//!
//! With keys, the last phase is [`Groups`], which can run in less memory than the groups need.
//!
//! An aggregate that occurs several times is computed once, even as a part of another (`avg` is a sum and a count).

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_common::error::Result as DataFusionResult;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::AggregateUDF;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_physical_plan::repartition::RepartitionExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use locale::Locale;
use plan::catalogue::{BitAgg, Extreme, FloatAgg, PairAgg};
use plan::{Agg, Aggregation, Computed, Expr, Listed, Named, Type};
use protocol::request::Failure;

use super::stage::{Stage, one_partition};
use crate::aggregates::bits::Bits;
use crate::aggregates::count::Count;
use crate::aggregates::distinct::Distinct;
use crate::aggregates::exact_spread::ExactSpread;
use crate::aggregates::extreme::ExtremeOf;
use crate::aggregates::float_pairs::FloatPairs;
use crate::aggregates::float_spread::FloatSpread;
use crate::aggregates::float_sum::FloatTotal;
use crate::aggregates::fold::{Function, folded};
use crate::aggregates::interval_sum::IntervalSum;
use crate::aggregates::listed::ListOf;
use crate::aggregates::numeric_sum::NumericSum;
use crate::aggregates::sum::ExactSum;
use crate::base::compact::compact;
use crate::base::unordered::unordered;
use crate::expr::{Known, Lowering, column_name, constant, locale, planning};
use crate::observe::{self, Observer};
use crate::operators::group::dense::{DenseGroups, Shape};
use crate::operators::group::fused::{self, Compiler, FusedGroups};
use crate::operators::group::groups::{Groups, PartialGroups};
use crate::operators::scan::Direct;

/// An aggregate function that DataFusion runs. Each aggregate of the plan is computed from one or two such functions.
#[derive(Clone, Copy, PartialEq)]
enum Part<'a> {
    Count,
    Sum(ExactSum),
    NumericSum,
    IntervalSum,
    Extreme(Extreme),
    InLocale(Extreme, &'static Locale),
    Float(FloatAgg),
    Bits(BitAgg),
    /// The raw spread of values of this scale.
    Spread(u8),
    Pair(PairAgg),
    Listed(&'a Listed),
}

/// Groups the rows of `input`, whose columns `lowering` knows.
pub fn group(
    keys: &[Computed],
    aggregates: &[Aggregation],
    lowering: &Lowering<'_>,
    input: Arc<dyn ExecutionPlan>,
    observer: Observer,
) -> Result<Stage, Failure> {
    let (input, images) = with_images(keys, aggregates, lowering, unordered(input))?;
    let lowering = &Lowering { known: &images, ..*lowering };
    let plan = lowering.plan;
    let mut calls = Calls::default();
    let mut columns = Vec::new();
    let mut output = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        columns.push(key.column);
        // Rows are grouped by the canonical form of a float, such as 0 for -0. The result must be a value that occurs
        // in the group, and the canonical form may not occur. So the result is the group's least value.
        output.push(match plan.type_of(&key.expr) {
            ty if ty.is_float() => Output::Call(calls.index_of(Part::Extreme(Extreme::Min), vec![&key.expr], false)),
            _ => Output::Key(i),
        });
    }
    for Aggregation { columns: results, agg, distinct } in aggregates {
        columns.extend(results);
        let arguments: Vec<&Expr> = agg.arguments().iter().collect();
        let row = agg.aggregate().row();
        let narrow = |arg: &Expr| row.output_types(plan.type_of(arg)).eq([Type::Int64]);
        let once = *distinct && !row.ignores_duplicates;
        let mut call = |part| output.push(Output::Call(calls.index_of(part, arguments.clone(), once)));
        match agg {
            Agg::CountStar | Agg::Count(_) => call(Part::Count),
            Agg::Sum(arg) if plan.type_of(arg) == Type::Numeric => call(Part::NumericSum),
            Agg::Avg(arg) if plan.type_of(arg) == Type::Numeric => {
                call(Part::NumericSum);
                call(Part::Count);
            }
            Agg::Sum(arg) if plan.type_of(arg) == Type::Interval => call(Part::IntervalSum),
            Agg::Avg(arg) if plan.type_of(arg) == Type::Interval => {
                call(Part::IntervalSum);
                call(Part::Count);
            }
            Agg::Sum(arg) if narrow(arg) => call(Part::Sum(ExactSum::Bigint)),
            Agg::Sum(_) => call(Part::Sum(ExactSum::Decimal)),
            Agg::Avg(_) => {
                call(Part::Sum(ExactSum::Decimal));
                call(Part::Count);
            }
            Agg::Min(_) => call(Part::Extreme(Extreme::Min)),
            Agg::Max(_) => call(Part::Extreme(Extreme::Max)),
            Agg::InLocale(which, pair) => {
                let part = Part::InLocale(*which, locale(&pair[1])?);
                output.push(Output::Call(calls.index_of(part, vec![&pair[0]], once)));
            }
            Agg::Float(float, _) => call(Part::Float(*float)),
            Agg::Bits(bits, _) => call(Part::Bits(*bits)),
            Agg::Spread(arg) => {
                call(Part::Spread(plan.type_of(arg).scale()));
                call(Part::Count);
            }
            Agg::Pair(pair, _) => call(Part::Pair(*pair)),
            Agg::Listed(listed) => call(Part::Listed(listed)),
        }
    }
    if keys.is_empty() && calls.0.is_empty() {
        // Without keys and aggregates, the operator would have no output column, so a count is added.
        calls.index_of(Part::Count, vec![], false);
    }

    // Usually the operator's columns are the result's columns in the same order, and need no projection.
    let place = |output: &Output| match output {
        Output::Key(i) => *i,
        Output::Call(i) => keys.len() + i,
    };
    let in_order = output.iter().map(place).eq(0..keys.len() + calls.0.len());

    let schema = input.schema();
    let key_columns: Vec<_> = keys
        .iter()
        .map(|key| Ok((lowering.key(&key.expr)?, column_name(key.column))))
        .collect::<Result<_, Failure>>()?;
    let mut dense = Shape::new(key_columns.iter().map(|(key, _)| key.clone()).collect(), &schema);
    let direct = observe::direct(&input);
    let mut fused =
        direct.as_ref().and_then(|direct| Compiler::new(keys.iter().map(|key| &key.expr), lowering, direct));
    let mut functions = Vec::new();
    let in_one_place = calls.0.iter().any(|call| call.distinct || matches!(call.part, Part::Listed(_)));
    for (i, call) in calls.0.iter().enumerate() {
        let (function, args) = function(call, lowering)?;
        let first = args.first().filter(|_| !call.arguments.is_empty()).cloned();
        fused = fused.filter(|_| !in_one_place).and_then(|fused| with_fused(fused, call, first.clone()));
        dense = dense.filter(|_| !in_one_place).and_then(|dense| with_call(dense, call.part, first, &schema));
        let call = AggregateExprBuilder::new(Arc::new(function), args).schema(schema.clone());
        let alias = if in_order { column_name(columns[keys.len() + i]) } else { format!("a{i}") };
        functions.push(Arc::new(call.alias(alias).build().map_err(planning)?));
    }
    let group_by = PhysicalGroupBy::new_single(key_columns);
    let fused = fused.map(Compiler::shape).zip(direct);
    let grouped = match in_one_place {
        true => single_phase(group_by, functions, input),
        false => aggregate(group_by, functions, dense, fused, input, observer),
    };
    let grouped = grouped.map_err(planning)?;
    if in_order {
        return Ok(Stage { plan: grouped, columns });
    }
    let schema = grouped.schema();
    let named = output.iter().zip(&columns).map(|(output, id)| {
        let at = place(output);
        ProjectionExpr { expr: Arc::new(Column::new(schema.field(at).name(), at)), alias: column_name(*id) }
    });
    let plan = ProjectionExec::try_new(named, grouped).map_err(planning)?;
    Ok(Stage { plan: Arc::new(plan), columns })
}

/// Some keys call a function (`Trimmed`, `Span`) that maps equal values of different appearance, such as 1.0 and 1.00,
/// to equal bits. An aggregate then returns one of the original values. The key and the aggregate both read the
/// original value, so a column is added that computes it only once.
fn with_images(
    keys: &[Computed],
    aggregates: &[Aggregation],
    lowering: &Lowering<'_>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<(Arc<dyn ExecutionPlan>, Vec<Known>), Failure> {
    let images: Vec<&Expr> = keys.iter().filter_map(|key| image(&key.expr)).collect();
    let is_shown = |image: &&&Expr| aggregates.iter().any(|shown| shown.agg.arguments().contains(image));
    let schema = input.schema();
    let column = |(at, name): (usize, &str)| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(name, at)) };
    let own = schema.fields().iter().map(|field| field.name().as_str()).enumerate();
    let mut columns: Vec<_> =
        own.map(|(at, name)| ProjectionExpr { expr: column((at, name)), alias: name.into() }).collect();
    let mut known = Vec::new();
    for image in images.iter().filter(is_shown) {
        let name = format!("image{}", known.len());
        known.push(((*image).clone(), column((columns.len(), &name))));
        columns.push(ProjectionExpr { expr: lowering.lower(image)?, alias: name });
    }
    if known.is_empty() {
        return Ok((input, known));
    }
    Ok((Arc::new(ProjectionExec::try_new(columns, input).map_err(planning)?), known))
}

/// The argument of a key that is a call of `Trimmed` or `Span`, unless the argument is a column or a constant.
fn image(key: &Expr) -> Option<&Expr> {
    match key {
        Expr::Call { function: Named::Trimmed | Named::Span, args, .. } => args.first(),
        _ => None,
    }
    .filter(|image| !matches!(image, Expr::Column { .. } | Expr::Literal { .. } | Expr::Param { .. }))
}

enum Output {
    Key(usize),
    Call(usize),
}

/// The different calls that the aggregates need, in the order of their first use.
#[derive(Default)]
struct Calls<'a>(Vec<Call<'a>>);

#[derive(PartialEq)]
struct Call<'a> {
    part: Part<'a>,
    arguments: Vec<&'a Expr>,
    /// Whether the call takes each distinct value once.
    distinct: bool,
}

impl<'a> Calls<'a> {
    fn index_of(&mut self, part: Part<'a>, arguments: Vec<&'a Expr>, distinct: bool) -> usize {
        let call = Call { part, arguments, distinct };
        self.0.iter().position(|c| *c == call).unwrap_or_else(|| {
            self.0.push(call);
            self.0.len() - 1
        })
    }
}

/// DataFusion's function for a call, with its arguments.
fn function(call: &Call<'_>, lowering: &Lowering<'_>) -> Result<(AggregateUDF, Vec<Arc<dyn PhysicalExpr>>), Failure> {
    let of = match call.part {
        Part::Count => called(Count, call),
        Part::Sum(sum) => called(sum, call),
        Part::NumericSum => called(NumericSum, call),
        Part::IntervalSum => called(IntervalSum, call),
        Part::Extreme(which) => called(ExtremeOf { which, locale: None }, call),
        Part::InLocale(which, locale) => called(ExtremeOf { which, locale: Some(locale) }, call),
        Part::Float(FloatAgg::Sum) => called(FloatTotal::Sum, call),
        Part::Float(FloatAgg::Avg) => called(FloatTotal::Avg, call),
        Part::Float(FloatAgg::Spread(spread)) => called(FloatSpread(spread), call),
        Part::Bits(bits) => called(Bits(bits), call),
        Part::Spread(scale) => called(ExactSpread { scale }, call),
        Part::Pair(pair) => called(FloatPairs(pair), call),
        Part::Listed(listed) => {
            let (list, args) = ListOf::lowered(listed, call.distinct, lowering)?;
            return Ok((folded(list), args));
        }
    };
    let mut args = call.arguments.iter().map(|arg| lowering.lower(arg)).collect::<Result<Vec<_>, _>>()?;
    if args.is_empty() {
        args.push(constant(ScalarValue::Int64(Some(1))));
    }
    Ok((of, args))
}

/// Wraps a function for DataFusion. For a DISTINCT call, the function gets each value only once. List aggregates are
/// not wrapped here, because they remove equal values themselves.
fn called(function: impl Function, call: &Call<'_>) -> AggregateUDF {
    if call.distinct { folded(Distinct(function)) } else { folded(function) }
}

/// Adds a call to the shape of [`DenseGroups`]. Returns `None` if that operator cannot compute it.
fn with_call(mut shape: Shape, part: Part<'_>, arg: Option<Arc<dyn PhysicalExpr>>, input: &SchemaRef) -> Option<Shape> {
    let fits = match part {
        Part::Count => {
            shape.count(arg);
            true
        }
        Part::Sum(_) => shape.sum(arg?, input),
        Part::Extreme(_) | Part::InLocale(..) => false,
        Part::NumericSum | Part::IntervalSum | Part::Float(_) | Part::Bits(_) => false,
        Part::Spread(_) | Part::Pair(_) | Part::Listed(_) => false,
    };
    fits.then_some(shape)
}

/// Adds a call to the shape of [`FusedGroups`]. Returns `None` if the call cannot be computed from a scan's codes.
fn with_fused<'a>(fused: Compiler<'a>, call: &Call<'a>, arg: Option<Arc<dyn PhysicalExpr>>) -> Option<Compiler<'a>> {
    match (call.part, &call.arguments[..]) {
        (Part::Count, []) => fused.count_rows(),
        (Part::Count, [expr]) => fused.count(expr),
        (Part::Sum(_), [expr]) => fused.sum(expr, arg?),
        _ => None,
    }
}

fn aggregate(
    group_by: PhysicalGroupBy,
    functions: Vec<Arc<AggregateFunctionExpr>>,
    dense: Option<Shape>,
    fused: Option<(fused::Shape, Direct)>,
    input: Arc<dyn ExecutionPlan>,
    observer: Observer,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let partitions = input.output_partitioning().partition_count();
    let stage = |mode, group_by, input| {
        let filters = vec![None; functions.len()];
        AggregateExec::try_new(mode, group_by, functions.clone(), filters, input, schema.clone())
    };
    if partitions == 1 && dense.is_none() && fused.is_none() {
        return last(stage(AggregateMode::Single, group_by, input)?);
    }
    let final_keys = group_by.as_final();
    let like = stage(AggregateMode::Partial, group_by, input)?;
    let partial: Arc<dyn ExecutionPlan> = match dense {
        Some(shape) => Arc::new(DenseGroups::new(shape, like)?),
        None if final_keys.is_empty() => Arc::new(like),
        None => Arc::new(PartialGroups::new(like)?),
    };
    let partial = observer.part(match fused {
        Some((shape, direct)) => Arc::new(FusedGroups::new(shape, direct, partial)),
        None => partial,
    });
    if final_keys.is_empty() || partitions == 1 {
        return last(stage(AggregateMode::Final, final_keys, one_partition(partial))?);
    }
    let keys = (0..final_keys.expr().len())
        .map(|i| Arc::new(Column::new(partial.schema().field(i).name(), i)) as Arc<dyn PhysicalExpr>);
    let by_hash = RepartitionExec::try_new(compact(partial.clone()), Partitioning::Hash(keys.collect(), partitions))?;
    last(stage(AggregateMode::FinalPartitioned, final_keys, Arc::new(by_hash))?)
}

/// The operator for the last phase. With keys, it is [`Groups`], which can use the disk.
fn last(phase: AggregateExec) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    match phase.group_expr().is_empty() {
        true => Ok(Arc::new(phase)),
        false => Ok(Arc::new(Groups::new(phase)?)),
    }
}

/// Groups all rows in one phase, without partial states. Rows are partitioned first, so that all rows of a group are in
/// the same partition.
fn single_phase(
    group_by: PhysicalGroupBy,
    functions: Vec<Arc<AggregateFunctionExpr>>,
    input: Arc<dyn ExecutionPlan>,
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let filters = vec![None; functions.len()];
    let partitions = input.output_partitioning().partition_count();
    let (mode, input): (_, Arc<dyn ExecutionPlan>) = if group_by.is_empty() || partitions == 1 {
        (AggregateMode::Single, one_partition(input))
    } else {
        let keys = group_by.expr().iter().map(|(key, _)| key.clone()).collect();
        (
            AggregateMode::SinglePartitioned,
            Arc::new(RepartitionExec::try_new(compact(input), Partitioning::Hash(keys, partitions))?),
        )
    };
    last(AggregateExec::try_new(mode, group_by, functions, filters, input, schema)?)
}
