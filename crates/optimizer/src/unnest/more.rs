//! Larger domains from fewer operators. A domain may contain additional values, if its rows are then easier to compute.
//!
//! A subquery may be computed for more values than the outer rows have, because the additional results are never looked
//! up. So semi-joins and outer joins among the outer rows, which come from other subqueries, need not be repeated.

use plan::{ColumnId, Expr, JoinKind, Literal, Range, Rel};

/// Rows whose values in the columns `read` include all values that `rel` has in these columns. They raise no error that
/// `rel` does not raise.
pub fn with_more(rel: &Rel, read: &[ColumnId]) -> Rel {
    match rel {
        Rel::Filter { input, conditions } => {
            let input = with_more(input, read);
            let columns = input.columns();
            let may_stay = |c: &&Expr| !c.can_raise() && c.columns().iter().all(|id| columns.contains(id));
            let conditions = conditions.iter().filter(may_stay).cloned().collect();
            input.filter(conditions)
        }
        Rel::Map { input, .. } if has(input, read) => with_more(input, read),
        // Conditions that can raise an error are left out. If all conditions can, this is not done, because it would
        // make a cross product.
        Rel::Join { kind: JoinKind::Inner, left, right, conditions }
            if conditions.is_empty() || !conditions.iter().all(Expr::can_raise) =>
        {
            let conditions: Vec<Expr> = conditions.iter().filter(|c| !c.can_raise()).cloned().collect();
            let mut read = read.to_vec();
            read.extend(conditions.iter().flat_map(Expr::columns));
            let side = |rel: &Rel| {
                let own = rel.columns();
                with_more(rel, &read.iter().copied().filter(|id| own.contains(id)).collect::<Vec<_>>())
            };
            side(left).join(JoinKind::Inner, side(right), conditions)
        }
        Rel::Join { kind: JoinKind::Semi | JoinKind::Anti | JoinKind::Left | JoinKind::Mark(_), left, .. }
            if has(left, read) =>
        {
            with_more(left, read)
        }
        other => other.clone(),
    }
}

fn has(rel: &Rel, read: &[ColumnId]) -> bool {
    let columns = rel.columns();
    read.iter().all(|id| columns.contains(id))
}

/// Whether computing an operator for additional values cannot raise an error.
pub fn is_safe(rel: &Rel) -> bool {
    let mut safe = true;
    rel.visit(&mut |rel| {
        safe &= !rel.expressions().into_iter().any(Expr::can_raise)
            && !rel.aggregates().iter().any(|a| a.agg.can_raise())
            && match rel {
                Rel::Window { .. } | Rel::Unfold { .. } => false,
                Rel::Top { range, .. } => is_known(range),
                _ => true,
            };
    });
    safe
}

/// Whether both bounds are constants that are not negative. A negative bound would be an error.
fn is_known(range: &Range) -> bool {
    let is_known = |bound: &Expr| match bound {
        Expr::Literal { value: Some(Literal::Int(number)), .. } => *number >= 0,
        Expr::Literal { value, .. } => value.is_none(),
        _ => false,
    };
    range.offset.iter().chain(&range.count).all(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{CmpOp, Computed, Type};

    fn scan(relation: u16, columns: [u16; 2]) -> Rel {
        Rel::Scan { relation, columns: columns.map(ColumnId).to_vec() }
    }

    fn column(id: u16) -> Expr {
        Expr::column(ColumnId(id))
    }

    #[test]
    fn what_only_leaves_rows_out_is_not_repeated() {
        let less = Expr::Cmp { op: CmpOp::Lt, left: Box::new(column(0)), right: Box::new(column(2)) };
        let pairs = scan(0, [0, 1]).join(JoinKind::Inner, scan(1, [2, 3]), vec![less]);
        let null = Expr::IsNull { arg: Box::new(column(1)), negated: true };
        let marked = pairs
            .clone()
            .join(JoinKind::Anti, scan(2, [4, 5]), vec![Expr::equal(column(4), column(0))])
            .join(JoinKind::Mark(ColumnId(8)), scan(2, [6, 7]), vec![Expr::equal(column(6), column(1))])
            .filter(vec![column(8), null.clone()]);
        assert_eq!(with_more(&marked, &[ColumnId(0), ColumnId(3)]), pairs.filter(vec![null]));
        assert_eq!(with_more(&marked, &[ColumnId(8)]).columns(), marked.columns());
    }

    #[test]
    fn what_raises_is_asked_of_no_more_rows() {
        let sum = Expr::Arith {
            op: plan::ArithOp::Add,
            ty: Type::Int64,
            left: Box::new(column(0)),
            right: Box::new(column(1)),
        };
        let positive = Expr::equal(sum.clone(), column(0));
        let rows = scan(0, [0, 1]);
        let some = rows.clone().join(JoinKind::Semi, scan(1, [2, 3]), vec![Expr::equal(column(2), column(0))]);
        assert_eq!(with_more(&some.clone().filter(vec![positive]), &[ColumnId(0)]), rows);
        let computed = some.map(vec![Computed { column: ColumnId(4), expr: sum }]);
        assert_eq!(with_more(&computed, &[ColumnId(4)]), computed);
        assert_eq!(with_more(&computed, &[ColumnId(1)]), rows);
        assert!(!is_safe(&computed) && is_safe(&rows));
    }

    #[test]
    fn a_limit_that_only_the_execution_tells_may_raise() {
        let first = |count: Expr| {
            let range = Range { count: Some(count), ..Range::default() };
            Rel::Top { input: Box::new(scan(0, [0, 1])), keys: vec![], order: vec![], range: Box::new(range) }
        };
        let literal = |number| Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(number)) };
        assert!(is_safe(&first(literal(3))) && !is_safe(&first(literal(-3))));
        assert!(!is_safe(&first(Expr::Param { index: 0 })));
    }
}
