//! Numbers that show their own number of digits behind the point (1.5 and 1.50 are equal), and arithmetic with them.
//!
//! Decimals that all have one scale are integers with that scale. If the scale varies from row to row, or if there are
//! more than 38 digits, a number becomes a [`Type::Numeric`] as soon as its digits matter.

use plan::catalogue::{self, Call, Kind};
use plan::{ArithOp, CmpOp, Expr, Literal, Named, Type};

use crate::planner::translate::{Scale, Translator, Typed, cast, exact};
use crate::planner::words::reason::{Attempt, Reason, Why};

impl<'a> Translator<'a> {
    pub fn arithmetic(
        &mut self,
        op: ArithOp,
        common: Option<Type>,
        first: Typed,
        second: Typed,
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        let types = common.map_or([first.ty, second.ty], |ty| [ty, ty]);
        let are_decimals = types.iter().all(|ty| matches!(ty.kind(), Kind::Decimal | Kind::Numeric));
        let varies = |operand: &Typed| matches!(operand.scale, Scale::Varies(_));
        let ty = catalogue::result_type(Call::Arith(op), &types).filter(|ty| ty.scale() <= 38);
        let ty = ty.filter(|_| !varies(&first) && !varies(&second));
        let Some(ty) = ty else {
            if !are_decimals {
                return Err(reason());
            }
            let expr = self.numeric_arithmetic(op, first, second)?;
            return Ok(exact(expr, Type::Numeric));
        };
        let scale = match (&first.scale, &second.scale) {
            (Scale::OfType, Scale::OfType) => Scale::OfType,
            (Scale::Unknown, _) | (_, Scale::Unknown) => Scale::Unknown,
            _ => Scale::Shown(self.numeric_arithmetic(op, first.clone(), second.clone())?),
        };
        let (left, right) = (Box::new(cast(first, types[0])), Box::new(cast(second, types[1])));
        Ok(Typed { expr: Expr::Arith { op, ty, left, right }, ty, scale })
    }

    fn numeric_arithmetic(&mut self, op: ArithOp, first: Typed, second: Typed) -> Attempt<Expr> {
        let (left, right) = (Box::new(self.numeric(first)?.expr), Box::new(self.numeric(second)?.expr));
        Ok(Expr::Arith { op, ty: Type::Numeric, left, right })
    }

    /// Converts a number to a numeric that shows as many digits behind the point as PostgreSQL shows.
    pub fn numeric(&mut self, typed: Typed) -> Attempt<Typed> {
        let call = |function, args| Expr::Call { function, ty: Type::Numeric, args };
        let expr = match (typed.ty.kind(), typed.scale) {
            (Kind::Numeric, _) => typed.expr,
            (Kind::Integer | Kind::Decimal, Scale::OfType) => match typed.expr {
                Expr::Literal { value: None, .. } => Expr::Literal { ty: Type::Numeric, value: None },
                expr => Expr::Cast { to: Type::Numeric, arg: Box::new(expr) },
            },
            (Kind::Decimal, Scale::Varies(digits)) => call(Named::ShownWith, vec![typed.expr, digits]),
            (Kind::Decimal, Scale::Shown(numeric)) => numeric,
            (Kind::Decimal, Scale::Parameter(index)) => call(Named::FromStored, vec![self.stored_parameter(index)]),
            _ => return Err(Why::NumericDigits.of("numeric whose digits are not known")),
        };
        Ok(exact(expr, Type::Numeric))
    }

    /// Translates `width_bucket` with a constant range and a constant number of parts. As in PostgreSQL, the value's
    /// distance from the lower end decides.
    pub fn bucket(&mut self, args: Vec<Typed>, reason: impl Fn() -> Reason) -> Attempt<Typed> {
        let [value, low, high, parts] = <[Typed; 4]>::try_from(args).map_err(|_| reason())?;
        let (Some(first), Some(last)) = (constant(&low), constant(&high)) else { return Err(reason()) };
        let count = match parts.expr {
            Expr::Literal { value: Some(Literal::Int(count @ 1..=1_000_000)), .. } => count,
            _ => return Err(reason()),
        };
        let (low_scale, high_scale) = (u32::from(low.ty.scale()), u32::from(high.ty.scale()));
        let scaled = |number: i128, by: u32| 10i128.checked_pow(by).and_then(|power| number.checked_mul(power));
        // PostgreSQL raises an error for infinite bounds, but a decimal is always finite.
        let ascends = scaled(first, high_scale).zip(scaled(last, low_scale)).is_some_and(|(a, b)| a < b);
        if value.ty.kind() != Kind::Decimal || !ascends {
            return Err(reason());
        }
        let integer = |n: i64| Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(n)) };
        let decimal = |n: i64| {
            let ty = Type::Decimal128 { scale: 0 };
            exact(Expr::Literal { ty, value: Some(Literal::Decimal(n.into())) }, ty)
        };
        let is_at_least = |value: &Typed, bound: &Typed| Expr::Cmp {
            op: CmpOp::Ge,
            left: Box::new(value.expr.clone()),
            right: Box::new(bound.expr.clone()),
        };
        let (beyond, below) = (is_at_least(&value, &high), Expr::Not(Box::new(is_at_least(&value, &low))));
        let is_null = Expr::IsNull { arg: Box::new(value.expr.clone()), negated: false };
        let part = self.arithmetic(ArithOp::Sub, None, value, low.clone(), &reason)?;
        let part = self.numeric_arithmetic(ArithOp::Mul, part, decimal(count))?;
        let whole = self.arithmetic(ArithOp::Sub, None, high, low, &reason)?;
        let quotient = self.numeric_arithmetic(ArithOp::Div, exact(part, Type::Numeric), whole)?;
        let floor = Expr::Call { function: Named::Floor, ty: Type::Numeric, args: vec![quotient] };
        let number = Expr::Call { function: Named::ToInt32, ty: Type::Int32, args: vec![floor] };
        // Rounding up in the division could make the number too large by one.
        let number = Expr::Call { function: Named::Least, ty: Type::Int32, args: vec![number, integer(count - 1)] };
        let one_more =
            Expr::Arith { op: ArithOp::Add, ty: Type::Int32, left: Box::new(number), right: Box::new(integer(1)) };
        let null = Expr::Literal { ty: Type::Int32, value: None };
        let branches = vec![(is_null, null), (below, integer(0)), (beyond, integer(count + 1))];
        Ok(exact(Expr::Case { branches, otherwise: Box::new(one_more) }, Type::Int32))
    }

    /// The value in a form that shows as many digits as PostgreSQL shows: unchanged, or converted to a numeric.
    pub fn shown(&mut self, typed: Typed) -> Attempt<Typed> {
        if typed.has_exact_scale() { Ok(typed) } else { self.numeric(typed) }
    }
}

/// The unscaled integer of a constant decimal.
fn constant(typed: &Typed) -> Option<i128> {
    match typed.expr {
        Expr::Literal { value: Some(Literal::Decimal(number)), .. } => Some(number),
        _ => None,
    }
}

/// The form in which a value is compared and grouped. In this form, equal values have equal bytes.
pub fn comparable(typed: &Typed) -> Expr {
    let ty = comparable_type(typed.ty);
    let call = |function| Expr::Call { function, ty, args: vec![typed.expr.clone()] };
    match typed.ty {
        Type::Numeric => call(Named::Trimmed),
        Type::Interval => call(Named::Span),
        _ => typed.expr.clone(),
    }
}

/// The type of a value in the form of [`comparable`].
pub fn comparable_type(ty: Type) -> Type {
    match ty {
        Type::Interval => Type::Decimal128 { scale: 6 },
        other => other,
    }
}

/// Whether equal values of a type may look different. A group of equal values shows one of them.
pub fn has_images(ty: Type) -> bool {
    matches!(ty, Type::Numeric | Type::Interval)
}
