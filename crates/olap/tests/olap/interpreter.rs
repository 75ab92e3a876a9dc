//! A naive reading of the plan's documented semantics, one row at a time, to compare the engine with.
//!
//! It is lenient where PostgreSQL leaves the order of evaluation open: a conjunction with a false operand is false even if
//! another one raises, and a row that one filter rejects does not raise in another. What it says is an error must be
//! one; whether an error is possible at all is answered by [`may_raise`], which evaluates everything on everything.

use std::cmp::Ordering;

use plan::catalogue::{self, Call, Function};
use plan::{Agg, ArithOp, BoolOp, CmpOp, Expr, Literal, Plan, Type};

use crate::functions;
use crate::table::{Row, Value};

/// An error, of whatever kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raised;

pub type Outcome = Result<Value, Raised>;

pub struct Interpreter<'a> {
    pub plan: &'a Plan,
    pub params: &'a [Value],
    pub tables: &'a [Vec<Row>],
}

const LIMIT: i128 = 10i128.pow(38);

impl Interpreter<'_> {
    /// The result, in any order.
    pub fn run(&self) -> Result<Vec<Row>, Raised> {
        let mut passing = Vec::new();
        for row in self.combinations() {
            let verdicts: Vec<Outcome> = self.plan.filters.iter().map(|f| self.eval(f, &row)).collect();
            if verdicts.iter().any(|v| matches!(v, Ok(value) if *value != Some(Literal::Bool(true)))) {
                continue;
            }
            if verdicts.contains(&Err(Raised)) {
                return Err(Raised);
            }
            passing.push(row);
        }
        let Some(grouping) = &self.plan.grouping else {
            return passing.iter().map(|row| self.plan.output.iter().map(|e| self.eval(e, row)).collect()).collect();
        };
        let mut groups: Vec<(Row, Vec<Vec<&Row>>)> = Vec::new();
        for row in passing {
            let key: Row = grouping.keys.iter().map(|k| self.eval(k, &row)).collect::<Result<_, _>>()?;
            match groups.iter_mut().find(|(k, _)| same_row(k, &key)) {
                Some((_, members)) => members.push(row),
                None => groups.push((key, vec![row])),
            }
        }
        if grouping.keys.is_empty() && groups.is_empty() {
            groups.push((vec![], vec![]));
        }
        let mut result = Vec::new();
        for (mut row, members) in groups {
            for agg in &grouping.aggregates {
                self.aggregate(agg, &members, &mut row)?;
            }
            result.push(row);
        }
        Ok(result)
    }

    /// All combinations of one row of each table.
    fn combinations(&self) -> Vec<Vec<&Row>> {
        let mut all: Vec<Vec<&Row>> = vec![vec![]];
        for table in self.tables {
            all = all.iter().flat_map(|left| table.iter().map(|row| [left.as_slice(), &[row]].concat())).collect();
        }
        all
    }

    /// Whether an engine that evaluates any expression on any combination of rows, in any order, could find an error.
    pub fn may_raise(&self) -> bool {
        let grouping = self.plan.grouping.iter();
        let args = grouping.clone().flat_map(|g| g.aggregates.iter().filter_map(|a| a.argument()));
        let keys = grouping.clone().flat_map(|g| &g.keys);
        let all = self.plan.filters.iter().chain(&self.plan.output).chain(keys).chain(args);
        let combinations = self.combinations();
        for expr in all {
            let mut raises = false;
            expr.visit(&mut |e| raises = raises || combinations.iter().any(|row| self.eval(e, row).is_err()));
            if raises || self.constant_part_raises(expr) {
                return true;
            }
            // The order in which a sum is built up is open, and so is which rows an early sum has.
            let total = combinations.iter().map(|row| magnitude(self.eval(expr, row))).fold(0f64, |a, b| a + b);
            let summed = grouping
                .clone()
                .any(|g| g.aggregates.iter().any(|a| matches!(a, Agg::Sum(e) | Agg::Avg(e) if std::ptr::eq(e, expr))));
            if summed && total > 1e38 {
                return true;
            }
        }
        false
    }

    /// With an empty table there are no combinations, but rows of the other tables are still looked at.
    fn constant_part_raises(&self, expr: &Expr) -> bool {
        if !self.tables.iter().any(Vec::is_empty) {
            return false;
        }
        let nulls: Vec<Row> = self.plan.relations.iter().map(|r| vec![None; r.columns.len()]).collect();
        let padded: Vec<Vec<Row>> =
            self.tables.iter().zip(nulls).map(|(t, null)| if t.is_empty() { vec![null] } else { t.clone() }).collect();
        let padded = Interpreter { plan: self.plan, params: self.params, tables: &padded };
        let mut raises = false;
        expr.visit(&mut |e| raises = raises || padded.combinations().iter().any(|row| padded.eval(e, row).is_err()));
        raises
    }

    fn aggregate(&self, agg: &Agg, members: &[Vec<&Row>], out: &mut Row) -> Result<(), Raised> {
        let Some(arg) = agg.argument() else {
            out.push(Some(Literal::Int(members.len() as i64)));
            return Ok(());
        };
        let values: Row = members.iter().map(|row| self.eval(arg, row)).collect::<Result<_, _>>()?;
        let values: Vec<Literal> = values.into_iter().flatten().collect();
        let count = Some(Literal::Int(values.len() as i64));
        match agg {
            Agg::CountStar => unreachable!(),
            Agg::Count(_) => out.push(count),
            Agg::Sum(_) if agg.aggregate().row().output_types(self.plan.type_of(arg)).eq([Type::Int64]) => {
                let sum = exact_sum(&values)?;
                out.push(sum.map(|s| i64::try_from(s).map(Literal::Int).map_err(|_| Raised)).transpose()?);
            }
            Agg::Sum(_) => out.push(exact_sum(&values)?.map(Literal::Decimal)),
            Agg::Avg(_) => {
                out.push(exact_sum(&values)?.map(Literal::Decimal));
                out.push(count);
            }
            Agg::Min(_) => out.push(values.into_iter().reduce(|a, b| if order(&b, &a).is_lt() { b } else { a })),
            Agg::Max(_) => out.push(values.into_iter().reduce(|a, b| if order(&b, &a).is_gt() { b } else { a })),
        }
        Ok(())
    }

    pub fn eval(&self, expr: &Expr, row: &[&Row]) -> Outcome {
        Ok(match expr {
            Expr::Column { rel, col } => row[*rel as usize][*col as usize].clone(),
            Expr::Literal { value, .. } => value.clone(),
            Expr::Param { index } => self.params[*index as usize].clone(),
            Expr::Cmp { op, left, right } => {
                let scales = [self.plan.type_of(left).scale(), self.plan.type_of(right).scale()];
                let (Some(l), Some(r)) = (self.eval(left, row)?, self.eval(right, row)?) else { return Ok(None) };
                let order = match (decimal(&l), decimal(&r)) {
                    (Some(l), Some(r)) => decimal_order((l, scales[0]), (r, scales[1])),
                    _ => order(&l, &r),
                };
                Some(Literal::Bool(match op {
                    CmpOp::Eq => order.is_eq(),
                    CmpOp::Ne => order.is_ne(),
                    CmpOp::Lt => order.is_lt(),
                    CmpOp::Le => order.is_le(),
                    CmpOp::Gt => order.is_gt(),
                    CmpOp::Ge => order.is_ge(),
                }))
            }
            Expr::Arith { op, ty, left, right } => {
                let types = [self.plan.type_of(left), self.plan.type_of(right)];
                let (Some(l), Some(r)) = (self.eval(left, row)?, self.eval(right, row)?) else { return Ok(None) };
                Some(arith(*op, *ty, types, &l, &r)?)
            }
            Expr::Neg(arg) => {
                let Some(value) = self.eval(arg, row)? else { return Ok(None) };
                let ty = self.plan.type_of(arg);
                Some(match (catalogue::function(Call::Neg, &[ty]).unwrap().function, value) {
                    (Function::NegFloat, Literal::Float(f)) => Literal::Float(-f),
                    (Function::NegDecimal, value) => {
                        Literal::Decimal(decimal(&value).unwrap().checked_neg().ok_or(Raised)?)
                    }
                    (Function::NegInteger, Literal::Int(i)) => fit(ty, -(i as i128))?,
                    (function, value) => panic!("{function:?} of {value:?}"),
                })
            }
            Expr::Cast { to, arg } => {
                let Some(value) = self.eval(arg, row)? else { return Ok(None) };
                Some(cast(self.plan.type_of(arg), *to, value)?)
            }
            Expr::Bool { op, args } => {
                let decisive = Some(Literal::Bool(*op == BoolOp::Or));
                let values: Vec<Outcome> = args.iter().map(|a| self.eval(a, row)).collect();
                if values.contains(&Ok(decisive)) {
                    Some(Literal::Bool(*op == BoolOp::Or))
                } else if values.contains(&Err(Raised)) {
                    return Err(Raised);
                } else if values.contains(&Ok(None)) {
                    None
                } else {
                    Some(Literal::Bool(*op == BoolOp::And))
                }
            }
            Expr::Not(arg) => match self.eval(arg, row)? {
                Some(Literal::Bool(b)) => Some(Literal::Bool(!b)),
                _ => None,
            },
            Expr::IsNull { arg, negated } => Some(Literal::Bool(self.eval(arg, row)?.is_none() != *negated)),
            Expr::Call { function, ty, args } => {
                let types: Vec<Type> = args.iter().map(|arg| self.plan.type_of(arg)).collect();
                let values: Row = args.iter().map(|arg| self.eval(arg, row)).collect::<Result<_, _>>()?;
                let strict = catalogue::function(Call::Named(*function), &types).unwrap().strict;
                if strict && values.contains(&None) {
                    return Ok(None);
                }
                return functions::call(*function, *ty, &types, &values);
            }
            Expr::Case { branches, otherwise } => {
                for (when, then) in branches {
                    if self.eval(when, row)? == Some(Literal::Bool(true)) {
                        return self.eval(then, row);
                    }
                }
                return self.eval(otherwise, row);
            }
            Expr::Coalesce(args) => {
                for arg in args {
                    if let Some(value) = self.eval(arg, row)? {
                        return Ok(Some(value));
                    }
                }
                None
            }
        })
    }
}

fn arith(op: ArithOp, ty: Type, types: [Type; 2], left: &Literal, right: &Literal) -> Result<Literal, Raised> {
    let infinite = |d: i64| d == i32::MIN as i64 || d == i32::MAX as i64;
    let shifted = |date: i64, days: i64| match date + days {
        _ if infinite(date) => Ok(Literal::Int(date)),
        // 4713-01-01 BC to 5874897-12-31.
        shifted @ -2_451_545..=2_145_031_948 => Ok(Literal::Int(shifted)),
        _ => Err(Raised),
    };
    match (catalogue::function(Call::Arith(op), &types).unwrap().function, left, right) {
        (Function::Float(op), Literal::Float(a), Literal::Float(b)) => float(op, *a, *b).map(Literal::Float),
        (Function::DatePlusDays, Literal::Int(a), Literal::Int(b)) => shifted(*a, *b),
        (Function::DateMinusDays, Literal::Int(a), Literal::Int(b)) => shifted(*a, -b),
        (Function::DateMinusDate, Literal::Int(a), Literal::Int(b)) => {
            if infinite(*a) || infinite(*b) {
                Err(Raised)
            } else {
                fit(Type::Int32, (a - b) as i128)
            }
        }
        (Function::Decimal(op), a, b) => {
            let (a, b) = (decimal(a).unwrap(), decimal(b).unwrap());
            let up = |v: i128, from: Type| power(ty.scale() - from.scale()).and_then(|p| v.checked_mul(p));
            let result = match op {
                ArithOp::Add => up(a, types[0]).zip(up(b, types[1])).and_then(|(a, b)| a.checked_add(b)),
                ArithOp::Sub => up(a, types[0]).zip(up(b, types[1])).and_then(|(a, b)| a.checked_sub(b)),
                ArithOp::Mul => a.checked_mul(b),
                other => panic!("{other:?} of decimals"),
            };
            result.filter(|r| *r > -LIMIT && *r < LIMIT).map(Literal::Decimal).ok_or(Raised)
        }
        (Function::Integer(op), Literal::Int(a), Literal::Int(b)) => {
            let (a, b) = (*a as i128, *b as i128);
            let result = match op {
                ArithOp::Add => a + b,
                ArithOp::Sub => a - b,
                ArithOp::Mul => a * b,
                ArithOp::Div => a.checked_div(b).ok_or(Raised)?,
                ArithOp::Mod => a.checked_rem(b).ok_or(Raised)?,
            };
            fit(ty, result)
        }
        other => panic!("{op:?}: {other:?}"),
    }
}

fn float(op: ArithOp, a: f64, b: f64) -> Result<f64, Raised> {
    let result = match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div if b == 0.0 && !a.is_nan() => return Err(Raised),
        ArithOp::Div => a / b,
        ArithOp::Mod => panic!("remainder of floats"),
    };
    let infinite_input = match op {
        ArithOp::Div => a.is_infinite(),
        _ => a.is_infinite() || b.is_infinite(),
    };
    let vanished = match op {
        ArithOp::Mul => result == 0.0 && a != 0.0 && b != 0.0,
        ArithOp::Div => result == 0.0 && a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if (result.is_infinite() && !infinite_input) || vanished { Err(Raised) } else { Ok(result) }
}

fn cast(from: Type, to: Type, value: Literal) -> Result<Literal, Raised> {
    let Some(row) = catalogue::cast(from, to) else { return Ok(value) };
    match (row.function, &value) {
        (Function::IntegerToInteger, Literal::Int(i)) => fit(to, *i as i128),
        (Function::IntegerToFloat, Literal::Int(i)) => Ok(Literal::Float(*i as f64)),
        (Function::DateToTimestamp, Literal::Int(d)) => match *d as i32 {
            i32::MIN => Ok(Literal::Int(i64::MIN)),
            i32::MAX => Ok(Literal::Int(i64::MAX)),
            d if (-2_451_545..106_751_983).contains(&d) => Ok(Literal::Int(d as i64 * 86_400_000_000)),
            _ => Err(Raised),
        },
        (Function::ToDecimal, v) => {
            let raw = power(to.scale() - from.scale()).and_then(|p| decimal(v).unwrap().checked_mul(p));
            match to {
                Type::Decimal64 { .. } => raw.and_then(|r| i64::try_from(r).ok()).map(Literal::Int).ok_or(Raised),
                _ => raw.filter(|r| *r > -LIMIT && *r < LIMIT).map(Literal::Decimal).ok_or(Raised),
            }
        }
        other => panic!("cast {other:?}"),
    }
}

fn power(digits: u8) -> Option<i128> {
    10i128.checked_pow(digits as u32)
}

/// The raw integer of anything integer-like.
pub fn decimal(value: &Literal) -> Option<i128> {
    match value {
        Literal::Int(i) => Some(*i as i128),
        Literal::Decimal(d) => Some(*d),
        _ => None,
    }
}

fn magnitude(value: Outcome) -> f64 {
    value.ok().flatten().as_ref().and_then(decimal).map_or(0.0, |d| (d as f64).abs())
}

/// Compares whole parts, then fractions.
fn decimal_order((a, scale_a): (i128, u8), (b, scale_b): (i128, u8)) -> Ordering {
    let scale = scale_a.max(scale_b);
    let split = |v: i128, s: u8| {
        let p = power(s).unwrap();
        (v.div_euclid(p), v.rem_euclid(p) * power(scale - s).unwrap())
    };
    split(a, scale_a).cmp(&split(b, scale_b))
}

pub fn fit(ty: Type, value: i128) -> Result<Literal, Raised> {
    let fits = match ty {
        Type::Int16 => i16::try_from(value).is_ok(),
        Type::Int32 => i32::try_from(value).is_ok(),
        _ => i64::try_from(value).is_ok(),
    };
    if fits { Ok(Literal::Int(value as i64)) } else { Err(Raised) }
}

fn exact_sum(values: &[Literal]) -> Result<Option<i128>, Raised> {
    if values.is_empty() {
        return Ok(None);
    }
    let (mut high, mut low) = (0i128, 0i128);
    for value in values {
        let raw = decimal(value).unwrap();
        high += raw >> 64;
        low += raw & u64::MAX as i128;
    }
    high += low >> 64;
    let high = i64::try_from(high).map_err(|_| Raised)?;
    Ok(Some(((high as i128) << 64) | (low & u64::MAX as i128)))
}

/// PostgreSQL's order of two values of the same type (and scale).
pub fn order(a: &Literal, b: &Literal) -> Ordering {
    match (a, b) {
        (Literal::Bool(a), Literal::Bool(b)) => a.cmp(b),
        (Literal::Int(a), Literal::Int(b)) => a.cmp(b),
        (Literal::Decimal(a), Literal::Decimal(b)) => a.cmp(b),
        (Literal::Text(a), Literal::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Literal::Float(a), Literal::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        other => panic!("order of {other:?}"),
    }
}

fn same_row(a: &Row, b: &Row) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => order(a, b).is_eq(),
        _ => false,
    })
}
