//! LIKE patterns and regular expressions.

use pgrx::prelude::*;
use plan::regular::{self, as_like};
use plan::{Expr, Literal, Named, Type};

use super::compare::{letters_of, named_locale, require_deterministic};
use super::functions::apply;
use crate::pg::tree::Node;
use crate::planner::translate::{Translator, Typed, exact};
use crate::planner::words::reason::{Attempt, Reason, Why};

impl<'a> Translator<'a> {
    /// Translates `ILIKE` as PostgreSQL computes it: LIKE with both sides in small letters.
    pub fn like_in_any_case(
        &mut self,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        mut args: Vec<Typed>,
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        require_deterministic(collation)?;
        self.pad_first(arguments, &mut args)?;
        let locale = letters_of(collation)?;
        let mut lowered = Vec::with_capacity(args.len());
        for (node, arg) in arguments.iter().zip(args) {
            lowered.push(match (&arg.expr, &locale) {
                (Expr::Literal { value: Some(_), .. }, _) => self.lower_constant(*node, collation)?,
                (_, None) => apply(Named::Lower, vec![arg]).ok_or_else(&reason)?,
                (_, Some(locale)) => {
                    let locale = exact(named_locale(locale), Type::Text);
                    apply(Named::LowerIn, vec![arg, locale]).ok_or_else(&reason)?
                }
            });
        }
        apply(Named::Like, lowered).ok_or_else(reason)
    }

    /// A constant text, which PostgreSQL converts to small letters here.
    fn lower_constant(&mut self, node: Node<'a>, collation: pg_sys::Oid) -> Attempt<Typed> {
        let lower = self.memory.call(pg_sys::F_LOWER_TEXT, pg_sys::TEXTOID, collation, [node]);
        self.expression(lower.simplified())
    }

    /// Translates `~`, `~*` and their negations.
    pub fn regular(
        &mut self,
        any_case: bool,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        mut args: Vec<Typed>,
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        require_deterministic(collation)?;
        let expression = args.get(1).and_then(constant_text);
        let expression = expression.ok_or_else(|| reason().and(" with an expression that is not constant"))?;
        let like = as_like(expression).filter(|_| !any_case);
        let known = like.is_some() || regular::parse(expression, any_case).is_some();
        if !known {
            return Err(Why::Function.of(format!("{} with pattern \"{expression}\"", reason())));
        }
        self.pad_first(arguments, &mut args)?;
        if let Some(like) = like {
            args[1] = text(like);
            return apply(Named::Like, args).ok_or_else(reason);
        }
        args.push(letters(collation)?);
        apply(if any_case { Named::MatchesAnyCase } else { Named::Matches }, args).ok_or_else(reason)
    }

    /// Translates `substring(text from expression)`.
    pub fn matched_part(
        &mut self,
        collation: pg_sys::Oid,
        mut args: Vec<Typed>,
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        self.require_known_place(&args, &reason)?;
        args.push(letters(collation)?);
        apply(Named::MatchedPart, args).ok_or_else(reason)
    }

    /// Translates `regexp_replace` of the first match or, with the flag `g`, of all matches.
    pub fn replaced(
        &mut self,
        collation: pg_sys::Oid,
        mut args: Vec<Typed>,
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        self.require_known_place(&args, &reason)?;
        let text = |at: usize| args.get(at).map(|arg| constant_text(arg).ok_or_else(&reason)).transpose();
        // A backslash in the replacement refers to a part of the match.
        let is_plain = text(2)?.is_some_and(|by| !by.contains('\\'));
        let function = match text(3)? {
            _ if !is_plain => {
                return Err(reason().and(" with a replacement that is not constant or refers to the match"));
            }
            None | Some("") => Named::ReplacedMatch,
            Some("g") => Named::ReplacedMatches,
            Some(flags) => return Err(reason().and(format!(" with flags \"{flags}\""))),
        };
        args.truncate(3);
        args.push(letters(collation)?);
        apply(function, args).ok_or_else(reason)
    }

    /// Requires a constant regular expression. The engine must be able to tell where the match lies, and where in the
    /// match the captured part lies.
    fn require_known_place(&self, args: &[Typed], reason: &impl Fn() -> Reason) -> Attempt<()> {
        let expression = args.get(1).and_then(constant_text);
        let expression = expression.ok_or_else(|| reason().and(" with an expression that is not constant"))?;
        match regular::parse(expression, false).is_some_and(|parsed| parsed.captured().is_some()) {
            true => Ok(()),
            false => Err(Why::Function.of(format!("{} with pattern \"{expression}\"", reason()))),
        }
    }

    /// Restores the blanks of a char(n) argument, because patterns are matched with them.
    pub fn pad_first(&self, arguments: &[Node<'a>], args: &mut [Typed]) -> Attempt<()> {
        if let (Some(node), Some(arg)) = (arguments.first(), args.first_mut())
            && arg.ty == Type::Char
        {
            let padded = self.padded(*node, arg.clone());
            *arg = padded.ok_or_else(|| Why::Type.of("pattern for a character without length"))?;
        }
        Ok(())
    }
}

/// The argument that says which letters are upper and lower case.
fn letters(collation: pg_sys::Oid) -> Attempt<Typed> {
    require_deterministic(collation)?;
    let ascii = collation == pg_sys::DEFAULT_COLLATION_OID;
    Ok(text(regular::Letters { locale: letters_of(collation)?, ascii }.to_text()))
}

fn text(text: String) -> Typed {
    exact(Expr::Literal { ty: Type::Text, value: Some(Literal::Text(text)) }, Type::Text)
}

fn constant_text(typed: &Typed) -> Option<&str> {
    match &typed.expr {
        Expr::Literal { value: Some(Literal::Text(text)), .. } => Some(text),
        _ => None,
    }
}
