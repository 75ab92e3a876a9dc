//! Expressions, with PostgreSQL's semantics.
//!
//! NULL: arithmetic, casts and comparisons are strict, which means that a null operand gives null. So are calls of
//! functions, unless the catalogue says otherwise. `And`, `Or`, `Not` follow three-valued logic. Overflow and division
//! by zero are errors, never wrapped values or nulls.

use serde::{Deserialize, Serialize};

use crate::base::ops::{ArithOp, BoolOp, CmpOp, ColumnId};
use crate::base::types::{Kind, Type};
use crate::functions::{self, Call, Named};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    Column {
        id: ColumnId,
    },
    /// A typed constant; `value: None` is a typed null.
    Literal {
        ty: Type,
        value: Option<Literal>,
    },
    /// The parameter `params[index]`: a value that is known when the query starts, and constant while it runs.
    Param {
        index: u16,
    },
    /// A comparison. Both sides have the same [`Type`] variant; the translator adds an [`Expr::Cast`] where PostgreSQL
    /// compares different types. Decimals may differ in scale and width, because their numeric values are compared.
    /// Floats are compared as in PostgreSQL: -0 = 0, and NaN equals NaN and is greater than all other floats. Texts are
    /// compared by their bytes.
    Cmp {
        op: CmpOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Arithmetic, with the result type `ty`.
    ///
    /// - Integers: both operands are of type `ty`; overflow is an error.
    /// - Float64, Float32: IEEE. A result that becomes infinite (from finite operands) or zero (from non-zero operands,
    ///   for `*` and `/`) is an error, and so is division by zero.
    /// - Decimals: `ty` is Decimal128. Its scale is the larger of both operands' scales for `+` and `-`, and their sum
    ///   for `*`; there is no `/` and no `%`. A value beyond 38 digits is an error.
    /// - Dates: Date + Int32 and Date - Int32 give Date; infinite stays infinite, leaving the range is an error. Date -
    ///   Date gives Int32; an infinite operand is an error.
    Arith {
        op: ArithOp,
        ty: Type,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// Unary minus, checked.
    Neg(Box<Expr>),
    /// A cast that preserves the value:
    ///
    /// - Int16 -> Int32 -> Int64, Oid -> Int64, integers -> Float64, Float32 -> Float64, Name -> Text;
    /// - integers -> Decimal (scale 0 or more), and Decimal -> Decimal of no smaller scale; a value that does not fit
    ///   is an error;
    /// - Date -> Timestamp; infinities stay infinite, and a date out of range is an error.
    ///
    /// Also a cast of integers or Float64 to the nearest Float32; a value beyond its range is an error.
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
    /// A call of a function by its name. `ty` is the result type that the catalogue gives for arguments of these types.
    Call {
        function: Named,
        ty: Type,
        args: Vec<Expr>,
    },
    /// The value of the first branch whose condition is true; if there is none, `otherwise`. There is at least one
    /// branch, and all values have one type. Conditions are evaluated in order, up to the first that is true. Only the
    /// value that is returned is evaluated.
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    /// The first argument that is not null. There is at least one argument, and all arguments have one type. The
    /// arguments after the returned one are not evaluated.
    Coalesce(Vec<Expr>),
}

/// A value, in the form that [`Type`] describes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Literal {
    Bool(bool),
    /// A value of type Int16, Int32, Int64, Date, Timestamp, TimestampTz, Time, Oid, Enum, or Decimal64 (scaled).
    Int(i64),
    /// A value of type Float64 or Float32.
    Float(f64),
    /// A value of type Decimal128 (scaled) or Uuid.
    Decimal(i128),
    /// A value of type Text, Name, or Char without trailing blanks.
    Text(String),
    /// A value of type Bytes or Opaque.
    Bytes(Vec<u8>),
}

impl Expr {
    /// The type of the expression, given the types of the plan's columns and parameters.
    pub fn ty(&self, columns: &[Type], params: &[Type]) -> Type {
        match self {
            Expr::Column { id } => columns[id.0 as usize],
            Expr::Literal { ty, .. } | Expr::Arith { ty, .. } | Expr::Cast { to: ty, .. } | Expr::Call { ty, .. } => {
                *ty
            }
            Expr::Param { index } => params[*index as usize],
            Expr::Neg(e) => {
                let ty = e.ty(columns, params);
                functions::result_type(Call::Neg, &[ty]).unwrap_or(ty)
            }
            Expr::Cmp { .. } | Expr::Bool { .. } | Expr::Not(_) | Expr::IsNull { .. } => Type::Bool,
            Expr::Case { otherwise, .. } => otherwise.ty(columns, params),
            Expr::Coalesce(args) => args[0].ty(columns, params),
        }
    }

    /// The operands, in the order in which they are evaluated.
    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Column { .. } | Expr::Literal { .. } | Expr::Param { .. } => Vec::new(),
            Expr::Cmp { left, right, .. } | Expr::Arith { left, right, .. } => vec![left, right],
            Expr::Neg(e) | Expr::Not(e) | Expr::Cast { arg: e, .. } | Expr::IsNull { arg: e, .. } => vec![e],
            Expr::Bool { args, .. } | Expr::Call { args, .. } | Expr::Coalesce(args) => args.iter().collect(),
            Expr::Case { branches, otherwise } => {
                branches.iter().flat_map(|(when, then)| [when, then]).chain([&**otherwise]).collect()
            }
        }
    }

    pub fn column(id: ColumnId) -> Expr {
        Expr::Column { id }
    }

    pub fn equal(left: Expr, right: Expr) -> Expr {
        Expr::Cmp { op: CmpOp::Eq, left: Box::new(left), right: Box::new(right) }
    }

    /// The columns that the expression reads, each once.
    pub fn columns(&self) -> Vec<ColumnId> {
        let mut columns = Vec::new();
        self.visit(&mut |e| {
            if let Expr::Column { id } = e
                && !columns.contains(id)
            {
                columns.push(*id);
            }
        });
        columns
    }

    /// Calls `f` on this expression and on all expressions in it.
    pub fn visit(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        for child in self.children() {
            child.visit(f);
        }
    }

    /// Replaces each column for which `with` returns an expression by that expression.
    pub fn replace_columns(&mut self, with: &impl Fn(ColumnId) -> Option<Expr>) {
        self.replace(&|expr: &Expr| match expr {
            Expr::Column { id } => with(*id),
            _ => None,
        });
    }

    /// Replaces each expression for which `with` returns a substitute. The parts of a replaced expression are not
    /// visited.
    pub fn replace(&mut self, with: &impl Fn(&Expr) -> Option<Expr>) {
        if let Some(expr) = with(self) {
            *self = expr;
            return;
        }
        match self {
            Expr::Column { .. } | Expr::Literal { .. } | Expr::Param { .. } => {}
            Expr::Cmp { left, right, .. } | Expr::Arith { left, right, .. } => {
                left.replace(with);
                right.replace(with);
            }
            Expr::Neg(e) | Expr::Not(e) | Expr::Cast { arg: e, .. } | Expr::IsNull { arg: e, .. } => e.replace(with),
            Expr::Bool { args, .. } | Expr::Call { args, .. } | Expr::Coalesce(args) => {
                args.iter_mut().for_each(|e| e.replace(with));
            }
            Expr::Case { branches, otherwise } => {
                for (when, then) in branches {
                    when.replace(with);
                    then.replace(with);
                }
                otherwise.replace(with);
            }
        }
    }

    /// The levels of nesting; 1 for a column or a constant.
    pub fn depth(&self) -> usize {
        1 + self.children().into_iter().map(Expr::depth).max().unwrap_or(0)
    }

    /// The number of expressions in this one, including itself.
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.visit(&mut |_| size += 1);
        size
    }

    /// Whether evaluating the expression can raise an error on any row.
    pub fn can_raise(&self) -> bool {
        let mut raises = false;
        self.visit(&mut |e| {
            raises |= match e {
                Expr::Arith { op, right, .. } => {
                    !divides_by_number(*op, right) && functions::can_raise(Call::Arith(*op))
                }
                Expr::Neg(_) => functions::can_raise(Call::Neg),
                Expr::Cast { to, .. } => functions::can_raise(Call::Cast(to.kind())),
                Expr::Call { function: Named::Like, args, .. } if has_an_end(args.get(1)) => false,
                Expr::Call { function, .. } => functions::can_raise(Call::Named(*function)),
                Expr::Column { .. }
                | Expr::Literal { .. }
                | Expr::Param { .. }
                | Expr::Cmp { .. }
                | Expr::Bool { .. }
                | Expr::Not(_)
                | Expr::IsNull { .. }
                | Expr::Case { .. }
                | Expr::Coalesce(_) => false,
            }
        });
        raises
    }
}

/// Whether `op` divides an integer by a constant with which no error is possible: the constant is not zero, and the
/// quotient cannot overflow.
fn divides_by_number(op: ArithOp, divisor: &Expr) -> bool {
    let Expr::Literal { ty, value: Some(Literal::Int(number)) } = divisor else { return false };
    let divides = op == ArithOp::Mod || op == ArithOp::Div && *number != -1;
    divides && *number != 0 && ty.kind() == Kind::Integer
}

/// Whether a LIKE pattern is a constant that is surely valid. A pattern is an error if it ends in an escape character
/// that has nothing to escape.
fn has_an_end(pattern: Option<&Expr>) -> bool {
    let Some(Expr::Literal { value: Some(Literal::Text(text)), .. }) = pattern else { return false };
    let escapes = text.chars().rev().take_while(|character| *character == '\\').count();
    escapes.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_cannot_end_in_an_escape_raises_nothing() {
        let like = |pattern: &str| {
            let pattern = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(pattern.to_owned())) };
            let args = vec![Expr::column(ColumnId(0)), pattern];
            Expr::Call { function: Named::Like, ty: Type::Bool, args }
        };
        assert!(!like("%special_requests%").can_raise());
        assert!(!like("50\\%").can_raise() && !like("special\\\\").can_raise());
        assert!(like("special\\").can_raise() && like("special\\\\\\").can_raise());
    }

    #[test]
    fn a_division_by_a_number_raises_nothing() {
        let raises = |op, value| {
            let right = Box::new(Expr::Literal { ty: Type::Int32, value });
            Expr::Arith { op, ty: Type::Int32, left: Box::new(Expr::column(ColumnId(0))), right }.can_raise()
        };
        assert!(!raises(ArithOp::Mod, Some(Literal::Int(-1))) && !raises(ArithOp::Div, Some(Literal::Int(10))));
        assert!(raises(ArithOp::Div, Some(Literal::Int(-1))) && raises(ArithOp::Mod, Some(Literal::Int(0))));
        assert!(raises(ArithOp::Add, Some(Literal::Int(1))));
    }
}
