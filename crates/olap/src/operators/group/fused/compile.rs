//! The sums and counts that a query's aggregates need, if codes are enough to compute all of them.

use std::sync::Arc;

use datafusion_physical_expr::PhysicalExpr;
use plan::catalogue::{self, Function, Kind};
use plan::{ArithOp, ColumnId, Expr, Literal, Type};

use super::program::{Op, Operand, Program};
use crate::expr::Lowering;
use crate::operators::scan::Direct;

/// A partial state: a column of the result, after the keys.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// The number of rows.
    Rows,
    /// The number of rows in which a value is not null. The index in `Shape::ways` tells where the value is null.
    Count(usize),
    /// A sum, by the number of its output. The second index, in `Shape::ways`, tells where the summed values are null.
    Sum(usize, usize),
}

#[derive(Debug, Default)]
pub struct Shape {
    /// The view's columns by which rows are grouped.
    pub keys: Vec<usize>,
    pub program: Program,
    /// The expressions of the program's outputs. They are summed row by row if the program cannot compute them.
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Lists of columns. Each value below refers to one list, and is null where one of the list's columns is null.
    pub ways: Vec<Vec<usize>>,
    /// For each output, the index of its list in `ways`. `way_of_base` holds the same for each base.
    pub way_of: Vec<usize>,
    pub way_of_base: Vec<usize>,
    pub states: Vec<State>,
}

/// Builds a [`Shape`].
pub struct Compiler<'a> {
    lowering: &'a Lowering<'a>,
    direct: &'a Direct,
    shape: Shape,
    /// The steps that are summed, with the expressions that they compute.
    outputs: Vec<(usize, &'a Expr)>,
}

impl<'a> Compiler<'a> {
    /// A compiler; `None` if a key is no column that may have codes.
    pub fn new(keys: impl Iterator<Item = &'a Expr>, lowering: &'a Lowering<'a>, direct: &'a Direct) -> Option<Self> {
        let mut compiler = Compiler { lowering, direct, shape: Shape::default(), outputs: Vec::new() };
        for key in keys {
            let Expr::Column { id } = key else { return None };
            // Equal floats may differ in their bits, and so in their codes.
            let column = compiler.column(*id).filter(|_| !lowering.plan.type_of(key).is_float())?;
            compiler.shape.keys.push(column);
        }
        Some(compiler)
    }

    fn column(&self, id: ColumnId) -> Option<usize> {
        let at = self.lowering.columns.iter().position(|column| *column == id)?;
        Some(self.direct.column(at))
    }

    pub fn count_rows(mut self) -> Option<Self> {
        self.shape.states.push(State::Rows);
        Some(self)
    }

    /// Counts the rows in which the argument is not null. An argument that is not a column must also be summed, because
    /// only computing it raises its errors.
    pub fn count(mut self, arg: &'a Expr) -> Option<Self> {
        let columns = match arg {
            Expr::Column { id } => vec![self.column(*id)?],
            _ => {
                let (step, _) = self.outputs.iter().find(|(_, expr)| *expr == arg)?;
                self.shape.program.columns_of(*step)
            }
        };
        let way = self.way(columns);
        self.shape.states.push(State::Count(way));
        Some(self)
    }

    /// Adds a sum. `otherwise` is the lowered argument, for chunks in which the program cannot compute it.
    pub fn sum(mut self, arg: &'a Expr, otherwise: Arc<dyn PhysicalExpr>) -> Option<Self> {
        let Operand::Step(step) = self.operand(arg)? else { return None };
        let columns = self.shape.program.columns_of(step);
        let way = self.way(columns);
        self.shape.states.push(State::Sum(self.outputs.len(), way));
        self.shape.exprs.push(otherwise);
        self.shape.way_of.push(way);
        self.outputs.push((step, arg));
        Some(self)
    }

    fn way(&mut self, columns: Vec<usize>) -> usize {
        let known = self.shape.ways.iter().position(|way| *way == columns);
        known.unwrap_or_else(|| {
            self.shape.ways.push(columns);
            self.shape.ways.len() - 1
        })
    }

    pub fn shape(mut self) -> Shape {
        let Shape { program, way_of, way_of_base, .. } = &mut self.shape;
        program.finish(&self.outputs.iter().map(|(step, _)| *step).collect::<Vec<_>>());
        way_of_base.resize(program.bases(), 0);
        program.outputs().iter().zip(way_of).for_each(|(output, way)| way_of_base[output.base] = *way);
        self.shape
    }

    /// The step of an expression; `None` if it is not arithmetic on integers and decimals of at most 64 bits.
    fn operand(&mut self, expr: &Expr) -> Option<Operand> {
        let ty = self.lowering.plan.type_of(expr);
        let own = limits(ty)?;
        match expr {
            Expr::Column { id } => {
                let column = self.column(*id)?;
                Some(self.shape.program.read(column))
            }
            Expr::Literal { value, .. } => constant(value.as_ref()),
            Expr::Param { index } => constant(self.lowering.params.get(usize::from(*index))?.as_ref()),
            Expr::Neg(arg) => {
                let arg = self.operand(arg)?;
                self.shape.program.combine(Op::Sub, Operand::Constant(0), arg, own)
            }
            Expr::Arith { op, left, right, .. } => {
                let [left_type, right_type] = [left, right].map(|side| self.lowering.plan.type_of(side));
                limits(left_type).and(limits(right_type))?;
                let (left, right) = (self.operand(left)?, self.operand(right)?);
                let (op, scale) = match op {
                    ArithOp::Add => (Op::Add, left_type.scale().max(right_type.scale())),
                    ArithOp::Sub => (Op::Sub, left_type.scale().max(right_type.scale())),
                    ArithOp::Mul => return self.shape.program.combine(Op::Mul, left, right, own),
                    ArithOp::Div | ArithOp::Mod => return None,
                };
                let left = self.rescaled(left, scale - left_type.scale(), own)?;
                let right = self.rescaled(right, scale - right_type.scale(), own)?;
                self.shape.program.combine(op, left, right, own)
            }
            Expr::Cast { to, arg } => {
                let from = self.lowering.plan.type_of(arg);
                let arg = self.operand(arg)?;
                match catalogue::cast(from, *to).map(|row| row.function) {
                    None | Some(Function::IntegerToInteger) => Some(arg),
                    Some(Function::ToDecimal) => self.rescaled(arg, to.scale().checked_sub(from.scale())?, own),
                    Some(_) => None,
                }
            }
            _ => None,
        }
    }

    /// An operand multiplied by 10^digits.
    fn rescaled(&mut self, operand: Operand, digits: u8, limits: (i64, i64)) -> Option<Operand> {
        match digits {
            0 => Some(operand),
            _ => {
                let power = Operand::Constant(10i64.checked_pow(digits.into())?);
                self.shape.program.combine(Op::Mul, operand, power, limits)
            }
        }
    }
}

/// The least and the greatest value of a type, as far as 64 bits allow; `None` if it is no type of integers or
/// decimals.
fn limits(ty: Type) -> Option<(i64, i64)> {
    match (ty, ty.kind()) {
        (Type::Int16, _) => Some((i16::MIN.into(), i16::MAX.into())),
        (Type::Int32, _) => Some((i32::MIN.into(), i32::MAX.into())),
        (Type::Int64, _) | (_, Kind::Decimal) => Some((i64::MIN, i64::MAX)),
        _ => None,
    }
}

fn constant(value: Option<&Literal>) -> Option<Operand> {
    match value? {
        Literal::Int(value) => Some(Operand::Constant(*value)),
        Literal::Decimal(value) => Some(Operand::Constant(i64::try_from(*value).ok()?)),
        _ => None,
    }
}
