//! Expressions, with PostgreSQL's semantics.
//!
//! NULL: every operation but `And`, `Or`, `Not`, `IsNull` is strict (a null operand gives null); those follow
//! three-valued logic. Overflow and division by zero are errors, never wrapped values or nulls.

use serde::{Deserialize, Serialize};

use crate::catalogue::{self, Call};
use crate::{Relation, Type};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// Column `col` of `relations[rel].columns`.
    Column {
        rel: u16,
        col: u16,
    },
    /// A typed constant; `value: None` is a typed null.
    Literal {
        ty: Type,
        value: Option<Literal>,
    },
    /// `params[index]`: known when the query starts, constant while it runs.
    Param {
        index: u16,
    },
    /// Both sides have the same [`Type`] variant, after [`Expr::Cast`] where PostgreSQL compares across types.
    /// Decimals may differ in scale and width: values are compared. Floats compare as in PostgreSQL: -0 = 0, NaN
    /// equals NaN and is greater than all else. Text by bytes.
    Cmp {
        op: CmpOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Result type `ty` is spelled out by the translator. Integers: both operands are of type `ty`, checked.
    /// Float64: IEEE, but a result that becomes infinite (from finite operands) or zero (from non-zero operands,
    /// for * and /) is an error, and so is division by zero. Decimals: `ty` is Decimal128; the scale is the larger
    /// one for + and -, the sum for *; a value beyond 38 digits is an error; no / and %. Date + Int32 gives Date,
    /// Date - Int32 gives Date (both: infinite stays infinite, leaving the range is an error),
    /// Date - Date gives Int32 (an infinite operand is an error).
    Arith {
        op: ArithOp,
        ty: Type,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Unary minus, checked.
    Neg(Box<Expr>),
    /// Value-preserving: Int16 -> Int32 -> Int64, integers -> Decimal (scale 0 or more), Decimal -> Decimal of no
    /// smaller scale (without room for the value: an error), integers -> Float64, Date -> Timestamp (infinities map;
    /// out of range is an error).
    Cast {
        to: Type,
        arg: Box<Expr>,
    },
    Bool {
        op: BoolOp,
        args: Vec<Expr>,
    },
    Not(Box<Expr>),
    IsNull {
        arg: Box<Expr>,
        negated: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ArithOp {
    Add,
    Sub,
    Mul,
    /// Integers: truncates towards zero; the smallest value divided by -1 is an error.
    Div,
    /// Integers only; the sign of the dividend; x % -1 is 0.
    Mod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BoolOp {
    And,
    Or,
}

/// A value in the units of [`Type`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Literal {
    Bool(bool),
    /// Int16, Int32, Int64, Date, Timestamp, TimestampTz, Decimal64 (scaled).
    Int(i64),
    Float(f64),
    /// Decimal128 (scaled).
    Decimal(i128),
    /// Text; Char without trailing blanks.
    Text(String),
}

impl Expr {
    pub(crate) fn ty(&self, relations: &[Relation], params: &[Type]) -> Type {
        match self {
            Expr::Column { rel, col } => relations[*rel as usize].columns[*col as usize].ty,
            Expr::Literal { ty, .. } | Expr::Arith { ty, .. } | Expr::Cast { to: ty, .. } => *ty,
            Expr::Param { index } => params[*index as usize],
            Expr::Neg(e) => {
                let ty = e.ty(relations, params);
                catalogue::result_type(Call::Neg, &[ty]).unwrap_or(ty)
            }
            Expr::Cmp { .. } | Expr::Bool { .. } | Expr::Not(_) | Expr::IsNull { .. } => Type::Bool,
        }
    }

    /// Calls `f` on this expression and all below it.
    pub fn visit(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        match self {
            Expr::Column { .. } | Expr::Literal { .. } | Expr::Param { .. } => {}
            Expr::Cmp { left, right, .. } | Expr::Arith { left, right, .. } => {
                left.visit(f);
                right.visit(f);
            }
            Expr::Neg(e) | Expr::Not(e) | Expr::Cast { arg: e, .. } | Expr::IsNull { arg: e, .. } => e.visit(f),
            Expr::Bool { args, .. } => args.iter().for_each(|e| e.visit(f)),
        }
    }

    /// Levels of nesting; 1 for a column or a constant.
    pub fn depth(&self) -> usize {
        1 + match self {
            Expr::Column { .. } | Expr::Literal { .. } | Expr::Param { .. } => 0,
            Expr::Cmp { left, right, .. } | Expr::Arith { left, right, .. } => left.depth().max(right.depth()),
            Expr::Neg(e) | Expr::Not(e) | Expr::Cast { arg: e, .. } | Expr::IsNull { arg: e, .. } => e.depth(),
            Expr::Bool { args, .. } => args.iter().map(Expr::depth).max().unwrap_or(0),
        }
    }

    /// Whether evaluating it on some row can be an error.
    pub fn can_raise(&self) -> bool {
        let mut raises = false;
        self.visit(&mut |e| {
            raises |= match e {
                Expr::Arith { op, .. } => catalogue::can_raise(Call::Arith(*op)),
                Expr::Neg(_) => catalogue::can_raise(Call::Neg),
                Expr::Cast { to, .. } => catalogue::can_raise(Call::Cast(to.kind())),
                Expr::Column { .. }
                | Expr::Literal { .. }
                | Expr::Param { .. }
                | Expr::Cmp { .. }
                | Expr::Bool { .. }
                | Expr::Not(_)
                | Expr::IsNull { .. } => false,
            }
        });
        raises
    }
}
