//! Functions and operators that return parts of documents: jsonb and json.

use pgrx::prelude::*;
use plan::{Document, Expr, Literal, Named};

use super::functions::apply;
use crate::pg::tree::{Node, Ref};
use crate::pg::types;
use crate::planner::translate::{Translator, Typed, constant_literal};
use crate::planner::words::reason::{Attempt, Reason};

/// The way in which the engine computes a function of PostgreSQL.
enum Asked {
    Call(Named),
    /// Follows a path, step by step.
    Path(Document),
    PathText(Document),
    /// Converts a jsonb number to this type.
    Number(Named),
}

fn asked(function: pg_sys::Oid) -> Option<Asked> {
    use Asked::{Call, Number, Path, PathText};
    use Document::{Json, Jsonb};
    Some(match function.to_u32() {
        pg_sys::F_JSONB_OBJECT_FIELD => Call(Named::Member(Jsonb)),
        pg_sys::F_JSONB_ARRAY_ELEMENT => Call(Named::Element(Jsonb)),
        pg_sys::F_JSONB_OBJECT_FIELD_TEXT => Call(Named::MemberText(Jsonb)),
        pg_sys::F_JSONB_ARRAY_ELEMENT_TEXT => Call(Named::ElementText(Jsonb)),
        pg_sys::F_JSONB_EXTRACT_PATH => Path(Jsonb),
        pg_sys::F_JSONB_EXTRACT_PATH_TEXT => PathText(Jsonb),
        pg_sys::F_JSONB_TYPEOF => Call(Named::TypeOf(Jsonb)),
        pg_sys::F_JSONB_ARRAY_LENGTH => Call(Named::ArrayLength(Jsonb)),
        pg_sys::F_JSONB_EXISTS => Call(Named::HasKey),
        pg_sys::F_JSON_OBJECT_FIELD => Call(Named::Member(Json)),
        pg_sys::F_JSON_ARRAY_ELEMENT => Call(Named::Element(Json)),
        pg_sys::F_JSON_OBJECT_FIELD_TEXT => Call(Named::MemberText(Json)),
        pg_sys::F_JSON_ARRAY_ELEMENT_TEXT => Call(Named::ElementText(Json)),
        pg_sys::F_JSON_EXTRACT_PATH => Path(Json),
        pg_sys::F_JSON_EXTRACT_PATH_TEXT => PathText(Json),
        pg_sys::F_JSON_TYPEOF => Call(Named::TypeOf(Json)),
        pg_sys::F_JSON_ARRAY_LENGTH => Call(Named::ArrayLength(Json)),
        pg_sys::F_NUMERIC_JSONB => Call(Named::NumberOf),
        pg_sys::F_INT2_JSONB => Number(Named::ToInt16),
        pg_sys::F_INT4_JSONB => Number(Named::ToInt32),
        pg_sys::F_INT8_JSONB => Number(Named::ToInt64),
        pg_sys::F_FLOAT8_JSONB => Number(Named::ToFloat),
        _ => return None,
    })
}

impl<'a> Translator<'a> {
    /// Translates a call of a function on documents; `None` for any other function.
    pub fn of_document(
        &mut self,
        function: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Option<Attempt<Typed>> {
        let asked = asked(function)?;
        Some(self.part_of_document(asked, arguments, reason))
    }

    fn part_of_document(
        &mut self,
        asked: Asked,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        let (document, key) = match *arguments {
            [document] => (document, None),
            [document, key] => (document, Some(key)),
            _ => return Err(reason()),
        };
        let document = self.expression(document)?;
        match asked {
            Asked::Call(function) => {
                let key = key.map(|key| self.expression(key)).transpose()?;
                apply(function, [document].into_iter().chain(key).collect()).ok_or_else(reason)
            }
            Asked::Number(function) => {
                let number = apply(Named::NumberOf, vec![document]).ok_or_else(&reason)?;
                apply(function, vec![number]).ok_or_else(reason)
            }
            Asked::Path(of) => {
                let steps = key.and_then(steps).ok_or_else(&reason)?;
                let step = |document, step| apply(Named::Step(of), vec![document, step]);
                steps.into_iter().try_fold(document, step).ok_or_else(reason)
            }
            Asked::PathText(of) => {
                let mut steps = key.and_then(steps).ok_or_else(&reason)?;
                let last = steps.pop();
                let step = |document, step| apply(Named::Step(of), vec![document, step]);
                let document = steps.into_iter().try_fold(document, step).ok_or_else(&reason)?;
                match last {
                    Some(last) => apply(Named::StepText(of), vec![document, last]).ok_or_else(reason),
                    None => apply(Named::WholeText(of), vec![document]).ok_or_else(reason),
                }
            }
        }
    }
}

/// The steps of a path; `None` if the path is not constant or contains a null.
fn steps(path: Node<'_>) -> Option<Vec<Typed>> {
    let constant = path.cast::<pg_sys::Const>().filter(|constant| !constant.constisnull)?;
    let text = |step: Ref<'_, pg_sys::Const>| {
        let typed = constant_literal(step).ok()?;
        let is_text = matches!(typed.expr, Expr::Literal { value: Some(Literal::Text(_)), .. });
        is_text.then_some(typed)
    };
    types::elements(constant).1.into_iter().map(text).collect()
}
