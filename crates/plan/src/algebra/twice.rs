//! Finds values that may differ if they are computed twice: sums of floats, lists of rows that are equal in their
//! order, and values derived from such sums and lists.
//!
//! The outer rows of a subquery may be computed a second time, to find the outer values that the subquery reads. Both
//! computations must return the same values, even if conditions above the subquery are moved down to the outer rows.

use std::collections::HashSet;

use crate::algebra::aggregates::Agg;
use crate::algebra::expr::Expr;
use crate::algebra::rel::{JoinKind, Rel};
use crate::base::ops::ColumnId;

/// Whether it may matter that rows are computed twice. It matters if a subquery reads an outer value that may differ,
/// or has outer rows that may differ. It also matters if a condition reads such a value, and may be moved down to outer
/// rows.
pub fn may_differ(root: &Rel) -> bool {
    let mut differing = Differing { columns: HashSet::new(), beside: HashSet::new(), found: false };
    differing.rows(root);
    differing.found
}

struct Differing {
    /// The columns whose values may differ if they are computed twice.
    columns: HashSet<ColumnId>,
    /// Columns of outer rows of a subquery whose values may differ, and columns derived from these. Conditions must not
    /// read them.
    beside: HashSet<ColumnId>,
    /// Whether a subquery or a condition was found that reads a value which may differ.
    found: bool,
}

impl Differing {
    /// Visits an operator. Returns whether it may have different rows if it is computed twice.
    fn rows(&mut self, rel: &Rel) -> bool {
        if let Rel::Apply { kind, left, right, conditions } = rel {
            let of_left = self.rows(left);
            let around = left.columns();
            let differs = |id: &ColumnId| self.columns.contains(id) || of_left && around.contains(id);
            let mut read = Vec::new();
            right.visit(&mut |rel| read.extend(rel.expressions().into_iter().flat_map(Expr::columns)));
            self.found |= read.iter().any(differs);
            if read.iter().any(|id| around.contains(id)) {
                self.beside.extend(around.iter().filter(|id| self.columns.contains(id)));
            }
            let of_right = self.rows(right);
            return self.joined(*kind, of_left || of_right, conditions);
        }
        let mut below = false;
        for input in rel.inputs() {
            below |= self.rows(input);
        }
        let reads_beside = |e: &&Expr| e.columns().iter().any(|id| self.beside.contains(id));
        if rel.expressions().iter().any(reads_beside) {
            self.found |= matches!(rel, Rel::Filter { .. });
            self.beside.extend(rel.made());
        }
        match rel {
            Rel::Map { computed, .. } => {
                for one in computed {
                    self.add(self.reads(&one.expr), [one.column]);
                }
                below
            }
            Rel::Union { columns, inputs } => {
                for (at, column) in columns.iter().enumerate() {
                    self.add(inputs.iter().any(|part| self.reads(&part.exprs[at])), [*column]);
                }
                below
            }
            Rel::Join { kind, conditions, .. } => self.joined(*kind, below, conditions),
            // Whether a group exists depends only on its keys. If the keys do not differ, only the aggregates can.
            Rel::Aggregate { keys, aggregates, .. } if !keys.iter().any(|key| self.reads(&key.expr)) => {
                for one in aggregates {
                    let reads = one.agg.arguments().iter().any(|e| self.reads(e));
                    self.add(below || reads || differs(&one.agg), one.columns.iter().copied());
                }
                below
            }
            _ => {
                let reads = rel.expressions().into_iter().any(|e| self.reads(e)) || self.has_ties_told_by(rel);
                let differs = rel.aggregates().iter().any(|one| differs(&one.agg))
                    || matches!(rel, Rel::Window { calls, .. } if calls.iter().any(|call| call.function.is_inexact()));
                self.add(below || reads || differs, rel.made());
                below || reads
            }
        }
    }

    /// Whether rows that are equal in their order may change places. The values of all columns break such a tie, so
    /// this is possible if any column may differ.
    fn has_ties_told_by(&self, rel: &Rel) -> bool {
        let input = match rel {
            Rel::Top { input, range, .. } if !range.ties && !range.is_all() => input,
            Rel::Window { input, .. } => input,
            _ => return false,
        };
        input.columns().iter().any(|id| self.columns.contains(id))
    }

    fn joined(&mut self, kind: JoinKind, rows: bool, conditions: &[Expr]) -> bool {
        self.found |= conditions.iter().any(|e| e.columns().iter().any(|id| self.beside.contains(id)));
        let differs = rows || conditions.iter().any(|e| self.reads(e));
        if let JoinKind::Mark(mark) = kind {
            self.add(differs, [mark]);
        }
        differs
    }

    fn reads(&self, expr: &Expr) -> bool {
        expr.columns().iter().any(|id| self.columns.contains(id))
    }

    fn add(&mut self, differs: bool, columns: impl IntoIterator<Item = ColumnId>) {
        if differs {
            self.columns.extend(columns);
        }
    }
}

fn differs(agg: &Agg) -> bool {
    let row = agg.aggregate().row();
    row.is_inexact || row.shows_row_order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::aggregates::FloatAgg;
    use crate::algebra::expr::Literal;
    use crate::algebra::rel::{Aggregation, Computed, Range, SortKey};
    use crate::base::ops::CmpOp;
    use crate::base::types::Type;

    fn column(id: u16) -> Expr {
        Expr::column(ColumnId(id))
    }

    fn scan(columns: [u16; 2]) -> Rel {
        Rel::Scan { relation: 0, columns: columns.map(ColumnId).to_vec() }
    }

    /// Groups by the second column, with a sum of the first column. Both columns are floats.
    fn groups() -> Rel {
        let sum = Agg::Float(FloatAgg::Sum, column(0));
        let aggregates = vec![Aggregation { columns: vec![ColumnId(3)], agg: sum, distinct: false }];
        let keys = vec![Computed { column: ColumnId(2), expr: column(1) }];
        Rel::Aggregate { input: Box::new(scan([0, 1])), keys, aggregates }
    }

    fn with_subquery_about(left: Rel, id: u16) -> Rel {
        left.apply(JoinKind::Semi, scan([8, 9]).filter(vec![Expr::equal(column(8), column(id))]), Vec::new())
    }

    #[test]
    fn a_key_of_groups_is_the_same_each_time_and_a_sum_is_not() {
        assert!(!may_differ(&with_subquery_about(groups(), 2)));
        assert!(may_differ(&with_subquery_about(groups(), 3)));
        let computed = groups().map(vec![Computed { column: ColumnId(4), expr: Expr::Coalesce(vec![column(3)]) }]);
        assert!(
            !may_differ(&with_subquery_about(computed.clone(), 2)) && may_differ(&with_subquery_about(computed, 4))
        );
    }

    #[test]
    fn rows_that_a_sum_decides_about_may_be_others() {
        let less = Expr::Cmp { op: CmpOp::Lt, left: Box::new(column(3)), right: Box::new(column(3)) };
        assert!(may_differ(&with_subquery_about(groups().filter(vec![less.clone()]), 2)));
        let marked = groups().join(JoinKind::Mark(ColumnId(5)), scan([6, 7]), vec![less.clone()]);
        assert!(may_differ(&with_subquery_about(marked, 5)));
        let first = |range| Rel::Top {
            input: Box::new(groups()),
            keys: vec![],
            order: vec![SortKey::ascending(column(2))],
            range: Box::new(range),
        };
        let one =
            Range { count: Some(Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(1)) }), ..Range::default() };
        assert!(may_differ(&with_subquery_about(first(one.clone()), 2)));
        assert!(!may_differ(&with_subquery_about(first(Range { ties: true, ..one }), 2)));
        // The condition may be moved down to the outer rows, so it must not read a value that may differ.
        let above = |id| with_subquery_about(groups(), 2).filter(vec![Expr::equal(column(id), column(id))]);
        assert!(may_differ(&above(3)) && !may_differ(&above(2)));
        // A subquery that reads no outer columns needs no second computation.
        assert!(!may_differ(&groups().filter(vec![less]).apply(JoinKind::Inner, scan([8, 9]), Vec::new())));
    }
}
