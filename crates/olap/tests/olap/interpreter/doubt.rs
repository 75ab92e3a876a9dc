//! Tells whether errors are possible at all, and whether the engine must report an error that the interpreter has
//! found.

use super::*;

/// A numeric with more bytes than this has more than about two hundred digits.
const MANY_DIGITS: usize = 100;
const MANY_DECIMALS: u16 = 100;

/// The arguments of a function of numerics whose exact result may have infinitely many digits. Empty for any other
/// expression.
fn arguments_of_root_or_power(expr: &Expr) -> &[Expr] {
    use Named::{Exp, Ln, Log, Power, PowerSince16, Sqrt};
    match expr {
        Expr::Call { function: Sqrt | Exp | Ln | Log | Power | PowerSince16, ty: Type::Numeric, args } => args,
        _ => &[],
    }
}

/// Whether a numeric has more digits or decimal places than the engine computes a root or a power of.
fn is_long(outcome: &Outcome) -> bool {
    let Ok(Some(Literal::Bytes(key))) = outcome else { return false };
    let value = numeric::Numeric::from_key(key).expect("a numeric's key");
    value.heap_bytes() > 0 || value.scale().is_some_and(|scale| scale > MANY_DECIMALS)
}

impl Interpreter<'_> {
    /// Whether the optimizer may remove a row before an error in it is found. Examples are an equality with a column
    /// that may be an error, an outer join that becomes an inner join, and a condition on the key of groups.
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
            Rel::Unfold { unfold, .. } => raising.push(unfold.column),
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

    /// Whether an error is possible for an engine that may evaluate any expression on any combination of rows, in any
    /// order.
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

    /// Whether the plan can raise errors, and computes rows anew for each outer row. It is undefined when such rows are
    /// computed, and for which outer rows.
    fn computes_anew(&self) -> bool {
        let (mut anew, mut raises) = (false, self.plan.output.iter().any(Expr::can_raise));
        self.plan.root.visit(&mut |rel| {
            anew |= matches!(rel, Rel::Apply { .. });
            raises |= !rel.aggregates().is_empty() || rel.expressions().into_iter().any(Expr::can_raise);
            raises |= matches!(rel, Rel::Top { range, .. } if self.is_negative(range));
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
        if let Rel::Window { calls, .. } = rel {
            let nearly_infinite = |outcome| matches!(outcome, Ok(Some(Literal::Float(f))) if f64::abs(f) > 1e37);
            let may_overflow = |call: &WindowCall| match &call.function {
                WindowFunction::SumOfReals(e) => {
                    grouped || tuples.iter().any(|t| nearly_infinite(self.eval(e, &columns, t)))
                }
                _ => false,
            };
            if calls.iter().any(may_overflow) {
                return true;
            }
        }
        // A sum may be computed in any order, and from partial sums of any rows.
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
        // Computing an average takes more digits than its result has. It is undefined which of the two exceeds the
        // limit.
        let is_average = |e: &Expr| matches!(e, Expr::Call { function: Named::Average, .. });
        let mut raises = false;
        expr.visit(&mut |e| {
            // The engine does not compute roots, logarithms and powers with hundreds of digits. Such a query runs on
            // the heap.
            let arguments = arguments_of_root_or_power(e);
            let is_too_long =
                |outcome: &Outcome| matches!(outcome, Ok(Some(Literal::Bytes(bytes))) if bytes.len() > MANY_DIGITS);
            let fails = |tuple: &Vec<Outcome>| {
                let outcome = self.eval(e, columns, tuple);
                let takes_long = |argument: &Expr| is_long(&self.eval(argument, columns, tuple));
                outcome.is_err() || !arguments.is_empty() && is_too_long(&outcome) || arguments.iter().any(takes_long)
            };
            raises = raises || is_average(e) || tuples.iter().any(fails);
        });
        raises
    }

    /// All rows that an operator could get if no condition removed rows, and a row of nulls. For groups, windows and a
    /// few other operators, there is only the row of nulls.
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
            // The values that these operators compute from several rows are unknown here.
            Rel::Row | Rel::Aggregate { .. } | Rel::Window { .. } | Rel::GroupingSets { .. } => vec![],
            Rel::Unfold { .. } => vec![],
        };
        tuples.push(nulls);
        (columns, tuples)
    }
}
