//! Comparisons, and the conditions under which texts can be compared by their bytes.

use pgrx::prelude::*;
use plan::catalogue::Kind;
use plan::{BoolOp, CmpOp, Expr, Literal, Named, Type};

use super::numeric::comparable;
use crate::pg::catalog;
use crate::pg::collation::libc_locale;
use crate::pg::compat::ordered_by_bytes;
use crate::pg::tree::{Node, Ref};
use crate::pg::types;
use crate::planner::translate::{Translator, Typed, boolean};
use crate::planner::words::operators;
use crate::planner::words::reason::{Attempt, Why, operator_reason};

/// A comparison operator of the whitelist, and the collation with which it is called.
pub struct Comparison {
    operator: pg_sys::Oid,
    family: u32,
    op: CmpOp,
    collation: pg_sys::Oid,
    /// The type of the operator's left side.
    operand: pg_sys::Oid,
}

impl Comparison {
    /// The comparison that an operator makes; `None` if the engine does not know it as a comparison.
    pub fn of(operator: pg_sys::Oid, collation: pg_sys::Oid, left: Node<'_>) -> Option<Comparison> {
        let (family, op) = operators::comparison(operator)?;
        Some(Comparison { operator, family, op, collation, operand: left.sql_type() })
    }

    pub fn op(&self) -> CmpOp {
        self.op
    }

    pub fn between(&self, translator: &mut Translator<'_>, left: Typed, right: Typed) -> Attempt<Typed> {
        if left.ty == Type::Numeric || right.ty == Type::Numeric {
            let is_number = |typed: &Typed| matches!(typed.ty.kind(), Kind::Decimal | Kind::Numeric);
            if !is_number(&left) || !is_number(&right) {
                return Err(operator_reason(self.operator));
            }
            let (left, right) = (translator.numeric(left)?, translator.numeric(right)?);
            let (left, right) = (Box::new(comparable(&left)), Box::new(comparable(&right)));
            return Ok(boolean(Expr::Cmp { op: self.op, left, right }));
        }
        let equality = matches!(self.op, CmpOp::Eq | CmpOp::Ne);
        let (left_ty, right_ty) =
            operators::common_type(self.family, left.ty, right.ty).ok_or_else(|| operator_reason(self.operator))?;
        if !equality && left_ty == Type::Enum {
            let (left, right) = (translator.rank(left, self.operand), translator.rank(right, self.operand));
            return Ok(boolean(Expr::Cmp { op: self.op, left: Box::new(left.expr), right: Box::new(right.expr) }));
        }
        if !equality && left_ty == Type::Opaque {
            return Err(operator_reason(self.operator));
        }
        let order = match left_ty.is_text() {
            true if equality => {
                require_deterministic(self.collation)?;
                TextOrder::ByBytes
            }
            true => TextOrder::of(self.collation)?,
            false => TextOrder::ByBytes,
        };
        if left_ty == Type::Interval {
            let (left, right) = (Box::new(comparable(&left)), Box::new(comparable(&right)));
            return Ok(boolean(Expr::Cmp { op: self.op, left, right }));
        }
        let (left, right) = (translator.comparable(left, left_ty), translator.comparable(right, right_ty));
        Ok(boolean(order.compare(self.op, left, right)))
    }
}

impl Comparison {
    /// The same comparison, but with another operator of its family.
    fn with(&self, op: CmpOp) -> Comparison {
        Comparison { op, ..*self }
    }
}

impl<'a> Translator<'a> {
    /// Translates `(a, b) < (c, d)`. The first pair of values that differ decides. If a value of that pair is null, the
    /// result is null.
    pub fn row_comparison(&mut self, node: Ref<'a, pg_sys::RowCompareExpr>) -> Attempt<Typed> {
        let (lefts, rights) = (node.largs().iter(), node.rargs().iter());
        let operators = node.opnos().iter().zip(node.inputcollids().iter());
        let columns: Vec<_> = operators.zip(lefts.zip(rights)).collect();
        let mut behind: Option<Expr> = None;
        for ((operator, collation), (left, right)) in columns.into_iter().rev() {
            let comparison = Comparison::of(operator, collation, left).ok_or_else(|| operator_reason(operator))?;
            let (left, right) = (self.compared_operand(left)?, self.compared_operand(right)?);
            let strict = match comparison.op {
                CmpOp::Lt | CmpOp::Le => CmpOp::Lt,
                CmpOp::Gt | CmpOp::Ge => CmpOp::Gt,
                CmpOp::Eq | CmpOp::Ne => return Err(operator_reason(operator)),
            };
            behind = Some(match behind {
                None => comparison.between(self, left, right)?.expr,
                Some(behind) => {
                    let decided = comparison.with(strict).between(self, left.clone(), right.clone())?.expr;
                    let equal = comparison.with(CmpOp::Eq).between(self, left, right)?.expr;
                    // PostgreSQL does not evaluate the pairs after a null, so they must raise no error then.
                    let then = match behind.can_raise() {
                        true => Expr::Case { branches: vec![(equal.clone(), behind)], otherwise: Box::new(equal) },
                        false => Expr::Bool { op: BoolOp::And, args: vec![equal, behind] },
                    };
                    Expr::Bool { op: BoolOp::Or, args: vec![decided, then] }
                }
            });
        }
        behind.map(boolean).ok_or_else(|| Why::Expression.of("comparison of rows without columns"))
    }
}

/// The test `IS [NOT] TRUE | FALSE | UNKNOWN`, whose result is never null.
pub fn truth_test(test: pg_sys::BoolTestType::Type, arg: Expr) -> Expr {
    let is_null = |negated| Expr::IsNull { arg: Box::new(arg.clone()), negated };
    let not = || Expr::Not(Box::new(arg.clone()));
    let join = |op, a, b| Expr::Bool { op, args: vec![a, b] };
    match test {
        pg_sys::BoolTestType::IS_TRUE => join(BoolOp::And, arg.clone(), is_null(true)),
        pg_sys::BoolTestType::IS_NOT_TRUE => join(BoolOp::Or, not(), is_null(false)),
        pg_sys::BoolTestType::IS_FALSE => join(BoolOp::And, not(), is_null(true)),
        pg_sys::BoolTestType::IS_NOT_FALSE => join(BoolOp::Or, arg.clone(), is_null(false)),
        pg_sys::BoolTestType::IS_UNKNOWN => is_null(false),
        _ => is_null(true),
    }
}

/// Requires a collation under which texts are equal only if their bytes are.
pub fn require_deterministic(collation: pg_sys::Oid) -> Attempt<()> {
    match catalog::is_deterministic(collation) {
        true => Ok(()),
        false => Err(Why::Collation.of("nondeterministic collation")),
    }
}

/// The C library's locale that decides about upper and lower case; `None` if only ASCII letters have a case.
pub fn letters_of(collation: pg_sys::Oid) -> Attempt<Option<String>> {
    if collation == pg_sys::C_COLLATION_OID {
        return Ok(None);
    }
    let locale = libc_locale(collation)
        .ok_or_else(|| Why::Collation.of("letters of a collation that is not the C library's"))?;
    Ok((!matches!(&locale.letters[..], "C" | "POSIX")).then_some(locale.letters))
}

/// The order of texts under a collation.
pub enum TextOrder {
    ByBytes,
    /// The C library's order in this locale. Texts that are equal in that order are ordered by their bytes.
    InLocale(String),
}

impl TextOrder {
    /// The order of texts under this collation.
    pub fn of(collation: pg_sys::Oid) -> Attempt<TextOrder> {
        require_deterministic(collation)?;
        if ordered_by_bytes(collation) {
            return Ok(TextOrder::ByBytes);
        }
        match libc_locale(collation) {
            Some(locale) => Ok(TextOrder::InLocale(locale.order)),
            None => Err(Why::Collation.of("order of text in a collation that is not the C library's")),
        }
    }

    pub fn locale(self) -> Option<String> {
        match self {
            TextOrder::ByBytes => None,
            TextOrder::InLocale(locale) => Some(locale),
        }
    }

    fn compare(&self, op: CmpOp, left: Expr, right: Expr) -> Expr {
        let (left, right) = match self {
            TextOrder::ByBytes => (left, right),
            TextOrder::InLocale(locale) => {
                let args = vec![left, right, named_locale(locale)];
                let zero = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(0)) };
                (Expr::Call { function: Named::CompareIn, ty: Type::Int32, args }, zero)
            }
        };
        Expr::Cmp { op, left: Box::new(left), right: Box::new(right) }
    }
}

/// The argument that names a locale.
pub fn named_locale(locale: &str) -> Expr {
    Expr::Literal { ty: Type::Text, value: Some(Literal::Text(locale.to_owned())) }
}

/// Requires that the clause compares rows by the type's own equality. ORDER BY … USING an operator would use the
/// equality of that operator's class.
pub fn require_own_equality(clause: Ref<'_, pg_sys::SortGroupClause>, node: Node<'_>) -> Attempt<()> {
    match catalog::equality(node.sql_type()) == clause.eqop {
        true => Ok(()),
        false => Err(operator_reason(clause.eqop)),
    }
}

/// Requires that the engine can tell which values of the type are equal.
pub fn require_known_equality(ty: Type, node: Node<'_>) -> Attempt<()> {
    match ty {
        Type::Opaque if types::has_one_image(node.sql_type()) => Ok(()),
        Type::Opaque => Err(Why::Type.of(format!("equality of {}", catalog::type_name(node.sql_type())))),
        ty if ty.is_text() => require_deterministic(node.collation()),
        _ => Ok(()),
    }
}
