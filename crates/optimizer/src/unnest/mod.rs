//! Unnesting: subqueries that read outer columns become joins, so that no [`Rel::Apply`] remains.
//!
//! ```text
//!   Apply(left, Filter(r = l, rows))      Join(left, rows, r = l)                        conditions go up: `lift`
//!   Apply(left, sum of Filter(r = l, …))  Left join with the sums by r, on r = l         groups by key: `group`
//!   Apply(left, rows of any other kind)   Join(left, rows for each value in D, l = d)    `domain`
//! ```
//!
//! D, the domain, is the set of distinct values that the left side has in the columns which the right side reads
//! (Neumann and Kemper, *Unnesting Arbitrary Queries*, BTW 2015). The first two ways make smaller plans, and are used
//! only if they add no error. To compute D, the left side is repeated, including all repetitions that subqueries in it
//! have caused. If the plan grows too large in this way, D is computed by fewer operators, and contains additional
//! values: see `more`.

mod domain;
mod group;
mod lift;
mod more;

use plan::{Aggregation, ColumnId, Computed, Expr, JoinKind, Literal, Part, Plan, Rel, SortKey, Type};

use domain::Domain;

/// The greatest number of columns of an unnested plan. It is limited because nested repetitions grow fast.
const MAX_COLUMNS: usize = 8192;

/// The number of columns up to which a plan may grow when subqueries are unnested by repeating the whole left side. If
/// it would grow larger, only the necessary operators are repeated.
const FEW_COLUMNS: usize = 512;

/// An equivalent plan without [`Rel::Apply`]. If it would have too many columns, the plan is returned unchanged.
pub fn unnested(plan: Plan) -> Plan {
    let mut any = false;
    plan.root.visit(&mut |rel| any |= matches!(rel, Rel::Apply { .. }));
    if !any {
        return plan;
    }
    for (is_sparing, most) in [(false, FEW_COLUMNS.max(2 * plan.columns.len()).min(MAX_COLUMNS)), (true, MAX_COLUMNS)] {
        let columns = plan.columns.clone();
        let mut unnesting = Unnesting { columns, most, is_sparing, params: &plan.params };
        let root = unnesting.rel(plan.root.clone());
        if unnesting.columns.len() <= most {
            return Plan { root, columns: unnesting.columns, ..plan };
        }
    }
    plan
}

struct Unnesting<'a> {
    columns: Vec<Type>,
    /// The greatest number of columns. When it is exceeded, the result will not be used.
    most: usize,
    /// Whether domains may contain more values than the outer rows have. Then fewer operators have to be repeated.
    is_sparing: bool,
    params: &'a [Type],
}

impl Unnesting<'_> {
    fn rel(&mut self, rel: Rel) -> Rel {
        match rel {
            Rel::Scan { .. } | Rel::Row => rel,
            Rel::Filter { input, conditions } => Rel::Filter { input: Box::new(self.rel(*input)), conditions },
            Rel::Map { input, computed } => Rel::Map { input: Box::new(self.rel(*input)), computed },
            Rel::Join { kind, left, right, conditions } => {
                let (left, right) = (self.rel(*left), self.rel(*right));
                left.join(kind, right, conditions)
            }
            Rel::Apply { kind, left, right, conditions } => {
                let (left, right) = (self.rel(*left), self.rel(*right));
                self.apply(kind, left, right, conditions)
            }
            Rel::Union { columns, inputs } => {
                let inputs = inputs.into_iter().map(|part| Part { rel: self.rel(part.rel), ..part });
                Rel::Union { columns, inputs: inputs.collect() }
            }
            Rel::Aggregate { input, keys, aggregates } => {
                Rel::Aggregate { input: Box::new(self.rel(*input)), keys, aggregates }
            }
            Rel::GroupingSets { input, grouping } => Rel::GroupingSets { input: Box::new(self.rel(*input)), grouping },
            Rel::Top { input, keys, order, range } => {
                let input = Box::new(self.rel(*input));
                // The order is made unique, so that the same rows are returned each time. That is unnecessary if ties
                // are included, or if all rows are returned.
                let order = if range.ties || range.is_all() { order } else { total(order, &input) };
                Rel::Top { input, keys, order, range }
            }
            Rel::Unfold { input, unfold } => Rel::Unfold { input: Box::new(self.rel(*input)), unfold },
            Rel::Window { input, mut over, calls } => {
                let input = Box::new(self.rel(*input));
                over.ties = total(over.ties, &input);
                Rel::Window { input, over, calls }
            }
        }
    }

    /// Replaces a [`Rel::Apply`] with these sides by a join. Neither side contains a [`Rel::Apply`] itself.
    fn apply(&mut self, kind: JoinKind, left: Rel, right: Rel, mut conditions: Vec<Expr>) -> Rel {
        let outer = left.columns();
        if self.columns.len() > self.most || !reads(&right, &outer) {
            return left.join(kind, right, conditions);
        }
        let right = if kind.keeps_right() { right } else { lift::of_any_number(right) };
        let foreign = around(&right);
        let (mut right, lifted) = lift::lifted(right, &foreign);
        conditions.extend(lifted);
        if !kind.keeps_right() {
            right = lift::without_maps(right, &mut conditions);
        }
        if !reads(&right, &outer) {
            return left.join(kind, right, conditions);
        }
        match right {
            Rel::Map { input, computed } if kind == JoinKind::Inner => {
                self.apply(kind, left, *input, Vec::new()).map(computed).filter(conditions)
            }
            // The list is computed from columns of the joined rows, so it can be unfolded after the join.
            Rel::Unfold { input, unfold } if kind == JoinKind::Inner => {
                let input = match *input {
                    Rel::Row => left,
                    input => self.apply(kind, left, input, Vec::new()),
                };
                Rel::Unfold { input: Box::new(input), unfold }.filter(conditions)
            }
            Rel::Unfold { input, mut unfold }
                if kind == JoinKind::Left && *input == Rel::Row && conditions.is_empty() =>
            {
                unfold.outer = true;
                Rel::Unfold { input: Box::new(left), unfold }
            }
            right => match self.grouped(kind, left, right, conditions) {
                Ok(joined) => joined,
                Err(parts) => self.by_domain(kind, *parts),
            },
        }
    }

    /// The way that always works: the right side is computed for each value that the left side has in the columns which
    /// the right side reads.
    fn by_domain(&mut self, kind: JoinKind, Sides { left, right, mut conditions }: Sides) -> Rel {
        let outer: Vec<ColumnId> = left.columns().into_iter().filter(|id| reads(&right, &[*id])).collect();
        let more = (self.is_sparing && more::is_safe(&right)).then(|| more::with_more(&left, &outer));
        let domain = Domain { left: more.as_ref().unwrap_or(&left), outer: &outer };
        let own = right.columns();
        let (right, values) = self.dependent(right, &domain);
        domain.compare_on_right(&mut conditions, &own, &values);
        conditions.extend(self.same(&outer, &values));
        left.join(kind, right, conditions)
    }

    fn column(&mut self, ty: Type) -> ColumnId {
        self.columns.push(ty);
        // If there are too many columns, the result will not be used, so any number will do.
        ColumnId(u16::try_from(self.columns.len() - 1).unwrap_or(u16::MAX))
    }

    fn like(&mut self, other: ColumnId) -> ColumnId {
        self.column(self.columns[other.0 as usize])
    }

    /// Conditions that are true if the columns have the same values. Nulls count as equal.
    fn same(&self, left: &[ColumnId], right: &[ColumnId]) -> Vec<Expr> {
        let is_null = |id: ColumnId| Expr::IsNull { arg: Box::new(Expr::column(id)), negated: false };
        let some = |id: ColumnId| Expr::Coalesce(vec![Expr::column(id), any_value(self.columns[id.0 as usize])]);
        let equal = |(&l, &r)| [Expr::equal(some(l), some(r)), Expr::equal(is_null(l), is_null(r))];
        left.iter().zip(right).flat_map(equal).collect()
    }

    /// Prepares aggregates that are not null for an empty group: gives them new columns, and returns expressions that
    /// compute the old columns from the new ones, even if there is no group.
    fn of_missing_groups(&mut self, aggregates: Vec<Aggregation>) -> (Vec<Aggregation>, Vec<Computed>) {
        let mut filled = Vec::new();
        let mut renamed = |aggregation: Aggregation| {
            let mut columns = aggregation.columns.clone();
            for &at in aggregation.agg.aggregate().row().counts {
                let ty = self.columns[columns[at].0 as usize];
                columns[at] = self.column(ty);
                let zero = Expr::Literal { ty, value: Some(Literal::Int(0)) };
                let expr = Expr::Coalesce(vec![Expr::column(columns[at]), zero]);
                filled.push(Computed { column: aggregation.columns[at], expr });
            }
            Aggregation { columns, ..aggregation }
        };
        let aggregates = aggregates.into_iter().map(&mut renamed).collect();
        (aggregates, filled)
    }
}

/// Adds all columns to an order, so that it is unique. If the rows are computed twice, both computations then choose
/// the same rows.
fn total(mut order: Vec<SortKey>, input: &Rel) -> Vec<SortKey> {
    order.extend(input.columns().into_iter().map(|id| SortKey::ascending(Expr::column(id))));
    order
}

/// The inputs and the conditions of a [`Rel::Apply`].
struct Sides {
    left: Rel,
    right: Rel,
    conditions: Vec<Expr>,
}

/// The columns that an operator reads from elsewhere: neither it nor any operator below it makes them.
fn around(rel: &Rel) -> Vec<ColumnId> {
    let (mut made, mut read) = (Vec::new(), Vec::new());
    rel.visit(&mut |rel| {
        made.extend(rel.made());
        read.extend(rel.expressions().into_iter().flat_map(Expr::columns));
    });
    read.retain(|id| !made.contains(id));
    read
}

fn reads(rel: &Rel, columns: &[ColumnId]) -> bool {
    let mut found = false;
    rel.visit(&mut |rel| found = found || rel.expressions().into_iter().any(|e| expr_reads(e, columns)));
    found
}

fn expr_reads(expr: &Expr, columns: &[ColumnId]) -> bool {
    let mut found = false;
    expr.visit(&mut |e| found |= matches!(e, Expr::Column { id } if columns.contains(id)));
    found
}

/// A constant of the type; its value does not matter.
fn any_value(ty: Type) -> Expr {
    use plan::Physical::*;
    let value = match ty.physical() {
        Bit => Literal::Bool(false),
        Int16 | Int32 | Int64 => Literal::Int(0),
        Float64 => Literal::Float(0.0),
        Int128 => Literal::Decimal(0),
        Text => Literal::Text(String::new()),
        Bytes => Literal::Bytes(Vec::new()),
    };
    Expr::Literal { ty, value: Some(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_grow_without_measure_is_left_as_it_is() {
        let mut columns = vec![Type::Int64];
        let mut root = Rel::Scan { relation: 0, columns: vec![ColumnId(0)] };
        for number in 1..40 {
            // Each subquery computes its second column from an outer column. So no subquery has a condition that could
            // be lifted.
            let (own, sum) = (ColumnId(2 * number - 1), ColumnId(2 * number));
            columns.extend([Type::Int64; 2]);
            let around = if number == 1 { ColumnId(0) } else { ColumnId(2 * number - 2) };
            let expr = Expr::Coalesce(vec![Expr::column(around), Expr::column(own)]);
            let right = Rel::Scan { relation: 0, columns: vec![own] }.map(vec![Computed { column: sum, expr }]);
            root = root.apply(JoinKind::Left, right, vec![]);
        }
        let column = plan::RelationColumn { attnum: 1, ty: Type::Int64 };
        let relations = vec![plan::Relation::of_table(1, &[column])];
        let plan = Plan { relations, columns, params: vec![], root, output: vec![] };
        plan.check().unwrap();
        assert_eq!(unnested(plan.clone()), plan);
    }
}
