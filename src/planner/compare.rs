//! Comparisons, and what text must be so that bytes decide them.

use pgrx::prelude::*;
use plan::catalogue::Kind;
use plan::{BoolOp, CmpOp, Expr, Literal, Named, Type};

use super::numeric::comparable;
use super::operators;
use super::reason::{Attempt, Why, operator_reason, type_reason};
use super::translate::{Translator, Typed, boolean, constant_literal, exact};
use crate::pg::catalog;
use crate::pg::collation::libc_locale;
use crate::pg::compat::ordered_by_bytes;
use crate::pg::tree::Node;
use crate::pg::value;

/// Lists longer than this stay with PostgreSQL, which hashes them.
const MAX_LIST: usize = 1000;

/// A comparison operator of the whitelist, and the collation that it is called with.
pub struct Comparison {
    operator: pg_sys::Oid,
    family: u32,
    op: CmpOp,
    collation: pg_sys::Oid,
}

impl Comparison {
    /// `None`: the operator means something else, or nothing that the engine knows.
    pub fn of(operator: pg_sys::Oid, collation: pg_sys::Oid) -> Option<Comparison> {
        let (family, op) = operators::comparison(operator)?;
        Some(Comparison { operator, family, op, collation })
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
        if !equality {
            require_known_order(left_ty)?;
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

impl<'a> Translator<'a> {
    /// `x = ANY (list)` as OR, `x <> ALL (list)` as AND, for a constant list.
    pub fn list_comparison(&mut self, node: &'a pg_sys::ScalarArrayOpExpr) -> Attempt<Typed> {
        let comparison = Comparison::of(node.opno, node.inputcollid).ok_or_else(|| operator_reason(node.opno))?;
        let arguments: Vec<Node<'a>> = self.tree.list(node.args).collect();
        let &[left, array] = &arguments[..] else {
            return Err(operator_reason(node.opno));
        };
        let left = self.expression(left)?;
        let array = array
            .cast::<pg_sys::Const>()
            .ok_or_else(|| Why::Expression.of("comparison with an array that is not constant"))?;
        if array.constisnull {
            return Ok(boolean(Expr::Literal { ty: Type::Bool, value: None }));
        }
        // SAFETY: a not-null constant of an array type.
        let (element_type, elements) = unsafe { elements(array.constvalue) };
        if elements.len() > MAX_LIST {
            return Err(Why::TooLarge.of(format!("list of more than {MAX_LIST} values")));
        }
        let ty = value::type_of(element_type).ok_or_else(|| type_reason(element_type))?;
        let mut args = Vec::with_capacity(elements.len());
        for element in elements {
            let right = match element {
                None => exact(Expr::Literal { ty, value: None }, ty),
                // SAFETY: an element is of the array's element type.
                Some(datum) => unsafe { constant_literal(datum, ty) }?,
            };
            args.push(comparison.between(self, left.clone(), right)?.expr);
        }
        let op = if node.useOr { BoolOp::Or } else { BoolOp::And };
        Ok(boolean(match args.len() {
            0 => Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(!node.useOr)) },
            1 => args.remove(0),
            _ => Expr::Bool { op, args },
        }))
    }
}

/// `IS [NOT] TRUE | FALSE | UNKNOWN`, which are never null.
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

/// Equality by bytes.
pub fn require_deterministic(collation: pg_sys::Oid) -> Attempt<()> {
    // SAFETY: a catalog lookup.
    if collation != pg_sys::InvalidOid && unsafe { pg_sys::get_collation_isdeterministic(collation) } {
        Ok(())
    } else {
        Err(Why::Collation.of("nondeterministic collation"))
    }
}

/// How text is ordered.
pub enum TextOrder {
    ByBytes,
    /// As the C library does in this locale, and what is equal to it by bytes.
    InLocale(String),
}

impl TextOrder {
    /// That of a collation.
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

/// What a function takes that a locale has a part in.
pub fn named_locale(locale: &str) -> Expr {
    Expr::Literal { ty: Type::Text, value: Some(Literal::Text(locale.to_owned())) }
}

/// The order of the engine is that of the type.
pub fn require_known_order(ty: Type) -> Attempt<()> {
    match ty {
        // It is said by the catalog.
        Type::Enum => Err(Why::Type.of("order of enums")),
        _ => Ok(()),
    }
}

/// Equal values are those that are equal to the engine.
pub fn require_known_equality(ty: Type, node: Node<'_>) -> Attempt<()> {
    match ty {
        Type::Opaque => Err(Why::Type.of(format!("equality of {}", catalog::type_name(node.sql_type())))),
        ty if ty.is_text() => require_deterministic(node.collation()),
        _ => Ok(()),
    }
}

/// Element type and elements of an array.
///
/// # Safety
///
/// `datum` is a not-null array.
unsafe fn elements(datum: pg_sys::Datum) -> (pg_sys::Oid, Vec<Option<pg_sys::Datum>>) {
    // SAFETY: an array by the caller's promise; deconstruct_array fills all three.
    unsafe {
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let element = (*array).elemtype;
        let (mut length, mut by_value, mut align) = (0, false, 0);
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(array, element, length as i32, by_value, align, &mut values, &mut nulls, &mut count);
        let all = (0..count as usize).map(|i| (!*nulls.add(i)).then(|| *values.add(i))).collect();
        (element, all)
    }
}
