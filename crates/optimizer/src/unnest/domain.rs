//! Computes a subquery for all values of the outer columns that it reads, in one operator.

use std::collections::HashMap;

use plan::{ColumnId, Computed, Expr, GroupingSets, JoinKind, Literal, Part, Rel, Type, WindowCall};

use super::{Unnesting, expr_reads, reads};

/// The domain of a subquery: the distinct values that its outer rows `left` have in `outer`, the columns that the
/// subquery reads.
pub struct Domain<'a> {
    pub left: &'a Rel,
    pub outer: &'a [ColumnId],
}

impl Unnesting<'_> {
    /// The rows that `rel` has for each value of the domain. The value itself is in additional columns, whose ids are
    /// returned.
    pub fn dependent(&mut self, rel: Rel, domain: &Domain<'_>) -> (Rel, Vec<ColumnId>) {
        if !reads(&rel, domain.outer) {
            let (values, ids) = self.values(domain);
            return (values.join(JoinKind::Inner, rel, Vec::new()), ids);
        }
        match rel {
            Rel::Scan { .. } | Rel::Row | Rel::Apply { .. } => unreachable!("none reads a column of another operator"),
            Rel::Filter { input, mut conditions } => {
                let (input, ids) = self.dependent(*input, domain);
                domain.replace(conditions.iter_mut(), &ids);
                (input.filter(conditions), ids)
            }
            Rel::Map { input, mut computed } => {
                let (input, ids) = self.dependent(*input, domain);
                domain.replace(computed.iter_mut().map(|c| &mut c.expr), &ids);
                (input.map(computed), ids)
            }
            Rel::Join { kind, left, right, conditions } => self.dependent_join(kind, *left, *right, conditions, domain),
            Rel::GroupingSets { input, grouping } => {
                let union = self.as_union(&input, &grouping);
                self.dependent(union, domain)
            }
            // The first rows must be found for each value of the domain, so the domain's columns become keys.
            Rel::Top { input, mut keys, mut order, range } => {
                let (input, ids) = self.dependent(*input, domain);
                let expressions = keys.iter_mut().chain(order.iter_mut().map(|key| &mut key.expr));
                domain.replace(expressions, &ids);
                keys.extend(ids.iter().copied().map(Expr::column));
                (Rel::Top { input: Box::new(input), keys, order, range }, ids)
            }
            Rel::Unfold { input, mut unfold } => {
                let (input, ids) = self.dependent(*input, domain);
                domain.replace(unfold.arguments.iter_mut(), &ids);
                (Rel::Unfold { input: Box::new(input), unfold }, ids)
            }
            Rel::Window { input, mut over, mut calls } => {
                let (input, ids) = self.dependent(*input, domain);
                let arguments = calls.iter_mut().flat_map(WindowCall::expressions_mut);
                domain.replace(over.expressions_mut().chain(arguments), &ids);
                over.partition.extend(ids.iter().copied().map(Expr::column));
                (Rel::Window { input: Box::new(input), over, calls }, ids)
            }
            Rel::Union { mut columns, inputs } => {
                let ids: Vec<ColumnId> = domain.outer.iter().map(|id| self.like(*id)).collect();
                columns.extend(&ids);
                let inputs = inputs.into_iter().map(|Part { rel, mut exprs }| {
                    let (rel, own) = self.dependent(rel, domain);
                    domain.replace(exprs.iter_mut(), &own);
                    exprs.extend(own.into_iter().map(Expr::column));
                    Part { rel, exprs }
                });
                (Rel::Union { inputs: inputs.collect(), columns }, ids)
            }
            Rel::Aggregate { input, mut keys, mut aggregates } => {
                let (input, own) = self.dependent(*input, domain);
                domain.replace(keys.iter_mut().map(|key| &mut key.expr), &own);
                domain.replace(aggregates.iter_mut().flat_map(|a| a.agg.arguments_mut()), &own);
                let ids: Vec<ColumnId> = own.iter().map(|id| self.like(*id)).collect();
                let all = keys.is_empty();
                keys.extend(ids.iter().zip(own).map(|(id, own)| Computed { column: *id, expr: Expr::column(own) }));
                let input = Box::new(input);
                if !all {
                    return (Rel::Aggregate { input, keys, aggregates }, ids);
                }
                // Without keys, there must be a group for each value of the domain, even if there are no rows for that
                // value.
                let (aggregates, filled) = self.of_missing_groups(aggregates);
                let (values, values_ids) = self.values(domain);
                let same = self.same(&values_ids, &ids);
                let groups = Rel::Aggregate { input, keys, aggregates };
                (values.join(JoinKind::Left, groups, same).map(filled), values_ids)
            }
        }
    }

    fn dependent_join(
        &mut self,
        kind: JoinKind,
        left: Rel,
        right: Rel,
        mut conditions: Vec<Expr>,
        domain: &Domain<'_>,
    ) -> (Rel, Vec<ColumnId>) {
        if kind == JoinKind::Full {
            return self.dependent_full_join(left, right, conditions, domain);
        }
        if !reads(&right, domain.outer) {
            let (left, ids) = self.dependent(left, domain);
            domain.replace(conditions.iter_mut(), &ids);
            return (left.join(kind, right, conditions), ids);
        }
        let only_right = !reads(&left, domain.outer) && !conditions.iter().any(|c| expr_reads(c, domain.outer));
        if kind == JoinKind::Inner && only_right {
            let (right, ids) = self.dependent(right, domain);
            return (left.join(kind, right, conditions), ids);
        }
        let own = right.columns();
        let (left, ids) = self.dependent(left, domain);
        let (right, others) = self.dependent(right, domain);
        domain.compare_on_right(&mut conditions, &own, &others);
        domain.replace(conditions.iter_mut(), &ids);
        conditions.extend(self.same(&ids, &others));
        (left.join(kind, right, conditions), ids)
    }

    /// Replaces grouping sets by a union. Each input of the union groups by one of the sets.
    fn as_union(&mut self, input: &Rel, grouping: &GroupingSets) -> Rel {
        let null = |ty| Expr::Literal { ty, value: None };
        let mut inputs = Vec::new();
        for (number, set) in grouping.sets.iter().enumerate() {
            let keys = grouping.keys_of(set);
            let groups =
                Rel::Aggregate { input: Box::new(input.clone()), keys, aggregates: grouping.aggregates.clone() };
            let (rel, new) = self.copied(&groups);
            let key = |(at, key): (u16, &Computed)| match set.contains(&at) {
                true => Expr::column(new[&key.column]),
                false => null(self.columns[key.column.0 as usize]),
            };
            let mut exprs: Vec<Expr> = (0..).zip(&grouping.keys).map(key).collect();
            exprs.push(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(number as i64)) });
            let results = grouping.aggregates.iter().flat_map(|aggregation| &aggregation.columns);
            exprs.extend(results.map(|id| Expr::column(new[id])));
            inputs.push(Part { rel, exprs });
        }
        let results = grouping.aggregates.iter().flat_map(|aggregation| &aggregation.columns);
        let keys = grouping.keys.iter().map(|key| key.column);
        Rel::Union { columns: keys.chain([grouping.number]).chain(results.copied()).collect(), inputs }
    }

    /// A full join for each value of the domain. In rows without a left partner, the value comes from the right side.
    fn dependent_full_join(
        &mut self,
        left: Rel,
        right: Rel,
        mut conditions: Vec<Expr>,
        domain: &Domain<'_>,
    ) -> (Rel, Vec<ColumnId>) {
        let (left, of_left) = self.dependent(left, domain);
        let (right, of_right) = self.dependent(right, domain);
        domain.replace(conditions.iter_mut(), &of_left);
        conditions.extend(self.same(&of_left, &of_right));
        let mark = self.column(Type::Bool);
        let yes = Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(true)) };
        let left = left.map(vec![Computed { column: mark, expr: yes }]);
        let mut computed = Vec::new();
        for (l, r) in of_left.into_iter().zip(of_right) {
            let branches = vec![(Expr::column(mark), Expr::column(l))];
            let expr = Expr::Case { branches, otherwise: Box::new(Expr::column(r)) };
            computed.push(Computed { column: self.like(l), expr });
        }
        let ids = computed.iter().map(|c| c.column).collect();
        (left.join(JoinKind::Full, right, conditions).map(computed), ids)
    }

    /// The distinct values of the domain, computed from a copy of the outer rows.
    fn values(&mut self, domain: &Domain<'_>) -> (Rel, Vec<ColumnId>) {
        let (input, new) = self.copied(domain.left);
        let ids: Vec<ColumnId> = domain.outer.iter().map(|id| self.like(*id)).collect();
        let key = |(column, old): (&ColumnId, &ColumnId)| Computed { column: *column, expr: Expr::column(new[old]) };
        let keys = ids.iter().zip(domain.outer).map(key).collect();
        (Rel::Aggregate { input: Box::new(input), keys, aggregates: Vec::new() }, ids)
    }

    /// A copy of an operator, which makes new columns. The map leads from each old column to its copy.
    pub fn copied(&mut self, rel: &Rel) -> (Rel, HashMap<ColumnId, ColumnId>) {
        let mut new = HashMap::new();
        let mut copy = rel.clone();
        copy.visit_mut(&mut |rel| {
            for column in rel.made_mut() {
                let fresh = *new.entry(*column).or_insert_with(|| self.like(*column));
                *column = fresh;
            }
        });
        copy.visit_mut(&mut |rel| {
            let with = |id: ColumnId| new.get(&id).map(|id| Expr::column(*id));
            rel.expressions_mut().into_iter().for_each(|e| e.replace_columns(&with));
        });
        (copy, new)
    }
}

impl Domain<'_> {
    /// Changes conditions that compare outer columns with columns `own` of the right side. They now read the domain's
    /// columns `ids` in place of the outer columns. So they are evaluated once for each row of the right side, instead
    /// of once for each pair of rows.
    pub fn compare_on_right(&self, conditions: &mut [Expr], own: &[ColumnId], ids: &[ColumnId]) {
        let known = |e: &Expr| e.columns().iter().all(|id| own.contains(id) || self.outer.contains(id));
        let on_right = |e: &Expr| known(e) && expr_reads(e, own) && only_compares(e, self.outer);
        self.replace(conditions.iter_mut().filter(|c| on_right(c)), ids);
    }

    fn replace<'e>(&self, exprs: impl Iterator<Item = &'e mut Expr>, ids: &[ColumnId]) {
        let with = |id: ColumnId| {
            let at = self.outer.iter().position(|outer| *outer == id)?;
            Some(Expr::column(ids[at]))
        };
        exprs.for_each(|e| e.replace_columns(&with));
    }
}

/// Whether an expression cannot raise an error, and uses these columns only in comparisons. Its result is then the same
/// for equal values, even if their bits differ.
fn only_compares(expr: &Expr, columns: &[ColumnId]) -> bool {
    let is_operand = |e: &Expr| matches!(e, Expr::Column { .. }) || !expr_reads(e, columns);
    match expr {
        _ if expr.can_raise() => false,
        Expr::Cmp { left, right, .. } => is_operand(left) && is_operand(right),
        Expr::Bool { args, .. } => args.iter().all(|arg| only_compares(arg, columns)),
        other => !expr_reads(other, columns),
    }
}
