//! Conversions to and from text, as the types' own output and input functions make them.

use pgrx::prelude::*;
use plan::catalogue::Kind;
use plan::{Named, Type};

use super::functions::apply;
use crate::pg::tree::{Node, Ref};
use crate::planner::translate::{Translator, Typed, cast, exact};
use crate::planner::words::reason::{Attempt, node_reason};
use crate::spec::Source;

impl<'a> Translator<'a> {
    pub fn converted(&mut self, node: Node<'a>, conversion: Ref<'a, pg_sys::CoerceViaIO>) -> Attempt<Typed> {
        let of = conversion.arg();
        let arg = self.expression(of)?;
        let converted = match conversion.resulttype {
            pg_sys::TEXTOID | pg_sys::VARCHAROID if of.sql_type() == pg_sys::JSONBOID => apply(Named::Shown, vec![arg]),
            pg_sys::TEXTOID | pg_sys::VARCHAROID => self.as_text(arg, of.sql_type()),
            _ if arg.ty == Type::Text => self.read(conversion.resulttype, arg),
            _ => None,
        };
        converted.ok_or_else(|| node_reason(node))
    }

    /// Converts a text to the value of this type that it represents.
    fn read(&mut self, ty: pg_sys::Oid, text: Typed) -> Option<Typed> {
        let mut args = vec![text];
        let function = match ty {
            pg_sys::BOOLOID => Named::ToBool,
            pg_sys::INT2OID => Named::ToInt16,
            pg_sys::INT4OID => Named::ToInt32,
            pg_sys::INT8OID => Named::ToInt64,
            pg_sys::FLOAT8OID => Named::ToFloat,
            pg_sys::NUMERICOID => Named::ToNumeric,
            pg_sys::DATEOID => Named::ReadDate,
            pg_sys::TIMESTAMPOID => Named::ReadTimestamp,
            pg_sys::TIMESTAMPTZOID => {
                args.push(self.session_zone());
                Named::ReadTimestampIn
            }
            pg_sys::UUIDOID => Named::ReadUuid,
            _ => return None,
        };
        apply(function, args)
    }

    /// The text that PostgreSQL shows for a value; `None` if the engine cannot print values of the type.
    pub fn as_text(&mut self, typed: Typed, sql_type: pg_sys::Oid) -> Option<Typed> {
        let mut args = vec![match typed.ty {
            Type::Decimal64 { .. } | Type::Decimal128 { .. } => self.numeric(typed).ok()?,
            Type::Oid => exact(cast(typed, Type::Int64), Type::Int64),
            Type::Enum => return Some(self.label(typed, sql_type)),
            Type::Name => return Some(exact(cast(typed, Type::Text), Type::Text)),
            _ => typed,
        }];
        let (function, setting) = match args[0].ty.kind() {
            Kind::Bool | Kind::Integer | Kind::Numeric | Kind::Time | Kind::Uuid => (Named::ToText, None),
            Kind::Date | Kind::Timestamp => (Named::ToTextBy, Some("DateStyle")),
            Kind::TimestampTz => (Named::ToTextIn, Some("DateStyle")),
            Kind::Interval => (Named::ToTextBy, Some("IntervalStyle")),
            Kind::Real | Kind::Float => (Named::ToTextBy, Some("extra_float_digits")),
            Kind::Decimal | Kind::TimeTz | Kind::Oid | Kind::Enum | Kind::Text | Kind::Bytes | Kind::Opaque => {
                return None;
            }
        };
        args.extend(setting.map(|setting| self.setting(setting)));
        if function.takes_zone() {
            args.push(self.session_zone());
        }
        apply(function, args)
    }

    /// The value of a setting at the start of the query.
    fn setting(&mut self, name: &str) -> Typed {
        let (function, name) = (pg_sys::F_CURRENT_SETTING_TEXT, self.memory.text(name));
        let call = self.memory.call(function, pg_sys::TEXTOID, pg_sys::InvalidOid, [name]);
        exact(self.parameter(Type::Text, Source::Value, call), Type::Text)
    }
}
