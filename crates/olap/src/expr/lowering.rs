//! Lowers [`plan::Expr`] to DataFusion's physical expressions.
//!
//! Integers, dates, timestamps, booleans and texts are compared by DataFusion's operators, whose order of these types
//! is PostgreSQL's. All operations with overflow, scales or floats go through [`computed`].

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use datafusion_common::error::DataFusionError;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, Column, IsNotNullExpr, IsNullExpr, Literal as Constant, NotExpr,
};
use locale::Locale;
use plan::catalogue::{self, Call, Function, Kind};
use plan::{ArithOp, BoolOp, CmpOp, ColumnId, Expr, Literal, Named, Plan, Type, Zone};
use protocol::request::Failure;

use crate::base::arrow_form::{arrow_type, scalar};
use crate::base::error::{internal, known_locale};
use crate::expr::computed::{IntegerType, Kernel, computed};
use crate::expr::conditional::{Part, case, coalesce};
use crate::expr::logic::guarded;
use crate::expr::membership::with_lists;
use crate::expr::zoned::zoned;
use crate::functions::numbers::{decimals, floats};
use crate::functions::numerics;

type Physical = Arc<dyn PhysicalExpr>;

/// An expression whose value exists as a column, and that column.
pub type Known = (Expr, Physical);

/// Lowers expressions over rows that consist of `columns`, in this order.
pub struct Lowering<'a> {
    pub plan: &'a Plan,
    pub params: &'a [Option<Literal>],
    pub columns: &'a [ColumnId],
    /// Expressions that are already computed, in additional columns of the rows.
    pub known: &'a [Known],
}

impl Lowering<'_> {
    pub fn lower(&self, expr: &Expr) -> Result<Physical, Failure> {
        if let Some((_, column)) = self.known.iter().find(|(known, _)| known == expr) {
            return Ok(column.clone());
        }
        Ok(match expr {
            Expr::Column { id } => {
                let index = self.columns.iter().position(|column| column == id);
                let index = index.ok_or_else(|| internal(format!("{id:?} is not at hand")))?;
                Arc::new(Column::new(&column_name(*id), index))
            }
            Expr::Literal { ty, value } => constant(scalar(*ty, value.as_ref())?),
            Expr::Param { index } => constant(self.param(*index)?),
            Expr::Cmp { op, left, right } => self.comparison(*op, left, right)?,
            Expr::Arith { op, ty, left, right } => self.arithmetic(*op, *ty, left, right)?,
            Expr::Neg(arg) => {
                let ty = self.plan.type_of(arg);
                computed(kernel(Call::Neg, &[ty], ty)?, vec![self.lower(arg)?])
            }
            Expr::Cast { to, arg } => self.cast(*to, arg)?,
            Expr::Bool { op, args } => self.logic(*op, args)?,
            Expr::Not(arg) => Arc::new(NotExpr::new(self.lower(arg)?)),
            Expr::IsNull { arg, negated: false } => Arc::new(IsNullExpr::new(self.lower(arg)?)),
            Expr::IsNull { arg, negated: true } => Arc::new(IsNotNullExpr::new(self.lower(arg)?)),
            Expr::Call { function, ty, args } if function.takes_zone() => {
                let (zone, args) = args.split_last().ok_or_else(|| internal("a zone is missing"))?;
                let args = args.iter().map(|arg| self.lower(arg)).collect::<Result<_, _>>()?;
                zoned(*function, arrow_type(*ty), self.zone(zone)?, args)
            }
            Expr::Call { function, ty, args } => {
                let operand = args.first().map_or(*ty, |arg| self.plan.type_of(arg));
                let args = args.iter().map(|arg| self.lower(arg)).collect::<Result<_, _>>()?;
                computed(Kernel::named(*function, operand, *ty), args)
            }
            Expr::Case { branches, otherwise } => {
                let part = |(when, then): &(Expr, Expr)| Ok((self.part(when)?, self.part(then)?));
                let branches = branches.iter().map(part).collect::<Result<_, Failure>>()?;
                case(branches, self.part(otherwise)?, arrow_type(self.plan.type_of(otherwise)))
            }
            Expr::Coalesce(args) => {
                let parts = args.iter().map(|arg| self.part(arg)).collect::<Result<_, _>>()?;
                coalesce(parts, arrow_type(self.plan.type_of(expr)))
            }
        })
    }

    fn part(&self, expr: &Expr) -> Result<Part, Failure> {
        Ok(Part { expr: self.lower(expr)?, can_raise: expr.can_raise() })
    }

    /// The expression as a key for groups or joins: equal values have equal bits.
    pub fn key(&self, expr: &Expr) -> Result<Physical, Failure> {
        let key = self.lower(expr)?;
        Ok(if self.plan.type_of(expr).is_float() { canonical_float(key) } else { key })
    }

    /// A key that is equal for values that PostgreSQL considers equal, even if they look different, such as 1.0 and
    /// 1.00.
    pub fn image_key(&self, expr: &Expr) -> Result<Physical, Failure> {
        let (function, ty) = match self.plan.type_of(expr) {
            ty @ Type::Numeric => (Named::Trimmed, ty),
            Type::Interval => (Named::Span, Type::Decimal128 { scale: 6 }),
            _ => return self.key(expr),
        };
        self.lower(&Expr::Call { function, ty, args: vec![expr.clone()] })
    }

    /// The expression as a join key that is compared with a key of type `other`. Both sides get the same physical type
    /// and scale.
    pub fn join_key(&self, expr: &Expr, other: Type) -> Result<Physical, Failure> {
        let ty = self.plan.type_of(expr);
        if ty == other || ty.kind() != Kind::Decimal {
            return self.key(expr);
        }
        let digits = other.scale().saturating_sub(ty.scale());
        Ok(computed(Kernel::DecimalJoinKey { digits }, vec![self.lower(expr)?]))
    }

    fn param(&self, index: u16) -> Result<ScalarValue, Failure> {
        let index = index as usize;
        let value = self.params.get(index).ok_or_else(|| internal(format!("no value for parameter {index}")))?;
        scalar(self.plan.params[index], value.as_ref())
    }

    /// The time zone in an expression, which the plan's check has found to be constant; `None` for a null.
    fn zone(&self, expr: &Expr) -> Result<Option<Zone>, Failure> {
        let value = match expr {
            Expr::Param { index } => self.params.get(*index as usize).and_then(Option::as_ref),
            Expr::Literal { value, .. } => value.as_ref(),
            _ => return Err(internal("a zone that is not constant")),
        };
        match value {
            None => Ok(None),
            Some(Literal::Text(text)) => match Zone::parse(text) {
                None => Err(internal("a zone that cannot be read")),
                zone => Ok(zone),
            },
            Some(_) => Err(internal("a zone that is no text")),
        }
    }

    fn comparison(&self, op: CmpOp, left: &Expr, right: &Expr) -> Result<Physical, Failure> {
        let (left_type, right_type) = (self.plan.type_of(left), self.plan.type_of(right));
        let (l, r) = (self.lower(left)?, self.lower(right)?);
        if left_type.is_float() {
            return Ok(native(op, canonical_float(l), canonical_float(r)));
        }
        if left_type == right_type {
            return Ok(native(op, l, r));
        }
        // A decimal is compared with a constant. If the decimal's own type can hold the constant, plain integers are
        // compared.
        if let Some(value) = decimal_constant(&r)
            && let Some(compared) = compared(op, &l, value, right_type.scale(), left_type)
        {
            return Ok(compared);
        }
        if let Some(value) = decimal_constant(&l)
            && let Some(compared) = compared(op.mirrored(), &r, value, left_type.scale(), right_type)
        {
            return Ok(compared);
        }
        let digits = common_scale(left_type.scale(), right_type.scale());
        Ok(computed(Kernel::CompareDecimals { op, digits }, vec![l, r]))
    }

    fn arithmetic(&self, op: ArithOp, ty: Type, left: &Expr, right: &Expr) -> Result<Physical, Failure> {
        let (left_type, right_type) = (self.plan.type_of(left), self.plan.type_of(right));
        let kernel = kernel(Call::Arith(op), &[left_type, right_type], ty)?;
        Ok(computed(kernel, vec![self.lower(left)?, self.lower(right)?]))
    }

    fn cast(&self, to: Type, arg: &Expr) -> Result<Physical, Failure> {
        let from = self.plan.type_of(arg);
        let physical = self.lower(arg)?;
        match catalogue::cast(from, to).map(|row| row.function) {
            None | Some(Function::RealToFloat | Function::OidToInteger | Function::NameToText) => return Ok(physical),
            Some(_) => {}
        }
        Ok(computed(kernel(Call::Cast(to.kind()), &[from], to)?, vec![physical]))
    }

    /// The schema of the rows.
    fn schema(&self) -> Schema {
        let field = |id: &ColumnId| Field::new(column_name(*id), arrow_type(self.plan.columns[id.0 as usize]), true);
        Schema::new(self.columns.iter().map(field).collect::<Vec<_>>())
    }

    /// The conjunction of conditions, in any order.
    pub fn all(&self, conditions: &[&Expr]) -> Result<Physical, Failure> {
        let physical = self.listed(BoolOp::And, conditions.iter().copied())?;
        Ok(joined(BoolOp::And, physical))
    }

    fn listed<'e>(&self, op: BoolOp, args: impl Iterator<Item = &'e Expr>) -> Result<Vec<Physical>, Failure> {
        let physical: Vec<Physical> = args.map(|arg| self.lower(arg)).collect::<Result<_, _>>()?;
        with_lists(op, physical, &self.schema()).map_err(planning)
    }

    fn logic(&self, op: BoolOp, args: &[Expr]) -> Result<Physical, Failure> {
        let physical = self.listed(op, args.iter())?;
        if args.iter().skip(1).any(Expr::can_raise) {
            return Ok(guarded(op, physical));
        }
        Ok(joined(op, physical))
    }
}

pub fn column_name(id: ColumnId) -> String {
    format!("x{}", id.0)
}

pub fn constant(value: ScalarValue) -> Physical {
    Arc::new(Constant::new(value))
}

/// `args` joined by AND or OR, as a balanced tree, because its evaluation recurses as deeply as the tree.
pub fn joined(op: BoolOp, mut args: Vec<Physical>) -> Physical {
    let operator = match op {
        BoolOp::And => Operator::And,
        BoolOp::Or => Operator::Or,
    };
    match args.len() {
        0 => constant(ScalarValue::Boolean(Some(op == BoolOp::And))),
        1 => args.remove(0),
        n => {
            let right = args.split_off(n / 2);
            Arc::new(BinaryExpr::new(joined(op, args), operator, joined(op, right)))
        }
    }
}

fn native(op: CmpOp, left: Physical, right: Physical) -> Physical {
    let operator = match op {
        CmpOp::Eq => Operator::Eq,
        CmpOp::Ne => Operator::NotEq,
        CmpOp::Lt => Operator::Lt,
        CmpOp::Le => Operator::LtEq,
        CmpOp::Gt => Operator::Gt,
        CmpOp::Ge => Operator::GtEq,
    };
    Arc::new(BinaryExpr::new(left, operator, right))
}

fn canonical_float(arg: Physical) -> Physical {
    match (&*arg as &dyn std::any::Any).downcast_ref::<Constant>().map(Constant::value) {
        Some(ScalarValue::Float64(value)) => constant(ScalarValue::Float64(value.map(floats::canonical))),
        _ => computed(Kernel::CanonicalFloat, vec![arg]),
    }
}

/// The kernel for a call with operands of these types and a result of type `ty`.
fn kernel(call: Call, operands: &[Type], ty: Type) -> Result<Kernel, Failure> {
    let missing = || internal(format!("no function for {call:?} of {operands:?}"));
    let scales = |i: usize| operands.get(i).map_or(0, |ty| ty.scale());
    let digits = ty.scale().saturating_sub(scales(0));
    Ok(match catalogue::function(call, operands).ok_or_else(missing)?.function {
        Function::Integer(op) => Kernel::Integer(integer_type(ty)?, op),
        Function::Real(op) => Kernel::Real(op),
        Function::Float(op) => Kernel::Float(op),
        Function::Decimal(op @ ArithOp::Mul) => Kernel::Decimal { op, digits: [0, 0] },
        Function::Decimal(op) => Kernel::Decimal { op, digits: common_scale(scales(0), scales(1)) },
        Function::Numeric(op) => Kernel::Numerics(numerics::Function::Arithmetic(op)),
        Function::NegNumeric => Kernel::Numerics(numerics::Function::Negated),
        Function::ToNumeric => Kernel::Numerics(numerics::Function::OfNumbers { scale: scales(0) }),
        Function::NumericToDecimal => Kernel::NumericToDecimal { scale: ty.scale() },
        Function::DatePlusDays => Kernel::DatePlusDays,
        Function::DateMinusDays => Kernel::DateMinusDays,
        Function::DateMinusDate => Kernel::DateMinusDate,
        Function::NegInteger => Kernel::NegInteger(integer_type(ty)?),
        Function::NegFloat => Kernel::NegFloat,
        Function::NegDecimal => Kernel::NegDecimal,
        Function::ToDecimal if matches!(ty, Type::Decimal64 { .. }) => Kernel::ToDecimal64 { digits },
        Function::ToDecimal => Kernel::ToDecimal128 { digits },
        Function::DateToTimestamp => Kernel::DateToTimestamp,
        Function::IntegerToInteger => Kernel::WidenInteger(integer_type(ty)?),
        Function::IntegerToReal => Kernel::IntegerToReal,
        Function::IntegerToFloat => Kernel::IntegerToFloat,
        Function::FloatToReal => Kernel::FloatToReal,
        Function::RealToFloat | Function::OidToInteger | Function::NameToText => return Err(missing()),
        Function::Named(function) => Kernel::named(function, operands.first().copied().unwrap_or(ty), ty),
    })
}

fn integer_type(ty: Type) -> Result<IntegerType, Failure> {
    match ty {
        Type::Int16 => Ok(IntegerType::Int16),
        Type::Int32 => Ok(IntegerType::Int32),
        Type::Int64 => Ok(IntegerType::Int64),
        other => Err(internal(format!("{other:?} is not an integer"))),
    }
}

/// The numbers of digits by which two decimals are extended to the larger scale.
fn common_scale(left: u8, right: u8) -> [u8; 2] {
    [right.saturating_sub(left), left.saturating_sub(right)]
}

fn decimal_constant(expr: &Physical) -> Option<i128> {
    match (&**expr as &dyn std::any::Any).downcast_ref::<Constant>()?.value() {
        ScalarValue::Int64(Some(value)) => Some(*value as i128),
        ScalarValue::Decimal128(Some(value), ..) => Some(*value),
        _ => None,
    }
}

/// The comparison of values of type `ty` with the decimal `value` of `scale`, if it is possible without a cast.
fn compared(op: CmpOp, values: &Physical, value: i128, scale: u8, ty: Type) -> Option<Physical> {
    let with = |op, right| Some(native(op, values.clone(), right));
    match (as_decimal(value, scale, ty), op) {
        (Some(held), op) => with(op, constant(held)),
        // No value of the type equals a constant that the type cannot hold. The result must still be null for a null,
        // so `v = constant` becomes `v < v`, and `v <> constant` becomes `v = v`.
        (None, CmpOp::Eq) => with(CmpOp::Lt, values.clone()),
        (None, CmpOp::Ne) => with(CmpOp::Eq, values.clone()),
        (None, _) => None,
    }
}

/// The decimal `value` of `scale` as a constant of type `ty`, if `ty` holds exactly this value.
fn as_decimal(value: i128, scale: u8, ty: Type) -> Option<ScalarValue> {
    let rescaled = if scale <= ty.scale() {
        value.checked_mul(decimals::power(ty.scale() - scale)?)?
    } else {
        let power = decimals::power(scale - ty.scale())?;
        if value % power != 0 {
            return None;
        }
        value / power
    };
    match ty {
        Type::Decimal64 { .. } => Some(ScalarValue::Int64(Some(i64::try_from(rescaled).ok()?))),
        _ => Some(ScalarValue::Decimal128(Some(rescaled), 38, 0)),
    }
}

/// The failure for an error that DataFusion returns while the plan is built.
pub fn planning(error: DataFusionError) -> Failure {
    crate::base::error::failure(&error)
}

/// The locale that an argument names.
pub fn locale(name: &Expr) -> Result<&'static Locale, Failure> {
    let Expr::Literal { value: Some(Literal::Text(name)), .. } = name else {
        return Err(internal("a locale that is not constant"));
    };
    known_locale(name).map_err(planning)
}
