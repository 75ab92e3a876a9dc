//! The texts of function calls.

use super::{Text, Words};
use crate::algebra::expr::Expr;
use crate::base::types::Type;
use crate::functions::name_of;
use crate::functions::{Field, Named};

impl Words<'_> {
    pub(super) fn call(&self, function: Named, args: &[Expr], text: &mut Text) {
        use Named::*;
        // If the last operand is the session's own zone, it is left out, because the query does not mention it.
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
            // Functions that only change the form of a value are left out; only their operand is written.
            (FromStored | ToStored | Trimmed | ShownWith | Comparable | ComparableIn | CharToText, _)
            | (Spread(_) | Span | IntervalOfStored, _) => self.write(first, text),
            // The last argument is the locale, which is left out.
            (UpperIn, _) => self.listed("upper", &args[..1], text),
            (LowerIn, _) => self.listed("lower", &args[..1], text),
            (GreatestIn, _) => self.listed("greatest", &args[..args.len() - 1], text),
            (LeastIn, _) => self.listed("least", &args[..args.len() - 1], text),
            (InitcapIn, _) => self.listed("initcap", &args[..1], text),
            (Matches, [left, right, _]) => self.infix(left, " ~ ", right, text),
            (MatchesAnyCase, [left, right, _]) => self.infix(left, " ~* ", right, text),
            (MatchedPart, [.., _]) => self.listed("substring", &args[..args.len() - 1], text),
            (ReplacedMatch | ReplacedMatches, [.., _]) => self.listed("regexp_replace", &args[..args.len() - 1], text),
            (ToText | ToTextBy | ToTextIn, _) => self.cast(first, "text", text),
            (ToNumeric, _) => self.cast(first, "numeric", text),
            (ReadDate, _) => self.cast(first, "date", text),
            (ReadTimestamp, _) => self.cast(first, "timestamp", text),
            (ReadTimestampIn, _) => self.cast(first, "timestamptz", text),
            (ReadUuid, _) => self.cast(first, "uuid", text),
            (Member(_) | Element(_), [left, right]) => self.infix(left, " -> ", right, text),
            (MemberText(_) | ElementText(_), [left, right]) => self.infix(left, " ->> ", right, text),
            (Step(_), [left, right]) => self.infix(left, " #> ", right, text),
            (StepText(_), [left, right]) => self.infix(left, " #>> ", right, text),
            (HasKey, [left, right]) => self.infix(left, " ? ", right, text),
            (WholeText(_) | Shown, _) => self.cast(first, "text", text),
            (IsElement, [left, right, ..]) => {
                self.infix(left, " = ANY (", right, text);
                text.push(")");
            }
            (ElementAt, [array, place, ..]) => {
                self.write(array, text);
                text.push("[");
                self.write(place, text);
                text.push("]");
            }
            (Rank, _) => self.write(first, text),
            (Label, _) => self.cast(first, "text", text),
            (NumberOf, _) => self.cast(first, "numeric", text),
            (Like, [left, right]) => self.infix(left, " LIKE ", right, text),
            (Concat, [left, right]) => self.infix(left, " || ", right, text),
            (BitAnd, [left, right]) => self.infix(left, " & ", right, text),
            (BitOr, [left, right]) => self.infix(left, " | ", right, text),
            (BitXor, [left, right]) => self.infix(left, " # ", right, text),
            (ShiftLeft, [left, right]) => self.infix(left, " << ", right, text),
            (ShiftRight, [left, right]) => self.infix(left, " >> ", right, text),
            (Average | ShownAverage, [left, right]) => self.infix(left, " / ", right, text),
            (
                Round | Trunc,
                [value, Expr::Literal { ty: ty @ (Type::Decimal64 { .. } | Type::Decimal128 { .. }), .. }],
            ) => {
                let digits = format!(", {})", ty.scale());
                self.around(&format!("{}(", name(function)), value, &digits, text);
            }
            (BitNot, _) => self.around("(~ ", first, ")", text),
            (ToInt16, _) => self.cast(first, "smallint", text),
            (ToInt32, _) => self.cast(first, "integer", text),
            (ToInt64, _) => self.cast(first, "bigint", text),
            (ToFloat, _) => self.cast(first, "double precision", text),
            (ToBool, _) => self.cast(first, "boolean", text),
            (Fitted, _) => self.cast(first, "numeric", text),
            (TimestampToTime, _) => self.cast(first, "time", text),
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
            (PlusInterval | PlusIntervalIn, [time, interval, ..]) => self.infix(time, " + ", interval, text),
            (MinusInterval | MinusIntervalIn, [time, interval, ..]) => self.infix(time, " - ", interval, text),
            _ => self.listed(name(function), args, text),
        }
    }

    fn cast(&self, expr: &Expr, to: &str, text: &mut Text) {
        self.around("(", expr, ")::", text);
        text.push(to);
    }
}

/// The name that the text shows for a function.
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
