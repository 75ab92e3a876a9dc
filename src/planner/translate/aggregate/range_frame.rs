//! Window frames that cover a range of values: `RANGE BETWEEN x PRECEDING AND y FOLLOWING`.
//!
//! PostgreSQL's `in_range` functions add the offset to the current row's value, and compare other values with the sum.
//! That sum is the edge of the row's frame. The engine computes the edge for each row.

use pgrx::prelude::*;
use plan::catalogue::Kind;
use plan::{ArithOp, Expr, Interval, Literal, Named, Reach, Type, WindowFunction};

use crate::pg::tree::{Node, Ref};
use crate::planner::translate::expr::numeric::comparable;
use crate::planner::translate::level::ordered::Targets;
use crate::planner::translate::{Translator, Typed, cast, exact};
use crate::planner::words::reason::{Attempt, Reason, Why};

/// The edges of a frame. `goes_back` says that an edge may decrease from one row to the next, although the values
/// increase.
#[derive(Clone)]
pub struct RangeFrame {
    reach: Reach,
    goes_back: bool,
}

impl RangeFrame {
    /// Whether computing an edge may raise an error.
    pub fn may_raise(&self) -> bool {
        [&self.reach.start, &self.reach.end].into_iter().flatten().any(Expr::can_raise)
    }

    /// The edges of this frame for one window function. `last_value` uses only the last row of a frame, so PostgreSQL
    /// does not compute both ends of the frame for each row. If edges go back, the result of `last_value` depends on
    /// that, so the query runs on the heap.
    pub fn for_function(&self, function: &WindowFunction) -> Attempt<Box<Reach>> {
        match function {
            WindowFunction::Last(_) if self.goes_back => {
                Err(unknown("last_value over a range of months or zoned days"))
            }
            _ => Ok(Box::new(self.reach.clone())),
        }
    }
}

/// The offset of one end of a frame, and its direction.
#[derive(Clone, Copy)]
struct Offset<'a> {
    node: Node<'a>,
    /// Whether the offset leads to lower values.
    minus: bool,
    /// Whether the offset determines the highest value of the frame.
    upper: bool,
}

impl<'a> Translator<'a> {
    /// Computes the edges of a frame; `None` if neither end of the frame has an offset.
    pub fn range_frame(
        &mut self,
        clause: Ref<'a, pg_sys::WindowClause>,
        targets: &Targets<'a>,
    ) -> Attempt<Option<RangeFrame>> {
        let has = |option: u32| clause.frameOptions as u32 & option != 0;
        if !has(pg_sys::FRAMEOPTION_RANGE) || !has(pg_sys::FRAMEOPTION_START_OFFSET | pg_sys::FRAMEOPTION_END_OFFSET) {
            return Ok(None);
        }
        let sort = clause.orderClause().iter().next();
        let column = targets.find(sort.ok_or_else(|| unknown("range without an order"))?)?.0;
        let column = column.expr().simplified();
        let ascending = clause.inRangeAsc;
        let offset = |node: Option<Node<'a>>, is_there: bool, preceding: bool, at_end: bool| {
            let node = node.filter(|_| is_there)?.simplified();
            Some(Offset { node, minus: preceding == ascending, upper: at_end == ascending })
        };
        let start = offset(
            clause.startOffset(),
            has(pg_sys::FRAMEOPTION_START_OFFSET),
            has(pg_sys::FRAMEOPTION_START_OFFSET_PRECEDING),
            false,
        );
        let end = offset(
            clause.endOffset(),
            has(pg_sys::FRAMEOPTION_END_OFFSET),
            has(pg_sys::FRAMEOPTION_END_OFFSET_PRECEDING),
            true,
        );
        let known = |offset: &Option<Offset<'_>>, function| {
            let family = || family(function).ok_or_else(|| unknown("window frame of a range of values of this type"));
            offset.map(|_| family()).transpose()
        };
        let (of_start, of_end) = (known(&start, clause.startInRangeFunc)?, known(&end, clause.endInRangeFunc)?);
        let frame = match of_start.or(of_end) {
            Some(Family::Numbers) => self.range_of_numbers(column, start, end),
            Some(Family::Floats) => self.range_of_floats(column, start, end),
            Some(Family::Times) => self.range_of_times(column, start, end),
            Some(Family::Clock) => self.range_of_intervals(column, start, end, true),
            Some(Family::Intervals) => self.range_of_intervals(column, start, end, false),
            None => Err(unknown("window frame without an offset")),
        };
        frame.map(Some)
    }

    /// Translates a frame over integers or decimals. The edges are decimals that can hold any sum.
    fn range_of_numbers(
        &mut self,
        column: Node<'a>,
        start: Option<Offset<'a>>,
        end: Option<Offset<'a>>,
    ) -> Attempt<RangeFrame> {
        let value = self.expression(column)?;
        let start_by = start.map(|offset| self.number_of(offset)).transpose()?;
        let end_by = end.map(|offset| self.number_of(offset)).transpose()?;
        let all = || [Some(&value), start_by.as_ref(), end_by.as_ref()].into_iter().flatten();
        if !all().all(|typed| matches!(typed.ty.kind(), Kind::Integer | Kind::Decimal)) {
            let number = self.numeric(value)?;
            let mut edge = |offset: Option<Offset<'_>>, by: Option<Typed>| -> Attempt<Option<Expr>> {
                let Some((offset, by)) = offset.zip(by) else { return Ok(None) };
                let (left, right) = (Box::new(number.expr.clone()), Box::new(self.numeric(by)?.expr));
                let op = if offset.minus { ArithOp::Sub } else { ArithOp::Add };
                let moved = Expr::Arith { op, ty: Type::Numeric, left, right };
                Ok(Some(comparable(&exact(moved, Type::Numeric))))
            };
            let (start, end) = (edge(start, start_by)?, edge(end, end_by)?);
            return Ok(RangeFrame { reach: Reach { value: comparable(&number), start, end }, goes_back: false });
        }
        let ty = Type::Decimal128 { scale: all().map(|typed| typed.ty.scale()).max().unwrap_or_default() };
        let value = cast(value, ty);
        let edge = |offset: Option<Offset<'_>>, by: Option<Typed>| {
            let (offset, by) = (offset?, by?);
            let op = if offset.minus { ArithOp::Sub } else { ArithOp::Add };
            Some(Expr::Arith { op, ty, left: Box::new(value.clone()), right: Box::new(cast(by, ty)) })
        };
        let (start, end) = (edge(start, start_by), edge(end, end_by));
        Ok(RangeFrame { reach: Reach { value, start, end }, goes_back: false })
    }

    /// Translates a frame over floats. The edges are doubles, even for values of type real.
    fn range_of_floats(
        &mut self,
        column: Node<'a>,
        start: Option<Offset<'a>>,
        end: Option<Offset<'a>>,
    ) -> Attempt<RangeFrame> {
        let value = cast(self.expression(column)?, Type::Float64);
        let mut edge = |offset: Offset<'a>| {
            let Expr::Literal { value: Some(Literal::Float(by)), .. } = self.number_of(offset)?.expr else {
                return Err(unknown("window frame with an offset that is not constant"));
            };
            let by =
                Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(if offset.minus { -by } else { by })) };
            let moved = if offset.upper { Named::MovedUp } else { Named::MovedDown };
            Ok(Expr::Call { function: moved, ty: Type::Float64, args: vec![value.clone(), by] })
        };
        let (start, end) = (start.map(&mut edge).transpose()?, end.map(&mut edge).transpose()?);
        Ok(RangeFrame { reach: Reach { value, start, end }, goes_back: false })
    }

    /// Translates a frame over points in time. Dates are treated as timestamps.
    fn range_of_times(
        &mut self,
        column: Node<'a>,
        start: Option<Offset<'a>>,
        end: Option<Offset<'a>>,
    ) -> Attempt<RangeFrame> {
        let mut goes_back = false;
        let mut edge = |offset: Offset<'a>| {
            let interval = self
                .constant_interval(offset.node)
                .ok_or_else(|| unknown("window frame with an offset that is not constant"))??;
            if interval.span() < 0 {
                return Err(unknown("window frame with a negative offset"));
            }
            goes_back |= interval.months != 0 || interval.days != 0 && column.sql_type() == pg_sys::TIMESTAMPTZOID;
            let reason = || unknown("window frame of a range of values of this type");
            Ok(self.moved(offset.minus, column, offset.node, reason)?.expr)
        };
        let (start, end) = (start.map(&mut edge).transpose()?, end.map(&mut edge).transpose()?);
        let mut value = self.expression(column)?;
        if value.ty == Type::Date {
            value = exact(cast(value, Type::Timestamp), Type::Timestamp);
        }
        Ok(RangeFrame { reach: Reach { value: value.expr, start, end }, goes_back })
    }

    /// Translates a frame over intervals, which are compared by their spans, or over times of day. The edge of a time
    /// of day does not wrap around midnight, and moves only by the time part of the offset.
    fn range_of_intervals(
        &mut self,
        column: Node<'a>,
        start: Option<Offset<'a>>,
        end: Option<Offset<'a>>,
        of_clock: bool,
    ) -> Attempt<RangeFrame> {
        let ty = Type::Interval;
        let literal = |ty, value| Box::new(Expr::Literal { ty, value: Some(value) });
        let mut value = self.expression(column)?.expr;
        if of_clock {
            let right = literal(Type::Time, Literal::Int(0));
            value = Expr::Arith { op: ArithOp::Sub, ty, left: Box::new(value), right };
        }
        let mut edge = |offset: Offset<'a>| -> Attempt<Expr> {
            let mut by = self
                .constant_interval(offset.node)
                .ok_or_else(|| unknown("window frame with an offset that is not constant"))??;
            if of_clock {
                by = Interval { months: 0, days: 0, ..by };
            }
            let number = by.number().filter(|_| by.span() >= 0);
            let number = number.ok_or_else(|| unknown("window frame with a negative offset"))?;
            let op = if offset.minus { ArithOp::Sub } else { ArithOp::Add };
            let right = literal(ty, Literal::Decimal(number));
            Ok(comparable(&exact(Expr::Arith { op, ty, left: Box::new(value.clone()), right }, ty)))
        };
        let (start, end) = (start.map(&mut edge).transpose()?, end.map(&mut edge).transpose()?);
        Ok(RangeFrame { reach: Reach { value: comparable(&exact(value, ty)), start, end }, goes_back: false })
    }

    /// Translates an offset, which must be constant and not negative, because PostgreSQL raises an error for a negative
    /// one.
    fn number_of(&mut self, offset: Offset<'a>) -> Attempt<Typed> {
        let typed = match offset.node.tag() {
            pg_sys::NodeTag::T_Const => self.expression(offset.node)?,
            _ => return Err(unknown("window frame with an offset that is not constant")),
        };
        match &typed.expr {
            Expr::Literal { value: Some(Literal::Int(0..)), .. }
            | Expr::Literal { value: Some(Literal::Decimal(0..)), .. } => Ok(typed),
            Expr::Literal { value: Some(Literal::Float(by)), .. } if *by >= 0.0 => Ok(typed),
            _ => Err(unknown("window frame with a negative offset")),
        }
    }
}

/// A group of types for which the edges of frames are computed in the same way.
#[derive(Clone, Copy)]
enum Family {
    Numbers,
    Floats,
    Times,
    Clock,
    Intervals,
}

fn family(function: pg_sys::Oid) -> Option<Family> {
    Some(match function.to_u32() {
        pg_sys::F_IN_RANGE_INT8_INT8_INT8_BOOL_BOOL
        | pg_sys::F_IN_RANGE_INT4_INT4_INT8_BOOL_BOOL
        | pg_sys::F_IN_RANGE_INT4_INT4_INT4_BOOL_BOOL
        | pg_sys::F_IN_RANGE_INT4_INT4_INT2_BOOL_BOOL
        | pg_sys::F_IN_RANGE_INT2_INT2_INT8_BOOL_BOOL
        | pg_sys::F_IN_RANGE_INT2_INT2_INT4_BOOL_BOOL
        | pg_sys::F_IN_RANGE_INT2_INT2_INT2_BOOL_BOOL
        | pg_sys::F_IN_RANGE_NUMERIC_NUMERIC_NUMERIC_BOOL_BOOL => Family::Numbers,
        pg_sys::F_IN_RANGE_FLOAT8_FLOAT8_FLOAT8_BOOL_BOOL | pg_sys::F_IN_RANGE_FLOAT4_FLOAT4_FLOAT8_BOOL_BOOL => {
            Family::Floats
        }
        pg_sys::F_IN_RANGE_DATE_DATE_INTERVAL_BOOL_BOOL
        | pg_sys::F_IN_RANGE_TIMESTAMP_TIMESTAMP_INTERVAL_BOOL_BOOL
        | pg_sys::F_IN_RANGE_TIMESTAMPTZ_TIMESTAMPTZ_INTERVAL_BOOL_BOOL => Family::Times,
        pg_sys::F_IN_RANGE_TIME_TIME_INTERVAL_BOOL_BOOL => Family::Clock,
        pg_sys::F_IN_RANGE_INTERVAL_INTERVAL_INTERVAL_BOOL_BOOL => Family::Intervals,
        _ => return None,
    })
}

fn unknown(what: &str) -> Reason {
    Why::WindowFunction.of(what)
}
