//! The reference interpreter, with which the engine is compared. It implements the documented semantics of plans
//! naively, one row at a time.
//!
//! PostgreSQL leaves open in which order conditions are evaluated, so the interpreter is lenient with errors. A
//! conjunction with a false operand is false, even if another operand raises an error. An error matters only if the
//! value or the row that it affects is needed. So errors are stored as values, or as marks of rows, until something
//! needs them. If the interpreter reports an error, the engine must raise one, too. [`Interpreter::may_raise`] tells
//! whether any error is possible. To find out, it evaluates all expressions on all rows.

mod doubt;
mod lists;
mod values;

use std::cell::Cell;
use std::cmp::Ordering;

use arrow_buffer::i256;
use plan::catalogue::{self, BitAgg, Call, Extreme, Function};
use plan::{
    Agg, Aggregation, ArithOp, BoolOp, CmpOp, ColumnId, Computed, Expr, GroupingSets, JoinKind, List, Literal, Named,
    Plan, Rel, Type, Unfold, WindowCall, WindowFunction,
};

use crate::floats;
use crate::functions;
use crate::intervals;
use crate::numerics;
use crate::table::{Row, Value, int};

pub use self::lists::ELEMENT;
use self::values::*;
pub use self::values::{decimal, fit, order, order_in, same_row};

/// An error of any kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raised;

pub type Outcome = Result<Value, Raised>;

/// A row: the value of each column. If `doubtful` is set, an error decides whether the row exists. An operator that
/// needs the row then gets the error.
#[derive(Clone)]
pub struct Tuple {
    pub values: Vec<Outcome>,
    pub doubtful: bool,
}

/// The rows of an operator.
pub struct Rows {
    pub columns: Vec<ColumnId>,
    pub tuples: Vec<Tuple>,
}

/// The result of a condition, or of several conditions that must all hold.
#[derive(PartialEq)]
enum Verdict {
    True,
    NotTrue,
    Raised,
}

pub struct Interpreter<'a> {
    pub plan: &'a Plan,
    pub params: &'a [Value],
    pub tables: &'a [Vec<Row>],
    /// The greatest magnitude among the floats that were summed.
    pub largest_float: Cell<f64>,
}

const LIMIT: i128 = 10i128.pow(38);

impl Interpreter<'_> {
    /// The plan's result. Its rows may be in any order.
    pub fn run(&self) -> Result<Vec<Row>, Raised> {
        let Rows { columns, tuples } = self.rel(&self.plan.root);
        if tuples.iter().any(|tuple| tuple.doubtful) {
            return Err(Raised);
        }
        tuples.iter().map(|t| self.plan.output.iter().map(|e| self.eval(e, &columns, &t.values)).collect()).collect()
    }

    fn rel(&self, rel: &Rel) -> Rows {
        match rel {
            Rel::Scan { relation, columns } => {
                let tuple = |row: &Row| Tuple { values: row.iter().cloned().map(Ok).collect(), doubtful: false };
                Rows { columns: columns.clone(), tuples: self.tables[*relation as usize].iter().map(tuple).collect() }
            }
            Rel::Row => Rows { columns: vec![], tuples: vec![Tuple { values: vec![], doubtful: false }] },
            Rel::Filter { input, conditions } => {
                let mut rows = self.rel(input);
                rows.tuples.retain_mut(|tuple| match self.verdict(conditions, &rows.columns, &tuple.values) {
                    Verdict::True => true,
                    Verdict::NotTrue => false,
                    Verdict::Raised => {
                        tuple.doubtful = true;
                        true
                    }
                });
                rows
            }
            Rel::Map { input, computed } => {
                let mut rows = self.rel(input);
                for tuple in &mut rows.tuples {
                    let new: Vec<Outcome> =
                        computed.iter().map(|c| self.eval(&c.expr, &rows.columns, &tuple.values)).collect();
                    tuple.values.extend(new);
                }
                rows.columns.extend(computed.iter().map(|c| c.column));
                rows
            }
            Rel::Join { kind, left, right, conditions } => {
                self.join(*kind, self.rel(left), self.rel(right), conditions)
            }
            Rel::Apply { kind, left, right, conditions } => {
                let tuples = self.apply(*kind, self.rel(left), right, conditions);
                Rows { columns: rel.columns(), tuples }
            }
            Rel::Union { columns, inputs } => {
                let mut tuples = Vec::new();
                for part in inputs {
                    let rows = self.rel(&part.rel);
                    tuples.extend(rows.tuples.iter().map(|tuple| Tuple {
                        values: part.exprs.iter().map(|e| self.eval(e, &rows.columns, &tuple.values)).collect(),
                        doubtful: tuple.doubtful,
                    }));
                }
                Rows { columns: columns.clone(), tuples }
            }
            Rel::Aggregate { input, keys, aggregates } => self.group(self.rel(input), keys, aggregates),
            Rel::GroupingSets { input, grouping } => self.grouping_sets(&self.rel(input), grouping),
            Rel::Top { input, keys, order, range } => self.top(self.rel(input), keys, order, range),
            Rel::Window { input, over, calls } => self.window(self.rel(input), over, calls),
            Rel::Unfold { input, unfold } => {
                let Rows { columns, tuples } = self.rel(input);
                let tuples = tuples.iter().flat_map(|tuple| self.unfolded(&columns, tuple, unfold)).collect();
                Rows { columns: rel.columns(), tuples }
            }
        }
    }

    /// Repeats a row for each element of its list.
    fn unfolded(&self, columns: &[ColumnId], tuple: &Tuple, unfold: &Unfold) -> Vec<Tuple> {
        let values: Vec<Outcome> = unfold.arguments.iter().map(|e| self.eval(e, columns, &tuple.values)).collect();
        let with = |element: Outcome, number: Outcome, doubtful: bool| {
            let more = [element].into_iter().chain(unfold.number.map(|_| number));
            Tuple { values: tuple.values.iter().cloned().chain(more).collect(), doubtful: tuple.doubtful | doubtful }
        };
        let Ok(values) = values.into_iter().collect::<Result<Vec<Value>, Raised>>() else {
            return vec![with(Err(Raised), Err(Raised), true)];
        };
        let text = |value: &Value| match value {
            Some(Literal::Text(text)) => text.clone(),
            other => panic!("{other:?} is no text"),
        };
        let all: Vec<Value> = match (unfold.list, values.iter().any(Option::is_none)) {
            (_, true) => vec![],
            (List::Series, _) => {
                let [from, to, by] = [0, 1, 2].map(|at| i128::from(int(values[at].as_ref().unwrap())));
                let numbers =
                    (0..).map(|step| from + step * by).take_while(|n| if by > 0 { *n <= to } else { *n >= to });
                numbers.map(|number| Some(Literal::Int(number as i64))).collect()
            }
            (List::Fields, _) if text(&values[0]).is_empty() => vec![],
            (List::Fields, _) => {
                let fields = text(&values[0]).split(&text(&values[1])).map(str::to_owned).collect::<Vec<_>>();
                fields.into_iter().map(|field| Some(Literal::Text(field))).collect()
            }
            (other, _) => panic!("{other:?} is not generated"),
        };
        if all.is_empty() && unfold.outer {
            return vec![with(Ok(None), Ok(None), false)];
        }
        (1..).zip(all).map(|(number, value)| with(Ok(value), Ok(Some(Literal::Int(number))), false)).collect()
    }

    /// For each row of the left side, computes the right side anew.
    fn apply(&self, kind: JoinKind, left: Rows, right: &Rel, conditions: &[Expr]) -> Vec<Tuple> {
        let mut joined = Vec::new();
        for tuple in &left.tuples {
            let (right, raised) = self.given(right, &left.columns, &tuple.values);
            let alone = Rows { columns: left.columns.clone(), tuples: vec![tuple.clone()] };
            let mut rows = self.join(kind, alone, self.rel(&right), conditions).tuples;
            rows.iter_mut().for_each(|tuple| tuple.doubtful |= raised);
            joined.extend(rows);
        }
        joined
    }

    /// A copy of an operator in which the columns of an outer row are replaced by the row's values. Also returns
    /// whether one of these values is an error.
    fn given(&self, rel: &Rel, columns: &[ColumnId], values: &[Outcome]) -> (Rel, bool) {
        let (mut rel, raised) = (rel.clone(), Cell::new(false));
        let with = |id: ColumnId| {
            let outcome = &values[columns.iter().position(|column| *column == id)?];
            raised.set(raised.get() || outcome.is_err());
            Some(Expr::Literal { ty: self.plan.columns[id.0 as usize], value: outcome.clone().unwrap_or(None) })
        };
        rel.visit_mut(&mut |rel| rel.expressions_mut().into_iter().for_each(|e| e.replace_columns(&with)));
        (rel, raised.get())
    }

    fn join(&self, kind: JoinKind, left: Rows, right: Rows, conditions: &[Expr]) -> Rows {
        let both: Vec<ColumnId> = left.columns.iter().chain(&right.columns).copied().collect();
        let nulls = |rows: &Rows| vec![Ok(None); rows.columns.len()];
        let mut met = vec![false; right.tuples.len()];
        let mut maybe_met = met.clone();
        let mut tuples = Vec::new();
        for l in &left.tuples {
            let (mut partner, mut maybe_partner) = (false, false);
            for (i, r) in right.tuples.iter().enumerate() {
                let values = [&l.values[..], &r.values].concat();
                let verdict = self.verdict(conditions, &both, &values);
                if verdict == Verdict::NotTrue {
                    continue;
                }
                let raised = verdict == Verdict::Raised;
                let sure = !raised && !r.doubtful;
                (partner, maybe_partner) = (partner | sure, maybe_partner | !sure);
                met[i] |= !raised && !l.doubtful;
                maybe_met[i] |= raised || l.doubtful;
                if kind.keeps_right() {
                    tuples.push(Tuple { values, doubtful: raised || l.doubtful || r.doubtful });
                }
            }
            if let JoinKind::Mark(_) = kind {
                let values = [&l.values[..], &[Ok(Some(Literal::Bool(partner)))]].concat();
                tuples.push(Tuple { values, doubtful: l.doubtful || maybe_partner && !partner });
            }
            let alone = match kind {
                JoinKind::Inner | JoinKind::Mark(_) => false,
                JoinKind::Semi => partner || maybe_partner,
                JoinKind::Left | JoinKind::Full | JoinKind::Anti => !partner,
            };
            if alone {
                let mut values = l.values.clone();
                if kind.keeps_right() {
                    values.extend(nulls(&right));
                }
                tuples.push(Tuple { values, doubtful: l.doubtful || maybe_partner && !partner });
            }
        }
        if kind == JoinKind::Full {
            for (i, r) in right.tuples.iter().enumerate().filter(|(i, _)| !met[*i]) {
                let values = [nulls(&left), r.values.clone()].concat();
                tuples.push(Tuple { values, doubtful: r.doubtful || maybe_met[i] });
            }
        }
        let columns = match kind {
            JoinKind::Inner | JoinKind::Left | JoinKind::Full => both,
            JoinKind::Semi | JoinKind::Anti => left.columns,
            JoinKind::Mark(mark) => [&left.columns[..], &[mark]].concat(),
        };
        Rows { columns, tuples }
    }

    /// The groups of all grouping sets together.
    fn grouping_sets(&self, input: &Rows, grouping: &GroupingSets) -> Rows {
        let mut tuples = Vec::new();
        let width = grouping.keys.len();
        for (number, set) in grouping.sets.iter().enumerate() {
            let copy = Rows { columns: input.columns.clone(), tuples: input.tuples.clone() };
            let groups = self.group(copy, &grouping.keys_of(set), &grouping.aggregates);
            for group in groups.tuples {
                let (keys, results) = group.values.split_at(set.len());
                let key = |at: u16| set.iter().position(|own| *own == at).map_or(Ok(None), |own| keys[own].clone());
                let mut values: Vec<Outcome> = (0..width as u16).map(key).collect();
                values.push(Ok(Some(Literal::Int(number as i64))));
                values.extend(results.iter().cloned());
                tuples.push(Tuple { values, doubtful: group.doubtful });
            }
        }
        let mut columns: Vec<ColumnId> = grouping.keys.iter().map(|key| key.column).collect();
        columns.push(grouping.number);
        columns.extend(grouping.aggregates.iter().flat_map(|aggregation| &aggregation.columns));
        Rows { columns, tuples }
    }

    fn group(&self, input: Rows, keys: &[Computed], aggregates: &[Aggregation]) -> Rows {
        let mut doubtful = false;
        let mut groups: Vec<(Row, Vec<&Tuple>)> = Vec::new();
        for tuple in &input.tuples {
            let key: Result<Row, Raised> =
                keys.iter().map(|k| self.eval(&k.expr, &input.columns, &tuple.values)).collect();
            let Ok(key) = key else {
                doubtful = true;
                continue;
            };
            doubtful |= tuple.doubtful;
            match groups.iter_mut().find(|(k, _)| same_row(k, &key)) {
                Some((_, members)) => members.push(tuple),
                None => groups.push((key, vec![tuple])),
            }
        }
        if groups.is_empty() && (keys.is_empty() || doubtful) {
            groups.push((vec![None; keys.len()], vec![]));
        }
        let results = aggregates.iter().flat_map(|a| &a.columns);
        let columns = keys.iter().map(|key| key.column).chain(results.copied()).collect();
        let tuple = |(key, members): (Row, Vec<&Tuple>)| {
            let mut values: Vec<Outcome> = key.into_iter().map(Ok).collect();
            for Aggregation { columns, agg, distinct } in aggregates {
                let mut row = Row::new();
                match self.aggregate(agg, *distinct, &members, &input.columns, &mut row) {
                    Ok(()) => values.extend(row.into_iter().map(Ok)),
                    Err(Raised) => values.extend(vec![Err(Raised); columns.len()]),
                }
            }
            Tuple { values, doubtful }
        };
        Rows { columns, tuples: groups.into_iter().map(tuple).collect() }
    }

    fn verdict(&self, conditions: &[Expr], columns: &[ColumnId], values: &[Outcome]) -> Verdict {
        let outcomes: Vec<Outcome> = conditions.iter().map(|c| self.eval(c, columns, values)).collect();
        if outcomes.iter().any(|o| matches!(o, Ok(value) if *value != Some(Literal::Bool(true)))) {
            Verdict::NotTrue
        } else if outcomes.contains(&Err(Raised)) {
            Verdict::Raised
        } else {
            Verdict::True
        }
    }

    pub fn aggregate(
        &self,
        agg: &Agg,
        distinct: bool,
        members: &[&Tuple],
        columns: &[ColumnId],
        out: &mut Row,
    ) -> Result<(), Raised> {
        let Some(arg) = agg.argument() else {
            out.push(Some(Literal::Int(members.len() as i64)));
            return Ok(());
        };
        let all = |arg: &Expr| -> Result<Row, Raised> {
            members.iter().map(|t| self.eval(arg, columns, &t.values)).collect()
        };
        if let Agg::Pair(pair, of) = agg {
            let [y, x] = &**of;
            let pairs: Vec<(Literal, Literal)> =
                all(y)?.into_iter().zip(all(x)?).filter_map(|(y, x)| y.zip(x)).collect();
            let (value, largest) = floats::of_pairs(*pair, &pairs)?;
            self.largest_float.set(self.largest_float.get().max(largest));
            out.push(value);
            return Ok(());
        }
        if let Agg::Listed(listed) = agg {
            let columns: Vec<Row> = listed.arguments.iter().map(all).collect::<Result<_, _>>()?;
            out.push(lists::listed(listed, distinct, self.plan.type_of(arg), &columns)?);
            return Ok(());
        }
        let values = all(arg)?;
        let mut values: Vec<Literal> = values.into_iter().flatten().collect();
        if distinct {
            let all = std::mem::take(&mut values);
            for value in all {
                if values.iter().all(|other| order(other, &value).is_ne()) {
                    values.push(value);
                }
            }
        }
        let count = Some(Literal::Int(values.len() as i64));
        match agg {
            Agg::CountStar | Agg::Pair(..) | Agg::Listed(_) => unreachable!(),
            Agg::InLocale(which, pair) => {
                let [_, Expr::Literal { value: Some(Literal::Text(locale)), .. }] = &**pair else { unreachable!() };
                let better = |a: Literal, b: Literal| match (which, order_in(Some(locale), &b, &a)) {
                    (Extreme::Min, Ordering::Less) | (Extreme::Max, Ordering::Greater) => b,
                    _ => a,
                };
                out.push(values.into_iter().reduce(better));
            }
            Agg::Count(_) => out.push(count),
            Agg::Sum(_) | Agg::Avg(_) if self.plan.type_of(arg) == Type::Numeric => {
                out.push(numerics::sum(&values)?);
                out.extend(matches!(agg, Agg::Avg(_)).then_some(count));
            }
            Agg::Sum(_) | Agg::Avg(_) if self.plan.type_of(arg) == Type::Interval => {
                out.push(intervals::sum(&values)?);
                out.extend(matches!(agg, Agg::Avg(_)).then_some(count));
            }
            Agg::Sum(_) if agg.aggregate().row().output_types(self.plan.type_of(arg)).eq([Type::Int64]) => {
                let sum = exact_sum(&values)?;
                out.push(sum.map(|s| i64::try_from(s).map(Literal::Int).map_err(|_| Raised)).transpose()?);
            }
            Agg::Sum(_) => out.push(exact_sum(&values)?.map(Literal::Decimal)),
            Agg::Avg(_) => {
                out.push(exact_sum(&values)?.map(Literal::Decimal));
                out.push(count);
            }
            Agg::Float(float, _) => {
                let (value, largest) = floats::aggregate(*float, &values)?;
                self.largest_float.set(self.largest_float.get().max(largest));
                out.push(value);
            }
            Agg::Spread(_) => {
                out.push(spread(&values, self.plan.type_of(arg).scale())?);
                out.push(count);
            }
            Agg::Bits(bits, _) => out.push(values.into_iter().reduce(|a, b| combined(*bits, a, b))),
            Agg::Min(_) => out.push(values.into_iter().reduce(|a, b| if order(&b, &a).is_lt() { b } else { a })),
            Agg::Max(_) => out.push(values.into_iter().reduce(|a, b| if order(&b, &a).is_gt() { b } else { a })),
        }
        Ok(())
    }

    pub fn eval(&self, expr: &Expr, columns: &[ColumnId], values: &[Outcome]) -> Outcome {
        let eval = |expr: &Expr| self.eval(expr, columns, values);
        Ok(match expr {
            Expr::Column { id } => values[columns.iter().position(|column| column == id).unwrap()].clone()?,
            Expr::Literal { value, .. } => value.clone(),
            Expr::Param { index } => self.params[*index as usize].clone(),
            Expr::Cmp { op, left, right } => {
                let scales = [self.plan.type_of(left).scale(), self.plan.type_of(right).scale()];
                let (Some(l), Some(r)) = (eval(left)?, eval(right)?) else { return Ok(None) };
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
                let (Some(l), Some(r)) = (eval(left)?, eval(right)?) else { return Ok(None) };
                Some(arith(*op, *ty, types, &l, &r)?)
            }
            Expr::Neg(arg) => {
                let Some(value) = eval(arg)? else { return Ok(None) };
                let ty = self.plan.type_of(arg);
                Some(match (catalogue::function(Call::Neg, &[ty]).unwrap().function, value) {
                    (Function::NegNumeric, value) => numerics::negated(&value),
                    (Function::Named(function), value) => intervals::operator(function, &[&value])?,
                    (Function::NegFloat, Literal::Float(f)) => Literal::Float(-f),
                    (Function::NegDecimal, value) => {
                        Literal::Decimal(decimal(&value).unwrap().checked_neg().ok_or(Raised)?)
                    }
                    (Function::NegInteger, Literal::Int(i)) => fit(ty, -(i as i128))?,
                    (function, value) => panic!("{function:?} of {value:?}"),
                })
            }
            Expr::Cast { to, arg } => {
                let Some(value) = eval(arg)? else { return Ok(None) };
                Some(cast(self.plan.type_of(arg), *to, value)?)
            }
            Expr::Bool { op, args } => {
                let decisive = Some(Literal::Bool(*op == BoolOp::Or));
                let values: Vec<Outcome> = args.iter().map(eval).collect();
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
            Expr::Not(arg) => match eval(arg)? {
                Some(Literal::Bool(b)) => Some(Literal::Bool(!b)),
                _ => None,
            },
            Expr::IsNull { arg, negated } => Some(Literal::Bool(eval(arg)?.is_none() != *negated)),
            Expr::Call { function, ty, args } => {
                let types: Vec<Type> = args.iter().map(|arg| self.plan.type_of(arg)).collect();
                let values: Row = args.iter().map(eval).collect::<Result<_, _>>()?;
                let strict = catalogue::function(Call::Named(*function), &types).unwrap().strict;
                if strict && values.contains(&None) {
                    return Ok(None);
                }
                return functions::call(*function, *ty, &types, &values);
            }
            Expr::Case { branches, otherwise } => {
                for (when, then) in branches {
                    if eval(when)? == Some(Literal::Bool(true)) {
                        return eval(then);
                    }
                }
                return eval(otherwise);
            }
            Expr::Coalesce(args) => {
                for arg in args {
                    if let Some(value) = eval(arg)? {
                        return Ok(Some(value));
                    }
                }
                None
            }
        })
    }
}
