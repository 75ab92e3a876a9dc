//! Comparisons with the elements of an array: `x = ANY (array)`, which is also the parser's form of `x IN (…)`, and `x
//! <> ALL (array)`.

use pgrx::prelude::*;
use plan::{BoolOp, CmpOp, Expr, Literal, Named, Type};

use super::compare::{Comparison, require_deterministic};
use super::functions::{apply, negation};
use crate::pg::tree::{Node, Ref, Shape};
use crate::pg::{catalog, make, types};
use crate::planner::translate::level::unfolded::element_of;
use crate::planner::translate::{Ask, Translator, Typed, boolean, constant_literal, exact};
use crate::planner::words::reason::{Attempt, Why, operator_reason, type_reason};
use crate::spec::Source;

/// The greatest number of elements that are compared one by one. A longer list is treated like the rows of a subquery,
/// in which values are looked up.
const MAX_LIST: usize = 1000;

impl<'a> Translator<'a> {
    /// Translates a comparison with an array. A short list becomes one comparison for each element, combined by OR or
    /// AND. `looked_up` handles a longer list, and `is_element` an array that differs from row to row.
    pub fn list_comparison(&mut self, node: Ref<'a, pg_sys::ScalarArrayOpExpr>, ask: Ask) -> Attempt<Typed> {
        let arguments: Vec<Node<'a>> = node.args().iter().collect();
        let &[left, array] = &arguments[..] else {
            return Err(operator_reason(node.opno));
        };
        let comparison = Comparison::of(node.opno, node.inputcollid, left).ok_or_else(|| operator_reason(node.opno))?;
        if let Some(made) = array.cast::<pg_sys::ArrayExpr>().filter(|made| !made.multidims) {
            let elements = made.elements().iter();
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
                        // PostgreSQL evaluates the whole array first. The engine is certain to evaluate only the first
                        // comparison for every row, so an element that may raise an error comes first.
                        true if raising.is_none() => raising = Some(compared),
                        true => return Err(Why::Expression.of("array of several elements that may raise errors")),
                    }
                }
                args.splice(..0, raising);
                return Ok(joined(node.useOr, args));
            }
        }
        if let Some(list) = array.cast::<pg_sys::SubLink>().filter(|list| is_array(*list)) {
            let element = types::element_of(array.sql_type()).ok_or_else(|| type_reason(array.sql_type()))?;
            let element = Shape { collation: array.collation(), ..Shape::of(element.oid.into()) };
            let link = self.link(node, left, element, list.subselect());
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
        let (element_type, elements) = types::elements(constant);
        if elements.len() > MAX_LIST {
            return self.looked_up(node, left, array, ask);
        }
        let left = self.expression(left)?;
        if elements.is_empty() {
            compared_with_nothing(&left)?;
        }
        types::type_of(element_type).ok_or_else(|| type_reason(element_type))?;
        let mut args = Vec::with_capacity(elements.len());
        for element in elements {
            args.push(comparison.between(self, left.clone(), constant_literal(element)?)?.expr);
        }
        Ok(joined(node.useOr, args))
    }

    /// Translates `x = ANY (array)` or `x <> ALL (array)` for an array that differs from row to row. Equal values must
    /// have equal bytes.
    fn is_element(
        &mut self,
        node: Ref<'_, pg_sys::ScalarArrayOpExpr>,
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

    /// Translates a comparison with an array that is known when the query starts. Values are looked up in the rows of
    /// its `unnest`. A null array has no rows, so the null result of comparing with it is computed separately.
    fn looked_up(
        &mut self,
        node: Ref<'a, pg_sys::ScalarArrayOpExpr>,
        left: Node<'a>,
        array: Node<'a>,
        ask: Ask,
    ) -> Attempt<Typed> {
        let link = self.link_to_elements(node, left, array)?;
        let found = self.subquery_value(link, ask)?;
        if ask.null_may_be_false && node.useOr || array.cast::<pg_sys::Const>().is_some() {
            return Ok(found);
        }
        let test =
            pg_sys::NullTest { arg: array.as_ptr(), nulltesttype: pg_sys::NullTestType::IS_NULL, ..make::blank() };
        // SAFETY: the array is a part of the tree.
        let test = unsafe { self.memory.placed(test) };
        let is_null = self.parameter(Type::Bool, Source::Value, test.node());
        let unknown = Expr::Literal { ty: Type::Bool, value: None };
        Ok(boolean(Expr::Case { branches: vec![(is_null, unknown)], otherwise: Box::new(found.expr) }))
    }

    /// Writes the comparison as a subquery: `left operator ANY (SELECT * FROM unnest(array))`, or ALL.
    fn link_to_elements(
        &self,
        node: Ref<'a, pg_sys::ScalarArrayOpExpr>,
        left: Node<'a>,
        array: Node<'a>,
    ) -> Attempt<Ref<'a, pg_sys::SubLink>> {
        let element = catalog::element_type(array.sql_type()).ok_or_else(|| type_reason(array.sql_type()))?;
        let shape = Shape { collation: array.collation(), ..Shape::of(element) };
        let call =
            make::call(pg_sys::F_UNNEST_ANYARRAY.into(), element, shape.collation, [array.as_ptr::<pg_sys::Node>()]);
        let of_rows = pg_sys::RangeTblFunction {
            funcexpr: make::placed(pg_sys::FuncExpr { funcretset: true, ..call }).cast(),
            funccolcount: 1,
            ..make::blank()
        };
        let entry = pg_sys::RangeTblEntry {
            rtekind: pg_sys::RTEKind::RTE_FUNCTION,
            functions: make::list([make::placed(of_rows)]),
            eref: make::alias("list", make::strings(["element"])),
            inFromCl: true,
            ..make::blank()
        };
        let column = make::target(make::placed(make::column(1, 1, shape)), 1);
        let query = pg_sys::Query {
            commandType: pg_sys::CmdType::CMD_SELECT,
            canSetTag: true,
            rtable: make::list([make::placed(entry)]),
            jointree: make::from_first(std::ptr::null_mut()),
            targetList: make::list([column]),
            ..make::blank()
        };
        // SAFETY: the array is a part of the tree, and all other nodes are new.
        let query = unsafe { self.memory.placed(query) };
        Ok(self.link(node, left, shape, query.node()))
    }

    /// Writes the comparison with a subquery whose only column has this type and collation: `left operator ANY (list)`,
    /// or ALL.
    fn link(
        &self,
        node: Ref<'a, pg_sys::ScalarArrayOpExpr>,
        left: Node<'a>,
        element: Shape,
        list: Node<'a>,
    ) -> Ref<'a, pg_sys::SubLink> {
        let compared = make::placed(pg_sys::Param {
            paramkind: pg_sys::ParamKind::PARAM_SUBLINK,
            paramid: 1,
            paramtype: element.ty,
            paramtypmod: element.modifier,
            paramcollid: element.collation,
            ..make::blank()
        });
        let test = make::placed(pg_sys::OpExpr {
            opno: node.opno,
            opfuncid: node.opfuncid,
            opresulttype: pg_sys::BOOLOID,
            inputcollid: node.inputcollid,
            args: make::list([left.as_ptr(), compared.cast::<pg_sys::Node>()]),
            ..make::blank()
        });
        let link = pg_sys::SubLink {
            subLinkType: if node.useOr { pg_sys::SubLinkType::ANY_SUBLINK } else { pg_sys::SubLinkType::ALL_SUBLINK },
            testexpr: test.cast(),
            subselect: list.as_ptr(),
            ..make::blank()
        };
        // SAFETY: `left` and `list` are parts of the tree, and all other nodes are new.
        unsafe { self.memory.placed(link) }
    }
}

/// Whether the expression is `ARRAY(SELECT …)`.
fn is_array(link: Ref<'_, pg_sys::SubLink>) -> bool {
    link.subLinkType == pg_sys::SubLinkType::ARRAY_SUBLINK
}

/// Refuses an operand that may raise an error if it is compared with an empty list, because PostgreSQL evaluates it
/// even then.
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
