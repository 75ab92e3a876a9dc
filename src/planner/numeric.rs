//! Numbers that show their own digits behind the point, and arithmetic with them.
//!
//! Decimals of one scale are scaled integers. Where the scale varies from row to row, or there are more than 38 digits, a
//! number becomes a [`Type::Numeric`], once its digits matter.

use plan::catalogue::{self, Call, Kind};
use plan::{ArithOp, Expr, Named, Type};

use super::reason::{Attempt, Reason, Why};
use super::translate::{Scale, Translator, Typed, cast, exact};
use crate::spec::Source;

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

    /// A number as a numeric that shows its own digits.
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
            (Kind::Decimal, Scale::Parameter(node)) => {
                call(Named::FromStored, vec![self.parameter(Type::Opaque, Source::Value, node)])
            }
            _ => return Err(Why::NumericDigits.of("numeric whose digits are not known")),
        };
        Ok(exact(expr, Type::Numeric))
    }

    /// A value that is shown.
    pub fn shown(&mut self, typed: Typed) -> Attempt<Typed> {
        if typed.has_exact_scale() { Ok(typed) } else { self.numeric(typed) }
    }
}

/// What is compared of a value, or grouped by: equal ones have equal bytes.
pub fn comparable(typed: &Typed) -> Expr {
    let ty = comparable_type(typed.ty);
    let call = |function| Expr::Call { function, ty, args: vec![typed.expr.clone()] };
    match typed.ty {
        Type::Numeric => call(Named::Trimmed),
        Type::Interval => call(Named::Span),
        _ => typed.expr.clone(),
    }
}

/// The type of that.
pub fn comparable_type(ty: Type) -> Type {
    match ty {
        Type::Interval => Type::Decimal128 { scale: 6 },
        other => other,
    }
}

/// Whether equal values of a type may look different, so that groups of them are shown as one of theirs.
pub fn has_images(ty: Type) -> bool {
    matches!(ty, Type::Numeric | Type::Interval)
}
