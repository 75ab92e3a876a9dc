//! Translates aggregates: the engine's computation, and the conversion of its result into PostgreSQL's.

use pgrx::prelude::*;
use plan::catalogue::{Aggregate, Extreme};
use plan::{Agg, Expr, Literal, SortKey, Type};

use super::value::Value;
use crate::pg::catalog;
use crate::pg::tree::{Node, Ref};
use crate::planner::translate::columns::{Distinct, conversion, plain};
use crate::planner::translate::expr::compare::{TextOrder, named_locale, require_known_equality, require_own_equality};
use crate::planner::translate::expr::numeric::{comparable, comparable_type, has_images};
use crate::planner::translate::{Scale, Translator, Typed, cast, exact};
use crate::planner::words::operators;
use crate::planner::words::reason::{Attempt, Reason, Why};
use crate::settings::{self, FloatAggregates};
use crate::spec::Conversion;

/// The kind AGGKIND_NORMAL: aggregates without WITHIN GROUP.
const NORMAL_AGGREGATE: u8 = b'n';

/// The engine's computation of an aggregate.
pub enum Translated {
    Column(Agg, Distinct, Conversion),
    /// An aggregate with several columns, for example a sum and a count. A value that is a numeric or an interval is
    /// computed from these columns.
    Finished(Agg, Distinct, Value),
    /// A sum or an average of decimals that show different numbers of digits. It shows as many digits as the value with
    /// the most digits.
    Scaled {
        value: Expr,
        digits: Expr,
        averaged: bool,
    },
}

impl<'a> Translator<'a> {
    /// Translates an aggregate. `arrival` is the order in which its rows arrive, if the result may depend on that.
    pub fn aggregate(&mut self, aggref: Ref<'a, pg_sys::Aggref>, arrival: Vec<SortKey>) -> Attempt<Translated> {
        if let Some(listing) = operators::listing(aggref.aggfnoid) {
            return self.listed(aggref, listing, arrival);
        }
        let aggregate = whitelisted(aggref)?;
        self.check_order(aggref, aggregate)?;
        let filter = aggref.aggfilter().map(|filter| self.condition(filter)).transpose()?;
        let arguments = aggref.args().iter().filter(|entry| !entry.resjunk);
        let mut arguments = arguments.map(|entry| entry.expr());
        let (argument, second) = (arguments.next(), arguments.next());
        let Some(argument) = argument else {
            if aggregate != Aggregate::CountStar {
                return Err(unknown(aggref));
            }
            let yes = Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(true)) };
            let agg = match filter {
                None => Agg::CountStar,
                Some(_) => Agg::Count(where_true(filter.as_ref(), yes, Type::Bool)),
            };
            return Ok(Translated::Column(agg, Distinct(false), Conversion::Plain(Type::Int64)));
        };
        if let Some(x) = second {
            return self.pair(aggref, aggregate, argument, x, filter.as_ref());
        }
        let typed = match (self.expression(argument)?, aggregate) {
            // PostgreSQL adds values of type real in double precision.
            (typed @ Typed { ty: Type::Float32, .. }, Aggregate::Float(_)) => {
                exact(cast(typed, Type::Float64), Type::Float64)
            }
            (typed, Aggregate::Count) => typed,
            (typed, Aggregate::Sum | Aggregate::Avg) if matches!(typed.scale, Scale::Varies(_)) => typed,
            (typed, _) => self.shown(typed)?,
        };
        let is_extreme = matches!(aggregate, Aggregate::Min | Aggregate::Max);
        // DISTINCT does not change the least or the greatest interval.
        let indifferent = is_extreme && typed.ty == Type::Interval;
        let distinct = !aggref.aggdistinct.is_null() && !indifferent;
        match (&typed.scale, aggregate) {
            (_, Aggregate::Count) | (Scale::OfType, _) => {}
            (Scale::Varies(_), Aggregate::Sum | Aggregate::Avg) if distinct => {
                return Err(Why::NumericDigits.of("DISTINCT of numeric values of different scales"));
            }
            (Scale::Varies(scale), Aggregate::Sum | Aggregate::Avg) => {
                let digits = where_true(filter.as_ref(), scale.clone(), Type::Int32);
                let value = where_true(filter.as_ref(), typed.expr, typed.ty);
                return Ok(Translated::Scaled { value, digits, averaged: aggregate == Aggregate::Avg });
            }
            _ => return Err(Why::NumericDigits.of("aggregate of a numeric whose digits are not known")),
        }
        if has_images(typed.ty) && distinct && aggregate != Aggregate::Count {
            return Err(match typed.ty {
                Type::Interval => Why::Aggregate.of("sum or average of intervals with DISTINCT"),
                _ => Why::NumericDigits.of("DISTINCT of numeric values of different scales"),
            });
        }
        if has_images(typed.ty) && aggregate == Aggregate::Avg {
            let value = where_true(filter.as_ref(), typed.expr, typed.ty);
            return Ok(Translated::Finished(Agg::Avg(value), Distinct(false), Value::Average(typed.ty)));
        }
        if is_extreme && typed.ty == Type::Enum {
            let value = exact(where_true(filter.as_ref(), typed.expr, typed.ty), typed.ty);
            let last = aggregate == Aggregate::Max;
            let agg = self.first_label(value, argument.sql_type(), last);
            return Ok(Translated::Column(agg, Distinct(false), plain(Type::Enum)));
        }
        if is_extreme && typed.ty == Type::Opaque {
            return Err(Why::Type.of(format!("order of {}", catalog::type_name(argument.sql_type()))));
        }
        let order = match typed.ty.is_text() && is_extreme {
            true => TextOrder::of(aggref.inputcollid)?,
            false => TextOrder::ByBytes,
        };
        if distinct {
            require_known_equality(typed.ty, argument)?;
            for clause in aggref.aggdistinct().iter() {
                require_own_equality(clause, argument)?;
            }
        }
        if !aggregate.row().takes(typed.ty) {
            return Err(unknown(aggref));
        }
        let of = typed.ty;
        let (value, ty) = match distinct {
            true => (comparable(&typed), comparable_type(typed.ty)),
            false => (typed.expr, typed.ty),
        };
        let agg = match (aggregate, where_true(filter.as_ref(), value, ty)) {
            (Aggregate::Count, Expr::Literal { value: Some(_), .. }) if !distinct => Some(Agg::CountStar),
            (aggregate, expr) => match (aggregate, order) {
                (Aggregate::Min, TextOrder::InLocale(locale)) => Some(in_locale(Extreme::Min, expr, &locale)),
                (Aggregate::Max, TextOrder::InLocale(locale)) => Some(in_locale(Extreme::Max, expr, &locale)),
                (aggregate, _) => aggregate.of(Some(expr)),
            },
        };
        let agg = agg.ok_or_else(|| unknown(aggref))?;
        // DISTINCT does not change the least or the greatest text in a locale's order.
        let once = distinct && !matches!(agg, Agg::InLocale(..));
        let once = Distinct(once);
        Ok(match (aggregate, operators::spread(aggref.aggfnoid)) {
            (Aggregate::Avg, _) => Translated::Finished(agg, once, Value::Average(of)),
            (_, Some((spread, false))) => Translated::Finished(agg, once, Value::Spread(spread)),
            _ => Translated::Column(agg, once, result(self, aggregate, of, argument)?),
        })
    }

    /// Checks ORDER BY within an aggregate. An order does not change an exact result, but computing its keys may raise
    /// an error.
    fn check_order(&mut self, aggref: Ref<'a, pg_sys::Aggref>, aggregate: Aggregate) -> Attempt<()> {
        let ordered = || Err(Why::Aggregate.of("ordered aggregate"));
        if !aggref.aggorder.is_null() && matches!(aggregate, Aggregate::Float(_) | Aggregate::Pair(_)) {
            return ordered();
        }
        for entry in aggref.args().iter().filter(|entry| entry.resjunk) {
            if self.expression(entry.expr())?.expr.can_raise() {
                return ordered();
            }
        }
        Ok(())
    }

    /// An aggregate of pairs (y, x), for example `corr`.
    fn pair(
        &mut self,
        aggref: Ref<'_, pg_sys::Aggref>,
        aggregate: Aggregate,
        y: Node<'a>,
        x: Node<'a>,
        filter: Option<&Expr>,
    ) -> Attempt<Translated> {
        if !aggref.aggdistinct.is_null() {
            return Err(Why::Aggregate.of("DISTINCT of pairs"));
        }
        let (y, x) = (self.expression(y)?, self.expression(x)?);
        let float = Type::Float64;
        if (y.ty, x.ty) != (float, float) {
            return Err(unknown(aggref));
        }
        let (agg, ty) = match aggregate {
            Aggregate::Count => {
                let y_is_there = Expr::IsNull { arg: Box::new(y.expr), negated: true };
                let both = where_true(Some(&y_is_there), x.expr, float);
                (Agg::Count(where_true(filter, both, float)), Type::Int64)
            }
            Aggregate::Pair(pair) => {
                let both = [where_true(filter, y.expr, float), where_true(filter, x.expr, float)];
                (Agg::Pair(pair, Box::new(both)), float)
            }
            _ => return Err(unknown(aggref)),
        };
        Ok(Translated::Column(agg, Distinct(false), Conversion::Plain(ty)))
    }
}

/// Applies FILTER: returns the value, or null if the filter is not true. Aggregates ignore nulls.
pub fn where_true(filter: Option<&Expr>, value: Expr, ty: Type) -> Expr {
    match filter {
        None => value,
        Some(filter) => {
            let otherwise = Box::new(Expr::Literal { ty, value: None });
            Expr::Case { branches: vec![(filter.clone(), value)], otherwise }
        }
    }
}

fn whitelisted(aggref: Ref<'_, pg_sys::Aggref>) -> Attempt<Aggregate> {
    if aggref.aggkind as u8 != NORMAL_AGGREGATE {
        return Err(Why::Aggregate.of("ordered aggregate"));
    }
    let aggregate = operators::aggregate(aggref.aggfnoid);
    let left_to_heap = match aggregate {
        None => operators::depends_on_row_order(aggref.aggfnoid),
        Some(Aggregate::Float(_) | Aggregate::Pair(_)) => settings::FLOAT_AGGREGATES.get() == FloatAggregates::Heap,
        Some(_) => false,
    };
    if left_to_heap {
        return Err(row_order(aggref));
    }
    aggregate.ok_or_else(|| unknown(aggref))
}

/// Refuses an aggregate of floats whose result depends on the order of the rows, if `anker.float_aggregates` leaves it
/// to the heap. The engine does not keep that order.
pub fn check_row_order(aggref: Ref<'_, pg_sys::Aggref>) -> Attempt<()> {
    let is_float = matches!(operators::aggregate(aggref.aggfnoid), Some(Aggregate::Float(_) | Aggregate::Pair(_)));
    let depends = is_float || operators::depends_on_row_order(aggref.aggfnoid);
    match depends && settings::FLOAT_AGGREGATES.get() == FloatAggregates::Heap {
        true => Err(row_order(aggref)),
        false => Ok(()),
    }
}

/// Whether an aggregate that states no order may return another result if the same rows arrive in another order.
pub fn may_show_row_order(aggref: Ref<'_, pg_sys::Aggref>) -> bool {
    let is_sorted = !aggref.aggdistinct.is_null() && operators::listing(aggref.aggfnoid).is_some();
    let says_order = !aggref.aggorder.is_null() || aggref.aggkind as u8 != NORMAL_AGGREGATE;
    !says_order && !is_sorted && operators::aggregate(aggref.aggfnoid).is_none()
}

fn row_order(aggref: Ref<'_, pg_sys::Aggref>) -> Reason {
    Why::RowOrder.of(format!("{} depends on row order", catalog::function_name(aggref.aggfnoid)))
}

pub fn unknown(aggref: Ref<'_, pg_sys::Aggref>) -> Reason {
    Why::Aggregate.of(format!("aggregate {}", catalog::function_name(aggref.aggfnoid)))
}

/// The conversion of an aggregate's only column into PostgreSQL's result.
fn result<'a>(
    translator: &Translator<'a>,
    aggregate: Aggregate,
    argument: Type,
    node: Node<'a>,
) -> Attempt<Conversion> {
    match aggregate {
        Aggregate::Min | Aggregate::Max => conversion(translator, argument, node),
        _ => {
            let mut output = aggregate.row().output_types(argument);
            output.next().map(plain).ok_or_else(|| Why::Aggregate.of("aggregate without a result"))
        }
    }
}

fn in_locale(extreme: Extreme, text: Expr, locale: &str) -> Agg {
    Agg::InLocale(extreme, Box::new([text, named_locale(locale)]))
}
