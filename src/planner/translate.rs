//! Expressions: PostgreSQL's into [`plan::Expr`], or the reason why not.
//!
//! An expression without columns that is not volatile is a value: a literal, or a parameter that the backend evaluates
//! when the query starts. Everything else must be on the whitelist of [`super::operators`].

use std::ffi::CStr;

use pgrx::prelude::*;
use plan::catalogue::{self, Aggregate, Call};
use plan::{Agg, BoolOp, CmpOp, Expr, Literal, Plan, Type};

use super::level::Source;
use super::operators::{self, Called};
use crate::pg::relation::ordered_by_bytes;
use crate::pg::tree::{Node, Tree, push};
use crate::pg::value;

/// Why a query, or a part of it, stays on the heap.
pub type Reason = String;
pub type Attempt<T> = Result<T, Reason>;

/// Lists longer than this stay with PostgreSQL, which hashes them.
const MAX_LIST: usize = 1000;

/// AGGKIND_NORMAL: not an ordered-set aggregate.
const NORMAL_AGGREGATE: u8 = b'n';

#[derive(Clone, Debug)]
pub struct Typed {
    pub expr: Expr,
    pub ty: Type,
    /// False for numeric parameters, whose scale is only known to be large enough: good for comparing, but not for
    /// results, which show their scale.
    pub exact_scale: bool,
}

pub struct Translator<'a> {
    pub tree: Tree<'a>,
    pub source: Source,
    params: Vec<Type>,
    /// The parameters' expressions, for `custom_exprs`.
    param_exprs: *mut pg_sys::List,
}

impl<'a> Translator<'a> {
    pub fn new(tree: Tree<'a>, source: Source) -> Self {
        Translator { tree, source, params: Vec::new(), param_exprs: std::ptr::null_mut() }
    }

    /// The plan as far as it is known here: relations and parameters.
    pub fn finish(self) -> (Plan, *mut pg_sys::List) {
        let relations = self.source.into_relations();
        let plan = Plan { relations, filters: Vec::new(), grouping: None, output: Vec::new(), params: self.params };
        (plan, self.param_exprs)
    }

    /// A condition.
    pub fn condition(&mut self, node: Node<'a>) -> Attempt<Expr> {
        let typed = self.expression(node)?;
        if typed.ty == Type::Bool { Ok(typed.expr) } else { Err("a condition is not boolean".into()) }
    }

    pub fn expression(&mut self, node: Node<'a>) -> Attempt<Typed> {
        if let Some(var) = node.cast::<pg_sys::Var>() {
            return self.source.column(var);
        }
        if !contains_more_than_values(node) {
            return self.value(node);
        }
        if let Some(op) = node.cast::<pg_sys::OpExpr>() {
            let arguments: Vec<Node<'a>> = self.tree.list(op.args).collect();
            return match (operators::comparison(op.opno), &arguments[..]) {
                (Some((family, cmp)), &[left, right]) => {
                    let (left, right) = (self.expression(left)?, self.expression(right)?);
                    compare(op.opno, family, cmp, op.inputcollid, left, right)
                }
                _ => {
                    let function = operators::function(op.opfuncid).ok_or_else(|| operator_reason(op.opno))?;
                    self.call(function, &arguments, || operator_reason(op.opno))
                }
            };
        }
        if let Some(call) = node.cast::<pg_sys::FuncExpr>() {
            let function = operators::function(call.funcid).ok_or_else(|| function_reason(call.funcid))?;
            let arguments: Vec<Node<'a>> = self.tree.list(call.args).collect();
            return self.call(function, &arguments, || function_reason(call.funcid));
        }
        if let Some(logic) = node.cast::<pg_sys::BoolExpr>() {
            let mut args = Vec::new();
            for argument in self.tree.list(logic.args) {
                args.push(self.condition(argument)?);
            }
            return Ok(match logic.boolop {
                pg_sys::BoolExprType::AND_EXPR => boolean(Expr::Bool { op: BoolOp::And, args }),
                pg_sys::BoolExprType::OR_EXPR => boolean(Expr::Bool { op: BoolOp::Or, args }),
                _ => boolean(Expr::Not(Box::new(args.pop().ok_or("NOT without an operand")?))),
            });
        }
        if let Some(test) = node.cast::<pg_sys::NullTest>() {
            if test.argisrow {
                return Err("IS NULL of a row".into());
            }
            let arg = self.expression(self.tree.required(test.arg))?.expr;
            let negated = test.nulltesttype == pg_sys::NullTestType::IS_NOT_NULL;
            return Ok(boolean(Expr::IsNull { arg: Box::new(arg), negated }));
        }
        if let Some(test) = node.cast::<pg_sys::BooleanTest>() {
            let arg = self.condition(self.tree.required(test.arg))?;
            return Ok(boolean(truth_test(test.booltesttype, arg)));
        }
        if let Some(relabel) = node.cast::<pg_sys::RelabelType>() {
            // Between text and varchar, and collations: the bytes are the same.
            let arg = self.expression(self.tree.required(relabel.arg))?;
            let text = matches!(relabel.resulttype, pg_sys::TEXTOID | pg_sys::VARCHAROID) && arg.ty == Type::Text;
            let char = relabel.resulttype == pg_sys::BPCHAROID && arg.ty == Type::Char;
            return if text || char { Ok(arg) } else { Err(type_reason(relabel.resulttype)) };
        }
        if let Some(collate) = node.cast::<pg_sys::CollateExpr>() {
            return self.expression(self.tree.required(collate.arg));
        }
        if let Some(list) = node.cast::<pg_sys::ScalarArrayOpExpr>() {
            return self.list_comparison(list);
        }
        Err(node_reason(node))
    }

    pub fn aggregate(&mut self, aggref: &'a pg_sys::Aggref) -> Attempt<(Agg, Option<Typed>)> {
        if !aggref.aggfilter.is_null() {
            return Err("aggregate with FILTER".into());
        }
        if !aggref.aggdistinct.is_null() {
            return Err("aggregate with DISTINCT".into());
        }
        if !aggref.aggorder.is_null() || aggref.aggkind as u8 != NORMAL_AGGREGATE {
            return Err("ordered aggregate".into());
        }
        let Some(aggregate) = operators::aggregate(aggref.aggfnoid) else {
            let name = function_name(aggref.aggfnoid);
            return Err(if operators::depends_on_row_order(aggref.aggfnoid) {
                format!("{name} depends on row order")
            } else {
                format!("aggregate {name}")
            });
        };
        let mut arguments = self.tree.list_of::<pg_sys::TargetEntry>(aggref.args);
        let Some(argument) = arguments.next() else {
            return if aggregate == Aggregate::CountStar {
                Ok((Agg::CountStar, None))
            } else {
                Err(format!("aggregate {}", function_name(aggref.aggfnoid)))
            };
        };
        let argument = self.expression(self.tree.required(argument.expr))?;
        if !argument.exact_scale && aggregate != Aggregate::Count {
            return Err("aggregate of a numeric parameter".into());
        }
        if argument.ty.is_text() && matches!(aggregate, Aggregate::Min | Aggregate::Max) {
            require_c_order(aggref.inputcollid)?;
        }
        let expr = argument.expr.clone();
        let agg = match (aggregate, &expr) {
            (Aggregate::Count, Expr::Literal { value: Some(_), .. }) => Some(Agg::CountStar),
            _ => aggregate.of(Some(expr)),
        };
        let agg = agg.ok_or_else(|| format!("aggregate {}", function_name(aggref.aggfnoid)))?;
        Ok((agg, Some(argument)))
    }

    /// An expression without columns: a literal, or a parameter.
    fn value(&mut self, node: Node<'a>) -> Attempt<Typed> {
        if node.is_volatile() {
            return Err("volatile function".into());
        }
        let sql_type = node.sql_type();
        let ty = value::type_of(sql_type).ok_or_else(|| type_reason(sql_type))?;
        let Some(constant) = node.cast::<pg_sys::Const>() else {
            let index = self.params.len() as u16;
            self.params.push(ty);
            push(&mut self.param_exprs, node.as_ptr::<pg_sys::Node>());
            let exact_scale = sql_type != pg_sys::NUMERICOID;
            return Ok(Typed { expr: Expr::Param { index }, ty, exact_scale });
        };
        if constant.constisnull {
            return Ok(exact(Expr::Literal { ty, value: None }, ty));
        }
        // SAFETY: the constant is of the type that `type_of` was asked for.
        unsafe { constant_literal(constant.constvalue, ty) }
    }

    fn call(&mut self, called: Called, arguments: &[Node<'a>], reason: impl Fn() -> Reason) -> Attempt<Typed> {
        let mut operands = Vec::with_capacity(arguments.len());
        for argument in arguments {
            operands.push(self.expression(*argument)?);
        }
        if operands.iter().any(|o| !o.exact_scale) {
            return Err("numeric parameter in arithmetic".into());
        }
        let mut operands = operands.into_iter();
        let (first, second) = (operands.next().ok_or_else(&reason)?, operands.next());
        match (called, second) {
            (Called::CastTo(ty), None) => Ok(exact(cast(first, ty), ty)),
            (Called::Negate, None) => {
                let ty = catalogue::result_type(Call::Neg, &[first.ty]).ok_or_else(reason)?;
                Ok(exact(Expr::Neg(Box::new(first.expr)), ty))
            }
            (Called::Arith(op, common), Some(second)) => {
                let types = common.map_or([first.ty, second.ty], |ty| [ty, ty]);
                let ty = catalogue::result_type(Call::Arith(op), &types).ok_or_else(reason)?;
                if ty.scale() > 38 {
                    return Err("numeric result with more than 38 digits behind the point".into());
                }
                let (left, right) = (Box::new(cast(first, types[0])), Box::new(cast(second, types[1])));
                Ok(exact(Expr::Arith { op, ty, left, right }, ty))
            }
            _ => Err(reason()),
        }
    }

    /// `x = ANY (list)` as OR, `x <> ALL (list)` as AND, for a constant list.
    fn list_comparison(&mut self, node: &'a pg_sys::ScalarArrayOpExpr) -> Attempt<Typed> {
        let (family, cmp) = operators::comparison(node.opno).ok_or_else(|| operator_reason(node.opno))?;
        let arguments: Vec<Node<'a>> = self.tree.list(node.args).collect();
        let &[left, array] = &arguments[..] else {
            return Err(operator_reason(node.opno));
        };
        let left = self.expression(left)?;
        let array = array.cast::<pg_sys::Const>().ok_or("comparison with an array that is not constant")?;
        if array.constisnull {
            return Ok(boolean(Expr::Literal { ty: Type::Bool, value: None }));
        }
        // SAFETY: a not-null constant of an array type.
        let (element_type, elements) = unsafe { elements(array.constvalue) };
        if elements.len() > MAX_LIST {
            return Err(format!("list of more than {MAX_LIST} values"));
        }
        let ty = value::type_of(element_type).ok_or_else(|| type_reason(element_type))?;
        let mut args = Vec::with_capacity(elements.len());
        for element in elements {
            let right = match element {
                None => exact(Expr::Literal { ty, value: None }, ty),
                // SAFETY: an element is of the array's element type.
                Some(datum) => unsafe { constant_literal(datum, ty) }?,
            };
            args.push(compare(node.opno, family, cmp, node.inputcollid, left.clone(), right)?.expr);
        }
        let op = if node.useOr { BoolOp::Or } else { BoolOp::And };
        Ok(boolean(match args.len() {
            0 => Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(!node.useOr)) },
            1 => args.remove(0),
            _ => Expr::Bool { op, args },
        }))
    }
}

fn exact(expr: Expr, ty: Type) -> Typed {
    Typed { expr, ty, exact_scale: true }
}

fn boolean(expr: Expr) -> Typed {
    exact(expr, Type::Bool)
}

fn cast(typed: Typed, to: Type) -> Expr {
    let integers = matches!(to, Type::Int16 | Type::Int32 | Type::Int64);
    match typed.expr {
        expr if typed.ty == to => expr,
        Expr::Literal { value: value @ (None | Some(Literal::Int(_))), .. } if integers => {
            Expr::Literal { ty: to, value }
        }
        expr => Expr::Cast { to, arg: Box::new(expr) },
    }
}

fn compare(
    operator: pg_sys::Oid,
    family: u32,
    op: CmpOp,
    collation: pg_sys::Oid,
    left: Typed,
    right: Typed,
) -> Attempt<Typed> {
    let equality = matches!(op, CmpOp::Eq | CmpOp::Ne);
    let (left_ty, right_ty) =
        operators::common_type(family, left.ty, right.ty).ok_or_else(|| operator_reason(operator))?;
    if left_ty.is_text() {
        if equality { require_deterministic(collation)? } else { require_c_order(collation)? }
    }
    if left_ty == Type::Bool && !equality {
        return Err("order of booleans".into());
    }
    let (left, right) = (Box::new(cast(left, left_ty)), Box::new(cast(right, right_ty)));
    Ok(boolean(Expr::Cmp { op, left, right }))
}

/// `IS [NOT] TRUE | FALSE | UNKNOWN`, which are never null.
fn truth_test(test: pg_sys::BoolTestType::Type, arg: Expr) -> Expr {
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
        Err("nondeterministic collation".into())
    }
}

/// Order by bytes.
fn require_c_order(collation: pg_sys::Oid) -> Attempt<()> {
    if collation != pg_sys::InvalidOid && ordered_by_bytes(collation) {
        Ok(())
    } else {
        Err("text order in a collation other than \"C\"".into())
    }
}

/// # Safety
///
/// As for [`value::literal`], except that the scale of numerics comes from the value.
unsafe fn constant_literal(datum: pg_sys::Datum, ty: Type) -> Attempt<Typed> {
    if let Type::Decimal128 { .. } = ty {
        // SAFETY: a numeric by the caller's promise.
        let (value, scale) = unsafe { value::numeric(datum) }?;
        let ty = Type::Decimal128 { scale };
        return Ok(exact(Expr::Literal { ty, value: Some(Literal::Decimal(value)) }, ty));
    }
    // SAFETY: by the caller's promise.
    let value = Some(unsafe { value::literal(datum, ty) }?);
    Ok(exact(Expr::Literal { ty, value }, ty))
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

/// Columns, aggregates and the like below this node.
fn contains_more_than_values(node: Node<'_>) -> bool {
    // SAFETY: a valid expression.
    node.has_columns()
        || unsafe { pg_sys::contain_agg_clause(node.as_ptr()) || pg_sys::contain_subplans(node.as_ptr()) }
}

fn operator_reason(operator: pg_sys::Oid) -> Reason {
    // SAFETY: returns a C string for any oid.
    format!("operator {}", unsafe { c_string(pg_sys::format_operator(operator)) })
}

fn function_reason(function: pg_sys::Oid) -> Reason {
    format!("function {}", function_name(function))
}

fn function_name(function: pg_sys::Oid) -> String {
    // SAFETY: returns a C string for any oid.
    unsafe { c_string(pg_sys::format_procedure(function)) }
}

pub fn type_reason(ty: pg_sys::Oid) -> Reason {
    // SAFETY: returns a C string for any oid.
    format!("type {}", unsafe { c_string(pg_sys::format_type_be(ty)) })
}

unsafe fn c_string(pointer: *const std::ffi::c_char) -> String {
    // SAFETY: a C string by the callers above.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

fn node_reason(node: Node<'_>) -> Reason {
    use pg_sys::NodeTag::*;
    match node.tag() {
        T_CaseExpr => "CASE",
        T_CoalesceExpr => "COALESCE",
        T_NullIfExpr => "NULLIF",
        T_MinMaxExpr => "GREATEST or LEAST",
        T_DistinctExpr => "IS DISTINCT FROM",
        T_SubLink | T_SubPlan => "subquery in an expression",
        T_Aggref => "nested aggregate",
        T_GroupingFunc => "GROUPING",
        T_WindowFunc => "window function below the aggregation",
        T_RowExpr | T_FieldSelect | T_RowCompareExpr | T_ConvertRowtypeExpr => "row value",
        T_ArrayExpr | T_SubscriptingRef | T_ArrayCoerceExpr => "array",
        T_CoerceToDomain => "domain",
        T_CoerceViaIO => "conversion through text",
        T_XmlExpr => "XML",
        other => return format!("expression {other:?}"),
    }
    .to_string()
}
