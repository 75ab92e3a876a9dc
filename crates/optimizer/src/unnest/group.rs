//! Correlated aggregates over the rows with a certain key. The aggregates are computed for all keys at once, by
//! grouping. Each left row then looks up the group of its key.
//!
//! If the left side seems to have few rows, only the rows with their keys are aggregated.

use plan::{CmpOp, ColumnId, Computed, Expr, JoinKind, Rel};

use super::{Sides, Unnesting, expr_reads, lift, reads};
use crate::simplify::{is_selective, simplified};

impl Unnesting<'_> {
    /// Replaces the [`Rel::Apply`] by a join if its right side is a single group that depends on the left side only by
    /// equalities. Otherwise, returns the sides unchanged.
    pub fn grouped(&mut self, kind: JoinKind, left: Rel, right: Rel, conditions: Vec<Expr>) -> Result<Rel, Box<Sides>> {
        let is_value = match kind {
            JoinKind::Inner => true,
            // Left joins are replaced only if every left row has a partner. Otherwise the computed columns would have
            // to be null.
            JoinKind::Left => conditions.is_empty() && !is_filtered(&right),
            _ => false,
        };
        match is_value.then(|| keys(&right, &left)).flatten() {
            Some(keys) => Ok(self.looked_up(left, right, conditions, keys)),
            None => Err(Box::new(Sides { left, right, conditions })),
        }
    }

    /// Makes a join that looks up groups. [`keys`] has found `equalities` for `right`.
    fn looked_up(&mut self, left: Rel, right: Rel, conditions: Vec<Expr>, equalities: Vec<Equality>) -> Rel {
        match right {
            Rel::Filter { input, conditions: own } => self.looked_up(left, *input, own, equalities).filter(conditions),
            Rel::Map { input, computed } => {
                self.looked_up(left, *input, Vec::new(), equalities).map(computed).filter(conditions)
            }
            Rel::Aggregate { input, keys: _, aggregates } => {
                let (input, _) = lift::lifted(*input, &left.columns());
                let (aggregates, filled) = self.of_missing_groups(aggregates);
                let (mut keys, mut on) = (Vec::new(), Vec::new());
                for Equality { outside, inside } in equalities {
                    let column = self.column(inside.ty(&self.columns, self.params));
                    on.push(outside);
                    keys.push(Computed { column, expr: inside });
                }
                let input = self.wanted(input, &left, &on, &keys);
                let equal = |(outside, key): (Expr, &Computed)| Expr::equal(outside, Expr::column(key.column));
                let on = on.into_iter().zip(&keys).map(equal).collect();
                let groups = Rel::Aggregate { input: Box::new(input), keys, aggregates };
                left.join(JoinKind::Left, groups, on).map(filled).filter(conditions)
            }
            other => left.join(JoinKind::Inner, other, conditions),
        }
    }
}

impl Unnesting<'_> {
    /// The rows of `input` whose key occurs on the left side, if the left side seems to have few rows; otherwise all
    /// rows.
    fn wanted(&mut self, input: Rel, left: &Rel, outside: &[Expr], keys: &[Computed]) -> Rel {
        let columns: Vec<ColumnId> = outside.iter().flat_map(Expr::columns).collect();
        let source = source(&simplified(left.clone()), &columns);
        if !is_selective(&source) {
            return input;
        }
        let (source, new) = self.copied(&source);
        let renamed = |id: ColumnId| new.get(&id).map(|id| Expr::column(*id));
        let equal = |(outside, key): (&Expr, &Computed)| {
            let mut outside = outside.clone();
            outside.replace_columns(&renamed);
            Expr::equal(outside, key.expr.clone())
        };
        let on = outside.iter().zip(keys).map(equal).collect();
        input.join(JoinKind::Semi, source, on)
    }
}

/// A part of an operator. Its rows contain all values that the operator has in these columns, and perhaps further
/// values.
fn source(rel: &Rel, columns: &[ColumnId]) -> Rel {
    match rel {
        Rel::Join { kind: JoinKind::Inner, left, right, .. } => {
            let has = |rel: &Rel| columns.iter().all(|id| rel.columns().contains(id));
            match [left, right].into_iter().find(|side| has(side) && is_selective(side)) {
                Some(side) => source(side, columns),
                None => rel.clone(),
            }
        }
        other => other.clone(),
    }
}

struct Equality {
    outside: Expr,
    inside: Expr,
}

fn is_filtered(rel: &Rel) -> bool {
    match rel {
        Rel::Filter { .. } => true,
        Rel::Map { input, .. } => is_filtered(input),
        _ => false,
    }
}

/// The equalities by which the single group of `rel` depends on the left side. `None` if the group also depends on the
/// left side in another way, or if computing a group that no left row needs could raise an error.
fn keys(rel: &Rel, left: &Rel) -> Option<Vec<Equality>> {
    let (input, aggregates) = match rel {
        Rel::Filter { input, .. } | Rel::Map { input, .. } => return keys(input, left),
        Rel::Aggregate { input, keys, aggregates } if keys.is_empty() => (input, aggregates),
        _ => return None,
    };
    if aggregates.iter().any(|a| a.agg.arguments().iter().any(Expr::can_raise)) {
        return None;
    }
    let outer = left.columns();
    let (input, lifted) = lift::lifted((**input).clone(), &outer);
    let reads_around = |a: &plan::Aggregation| a.agg.arguments().iter().any(|e| expr_reads(e, &outer));
    if reads(&input, &outer) || aggregates.iter().any(reads_around) || lifted.is_empty() {
        return None;
    }
    let inner = input.columns();
    let is_outside = |e: &Expr| !e.columns().is_empty() && e.columns().iter().all(|id| outer.contains(id));
    let is_inside = |e: &Expr| !e.can_raise() && e.columns().iter().all(|id| inner.contains(id));
    let equality = |condition: Expr| match condition {
        Expr::Cmp { op: CmpOp::Eq, left, right } if is_outside(&left) && is_inside(&right) => {
            Some(Equality { outside: *left, inside: *right })
        }
        Expr::Cmp { op: CmpOp::Eq, left, right } if is_outside(&right) && is_inside(&left) => {
            Some(Equality { outside: *right, inside: *left })
        }
        _ => None,
    };
    lifted.into_iter().map(equality).collect()
}
