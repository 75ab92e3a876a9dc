//! Functions on points in time that use a time zone, as one kind of [`PhysicalExpr`] that holds the zone.

use std::fmt;
use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, new_null_array};
use arrow_schema::{DataType, Schema};
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use plan::{Clock, Field, Named, Zone};
use protocol::request::FailureKind;

use crate::base::error::QueryError;
use crate::base::operand::map;
use crate::functions::convert::{read, written};
use crate::functions::time::calendar::{DAY, END, FIRST, SECOND, begin, is_infinite};
use crate::functions::time::interval_values::{age, number};
use crate::functions::time::intervals::{self, between_infinities, compared_date};

/// The call of `function` in a time zone. `zone` is `None` if the zone is null.
pub fn zoned(
    function: Named,
    ty: DataType,
    zone: Option<Zone>,
    args: Vec<Arc<dyn PhysicalExpr>>,
) -> Arc<dyn PhysicalExpr> {
    Arc::new(Zoned { function, ty, zone: zone.map(Arc::new), args })
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Zoned {
    function: Named,
    ty: DataType,
    zone: Option<Arc<Zone>>,
    args: Vec<Arc<dyn PhysicalExpr>>,
}

impl PhysicalExpr for Zoned {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let args: Vec<ColumnarValue> = self.args.iter().map(|arg| arg.evaluate(batch)).collect::<Result<_>>()?;
        if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            let one = self.apply(&args, 1)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?));
        }
        Ok(ColumnarValue::Array(self.apply(&args, batch.num_rows())?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.args.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Zoned { args: children, ..(*self).clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Zoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in a zone(", self.function)?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(")")
    }
}

impl Zoned {
    fn apply(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let Some(zone) = &self.zone else {
            return Ok(new_null_array(&self.ty, rows));
        };
        let times = Times { clock: Clock::of(zone) };
        let never = FailureKind::Internal;
        let of_date = args[0].data_type() == DataType::Int32;
        match self.function {
            Named::LocalTime => map::<Int64Type, Int64Type>(args, rows, |time| (times.local(time), false), never),
            Named::ToTimestamp => {
                map::<Int64Type, Int64Type>(args, rows, |time| checked(times.local(time)), FailureKind::NoTimestamp)
            }
            Named::ToTimestampTz if of_date => {
                map::<Int32Type, Int64Type>(args, rows, |date| times.of_date(date), FailureKind::TimestampOutOfRange)
            }
            Named::ToTimestampTz => {
                map::<Int64Type, Int64Type>(args, rows, |time| checked(times.instant(time)), FailureKind::NoTimestamp)
            }
            Named::ComparableIn if of_date => {
                map::<Int32Type, Int64Type>(args, rows, |date| (times.compared_date(date), false), never)
            }
            Named::ComparableIn => {
                map::<Int64Type, Int64Type>(args, rows, |time| (compared(times.instant(time)), false), never)
            }
            Named::ToTextIn => written::zoned(args, rows, |second| times.clock.offset(second)),
            Named::ReadTimestampIn => read::instants(args, rows, |local| times.instant(local)),
            Named::ZoneOffset => times.offsets(args, rows),
            Named::DateTruncIn(field) => {
                if begin(field, 0, 0).is_none() {
                    return Err(DataFusionError::Internal(format!("{field:?} has no beginning")));
                }
                map::<Int64Type, Int64Type>(args, rows, |time| times.truncated(field, time), FailureKind::NoTimestamp)
            }
            Named::PlusIntervalIn | Named::MinusIntervalIn => {
                let (local, instant) = (|time| times.local(time), |time| times.instant(time));
                let minus = self.function == Named::MinusIntervalIn;
                intervals::shift_all(args, rows, minus, local, instant)
            }
            Named::AgeIn => {
                let age = |a: i64, b: i64| match is_infinite(a) || is_infinite(b) {
                    true => Err(QueryError(FailureKind::NoTimestamp)),
                    false => number(age(times.local(a), times.local(b), a < b)?),
                };
                intervals::between(args, rows, age)
            }
            other => Err(DataFusionError::Internal(format!("{other:?} asks no zone"))),
        }
    }
}

/// Converts points in time to a zone's local times and back, in microseconds. Infinite times stay infinite. Every input
/// is accepted, because null slots hold arbitrary values.
struct Times<'a> {
    clock: Clock<'a>,
}

impl Times<'_> {
    fn local(&self, instant: i64) -> i64 {
        match is_infinite(instant) {
            true => instant,
            false => instant.wrapping_add(self.clock.offset(instant.div_euclid(SECOND)) * SECOND),
        }
    }

    fn instant(&self, local: i64) -> i64 {
        match is_infinite(local) {
            true => local,
            false => local.wrapping_sub(self.clock.offset_of_local(local.div_euclid(SECOND)) * SECOND),
        }
    }

    fn of_date(&self, date: i32) -> (i64, bool) {
        match date {
            i32::MIN => (i64::MIN, false),
            i32::MAX => (i64::MAX, false),
            _ if i64::from(date) >= END / DAY => (0, true),
            _ => checked(self.instant(i64::from(date).wrapping_mul(DAY))),
        }
    }

    fn compared_date(&self, date: i32) -> i64 {
        match compared_date(date) {
            time if (FIRST..END).contains(&time) => compared(self.instant(time)),
            beyond => beyond,
        }
    }

    fn truncated(&self, field: Field, instant: i64) -> (i64, bool) {
        if is_infinite(instant) {
            return (instant, false);
        }
        let local = self.local(instant);
        let begun = begin(field, local.div_euclid(DAY), local.rem_euclid(DAY)).unwrap_or(local);
        // For a unit within a day, the result keeps the zone's offset at `instant`.
        let within_a_day =
            matches!(field, Field::Hour | Field::Minute | Field::Second | Field::Milliseconds | Field::Microseconds);
        checked(if within_a_day { instant.wrapping_add(begun.wrapping_sub(local)) } else { self.instant(begun) })
    }

    fn offsets(&self, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let instants = args[0].to_array(rows)?;
        let instants = intervals::times(&instants)?;
        let offset = |instant: Option<i64>| {
            instant.filter(|instant| !is_infinite(*instant)).map(|i| self.clock.offset(i.div_euclid(SECOND)) as i32)
        };
        Ok(Arc::new(instants.iter().map(offset).collect::<PrimitiveArray<Int32Type>>()))
    }
}

/// A point in time, and whether it is out of range.
fn checked(time: i64) -> (i64, bool) {
    (time, !is_infinite(time) && !(FIRST..END).contains(&time))
}

fn compared(time: i64) -> i64 {
    if is_infinite(time) { time } else { between_infinities(time) }
}
