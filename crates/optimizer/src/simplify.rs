//! Pushdown. Conditions move towards the sources of their columns. An outer join becomes an inner join if a condition
//! above it rejects the nulls that the outer join adds. A semi-join with a short list moves to the relation whose rows
//! it tests, before that relation is joined with others.
//!
//! A condition that can raise an error moves down only through inner joins, because any other operator may remove the
//! row for which the condition would raise the error.

use plan::catalogue::{self, Call};
use plan::{BoolOp, CmpOp, ColumnId, Computed, Expr, JoinKind, Literal, Named, Part, Rel, Type};

/// An equivalent operator, with conditions moved down as far as possible.
pub fn simplified(rel: Rel) -> Rel {
    pushed(rel, Vec::new())
}

/// The rows of `rel` for which all `conditions` are true.
fn pushed(rel: Rel, mut conditions: Vec<Expr>) -> Rel {
    match rel {
        Rel::Scan { .. } | Rel::Row => rel.filter(conditions),
        Rel::Apply { kind, left, right, conditions: own } => {
            let left_columns = left.columns();
            let (mut left_only, above) =
                divided(conditions, |c| kind != JoinKind::Full && !c.can_raise() && reads_only(c, &left_columns));
            if kind != JoinKind::Full {
                left_only.extend(some_values(&left, &above));
            }
            let (left, right) = (pushed(*left, left_only), pushed(*right, Vec::new()));
            left.apply(kind, right, own).filter(above)
        }
        Rel::Filter { input, conditions: own } => {
            for condition in own {
                // Conditions may move down several times, and an OR implies the same condition each time. So the
                // condition may be there already.
                if !conditions.contains(&condition) {
                    conditions.push(condition);
                }
            }
            pushed(*input, conditions)
        }
        Rel::Map { input, computed } => {
            let visible = input.columns();
            let (below, above) = divided(conditions, |c| !c.can_raise() && reads_only(c, &visible));
            pushed(*input, below).map(computed).filter(above)
        }
        Rel::Union { columns, inputs } => {
            let inputs = inputs.into_iter().map(|part| Part { rel: pushed(part.rel, Vec::new()), ..part });
            Rel::Union { columns, inputs: inputs.collect() }.filter(conditions)
        }
        Rel::Aggregate { input, keys, aggregates } => {
            // If a key of the groups is a plain column of the input, a condition on it can be tested on the input,
            // because all rows of a group have the same value in that column.
            let plain = |column: ColumnId| {
                let key = keys.iter().find(|key| key.column == column)?;
                matches!(key.expr, Expr::Column { .. }).then(|| key.expr.clone())
            };
            let (mut below, above) = divided(conditions, |c| {
                !c.can_raise() && !keys.is_empty() && c.columns().iter().all(|&id| plain(id).is_some())
            });
            below.iter_mut().for_each(|c| c.replace_columns(&plain));
            Rel::Aggregate { input: Box::new(pushed(*input, below)), keys, aggregates }.filter(above)
        }
        Rel::GroupingSets { input, grouping } => {
            Rel::GroupingSets { input: Box::new(pushed(*input, Vec::new())), grouping }.filter(conditions)
        }
        // A condition can move below only if it reads nothing but `keys`: it then keeps or drops all rows with the same
        // keys. Any other condition would change which rows come first.
        Rel::Top { input, keys, order, range } => {
            let (below, above) = divided(conditions, |c| {
                !c.can_raise()
                    && !c.columns().is_empty()
                    && c.columns().iter().all(|id| keys.contains(&Expr::column(*id)))
            });
            Rel::Top { input: Box::new(pushed(*input, below)), keys, order, range }.filter(above)
        }
        Rel::Unfold { input, unfold } => {
            let visible = input.columns();
            let (below, above) = divided(conditions, |c| !c.can_raise() && reads_only(c, &visible));
            Rel::Unfold { input: Box::new(pushed(*input, below)), unfold }.filter(above)
        }
        Rel::Window { input, over, calls } => {
            let (below, above) = divided(conditions, |c| {
                !c.can_raise()
                    && !c.columns().is_empty()
                    && c.columns().iter().all(|id| over.partition.contains(&Expr::column(*id)))
            });
            Rel::Window { input: Box::new(pushed(*input, below)), over, calls }.filter(above)
        }
        Rel::Join { kind: JoinKind::Inner, left, right, conditions: own } => {
            conditions.extend(own);
            let (left_columns, right_columns) = (left.columns(), right.columns());
            let (left_only, rest) = divided(conditions, |c| reads_only(c, &left_columns));
            let (right_only, across) = divided(rest, |c| reads_only(c, &right_columns));
            let (mut left_only, mut right_only) = (left_only, right_only);
            left_only.extend(across.iter().filter_map(|c| implied(c, &left_columns)));
            right_only.extend(across.iter().filter_map(|c| implied(c, &right_columns)));
            pushed(*left, left_only).join(JoinKind::Inner, pushed(*right, right_only), across)
        }
        Rel::Join { kind, left, right, conditions: own } => outer(kind, *left, *right, own, conditions),
    }
}

/// Conditions `IS NOT NULL` that follow from `conditions`. They are for columns that outer joins below make nullable,
/// if the conditions reject their nulls.
fn some_values(rel: &Rel, conditions: &[Expr]) -> Vec<Expr> {
    let mut added = Vec::new();
    rel.visit(&mut |rel| match rel {
        Rel::Join { kind: JoinKind::Left, right, .. } => added.extend(right.columns()),
        Rel::Join { kind: JoinKind::Full, left, right, .. } => added.extend([left.columns(), right.columns()].concat()),
        _ => {}
    });
    let visible = rel.columns();
    added.retain(|id| visible.contains(id) && conditions.iter().any(|c| rejects_nulls(c, &[*id])));
    added.sort_unstable();
    added.dedup();
    added.into_iter().map(|id| Expr::IsNull { arg: Box::new(Expr::column(id)), negated: true }).collect()
}

/// Simplifies a join that is not an inner join. `own` are its conditions, and `above` are conditions on its rows.
fn outer(kind: JoinKind, left: Rel, right: Rel, own: Vec<Expr>, above: Vec<Expr>) -> Rel {
    let (left_columns, right_columns) = (left.columns(), right.columns());
    let rejects = |columns: &[ColumnId]| above.iter().any(|c| rejects_nulls(c, columns));
    match kind {
        JoinKind::Left if rejects(&right_columns) => {
            return pushed(left.join(JoinKind::Inner, right, own), above);
        }
        JoinKind::Full if rejects(&left_columns) && rejects(&right_columns) => {
            return pushed(left.join(JoinKind::Inner, right, own), above);
        }
        JoinKind::Full if rejects(&left_columns) => {
            return pushed(left.join(JoinKind::Left, right, own), above);
        }
        JoinKind::Mark(mark) => {
            let is_mark = |e: &Expr| *e == Expr::column(mark);
            let wanted = |c: &Expr| match c {
                Expr::Not(arg) if is_mark(arg) => Some((JoinKind::Anti, false)),
                arg if is_mark(arg) => Some((JoinKind::Semi, true)),
                _ => None,
            };
            if let Some((kind, value)) = above.iter().find_map(wanted) {
                let expr = Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(value)) };
                let joined = left.join(kind, right, own).map(vec![Computed { column: mark, expr }]);
                return pushed(joined, above);
            }
        }
        _ => {}
    }
    // A condition that reads only right columns removes only rows that cannot be partners, so it may move to the right
    // side. A condition that reads only left columns may not move, because left rows without a partner are kept.
    let own_side = !matches!(kind, JoinKind::Inner | JoinKind::Full);
    let (right_only, own) = divided(own, |c| own_side && !c.can_raise() && reads_only(c, &right_columns));
    let (left_only, above) =
        divided(above, |c| kind != JoinKind::Full && !c.can_raise() && reads_only(c, &left_columns));
    let (left, right) = (pushed(left, left_only), pushed(right, right_only));
    match kind == JoinKind::Semi && !own.iter().any(Expr::can_raise) && is_selective(&right) {
        true => looked_up_early(left, right, own),
        false => left.join(kind, right, own),
    }
    .filter(above)
}

/// A semi-join with a short list, moved down to the relation whose columns it reads. So the rows of the relation are
/// looked up before other joins multiply them.
fn looked_up_early(left: Rel, right: Rel, conditions: Vec<Expr>) -> Rel {
    let read = |rel: &Rel| {
        let columns = rel.columns();
        let others = right.columns();
        conditions.iter().flat_map(Expr::columns).all(|id| columns.contains(&id) || others.contains(&id))
    };
    match left {
        Rel::Join { kind: JoinKind::Inner, left, right: other, conditions: own } if read(&left) => {
            looked_up_early(*left, right, conditions).join(JoinKind::Inner, *other, own)
        }
        Rel::Join { kind: JoinKind::Inner, left: other, right: left, conditions: own } if read(&left) => {
            other.join(JoinKind::Inner, looked_up_early(*left, right, conditions), own)
        }
        left => left.join(JoinKind::Semi, right, conditions),
    }
}

/// Whether there are conditions that probably keep only a few of the rows.
pub fn is_selective(rel: &Rel) -> bool {
    let mut found = false;
    rel.visit(&mut |rel| {
        if let Rel::Filter { conditions, .. } | Rel::Join { conditions, .. } = rel {
            found = found || conditions.iter().any(picks_few);
        }
        // A condition on groups (HAVING) usually keeps few of them.
        let is_having = matches!(rel, Rel::Filter { input, .. } if matches!(**input, Rel::Aggregate { .. }));
        found = found || is_having;
    });
    found
}

fn picks_few(condition: &Expr) -> bool {
    match condition {
        Expr::Cmp { op: CmpOp::Eq, left, right } => left.columns().is_empty() != right.columns().is_empty(),
        Expr::Call { function: Named::Like | Named::StartsWith, .. } => true,
        Expr::Bool { op: BoolOp::And, args } => args.iter().any(picks_few),
        Expr::Bool { op: BoolOp::Or, args } => args.iter().all(picks_few),
        _ => false,
    }
}

/// A condition that follows from `condition`, and reads only these columns. For an OR, each of its arms must imply such
/// a condition.
pub fn implied(condition: &Expr, columns: &[ColumnId]) -> Option<Expr> {
    match condition {
        other if reads_only(other, columns) => (!other.can_raise()).then(|| other.clone()),
        Expr::Bool { op: BoolOp::And, args } => {
            let args: Vec<Expr> = args.iter().filter_map(|arg| implied(arg, columns)).collect();
            (!args.is_empty()).then_some(Expr::Bool { op: BoolOp::And, args })
        }
        Expr::Bool { op: BoolOp::Or, args } => {
            let args = args.iter().map(|arg| implied(arg, columns)).collect::<Option<Vec<Expr>>>()?;
            Some(Expr::Bool { op: BoolOp::Or, args })
        }
        _ => None,
    }
}

fn divided(conditions: Vec<Expr>, goes: impl Fn(&Expr) -> bool) -> (Vec<Expr>, Vec<Expr>) {
    conditions.into_iter().partition(goes)
}

/// Whether the expression reads at least one column, and only columns of this list.
fn reads_only(expr: &Expr, columns: &[ColumnId]) -> bool {
    let read = expr.columns();
    !read.is_empty() && read.iter().all(|id| columns.contains(id))
}

/// Whether the condition cannot be true if all these columns are null.
fn rejects_nulls(condition: &Expr, columns: &[ColumnId]) -> bool {
    match condition {
        Expr::Bool { op: BoolOp::And, args } => args.iter().any(|arg| rejects_nulls(arg, columns)),
        Expr::Bool { op: BoolOp::Or, args } => args.iter().all(|arg| rejects_nulls(arg, columns)),
        Expr::IsNull { arg, negated: true } => is_null_with(arg, columns),
        other => is_null_with(other, columns),
    }
}

/// Whether the expression is null if all these columns are null.
fn is_null_with(expr: &Expr, columns: &[ColumnId]) -> bool {
    match expr {
        Expr::Column { id } => columns.contains(id),
        Expr::Literal { value, .. } => value.is_none(),
        Expr::Param { .. } | Expr::IsNull { .. } | Expr::Bool { .. } | Expr::Case { .. } | Expr::Coalesce(_) => false,
        Expr::Cmp { left, right, .. } | Expr::Arith { left, right, .. } => {
            is_null_with(left, columns) || is_null_with(right, columns)
        }
        Expr::Neg(arg) | Expr::Not(arg) | Expr::Cast { arg, .. } => is_null_with(arg, columns),
        Expr::Call { function, args, .. } => {
            catalogue::is_strict(Call::Named(*function)) && args.iter().any(|arg| is_null_with(arg, columns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(relation: u16, columns: &[u16]) -> Rel {
        Rel::Scan { relation, columns: columns.iter().map(|&id| ColumnId(id)).collect() }
    }

    fn column(id: u16) -> Expr {
        Expr::column(ColumnId(id))
    }

    fn positive(id: u16) -> Expr {
        let zero = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(0)) };
        Expr::Cmp { op: CmpOp::Gt, left: column(id).into(), right: zero.into() }
    }

    fn is_null(id: u16) -> Expr {
        Expr::IsNull { arg: column(id).into(), negated: false }
    }

    fn left_join() -> Rel {
        scan(0, &[0, 1]).join(JoinKind::Left, scan(1, &[2, 3]), vec![Expr::equal(column(0), column(2))])
    }

    #[test]
    fn a_condition_that_nulls_fail_makes_a_left_join_inner() {
        let inner = scan(0, &[0, 1]).join(
            JoinKind::Inner,
            scan(1, &[2, 3]).filter(vec![positive(3)]),
            vec![Expr::equal(column(0), column(2))],
        );
        assert_eq!(simplified(left_join().filter(vec![positive(3)])), inner);
    }

    #[test]
    fn functions_of_nulls_fail_unless_they_take_them() {
        let asked = |function| {
            let call = Expr::Call { function, ty: Type::Int64, args: vec![column(3), column(0)] };
            simplified(left_join().filter(vec![Expr::equal(call, column(1))]))
        };
        let is_inner = |rel: &Rel| matches!(rel, Rel::Join { kind: JoinKind::Inner, .. });
        assert!(is_inner(&asked(Named::Position)));
        assert!(!is_inner(&asked(Named::Greatest)));
    }

    #[test]
    fn a_condition_that_nulls_pass_stays_above() {
        let asked = left_join().filter(vec![is_null(3)]);
        assert_eq!(simplified(asked.clone()), asked);
        let either = Expr::Bool { op: BoolOp::Or, args: vec![positive(3), positive(0)] };
        let asked = left_join().filter(vec![either]);
        assert_eq!(simplified(asked.clone()), asked);
    }

    #[test]
    fn conditions_on_the_kept_side_go_below() {
        let expected = scan(0, &[0, 1]).filter(vec![positive(1)]).join(
            JoinKind::Left,
            scan(1, &[2, 3]),
            vec![Expr::equal(column(0), column(2))],
        );
        assert_eq!(simplified(left_join().filter(vec![positive(1)])), expected);
    }

    #[test]
    fn what_a_subquery_is_computed_for_are_the_rows_that_conditions_leave() {
        let both = |conditions| scan(0, &[0, 1]).join(JoinKind::Inner, scan(1, &[2, 3]), conditions);
        let first = |input: Rel| {
            let count = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(1)) };
            let range = Box::new(plan::Range { count: Some(count), ..plan::Range::default() });
            Rel::Top { input: input.into(), keys: vec![], order: vec![], range }
        };
        let right = || first(scan(2, &[4]).filter(vec![Expr::equal(column(4), column(3))]));
        let equal = || Expr::equal(column(0), column(2));
        for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Semi] {
            let asked = both(vec![]).apply(kind, right(), vec![]).filter(vec![equal(), positive(0)]);
            let left = scan(0, &[0, 1]).filter(vec![positive(0)]);
            let left = left.join(JoinKind::Inner, scan(1, &[2, 3]), vec![equal()]);
            assert_eq!(simplified(asked), left.apply(kind, right(), vec![]));
        }
        let asked = both(vec![]).apply(JoinKind::Inner, right(), vec![]).filter(vec![positive(4)]);
        assert_eq!(simplified(asked.clone()), asked);
    }

    #[test]
    fn a_comparison_with_a_subquery_makes_an_outer_join_below_it_inner() {
        let scalar = || scan(2, &[4]).filter(vec![Expr::equal(column(4), column(0))]);
        let compared = || vec![Expr::equal(column(2), column(4))];
        let rel = left_join().apply(JoinKind::Left, scalar(), vec![]).filter(compared());
        let Rel::Filter { input, .. } = simplified(rel) else { panic!() };
        let Rel::Apply { left, .. } = *input else { panic!() };
        assert!(matches!(*left, Rel::Join { kind: JoinKind::Inner, .. }), "{left:?}");
    }

    #[test]
    fn an_own_condition_on_the_kept_side_stays() {
        let conditions = vec![Expr::equal(column(0), column(2)), positive(1)];
        let asked = scan(0, &[0, 1]).join(JoinKind::Left, scan(1, &[2, 3]), conditions);
        assert_eq!(simplified(asked.clone()), asked);
    }

    #[test]
    fn an_or_says_something_of_each_side() {
        let both = |a: u16, b: u16| Expr::Bool { op: BoolOp::And, args: vec![positive(a), is_null(b)] };
        let either = Expr::Bool { op: BoolOp::Or, args: vec![both(0, 2), both(1, 3)] };
        let asked = scan(0, &[0, 1]).join(JoinKind::Inner, scan(1, &[2, 3]), vec![either.clone()]);
        let or = |a: Expr, b: Expr| {
            let alone = |e| Expr::Bool { op: BoolOp::And, args: vec![e] };
            Expr::Bool { op: BoolOp::Or, args: vec![alone(a), alone(b)] }
        };
        let expected = scan(0, &[0, 1]).filter(vec![or(positive(0), positive(1))]).join(
            JoinKind::Inner,
            scan(1, &[2, 3]).filter(vec![or(is_null(2), is_null(3))]),
            vec![either],
        );
        assert_eq!(simplified(asked), expected);
    }

    #[test]
    fn a_short_list_is_looked_up_first() {
        let like = Expr::Call { function: Named::Like, ty: Type::Bool, args: vec![column(4), column(4)] };
        let list = scan(2, &[4]).filter(vec![like]);
        let joined = scan(0, &[0, 1]).join(JoinKind::Inner, scan(1, &[2, 3]), vec![Expr::equal(column(0), column(2))]);
        let own = vec![Expr::equal(column(3), column(4))];
        let early = scan(1, &[2, 3]).join(JoinKind::Semi, list.clone(), own.clone());
        let expected = scan(0, &[0, 1]).join(JoinKind::Inner, early, vec![Expr::equal(column(0), column(2))]);
        assert_eq!(simplified(joined.clone().join(JoinKind::Semi, list, own.clone())), expected);
        let long = joined.join(JoinKind::Semi, scan(2, &[4]), own);
        assert_eq!(simplified(long.clone()), long);
    }

    #[test]
    fn what_can_raise_passes_no_group_and_no_outer_join() {
        let quotient =
            Expr::Arith { op: plan::ArithOp::Div, ty: Type::Int64, left: column(0).into(), right: column(1).into() };
        let raising = Expr::Cmp { op: CmpOp::Gt, left: quotient.into(), right: column(0).into() };
        let asked = left_join().filter(vec![raising]);
        assert_eq!(simplified(asked.clone()), asked);
    }

    #[test]
    fn a_condition_on_a_key_goes_below_the_groups() {
        let key = plan::Computed { column: ColumnId(2), expr: column(0) };
        let group = |input: Rel| Rel::Aggregate { input: input.into(), keys: vec![key.clone()], aggregates: vec![] };
        let asked = group(scan(0, &[0, 1])).filter(vec![positive(2)]);
        assert_eq!(simplified(asked), group(scan(0, &[0, 1]).filter(vec![positive(0)])));
        // An aggregate without keys has a row even if its input is empty, so the condition must stay above it.
        let single = Rel::Aggregate { input: scan(0, &[0]).into(), keys: vec![], aggregates: vec![] };
        let never = Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(false)) };
        let asked = single.filter(vec![never]);
        assert_eq!(simplified(asked.clone()), asked);
    }
}
