//! Calls of functions in words.

use super::{Text, Words, quoted};
use crate::catalogue::name_of;
use crate::{Expr, Field, Literal, Named};

impl Words<'_> {
    pub(super) fn call(&self, function: Named, args: &[Expr], text: &mut Text) {
        use Named::*;
        // A zone that is the session's is said by nothing in the query.
        let args = match args.split_last() {
            Some((Expr::Param { index }, others))
                if function.takes_zone() && self.names.parameter(*index).is_none() =>
            {
                others
            }
            _ => args,
        };
        let Some(first) = args.first() else { return self.listed(name(function), args, text) };
        match (function, args) {
            // What only makes one form of the other.
            (FromStored | ToStored | Trimmed | ShownWith | Comparable | ComparableIn | CharToText | Spread(_), _) => {
                self.write(first, text)
            }
            // With the locale.
            (UpperIn, _) => self.listed("upper", &args[..1], text),
            (LowerIn, _) => self.listed("lower", &args[..1], text),
            (GreatestIn, _) => self.listed("greatest", &args[..args.len() - 1], text),
            (LeastIn, _) => self.listed("least", &args[..args.len() - 1], text),
            (Like, [left, right]) => self.infix(left, " LIKE ", right, text),
            (Concat, [left, right]) => self.infix(left, " || ", right, text),
            (BitAnd, [left, right]) => self.infix(left, " & ", right, text),
            (BitOr, [left, right]) => self.infix(left, " | ", right, text),
            (BitXor, [left, right]) => self.infix(left, " # ", right, text),
            (ShiftLeft, [left, right]) => self.infix(left, " << ", right, text),
            (ShiftRight, [left, right]) => self.infix(left, " >> ", right, text),
            (Average, [left, right]) => self.infix(left, " / ", right, text),
            (BitNot, _) => self.around("(~ ", first, ")", text),
            (ToInt16, _) => self.cast(first, "smallint", text),
            (ToInt32, _) => self.cast(first, "integer", text),
            (ToInt64, _) => self.cast(first, "bigint", text),
            (ToFloat, _) => self.cast(first, "double precision", text),
            (ToBool, _) => self.cast(first, "boolean", text),
            (Fitted, _) => self.cast(first, "numeric", text),
            (TimestampToDate, _) => self.cast(first, "date", text),
            (ToTimestamp | LocalTime, [_]) => self.cast(first, "timestamp", text),
            (ToTimestampTz, [_]) => self.cast(first, "timestamptz", text),
            (ToTimestamp | ToTimestampTz | LocalTime, [_, zone]) => self.infix(first, " AT TIME ZONE ", zone, text),
            (Extract(field), _) => self.around(&format!("EXTRACT({} FROM ", word(field)), first, ")", text),
            (DatePart(field), _) => self.around(&format!("date_part('{}', ", word(field)), first, ")", text),
            (DateTrunc(field) | DateTruncIn(field), _) => {
                text.push(&format!("date_trunc('{}', ", word(field)));
                self.separated(args, ", ", text);
                text.push(")");
            }
            (Elapsed(field), [later, earlier]) => {
                text.push(&format!("EXTRACT({} FROM ", word(field)));
                self.infix(later, " - ", earlier, text);
                text.push(")");
            }
            (ElapsedPart(field), [later, earlier]) => {
                text.push(&format!("date_part('{}', ", word(field)));
                self.infix(later, " - ", earlier, text);
                text.push(")");
            }
            (PlusInterval | PlusIntervalIn, [time, months, days, micros, ..]) => {
                self.moved(time, " + ", [months, days, micros], text)
            }
            (MinusInterval | MinusIntervalIn, [time, months, days, micros, ..]) => {
                self.moved(time, " - ", [months, days, micros], text)
            }
            _ => self.listed(name(function), args, text),
        }
    }

    fn cast(&self, expr: &Expr, to: &str, text: &mut Text) {
        self.around("(", expr, ")::", text);
        text.push(to);
    }

    /// A time and an interval, whose parts are constants, or taken of one parameter, or computed each for itself.
    fn moved(&self, time: &Expr, op: &str, parts: [&Expr; 3], text: &mut Text) {
        self.around("(", time, op, text);
        let constant = |expr: &Expr| match expr {
            Expr::Literal { value: Some(Literal::Int(number)), .. } => Some(*number),
            _ => None,
        };
        match parts.map(constant) {
            [Some(months), Some(days), Some(micros)] => text.push(&interval(months, days, micros)),
            _ if matches!(parts[0], Expr::Param { .. }) => self.write(parts[0], text),
            constants => {
                let named = ["months", "days", "microseconds"].into_iter().zip(parts).zip(constants);
                text.push("make_interval(");
                for (at, ((name, part), _)) in named.filter(|(_, constant)| *constant != Some(0)).enumerate() {
                    text.push(if at > 0 { ", " } else { "" });
                    self.around(&format!("{name} => "), part, "", text);
                }
                text.push(")");
            }
        }
        text.push(")");
    }
}

/// What a function that is called by a name is called.
fn name(function: Named) -> &'static str {
    match function {
        Named::Position => "strpos",
        Named::OnlyRow => "only_row",
        Named::ZoneOffset => "zone_offset",
        other => name_of(other).split('(').next().unwrap_or_default(),
    }
}

fn word(field: Field) -> &'static str {
    match field {
        Field::Millennium => "millennium",
        Field::Century => "century",
        Field::Decade => "decade",
        Field::Year => "year",
        Field::IsoYear => "isoyear",
        Field::Quarter => "quarter",
        Field::Month => "month",
        Field::Week => "week",
        Field::Day => "day",
        Field::DayOfYear => "doy",
        Field::DayOfWeek => "dow",
        Field::IsoDayOfWeek => "isodow",
        Field::Hour => "hour",
        Field::Minute => "minute",
        Field::Second => "second",
        Field::Milliseconds => "milliseconds",
        Field::Microseconds => "microseconds",
        Field::Epoch => "epoch",
        Field::Julian => "julian",
    }
}

fn interval(months: i64, days: i64, micros: i64) -> String {
    let mut parts = Vec::new();
    let mut part = |number: i64, unit: &str| {
        if number != 0 {
            parts.push(format!("{number} {unit}{}", if number == 1 { "" } else { "s" }));
        }
    };
    part(months / 12, "year");
    part(months % 12, "mon");
    part(days, "day");
    let seconds = micros / 1_000_000;
    part(seconds / 3600, "hour");
    part(seconds / 60 % 60, "minute");
    part(seconds % 60, "second");
    part(micros % 1_000_000, "microsecond");
    if parts.is_empty() {
        parts.push("0 days".into());
    }
    format!("{}::interval", quoted(&parts.join(" ")))
}
