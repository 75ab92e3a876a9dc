//! CASE, COALESCE, NULLIF, GREATEST, LEAST and IS DISTINCT FROM, and the dispatch to row comparisons.
//!
//! Each of these expressions chooses one of several values, and all values must have one type. In PostgreSQL, each
//! numeric keeps its own number of digits behind the point. In the engine, all values get the largest scale among them,
//! and a second expression computes how many digits the chosen value shows.

use pgrx::prelude::*;
use plan::catalogue::{self, Call, Kind};
use plan::{BoolOp, CmpOp, Expr, Literal, Named, Type};

use super::compare::{Comparison, TextOrder, named_locale};
use super::numeric::{comparable, has_images};
use crate::pg::catalog::type_name;
use crate::pg::tree::{List, Node, Ref};
use crate::planner::translate::{Scale, Translator, Typed, boolean, cast, exact};
use crate::planner::words::reason::{Attempt, Why, node_reason, operator_reason};

/// The greatest number of nodes in an expression that is repeated. Without a limit, each nested level could double the
/// size.
const MAX_REPEATED: usize = 1000;

impl<'a> Translator<'a> {
    pub fn conditional(&mut self, node: Node<'a>) -> Attempt<Typed> {
        if let Some(case) = node.cast::<pg_sys::CaseExpr>() {
            self.case(case)
        } else if node.cast::<pg_sys::CaseTestExpr>().is_some() {
            self.scope().case_values.last().cloned().ok_or_else(|| node_reason(node))
        } else if let Some(coalesce) = node.cast::<pg_sys::CoalesceExpr>() {
            let args = self.all(coalesce.args())?;
            Ok(self.unified(args)?.made_by(Expr::Coalesce))
        } else if let Some(extreme) = node.cast::<pg_sys::MinMaxExpr>() {
            self.extreme(extreme)
        } else if let Some(subscript) = node.cast::<pg_sys::SubscriptingRef>() {
            self.element_at(subscript)
        } else if let Some(rows) = node.cast::<pg_sys::RowCompareExpr>() {
            self.row_comparison(rows)
        } else {
            match (node.operator(), node.tag()) {
                (Some(op), pg_sys::NodeTag::T_DistinctExpr) => self.distinct(op),
                (Some(op), pg_sys::NodeTag::T_NullIfExpr) => self.null_if(op),
                _ => Err(node_reason(node)),
            }
        }
    }

    fn all(&mut self, list: List<'a, pg_sys::Node>) -> Attempt<Vec<Typed>> {
        let mut all = Vec::new();
        for node in list {
            all.push(self.expression(node)?);
        }
        Ok(all)
    }

    fn case(&mut self, case: Ref<'a, pg_sys::CaseExpr>) -> Attempt<Typed> {
        if let Some(compared) = case.arg() {
            let compared = self.expression(compared)?;
            check_repeated(&compared, case.args().len())?;
            self.scope_mut().case_values.push(compared);
        }
        let branches = self.branches(case);
        if !case.arg.is_null() {
            self.scope_mut().case_values.pop();
        }
        let (conditions, values) = branches?;
        Ok(self.unified(values)?.made_by(|values| {
            let mut values = values.into_iter();
            let branches = conditions.iter().cloned().zip(values.by_ref()).collect();
            // `values` has one element more than `conditions`.
            Expr::Case { branches, otherwise: Box::new(values.next().expect("the value of ELSE")) }
        }))
    }

    /// The conditions and the values of a CASE. The last value is the value of ELSE.
    fn branches(&mut self, case: Ref<'a, pg_sys::CaseExpr>) -> Attempt<(Vec<Expr>, Vec<Typed>)> {
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for when in case.args().iter() {
            conditions.push(self.condition(when.expr())?);
            values.push(self.expression(when.result())?);
        }
        values.push(self.expression(case.defresult().ok_or_else(|| Why::Expression.of("CASE without ELSE"))?)?);
        Ok((conditions, values))
    }

    fn extreme(&mut self, node: Ref<'a, pg_sys::MinMaxExpr>) -> Attempt<Typed> {
        let all = self.all(node.args())?;
        let unified = self.unified(all.clone())?;
        if has_images(unified.ty) || unified.ty == Type::Enum {
            return self.extreme_of_images(node, unified);
        }
        let locale = match unified.ty.is_text() {
            true => TextOrder::of(node.inputcollid)?.locale(),
            false => None,
        };
        let function = match (node.op, &locale) {
            (pg_sys::MinMaxOp::IS_GREATEST, None) => Named::Greatest,
            (pg_sys::MinMaxOp::IS_GREATEST, Some(_)) => Named::GreatestIn,
            (_, None) => Named::Least,
            (_, Some(_)) => Named::LeastIn,
        };
        let ty = unified.ty;
        // If several values are equal, their positions decide which one is returned, and so which digits are shown.
        let scale = match unified.scale {
            Mix::OfType => Scale::OfType,
            Mix::Unknown => Scale::Unknown,
            Mix::Of(_) => {
                let numerics = self.numerics(all).and_then(|numerics| self.extreme_of_images(node, numerics));
                numerics.map_or(Scale::Unknown, |numeric| Scale::Shown(numeric.expr))
            }
        };
        let mut types = vec![ty; unified.exprs.len()];
        types.extend(locale.iter().map(|_| Type::Text));
        if catalogue::function(Call::Named(function), &types).is_none() {
            return Err(Why::Type.of(format!("GREATEST or LEAST of {}", type_name(node.minmaxtype))));
        }
        let mut args = unified.exprs;
        args.extend(locale.as_deref().map(named_locale));
        let expr = Expr::Call { function, ty, args };
        Ok(Typed { expr, ty, scale })
    }

    /// Translates GREATEST or LEAST for types that are compared in another form, for example an enum by its rank. The
    /// result starts as the first value. Each later value replaces it if that value is greater or, for LEAST, less.
    fn extreme_of_images(&mut self, node: Ref<'_, pg_sys::MinMaxExpr>, unified: Unified) -> Attempt<Typed> {
        let ty = unified.ty;
        let op = if node.op == pg_sys::MinMaxOp::IS_GREATEST { CmpOp::Gt } else { CmpOp::Lt };
        let mut key = |expr: &Expr| match ty {
            Type::Enum => Box::new(self.rank(exact(expr.clone(), ty), node.minmaxtype).expr),
            _ => Box::new(comparable(&exact(expr.clone(), ty))),
        };
        let mut exprs = unified.exprs.into_iter();
        let mut extreme = exprs.next().ok_or_else(|| Why::Expression.of("GREATEST or LEAST of nothing"))?;
        for expr in exprs {
            check_repeated(&exact(extreme.clone(), ty), 3)?;
            let is_null = Expr::IsNull { arg: Box::new(extreme.clone()), negated: false };
            let is_beyond = Expr::Cmp { op, left: key(&expr), right: key(&extreme) };
            let condition = Expr::Bool { op: BoolOp::Or, args: vec![is_null, is_beyond] };
            extreme = Expr::Case { branches: vec![(condition, expr)], otherwise: Box::new(extreme) };
        }
        Ok(exact(extreme, ty))
    }

    /// IS DISTINCT FROM: `a <> b` or, if that is null, whether exactly one side is null.
    fn distinct(&mut self, op: Ref<'a, pg_sys::OpExpr>) -> Attempt<Typed> {
        let (left, right, equal) = self.equality(op)?;
        let Expr::Cmp { op: CmpOp::Eq, left: l, right: r } = equal.expr else {
            return Err(operator_reason(op.opno));
        };
        let is_null = |arg: Expr| Box::new(Expr::IsNull { arg: Box::new(arg), negated: false });
        let one_is_null = Expr::Cmp { op: CmpOp::Ne, left: is_null(left.expr), right: is_null(right.expr) };
        let differ = Expr::Cmp { op: CmpOp::Ne, left: l, right: r };
        Ok(boolean(Expr::Coalesce(vec![differ, one_is_null])))
    }

    fn null_if(&mut self, op: Ref<'a, pg_sys::OpExpr>) -> Attempt<Typed> {
        let (value, _, equal) = self.equality(op)?;
        let case = |value: Expr, ty: Type| Expr::Case {
            branches: vec![(equal.expr.clone(), Expr::Literal { ty, value: None })],
            otherwise: Box::new(value),
        };
        let value = match value.scale {
            Scale::Parameter(_) => self.numeric(value)?,
            _ => value,
        };
        let scale = value.scale.named(|scale, ty| Ok(case(scale, ty)))?;
        Ok(Typed { expr: case(value.expr, value.ty), ty: value.ty, scale })
    }

    /// Both sides of a comparison, and whether they are equal.
    fn equality(&mut self, op: Ref<'a, pg_sys::OpExpr>) -> Attempt<(Typed, Typed, Typed)> {
        let arguments = self.all(op.args())?;
        let [left, right] = <[Typed; 2]>::try_from(arguments).map_err(|_| operator_reason(op.opno))?;
        check_repeated(&left, 2)?;
        check_repeated(&right, 2)?;
        let node = op.args().iter().next().ok_or_else(|| operator_reason(op.opno))?;
        let comparison = Comparison::of(op.opno, op.inputcollid, node).ok_or_else(|| operator_reason(op.opno))?;
        let equal = comparison.between(self, left.clone(), right.clone())?;
        match equal.expr {
            Expr::Cmp { op: CmpOp::Eq, .. } => Ok((left, right, equal)),
            _ => Err(operator_reason(op.opno)),
        }
    }
}

fn check_repeated(typed: &Typed, times: usize) -> Attempt<()> {
    let scale = match &typed.scale {
        Scale::Varies(scale) | Scale::Shown(scale) => scale.size(),
        Scale::OfType | Scale::Unknown | Scale::Parameter(_) => 0,
    };
    if (typed.expr.size() + scale) * times > MAX_REPEATED {
        Err(Why::TooLarge.of("expression that grows too large"))
    } else {
        Ok(())
    }
}

/// Several values, converted to one type.
struct Unified {
    exprs: Vec<Expr>,
    ty: Type,
    scale: Mix,
}

enum Mix {
    OfType,
    Unknown,
    /// Each value shows its own scale.
    Of(Vec<Expr>),
}

impl Unified {
    /// `choice` selects the value and, in the same way, the value's scale.
    fn made_by(self, choice: impl Fn(Vec<Expr>) -> Expr) -> Typed {
        let scale = match self.scale {
            Mix::OfType => Scale::OfType,
            Mix::Unknown => Scale::Unknown,
            Mix::Of(scales) => Scale::Varies(choice(scales)),
        };
        Typed { expr: choice(self.exprs), ty: self.ty, scale }
    }
}

impl<'a> Translator<'a> {
    /// Converts values to one common type. If one of them is a numeric that shows its own digits, all of them become
    /// numerics.
    fn unified(&mut self, values: Vec<Typed>) -> Attempt<Unified> {
        let is_numeric =
            |value: &Typed| value.ty == Type::Numeric || matches!(value.scale, Scale::Shown(_) | Scale::Parameter(_));
        match values.iter().any(is_numeric) {
            true => self.numerics(values),
            false => unified(values),
        }
    }

    fn numerics(&mut self, values: Vec<Typed>) -> Attempt<Unified> {
        let exprs = values.into_iter().map(|value| Ok(self.numeric(value)?.expr)).collect::<Attempt<_>>()?;
        Ok(Unified { exprs, ty: Type::Numeric, scale: Mix::OfType })
    }
}

fn unified(values: Vec<Typed>) -> Attempt<Unified> {
    let known = values.iter().filter(|value| !is_null(value));
    let first =
        known.clone().next().or(values.first()).ok_or_else(|| Why::Expression.of("conditional without values"))?.ty;
    if first.kind() != Kind::Decimal {
        if known.clone().any(|value| value.ty != first) {
            return Err(Why::Type.of("conditional of different types"));
        }
        let exprs = values.into_iter().map(|value| retyped(value, first)).collect();
        return Ok(Unified { exprs, ty: first, scale: Mix::OfType });
    }
    let scale = if known.clone().any(|value| matches!(value.scale, Scale::Unknown)) {
        Mix::Unknown
    } else if known.clone().all(|value| value.has_exact_scale() && value.ty.scale() == first.scale()) {
        Mix::OfType
    } else {
        values.iter().try_for_each(|value| check_repeated(value, 3))?;
        Mix::Of(values.iter().map(own_scale).collect())
    };
    let ty = if known.clone().all(|value| value.ty == first) {
        first
    } else {
        Type::Decimal128 { scale: known.map(|value| value.ty.scale()).max().unwrap_or_default() }
    };
    let exprs = values.into_iter().map(|value| retyped(value, ty)).collect();
    Ok(Unified { exprs, ty, scale })
}

fn is_null(value: &Typed) -> bool {
    matches!(value.expr, Expr::Literal { value: None, .. })
}

fn retyped(value: Typed, ty: Type) -> Expr {
    if is_null(&value) { Expr::Literal { ty, value: None } } else { cast(value, ty) }
}

/// The number of digits behind the point that a value shows, as an integer; null if the value is null.
fn own_scale(value: &Typed) -> Expr {
    let integer = |digits| Expr::Literal { ty: Type::Int32, value: digits };
    let digits = || integer(Some(Literal::Int(value.ty.scale() as i64)));
    match (&value.scale, &value.expr) {
        (Scale::Varies(scale), _) => scale.clone(),
        (_, Expr::Literal { value: None, .. }) => integer(None),
        (_, Expr::Literal { value: Some(_), .. }) => digits(),
        (_, expr) => {
            let present = Expr::IsNull { arg: Box::new(expr.clone()), negated: true };
            Expr::Case { branches: vec![(present, digits())], otherwise: Box::new(integer(None)) }
        }
    }
}
