//! Lifts correlated conditions out of a subquery.

use plan::{ColumnId, Expr, JoinKind, Rel};

use super::{around, expr_reads};

/// Removes conditions that read columns of `outer`, if they can just as well be tested after all other steps. Returns
/// the remaining operator, and the removed conditions.
pub fn lifted(rel: Rel, outer: &[ColumnId]) -> (Rel, Vec<Expr>) {
    let divided = |conditions: Vec<Expr>| conditions.into_iter().partition::<Vec<_>, _>(|c| expr_reads(c, outer));
    match rel {
        Rel::Filter { input, conditions } => {
            let (mut taken, kept) = divided(conditions);
            let (input, below) = lifted(*input, outer);
            taken.extend(below);
            (input.filter(kept), taken)
        }
        // If a computed expression can raise an error, the conditions below it must stay, because it may be computed
        // only for rows that pass them.
        Rel::Map { input, computed } if !computed.iter().any(|c| c.expr.can_raise()) => {
            let (input, taken) = lifted(*input, outer);
            (input.map(computed), taken)
        }
        Rel::Join { kind, left, right, conditions } if !conditions.iter().any(Expr::can_raise) => match kind {
            JoinKind::Inner => {
                let (mut taken, kept) = divided(conditions);
                let (left, of_left) = lifted(*left, outer);
                let (right, of_right) = lifted(*right, outer);
                taken.extend(of_left);
                taken.extend(of_right);
                (left.join(kind, right, kept), taken)
            }
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => {
                let (left, taken) = lifted(*left, outer);
                (left.join(kind, *right, conditions), taken)
            }
            JoinKind::Full => (left.join(kind, *right, conditions), Vec::new()),
        },
        other => (other, Vec::new()),
    }
}

/// An operator that has rows if and only if `rel` has rows. The number of rows may differ, because it does not matter
/// whether a partner is found once or several times.
pub fn of_any_number(rel: Rel) -> Rel {
    match rel {
        Rel::Filter { input, conditions } => of_any_number(*input).filter(conditions),
        Rel::Map { input, computed } => of_any_number(*input).map(computed),
        Rel::Join { kind: JoinKind::Inner, left, right, conditions } => {
            of_any_number(*left).join(JoinKind::Inner, of_any_number(*right), conditions)
        }
        Rel::Join { kind: JoinKind::Semi, left, right, conditions } => {
            let left = of_any_number(*left);
            let made = [left.columns(), right.columns()].concat();
            let is_closed = conditions.iter().flat_map(Expr::columns).all(|id| made.contains(&id));
            match is_closed && around(&right).is_empty() {
                true => left.join(JoinKind::Semi, *right, conditions),
                false => left.join(JoinKind::Inner, of_any_number(*right), conditions),
            }
        }
        other => other,
    }
}

/// Removes computed columns that only `conditions` read. The conditions get the expressions that compute these columns.
pub fn without_maps(rel: Rel, conditions: &mut Vec<Expr>) -> Rel {
    match rel {
        Rel::Map { input, computed } => {
            let with = |id: ColumnId| computed.iter().find(|c| c.column == id).map(|c| c.expr.clone());
            conditions.iter_mut().for_each(|c| c.replace_columns(&with));
            without_maps(*input, conditions)
        }
        other => other,
    }
}
