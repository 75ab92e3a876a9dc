//! Short functions that build expressions.

use plan::{ArithOp, BoolOp, CmpOp, Expr, Literal, Named, Type};

use crate::level::id;
use crate::table::Value;

pub fn column(rel: u16, col: u16) -> Expr {
    Expr::column(id(rel, col))
}

pub fn literal(ty: Type, value: Value) -> Expr {
    Expr::Literal { ty, value }
}

pub fn integer(ty: Type, value: i64) -> Expr {
    literal(ty, Some(Literal::Int(value)))
}

pub fn cast(to: Type, arg: Expr) -> Expr {
    Expr::Cast { to, arg: arg.into() }
}

pub fn call(function: Named, ty: Type, args: Vec<Expr>) -> Expr {
    Expr::Call { function, ty, args }
}

pub fn cmp(op: CmpOp, left: Expr, right: Expr) -> Expr {
    Expr::Cmp { op, left: left.into(), right: right.into() }
}

pub fn equal(left: Expr, right: Expr) -> Expr {
    cmp(CmpOp::Eq, left, right)
}

pub fn arith(op: ArithOp, ty: Type, left: Expr, right: Expr) -> Expr {
    Expr::Arith { op, ty, left: left.into(), right: right.into() }
}

pub fn and(args: Vec<Expr>) -> Expr {
    Expr::Bool { op: BoolOp::And, args }
}

pub fn or(args: Vec<Expr>) -> Expr {
    Expr::Bool { op: BoolOp::Or, args }
}

pub fn int(value: i64) -> Value {
    Some(Literal::Int(value))
}

pub fn float(value: f64) -> Value {
    Some(Literal::Float(value))
}

pub fn decimal(value: i128) -> Value {
    Some(Literal::Decimal(value))
}

pub fn text(value: &str) -> Value {
    Some(Literal::Text(value.into()))
}

pub fn boolean(value: bool) -> Value {
    Some(Literal::Bool(value))
}
