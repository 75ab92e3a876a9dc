//! The whitelist of functions that the plan calls by their name, and of the operators behind which they stand.

use pgrx::prelude::*;
use plan::catalogue::{self, Call};
use plan::{Expr, Literal, Named, Type};

use super::compare::require_deterministic;
use super::reason::{Attempt, Reason};
use super::translate::{Translator, Typed, boolean, exact};
use crate::pg::tree::Node;

/// What a function of PostgreSQL means, beyond a call with the same arguments.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Call(Named),
    /// Compares parts of texts: by bytes, if the collation is deterministic. Otherwise PostgreSQL raises an error.
    ByBytes(Named),
    NotLike,
    /// Of a char(n), which is matched with its blanks.
    PaddedLike {
        negated: bool,
    },
    /// Knows the letters of the collation.
    Letters(Named),
}

fn meaning(function: pg_sys::Oid) -> Option<Meaning> {
    use Meaning::*;
    Some(match function.to_u32() {
        pg_sys::F_TEXTLIKE | pg_sys::F_LIKE_TEXT_TEXT => ByBytes(Named::Like),
        pg_sys::F_TEXTNLIKE | pg_sys::F_NOTLIKE_TEXT_TEXT => NotLike,
        pg_sys::F_BPCHARLIKE => PaddedLike { negated: false },
        pg_sys::F_BPCHARNLIKE => PaddedLike { negated: true },
        pg_sys::F_STARTS_WITH => ByBytes(Named::StartsWith),
        pg_sys::F_LENGTH_TEXT
        | pg_sys::F_CHAR_LENGTH_TEXT
        | pg_sys::F_CHARACTER_LENGTH_TEXT
        | pg_sys::F_LENGTH_BPCHAR
        | pg_sys::F_CHAR_LENGTH_BPCHAR
        | pg_sys::F_CHARACTER_LENGTH_BPCHAR => Call(Named::Length),
        pg_sys::F_OCTET_LENGTH_TEXT => Call(Named::OctetLength),
        pg_sys::F_SUBSTRING_TEXT_INT4
        | pg_sys::F_SUBSTR_TEXT_INT4
        | pg_sys::F_SUBSTRING_TEXT_INT4_INT4
        | pg_sys::F_SUBSTR_TEXT_INT4_INT4 => Call(Named::Substring),
        pg_sys::F_LEFT => Call(Named::Left),
        pg_sys::F_RIGHT => Call(Named::Right),
        pg_sys::F_POSITION_TEXT_TEXT | pg_sys::F_STRPOS => ByBytes(Named::Position),
        pg_sys::F_TEXTCAT => Call(Named::Concat),
        pg_sys::F_REPLACE => ByBytes(Named::Replace),
        pg_sys::F_BTRIM_TEXT | pg_sys::F_BTRIM_TEXT_TEXT => Call(Named::Trim),
        pg_sys::F_LTRIM_TEXT | pg_sys::F_LTRIM_TEXT_TEXT => Call(Named::TrimLeft),
        pg_sys::F_RTRIM_TEXT | pg_sys::F_RTRIM_TEXT_TEXT => Call(Named::TrimRight),
        pg_sys::F_LPAD_TEXT_INT4_TEXT => Call(Named::PadLeft),
        pg_sys::F_RPAD_TEXT_INT4_TEXT => Call(Named::PadRight),
        pg_sys::F_REPEAT => Call(Named::Repeat),
        pg_sys::F_REVERSE => Call(Named::Reverse),
        pg_sys::F_SPLIT_PART => ByBytes(Named::SplitPart),
        pg_sys::F_UPPER_TEXT => Letters(Named::Upper),
        pg_sys::F_LOWER_TEXT => Letters(Named::Lower),
        pg_sys::F_TEXT_BPCHAR => Call(Named::CharToText),
        _ => return None,
    })
}

impl<'a> Translator<'a> {
    /// `None`: no such function.
    pub fn named(
        &mut self,
        function: pg_sys::Oid,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Option<Attempt<Typed>> {
        let meaning = meaning(function)?;
        Some(self.call_named(meaning, collation, arguments, reason))
    }

    fn call_named(
        &mut self,
        meaning: Meaning,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        let mut args = Vec::with_capacity(arguments.len());
        for argument in arguments {
            args.push(self.expression(*argument)?);
        }
        match meaning {
            Meaning::Call(function) => apply(function, args).ok_or_else(reason),
            Meaning::ByBytes(function) => {
                require_deterministic(collation)?;
                apply(function, args).ok_or_else(reason)
            }
            Meaning::NotLike => {
                require_deterministic(collation)?;
                apply(Named::Like, args).map(negation).ok_or_else(reason)
            }
            Meaning::PaddedLike { negated } => {
                require_deterministic(collation)?;
                let padded = arguments.first().zip(args.first().cloned()).and_then(|(node, arg)| padded(*node, arg));
                args[0] = padded.ok_or("LIKE of a character without length")?;
                let like = apply(Named::Like, args).ok_or_else(reason)?;
                Ok(if negated { negation(like) } else { like })
            }
            Meaning::Letters(function) => {
                let is_c = [pg_sys::C_COLLATION_OID, pg_sys::POSIX_COLLATION_OID].contains(&collation);
                if !is_c {
                    return Err("upper or lower case in a collation other than \"C\"".into());
                }
                apply(function, args).ok_or_else(reason)
            }
        }
    }
}

/// `None`: there is none for such arguments.
fn apply(function: Named, args: Vec<Typed>) -> Option<Typed> {
    if args.iter().any(|arg| !arg.has_exact_scale()) {
        return None;
    }
    let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
    let ty = catalogue::result_type(Call::Named(function), &types)?;
    let args = args.into_iter().map(|arg| arg.expr).collect();
    Some(exact(Expr::Call { function, ty, args }, ty))
}

fn negation(condition: Typed) -> Typed {
    boolean(Expr::Not(Box::new(condition.expr)))
}

/// A char(n) with its blanks, as text.
fn padded(node: Node<'_>, arg: Typed) -> Option<Typed> {
    let width = node.type_modifier() - pg_sys::VARHDRSZ as i32;
    let integer = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(width as i64)) };
    let blank = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(" ".into())) };
    let text = apply(Named::CharToText, vec![arg]).filter(|_| width > 0)?;
    apply(Named::PadRight, vec![text, exact(integer, Type::Int32), exact(blank, Type::Text)])
}
