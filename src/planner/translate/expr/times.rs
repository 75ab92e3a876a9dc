//! Functions and operators on points in time, time zones and intervals, and date patterns.
//!
//! A time zone is a parameter. For the session's zone, its value is the zone that is set when the query starts.

use pgrx::prelude::*;
use plan::catalogue::{self, Call};
use plan::{ArithOp, BoolOp, CmpOp, Expr, Field, Interval, Literal, Named, Type, pattern};

use super::functions::{apply, field};
use crate::pg::compat;
use crate::pg::tree::Node;
use crate::planner::translate::{Translator, Typed, boolean, cast, constant_literal, exact};
use crate::planner::words::reason::{Attempt, Reason, Why};
use crate::spec::Source;

/// The way in which the engine computes a function of PostgreSQL.
#[derive(Clone, Copy)]
enum Asked {
    /// A field of a timestamptz, as a numeric or as a float.
    Part {
        float: bool,
    },
    /// `date_trunc`, with or without a named zone.
    Begin,
    /// A cast between a date, a timestamp and a timestamptz, which needs the session's zone.
    ToDate,
    ToTimestamp,
    ToTimestampTz,
    /// A function whose first argument is a zone.
    AtZone(Named),
    /// A point in time plus or minus an interval; the operands of a sum may have either order.
    Moved {
        minus: bool,
    },
    ToTime,
    /// A time of day, as an interval, or a field of it.
    SinceMidnight,
    PartOfTime {
        float: bool,
    },
    /// The sum of a date and a time of day.
    AtTime,
    /// A field of an interval.
    PartOfInterval {
        float: bool,
    },
    /// The age of a point in time. Only a timestamptz needs the session's zone.
    Age,
    OfIntervals(Named),
    ToChar,
    DateBin,
    MakeDate,
    IsFinite,
}

fn asked(function: pg_sys::Oid) -> Option<Asked> {
    Some(match function.to_u32() {
        pg_sys::F_EXTRACT_TEXT_TIMESTAMPTZ => Asked::Part { float: false },
        pg_sys::F_DATE_PART_TEXT_TIMESTAMPTZ => Asked::Part { float: true },
        pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ | pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT => Asked::Begin,
        pg_sys::F_DATE_TIMESTAMPTZ => Asked::ToDate,
        pg_sys::F_TIMESTAMP_TIMESTAMPTZ => Asked::ToTimestamp,
        pg_sys::F_TIME_TIMESTAMPTZ => Asked::ToTime,
        pg_sys::F_INTERVAL_TIME => Asked::SinceMidnight,
        pg_sys::F_EXTRACT_TEXT_TIME => Asked::PartOfTime { float: false },
        pg_sys::F_DATE_PART_TEXT_TIME => Asked::PartOfTime { float: true },
        pg_sys::F_DATETIME_PL => Asked::AtTime,
        pg_sys::F_TIMESTAMPTZ_TIMESTAMP | pg_sys::F_TIMESTAMPTZ_DATE => Asked::ToTimestampTz,
        pg_sys::F_TIMEZONE_TEXT_TIMESTAMPTZ => Asked::AtZone(Named::ToTimestamp),
        pg_sys::F_TIMEZONE_TEXT_TIMESTAMP => Asked::AtZone(Named::ToTimestampTz),
        pg_sys::F_TIMESTAMP_PL_INTERVAL
        | pg_sys::F_TIMESTAMPTZ_PL_INTERVAL
        | pg_sys::F_DATE_PL_INTERVAL
        | pg_sys::F_INTERVAL_PL_TIMESTAMP
        | pg_sys::F_INTERVAL_PL_TIMESTAMPTZ
        | pg_sys::F_INTERVAL_PL_DATE => Asked::Moved { minus: false },
        pg_sys::F_TIMESTAMP_MI_INTERVAL | pg_sys::F_TIMESTAMPTZ_MI_INTERVAL | pg_sys::F_DATE_MI_INTERVAL => {
            Asked::Moved { minus: true }
        }
        pg_sys::F_EXTRACT_TEXT_INTERVAL => Asked::PartOfInterval { float: false },
        pg_sys::F_DATE_PART_TEXT_INTERVAL => Asked::PartOfInterval { float: true },
        pg_sys::F_AGE_TIMESTAMP_TIMESTAMP | pg_sys::F_AGE_TIMESTAMPTZ_TIMESTAMPTZ => Asked::Age,
        pg_sys::F_JUSTIFY_HOURS => Asked::OfIntervals(Named::JustifyHours),
        pg_sys::F_JUSTIFY_DAYS => Asked::OfIntervals(Named::JustifyDays),
        pg_sys::F_JUSTIFY_INTERVAL => Asked::OfIntervals(Named::JustifyInterval),
        pg_sys::F_MAKE_INTERVAL => Asked::OfIntervals(Named::MakeInterval),
        pg_sys::F_TO_CHAR_TIMESTAMP_TEXT | pg_sys::F_TO_CHAR_TIMESTAMPTZ_TEXT => Asked::ToChar,
        pg_sys::F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP | pg_sys::F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ => {
            Asked::DateBin
        }
        pg_sys::F_MAKE_DATE => Asked::MakeDate,
        pg_sys::F_ISFINITE_DATE | pg_sys::F_ISFINITE_TIMESTAMP | pg_sys::F_ISFINITE_TIMESTAMPTZ => Asked::IsFinite,
        _ => return None,
    })
}

impl<'a> Translator<'a> {
    /// Translates a call of a function on times; `None` for any other function.
    pub fn of_time(
        &mut self,
        function: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Option<Attempt<Typed>> {
        let asked = asked(function)?;
        Some(self.asked_of_time(asked, arguments, reason))
    }

    fn asked_of_time(&mut self, asked: Asked, arguments: &[Node<'a>], reason: impl Fn() -> Reason) -> Attempt<Typed> {
        match (asked, arguments) {
            (Asked::Part { float }, &[name, time]) => self.part(float, name, time, reason),
            (Asked::Begin, &[name, time, ref zone @ ..]) => {
                let field = self.field_name(name, &reason)?;
                let time = self.expression(time)?;
                let zone = match zone.first() {
                    Some(zone) => self.zone(*zone)?,
                    None => self.session_zone(),
                };
                apply(Named::DateTruncIn(field), vec![time, zone]).ok_or_else(reason)
            }
            (Asked::ToDate, &[time]) => {
                let local = self.local_time(time)?;
                apply(Named::TimestampToDate, vec![local]).ok_or_else(reason)
            }
            (Asked::ToTime, &[time]) => {
                let local = self.local_time(time)?;
                apply(Named::TimestampToTime, vec![local]).ok_or_else(reason)
            }
            (Asked::SinceMidnight, &[time]) => self.since_midnight(time),
            (Asked::PartOfTime { float }, &[name, time]) => {
                let field = self.field_name(name, &reason)?;
                use Field::{Epoch, Hour, Microseconds, Milliseconds, Minute, Second};
                if !matches!(field, Hour | Minute | Second | Milliseconds | Microseconds | Epoch) {
                    return Err(reason());
                }
                let function = if float { Named::DatePart(field) } else { Named::Extract(field) };
                let interval = self.since_midnight(time)?;
                apply(function, vec![interval]).ok_or_else(reason)
            }
            (Asked::AtTime, &[date, time]) => {
                let date = self.expression(date)?;
                let midnight = exact(cast(date, Type::Timestamp), Type::Timestamp);
                let interval = self.since_midnight(time)?;
                apply(Named::PlusInterval, vec![midnight, interval]).ok_or_else(reason)
            }
            (Asked::ToTimestamp, &[time]) => self.in_session(Named::ToTimestamp, time, reason),
            (Asked::ToTimestampTz, &[time]) => self.in_session(Named::ToTimestampTz, time, reason),
            (Asked::AtZone(function), &[zone, time]) => {
                let (time, zone) = (self.expression(time)?, self.zone(zone)?);
                apply(function, vec![time, zone]).ok_or_else(reason)
            }
            (Asked::Moved { minus }, &[a, b]) => {
                let (time, interval) = if a.sql_type() == pg_sys::INTERVALOID { (b, a) } else { (a, b) };
                self.moved(minus, time, interval, reason)
            }
            (Asked::PartOfInterval { float }, &[name, interval]) => {
                let field = self.field_name(name, &reason)?;
                let interval = self.expression(interval)?;
                if field == Field::Quarter && compat::QUARTERS_HAVE_SIGNS {
                    return signed_quarter(float, interval).ok_or_else(reason);
                }
                let function = if float { Named::DatePart(field) } else { Named::Extract(field) };
                apply(function, vec![interval]).ok_or_else(reason)
            }
            (Asked::Age, &[to, from]) => {
                let mut args = vec![self.expression(to)?, self.expression(from)?];
                let function = match args[0].ty {
                    Type::TimestampTz => {
                        args.push(self.session_zone());
                        Named::AgeIn
                    }
                    _ => Named::Age,
                };
                apply(function, args).ok_or_else(reason)
            }
            (Asked::OfIntervals(function), arguments) => {
                let args = arguments.iter().map(|argument| self.expression(*argument)).collect::<Attempt<_>>()?;
                apply(function, args).ok_or_else(reason)
            }
            (Asked::ToChar, &[time, pattern]) => self.written(time, pattern, reason),
            (Asked::DateBin, &[stride, time, origin]) => {
                let stride = self
                    .constant_interval(stride)
                    .ok_or_else(|| Why::Interval.of("date_bin of an interval that is not constant"))??;
                let length = i64::from(stride.days).checked_mul(86_400_000_000);
                let length = length.and_then(|days| days.checked_add(stride.microseconds));
                let length = length.filter(|length| *length > 0 && stride.months == 0).ok_or_else(&reason)?;
                let (time, origin) = (self.expression(time)?, self.expression(origin)?);
                let length = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(length)) };
                apply(Named::DateBin, vec![time, origin, exact(length, Type::Int64)]).ok_or_else(reason)
            }
            (Asked::MakeDate, &[year, month, day]) => {
                let args = vec![self.expression(year)?, self.expression(month)?, self.expression(day)?];
                apply(Named::MakeDate, args).ok_or_else(reason)
            }
            (Asked::IsFinite, &[time]) => self.is_finite(time),
            _ => Err(reason()),
        }
    }

    fn since_midnight(&mut self, time: Node<'a>) -> Attempt<Typed> {
        let time = self.expression(time)?;
        let (left, ty) = (Box::new(time.expr), Type::Interval);
        let right = Box::new(Expr::Literal { ty: Type::Time, value: Some(Literal::Int(0)) });
        Ok(exact(Expr::Arith { op: ArithOp::Sub, ty, left, right }, ty))
    }

    fn part(&mut self, float: bool, name: Node<'a>, time: Node<'a>, reason: impl Fn() -> Reason) -> Attempt<Typed> {
        let ty = if float { Type::Float64 } else { Type::Decimal64 { scale: 0 } };
        // These fields are parts of the zone's offset, which is a number of seconds.
        let divided = match self.text(name).as_deref() {
            Some("timezone") => Some((1, None)),
            Some("timezone_hour") => Some((3600, None)),
            Some("timezone_minute") => Some((60, Some(60))),
            _ => None,
        };
        if let Some((by, modulo)) = divided {
            let time = self.expression(time)?;
            let zone = self.session_zone();
            let offset = apply(Named::ZoneOffset, vec![time, zone]).ok_or_else(reason)?;
            let by = calculated(ArithOp::Div, offset.expr, by);
            let part = modulo.map_or(by.clone(), |modulo| calculated(ArithOp::Mod, by, modulo));
            return Ok(exact(cast(exact(part, Type::Int32), ty), ty));
        }
        let field = self.field_name(name, &reason)?;
        let function = if float { Named::DatePart(field) } else { Named::Extract(field) };
        // A number of seconds since 1970 does not depend on the zone.
        let time = if field == Field::Epoch { self.expression(time)? } else { self.local_time(time)? };
        apply(function, vec![time]).ok_or_else(reason)
    }

    pub fn moved(
        &mut self,
        minus: bool,
        time: Node<'a>,
        interval: Node<'a>,
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        let mut time = self.expression(time)?;
        if time.ty == Type::Date {
            time = exact(cast(time, Type::Timestamp), Type::Timestamp);
        }
        let in_zone = time.ty == Type::TimestampTz;
        let mut args = vec![time, self.expression(interval)?];
        let function = match (minus, in_zone) {
            (false, false) => Named::PlusInterval,
            (true, false) => Named::MinusInterval,
            (false, true) => Named::PlusIntervalIn,
            (true, true) => Named::MinusIntervalIn,
        };
        if in_zone {
            args.push(self.session_zone());
        }
        apply(function, args).ok_or_else(reason)
    }

    fn written(&mut self, time: Node<'a>, pattern: Node<'a>, reason: impl Fn() -> Reason) -> Attempt<Typed> {
        let text = self.text(pattern).ok_or_else(|| reason().and(" with a pattern that is not constant"))?;
        if pattern::parse(&text).is_none() {
            return Err(Why::Function.of(format!("{} with pattern \"{text}\"", reason())));
        }
        let pattern = self.expression(pattern)?;
        let time =
            if time.sql_type() == pg_sys::TIMESTAMPTZOID { self.local_time(time) } else { self.expression(time) };
        apply(Named::ToChar, vec![time?, pattern]).ok_or_else(reason)
    }

    fn is_finite(&mut self, time: Node<'a>) -> Attempt<Typed> {
        let time = self.expression(time)?;
        let ends = if time.ty == Type::Date { [i32::MIN.into(), i32::MAX.into()] } else { [i64::MIN, i64::MAX] };
        let differs = |end: i64| Expr::Cmp {
            op: CmpOp::Ne,
            left: Box::new(time.expr.clone()),
            right: Box::new(Expr::Literal { ty: time.ty, value: Some(Literal::Int(end)) }),
        };
        Ok(boolean(Expr::Bool { op: BoolOp::And, args: ends.map(differs).into() }))
    }

    /// A point in time, as the session's local time.
    fn local_time(&mut self, time: Node<'a>) -> Attempt<Typed> {
        self.in_session(Named::LocalTime, time, || Why::TimeZone.of("time zone of no point in time"))
    }

    fn in_session(&mut self, function: Named, time: Node<'a>, reason: impl Fn() -> Reason) -> Attempt<Typed> {
        let time = self.expression(time)?;
        let zone = self.session_zone();
        apply(function, vec![time, zone]).ok_or_else(reason)
    }

    /// A date or time, converted to the type of the value with which it is compared.
    pub fn comparable(&mut self, typed: Typed, to: Type) -> Expr {
        let function = match (typed.ty, to) {
            (Type::Date, Type::Timestamp) => Named::Comparable,
            (Type::Date | Type::Timestamp, Type::TimestampTz) => Named::ComparableIn,
            _ => return cast(typed, to),
        };
        let mut args = vec![typed.expr];
        if function.takes_zone() {
            args.push(self.session_zone().expr);
        }
        Expr::Call { function, ty: to, args }
    }

    pub fn session_zone(&mut self) -> Typed {
        let known = self.session_zone_so_far();
        let zone = known.unwrap_or_else(|| {
            // The parameter needs an expression, but this expression is never evaluated.
            self.parameter(Type::Text, Source::SessionZone, self.memory.null(pg_sys::TEXTOID))
        });
        exact(zone, Type::Text)
    }

    /// A time zone whose name is known when the query starts.
    fn zone(&mut self, name: Node<'a>) -> Attempt<Typed> {
        if self.contains_more_than_values(name) || name.is_volatile() || name.sql_type() != pg_sys::TEXTOID {
            return Err(Why::TimeZone.of("time zone that is not constant"));
        }
        Ok(exact(self.parameter(Type::Text, Source::Zone, name), Type::Text))
    }

    /// A constant interval; `None` if the expression is not constant, or is null.
    pub fn constant_interval(&mut self, node: Node<'a>) -> Option<Attempt<Interval>> {
        let constant = node.cast::<pg_sys::Const>()?;
        let is_value = constant.consttype == pg_sys::INTERVALOID && !constant.constisnull;
        is_value.then(|| match self.expression(node)?.expr {
            Expr::Literal { value: Some(Literal::Decimal(number)), .. } => Ok(Interval::of_number(number)),
            _ => Err(Why::Interval.of("interval that is not constant")),
        })
    }

    fn field_name(&self, name: Node<'a>, reason: &impl Fn() -> Reason) -> Attempt<Field> {
        let name = self.text(name).ok_or_else(reason)?;
        field(&name).ok_or_else(|| reason().and(format!(" of \"{name}\"")))
    }

    /// The text of a constant; `None` for any other expression.
    fn text(&self, node: Node<'a>) -> Option<String> {
        let constant = node.cast::<pg_sys::Const>().filter(|constant| !constant.constisnull)?;
        if constant.consttype != pg_sys::TEXTOID {
            return None;
        }
        match constant_literal(constant) {
            Ok(Typed { expr: Expr::Literal { value: Some(Literal::Text(text)), .. }, .. }) => Some(text),
            _ => None,
        }
    }
}

/// The quarter of an interval since PostgreSQL 18: it is negative if the months are. The engine's quarter counts up
/// from 1 for positive months, and down from 1 for negative ones.
fn signed_quarter(float: bool, interval: Typed) -> Option<Typed> {
    let part = |field| {
        let function = if float { Named::DatePart(field) } else { Named::Extract(field) };
        apply(function, vec![interval.clone()])
    };
    let (year, month, quarter) = (part(Field::Year)?, part(Field::Month)?, part(Field::Quarter)?);
    let number = |n: i64| {
        let value = if float { Literal::Float(n as f64) } else { Literal::Int(n) };
        Box::new(Expr::Literal { ty: quarter.ty, value: Some(value) })
    };
    let is_negative = |part: Typed| Expr::Cmp { op: CmpOp::Lt, left: Box::new(part.expr), right: number(0) };
    let either = Expr::Bool { op: BoolOp::Or, args: vec![is_negative(year), is_negative(month)] };
    let ty = catalogue::result_type(Call::Arith(ArithOp::Sub), &[quarter.ty, quarter.ty])?;
    let below = Expr::Arith { op: ArithOp::Sub, ty, left: Box::new(quarter.expr.clone()), right: number(2) };
    let otherwise = Box::new(cast(quarter, ty));
    Some(exact(Expr::Case { branches: vec![(either, below)], otherwise }, ty))
}

fn calculated(op: ArithOp, left: Expr, by: i64) -> Expr {
    let right = Box::new(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(by)) });
    Expr::Arith { op, ty: Type::Int32, left: Box::new(left), right }
}
