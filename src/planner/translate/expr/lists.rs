//! Comparisons with the elements of an array: `x = ANY (array)`, which is what `x IN (…)` becomes, and `x <> ALL
//! (array)`.

use pgrx::prelude::*;
use plan::{BoolOp, CmpOp, Expr, Literal, Named, Type};

use super::compare::{Comparison, require_deterministic};
use super::functions::{apply, negation};
use crate::pg::tree::{Node, Tagged, make, push, string_node, text};
use crate::pg::value;
use crate::planner::translate::level::unfolded::element_of;
use crate::planner::translate::{Ask, Translator, Typed, boolean, constant_literal, exact};
use crate::planner::words::reason::{Attempt, Why, operator_reason, type_reason};
use crate::spec::Source;

/// Longer lists are rows that something is looked up in.
const MAX_LIST: usize = 1000;

impl Tagged for pg_sys::ArrayExpr {
    const TAG: pg_sys::NodeTag = pg_sys::NodeTag::T_ArrayExpr;
}

impl<'a> Translator<'a> {
    /// OR, or AND, of the comparisons with each of a few elements.
    pub fn list_comparison(&mut self, node: &'a pg_sys::ScalarArrayOpExpr, ask: Ask) -> Attempt<Typed> {
        let arguments: Vec<Node<'a>> = self.tree.list(node.args).collect();
        let &[left, array] = &arguments[..] else {
            return Err(operator_reason(node.opno));
        };
        let comparison = Comparison::of(node.opno, node.inputcollid, left).ok_or_else(|| operator_reason(node.opno))?;
        if let Some(made) = array.cast::<pg_sys::ArrayExpr>().filter(|made| !made.multidims) {
            let elements = self.tree.list(made.elements);
            if elements.len() <= MAX_LIST {
                let left = self.compared_operand(left)?;
                let mut args = Vec::with_capacity(elements.len());
                let mut raising = None;
                for element in elements {
                    let right = self.compared_operand(element)?;
                    let raises = right.expr.can_raise();
                    let compared = comparison.between(self, left.clone(), right)?.expr;
                    match raises {
                        false => args.push(compared),
                        // PostgreSQL makes the whole array first; here only what comes first is computed of every row.
                        true if raising.is_none() => raising = Some(compared),
                        true => return Err(Why::Expression.of("array of several elements that may raise errors")),
                    }
                }
                args.splice(..0, raising);
                return Ok(joined(node.useOr, args));
            }
        }
        if let Some(list) = array.cast::<pg_sys::SubLink>().filter(|list| is_array(list)) {
            let element = value::element_of(array.sql_type()).ok_or_else(|| type_reason(array.sql_type()))?;
            let link = self.link(node, left, (pg_sys::Oid::from(element.oid), array.collation()), list.subselect);
            return self.subquery_value(link, ask);
        }
        if self.contains_more_than_values(array) {
            return self.is_element(node, &comparison, left, array);
        }
        let Some(constant) = array.cast::<pg_sys::Const>() else {
            return self.looked_up(node, left, array, ask);
        };
        if constant.constisnull {
            compared_with_nothing(&self.expression(left)?)?;
            return Ok(boolean(Expr::Literal { ty: Type::Bool, value: None }));
        }
        // SAFETY: a not-null constant of an array type.
        let (element_type, elements) = unsafe { elements(constant.constvalue) };
        if elements.len() > MAX_LIST {
            return self.looked_up(node, left, array, ask);
        }
        let left = self.expression(left)?;
        if elements.is_empty() {
            compared_with_nothing(&left)?;
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
        Ok(joined(node.useOr, args))
    }

    /// `x = ANY (array)` of a row's own array, or `x <> ALL (array)`, of values that are equal if their bytes are.
    fn is_element(
        &mut self,
        node: &pg_sys::ScalarArrayOpExpr,
        comparison: &Comparison,
        left: Node<'a>,
        array: Node<'a>,
    ) -> Attempt<Typed> {
        let unknown = || Why::Expression.of("comparison with an array that is not constant");
        let negated = match (comparison.op(), node.useOr) {
            (CmpOp::Eq, true) => false,
            (CmpOp::Ne, false) => true,
            _ => return Err(unknown()),
        };
        if left.collation() != pg_sys::InvalidOid {
            require_deterministic(node.inputcollid)?;
        }
        let (element, ty) = element_of(array).ok_or_else(unknown)?;
        let value = self.expression(left)?;
        if value.ty != ty {
            return Err(unknown());
        }
        let number =
            |number: i64| exact(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(number)) }, Type::Int32);
        let length = element.length.map_or(-1, i64::from);
        let args = vec![value, self.expression(array)?, number(element.align.into()), number(length)];
        let found = apply(Named::IsElement, args).ok_or_else(unknown)?;
        Ok(if negated { negation(found) } else { found })
    }

    /// An array that is known when the query starts, as the rows of its `unnest`. A null array has no rows, although
    /// the comparison is null.
    fn looked_up(
        &mut self,
        node: &'a pg_sys::ScalarArrayOpExpr,
        left: Node<'a>,
        array: Node<'a>,
        ask: Ask,
    ) -> Attempt<Typed> {
        let link = self.link_to_elements(node, left, array)?;
        let found = self.subquery_value(link, ask)?;
        if ask.null_may_be_false && node.useOr || array.cast::<pg_sys::Const>().is_some() {
            return Ok(found);
        }
        let test = make_null_test(array);
        let is_null = self.parameter(Type::Bool, Source::Value, test);
        let unknown = Expr::Literal { ty: Type::Bool, value: None };
        Ok(boolean(Expr::Case { branches: vec![(is_null, unknown)], otherwise: Box::new(found.expr) }))
    }

    /// `left operator ANY (SELECT * FROM unnest(array))`, or ALL.
    fn link_to_elements(
        &self,
        node: &'a pg_sys::ScalarArrayOpExpr,
        left: Node<'a>,
        array: Node<'a>,
    ) -> Attempt<&'a pg_sys::SubLink> {
        // SAFETY: a catalog lookup; new nodes of valid parts, which nobody changes once they are made.
        unsafe {
            let element = pg_sys::get_element_type(array.sql_type());
            if element == pg_sys::InvalidOid {
                return Err(type_reason(array.sql_type()));
            }
            let collation = array.collation();
            let mut arguments = std::ptr::null_mut();
            push(&mut arguments, array.as_ptr::<pg_sys::Node>());
            let (function, form) = (pg_sys::F_UNNEST_ANYARRAY, pg_sys::CoercionForm::COERCE_EXPLICIT_CALL);
            let call = pg_sys::makeFuncExpr(function.into(), element, arguments, collation, collation, form);
            (*call).funcretset = true;
            let of_rows = make::<pg_sys::RangeTblFunction>();
            of_rows.funcexpr = call.cast();
            of_rows.funccolcount = 1;
            let entry = make::<pg_sys::RangeTblEntry>();
            entry.rtekind = pg_sys::RTEKind::RTE_FUNCTION;
            push(&mut entry.functions, std::ptr::from_mut(of_rows));
            let mut names = std::ptr::null_mut();
            push(&mut names, string_node("element"));
            entry.eref = pg_sys::makeAlias(text("list"), names);
            entry.inFromCl = true;
            let reference = make::<pg_sys::RangeTblRef>();
            reference.rtindex = 1;
            let from = make::<pg_sys::FromExpr>();
            push(&mut from.fromlist, std::ptr::from_mut(reference));
            let query = make::<pg_sys::Query>();
            query.commandType = pg_sys::CmdType::CMD_SELECT;
            query.canSetTag = true;
            push(&mut query.rtable, std::ptr::from_mut(entry));
            query.jointree = from;
            let column = pg_sys::makeVar(1, 1, element, -1, collation, 0);
            let target = pg_sys::makeTargetEntry(column.cast(), 1, text("element"), false);
            push(&mut query.targetList, target);
            Ok(self.link(node, left, (element, collation), std::ptr::from_mut(query).cast()))
        }
    }

    /// `left operator ANY (list)`, or ALL, of a list whose column is of this type and collation.
    fn link(
        &self,
        node: &'a pg_sys::ScalarArrayOpExpr,
        left: Node<'a>,
        (element, collation): (pg_sys::Oid, pg_sys::Oid),
        list: *mut pg_sys::Node,
    ) -> &'a pg_sys::SubLink {
        let compared = make::<pg_sys::Param>();
        compared.paramkind = pg_sys::ParamKind::PARAM_SUBLINK;
        compared.paramid = 1;
        compared.paramtype = element;
        compared.paramtypmod = -1;
        compared.paramcollid = collation;
        let test = make::<pg_sys::OpExpr>();
        test.opno = node.opno;
        test.opfuncid = node.opfuncid;
        test.opresulttype = pg_sys::BOOLOID;
        test.inputcollid = node.inputcollid;
        push(&mut test.args, left.as_ptr::<pg_sys::Node>());
        push(&mut test.args, std::ptr::from_mut(compared));
        let link = make::<pg_sys::SubLink>();
        link.subLinkType = if node.useOr { pg_sys::SubLinkType::ANY_SUBLINK } else { pg_sys::SubLinkType::ALL_SUBLINK };
        link.testexpr = std::ptr::from_mut(test).cast();
        link.subselect = list;
        link
    }
}

/// `ARRAY(SELECT …)`.
fn is_array(link: &pg_sys::SubLink) -> bool {
    link.subLinkType == pg_sys::SubLinkType::ARRAY_SUBLINK
}

/// `node IS NULL`.
fn make_null_test(node: Node<'_>) -> *mut pg_sys::Node {
    let test = make::<pg_sys::NullTest>();
    test.arg = node.as_ptr();
    test.nulltesttype = pg_sys::NullTestType::IS_NULL;
    std::ptr::from_mut(test).cast()
}

/// PostgreSQL computes it all the same.
fn compared_with_nothing(left: &Typed) -> Attempt<()> {
    match left.expr.can_raise() {
        true => Err(Why::Expression.of("comparison with nothing of what may raise an error")),
        false => Ok(()),
    }
}

fn joined(any: bool, mut args: Vec<Expr>) -> Typed {
    let op = if any { BoolOp::Or } else { BoolOp::And };
    boolean(match args.len() {
        0 => Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(!any)) },
        1 => args.remove(0),
        _ => Expr::Bool { op, args },
    })
}

/// Element type and elements of an array.
///
/// # Safety
///
/// `datum` is a not-null array.
pub unsafe fn elements(datum: pg_sys::Datum) -> (pg_sys::Oid, Vec<Option<pg_sys::Datum>>) {
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
