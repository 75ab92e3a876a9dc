//! A naive reading of the plan's documented semantics, one row at a time, to compare the engine with: the definition.
//!
//! It is lenient where PostgreSQL leaves the order of evaluation open: a conjunction with a false operand is false even if
//! another one raises, and an error matters only if the value or the row that it happened in does. So errors are kept as
//! values and marks of rows until something needs them. What it says is an error must be one; whether an error is
//! possible at all is answered by [`Interpreter::may_raise`], which evaluates everything on everything.

use std::cell::Cell;
use std::cmp::Ordering;

use arrow_buffer::i256;
use plan::catalogue::{self, BitAgg, Call, Function};
use plan::{
    Agg, Aggregation, ArithOp, BoolOp, CmpOp, ColumnId, Computed, Expr, GroupingSets, JoinKind, Literal, Named, Plan,
    Rel, Type, WindowFunction,
};

use crate::floats;
use crate::functions;
use crate::table::{Row, Value};

/// An error, of whatever kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raised;

pub type Outcome = Result<Value, Raised>;

/// Values by column. If it is `doubtful`, an error was met on the way to it: whoever needs it meets the error.
#[derive(Clone)]
pub struct Tuple {
    pub values: Vec<Outcome>,
    pub doubtful: bool,
}

/// What an operator gives.
pub struct Rows {
    pub columns: Vec<ColumnId>,
    pub tuples: Vec<Tuple>,
}

/// How a condition, or several, turned out.
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
    /// The greatest magnitude of the floats that were summed.
    pub largest_float: Cell<f64>,
}

const LIMIT: i128 = 10i128.pow(38);

impl Interpreter<'_> {
    /// The result, in any order.
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
        }
    }

    /// The right side anew for each row of the left one.
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

    /// An operator that reads a row around it, with that row's values; and whether one of these is an error.
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

    /// A union of what each set gives.
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

    /// Whether the optimizer may do without looking at a row that an error was met on: what a column that may be an error
    /// is equated with, an outer join that becomes an inner one, or a condition on a group's key can rule the row out
    /// before anybody computes it.
    pub fn errors_may_vanish(&self) -> bool {
        let (mut raising, mut is_outer) = (Vec::new(), false);
        self.plan.root.visit(&mut |rel| match rel {
            Rel::Map { computed, .. } => {
                raising.extend(computed.iter().filter(|c| c.expr.can_raise()).map(|c| c.column));
            }
            Rel::Union { columns, inputs } if inputs.iter().any(|part| part.exprs.iter().any(Expr::can_raise)) => {
                raising.extend(columns);
            }
            Rel::Aggregate { keys, aggregates, .. } => {
                raising.extend(keys.iter().filter(|key| key.expr.can_raise()).map(|key| key.column));
                let may = |a: &&Aggregation| {
                    a.agg.arguments().iter().any(Expr::can_raise) || !a.agg.aggregate().row().raises.is_empty()
                };
                raising.extend(aggregates.iter().filter(may).flat_map(|a| &a.columns));
            }
            Rel::GroupingSets { .. } => raising.extend(rel.columns()),
            Rel::Window { calls, .. } => raising.extend(calls.iter().flat_map(|call| &call.columns)),
            Rel::Join { kind, .. } => is_outer |= *kind != JoinKind::Inner,
            Rel::Apply { .. } => is_outer = true,
            _ => {}
        });
        let mut found = self.computes_anew();
        self.plan.root.visit(&mut |rel| {
            let condition = matches!(rel, Rel::Filter { .. } | Rel::Join { .. });
            found |= condition
                && rel.expressions().into_iter().any(|e| {
                    let equates = matches!(e, Expr::Cmp { op: CmpOp::Eq, .. });
                    is_outer && e.can_raise() || equates && e.columns().iter().any(|id| raising.contains(id))
                });
            if let Rel::Filter { input, .. } = rel
                && let Rel::Aggregate { .. } = **input
            {
                input.visit(&mut |below| found |= below.expressions().into_iter().any(Expr::can_raise));
            }
        });
        found
    }

    /// Whether an engine that evaluates any expression on any combination of rows, in any order, could find an error.
    pub fn may_raise(&self) -> bool {
        if self.computes_anew() {
            return true;
        }
        let mut found = false;
        self.plan.root.visit(&mut |rel| found = found || self.operator_may_raise(rel));
        found || {
            let (columns, tuples) = self.everything(&self.plan.root);
            let grouped = has_groups(&self.plan.root);
            self.plan.output.iter().any(|e| e.can_raise() && (grouped || self.raises_on(e, &columns, &tuples)))
        }
    }

    /// Whether there is anything that can raise beside rows that are computed for each row around them: when, and for which
    /// rows, is open.
    fn computes_anew(&self) -> bool {
        let (mut anew, mut raises) = (false, self.plan.output.iter().any(Expr::can_raise));
        self.plan.root.visit(&mut |rel| {
            anew |= matches!(rel, Rel::Apply { .. });
            raises |= !rel.aggregates().is_empty() || rel.expressions().into_iter().any(Expr::can_raise);
        });
        anew && raises
    }

    fn operator_may_raise(&self, rel: &Rel) -> bool {
        if let Rel::Union { inputs, .. } = rel {
            return inputs.iter().any(|part| {
                let (columns, tuples) = self.everything(&part.rel);
                let grouped = has_groups(&part.rel);
                part.exprs.iter().any(|e| e.can_raise() && (grouped || self.raises_on(e, &columns, &tuples)))
            });
        }
        if matches!(rel, Rel::Top { range, .. } if self.is_negative(range)) {
            return true;
        }
        let grouped = rel.inputs().iter().any(|input| has_groups(input));
        let (mut columns, mut tuples) = (vec![], vec![vec![]]);
        for input in rel.inputs() {
            let (more, right) = self.everything(input);
            columns.extend(more);
            tuples = tuples.iter().flat_map(|l: &Vec<Outcome>| right.iter().map(|r| [&l[..], r].concat())).collect();
        }
        if rel.expressions().iter().any(|e| e.can_raise() && (grouped || self.raises_on(e, &columns, &tuples))) {
            return true;
        }
        // The order in which a sum is built up is open, and so is which rows an early sum has.
        let aggregates: Vec<&Agg> = match rel {
            Rel::Aggregate { aggregates, .. } => aggregates.iter().map(|aggregation| &aggregation.agg).collect(),
            Rel::GroupingSets { grouping, .. } => grouping.aggregates.iter().map(|a| &a.agg).collect(),
            Rel::Window { calls, .. } => calls
                .iter()
                .filter_map(|call| match &call.function {
                    WindowFunction::Aggregate(agg) => Some(agg),
                    _ => None,
                })
                .collect(),
            _ => return false,
        };
        aggregates.into_iter().any(|agg| match agg {
            Agg::Sum(e) | Agg::Avg(e) => {
                let total = tuples.iter().map(|t| magnitude(self.eval(e, &columns, t))).fold(0f64, |a, b| a + b);
                grouped || total > 1e38
            }
            Agg::Spread(e) => {
                let total = tuples.iter().map(|t| magnitude(self.eval(e, &columns, t))).fold(0f64, |a, b| a + b);
                grouped || total > 1e37
            }
            agg @ (Agg::Float(..) | Agg::Pair(..)) => {
                let too_large = |outcome| {
                    matches!(outcome, Ok(Some(Literal::Float(f))) if f64::is_finite(f) && f.abs() > catalogue::MAX_SUMMED)
                };
                let any = |e: &Expr| tuples.iter().any(|t| too_large(self.eval(e, &columns, t)));
                grouped || agg.arguments().iter().any(any)
            }
            _ => false,
        })
    }

    fn raises_on(&self, expr: &Expr, columns: &[ColumnId], tuples: &[Vec<Outcome>]) -> bool {
        // An average needs more room than its result: what it is that does not fit is up to the engine.
        let is_average = |e: &Expr| matches!(e, Expr::Call { function: Named::Average, .. });
        let mut raises = false;
        expr.visit(&mut |e| {
            raises = raises || is_average(e) || tuples.iter().any(|t| self.eval(e, columns, t).is_err());
        });
        raises
    }

    /// All rows that an operator could be given, if no condition took any away, and one of nulls; of groups only that.
    fn everything(&self, rel: &Rel) -> (Vec<ColumnId>, Vec<Vec<Outcome>>) {
        let columns = rel.columns();
        let nulls: Vec<Outcome> = vec![Ok(None); columns.len()];
        let mut tuples = match rel {
            Rel::Scan { relation, .. } => {
                self.tables[*relation as usize].iter().map(|row| row.iter().cloned().map(Ok).collect()).collect()
            }
            Rel::Filter { input, .. } | Rel::Top { input, .. } => self.everything(input).1,
            Rel::Map { input, computed } => {
                let (below, mut tuples) = self.everything(input);
                for tuple in &mut tuples {
                    let new: Vec<Outcome> = computed.iter().map(|c| self.eval(&c.expr, &below, tuple)).collect();
                    tuple.extend(new);
                }
                tuples
            }
            Rel::Join { kind: JoinKind::Semi | JoinKind::Anti, left, .. } => self.everything(left).1,
            Rel::Join { kind: JoinKind::Mark(_), left, .. } => {
                let marks = [true, false].map(|mark| Ok(Some(Literal::Bool(mark))));
                let with = |tuple: Vec<Outcome>| marks.clone().map(|mark| [&tuple[..], &[mark]].concat());
                self.everything(left).1.into_iter().flat_map(with).collect()
            }
            Rel::Apply { .. } => vec![],
            Rel::Join { left, right, .. } => {
                let (left, right) = (self.everything(left).1, self.everything(right).1);
                left.iter().flat_map(|l| right.iter().map(|r| [&l[..], r].concat())).collect()
            }
            Rel::Union { inputs, .. } => {
                let part = |part: &plan::Part| -> Vec<Vec<Outcome>> {
                    let (below, tuples) = self.everything(&part.rel);
                    tuples.iter().map(|t| part.exprs.iter().map(|e| self.eval(e, &below, t)).collect()).collect()
                };
                inputs.iter().flat_map(part).collect()
            }
            // What a window makes of other rows is not known.
            Rel::Row | Rel::Aggregate { .. } | Rel::Window { .. } | Rel::GroupingSets { .. } => vec![],
        };
        tuples.push(nulls);
        (columns, tuples)
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
            Agg::CountStar | Agg::Pair(..) => unreachable!(),
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
            Agg::Float(float, _) => {
                let (value, largest) = floats::aggregate(*float, &values)?;
                self.largest_float.set(self.largest_float.get().max(largest));
                out.push(value);
            }
            Agg::Spread(_) => {
                out.push(spread(&values)?.map(Literal::Text));
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

fn has_groups(rel: &Rel) -> bool {
    let mut found = false;
    rel.visit(&mut |rel| found |= matches!(rel, Rel::Aggregate { .. } | Rel::Window { .. } | Rel::GroupingSets { .. }));
    found
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

/// The number of values times the sum of their squares, less the square of their sum.
fn spread(values: &[Literal]) -> Result<Option<String>, Raised> {
    let numbers: Vec<i256> = values.iter().map(|value| i256::from_i128(decimal(value).unwrap())).collect();
    let (mut sum, mut squares) = (i256::ZERO, i256::ZERO);
    for number in &numbers {
        sum = sum.checked_add(*number).ok_or(Raised)?;
        squares = number.checked_mul(*number).and_then(|square| squares.checked_add(square)).ok_or(Raised)?;
    }
    let count = i256::from_i128(numbers.len() as i128);
    let difference = count.checked_mul(squares).zip(sum.checked_mul(sum)).and_then(|(a, b)| a.checked_sub(b));
    let text = difference.ok_or(Raised)?.to_string();
    Ok((!values.is_empty()).then_some(text))
}

fn combined(bits: BitAgg, a: Literal, b: Literal) -> Literal {
    match (bits, a, b) {
        (BitAgg::BoolAnd, Literal::Bool(a), Literal::Bool(b)) => Literal::Bool(a && b),
        (BitAgg::BoolOr, Literal::Bool(a), Literal::Bool(b)) => Literal::Bool(a || b),
        (BitAgg::And, Literal::Int(a), Literal::Int(b)) => Literal::Int(a & b),
        (BitAgg::Or, Literal::Int(a), Literal::Int(b)) => Literal::Int(a | b),
        (BitAgg::Xor, Literal::Int(a), Literal::Int(b)) => Literal::Int(a ^ b),
        other => panic!("{other:?}"),
    }
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

pub fn same_row(a: &Row, b: &Row) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => order(a, b).is_eq(),
        _ => false,
    })
}
