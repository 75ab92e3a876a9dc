//! Scans of the plan's relations, with their filters.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use plan::{BoolOp, CmpOp, ColumnId, Expr};
use protocol::request::Failure;
use protocol::tree::Step;

use super::builder::Builder;
use super::stage::{Stage, columns_of};
use crate::base::arrow_form::arrow_type;
use crate::expr::column_name;
use crate::operators::scan::{Condition, Filter, Pruning, Ranges, Reading, ViewScan};

impl Builder<'_> {
    /// All rows of a relation, with the `kept` columns.
    pub fn scan(&self, relation: u16, columns: &[ColumnId], kept: &[ColumnId]) -> Stage {
        let view = self.views[relation as usize].clone();
        let rows = view.row_count() as f64;
        let places = places_of(columns, kept);
        let scan = ViewScan::new(view, places.clone(), self.schema(relation, columns, kept), self.threads);
        let columns_read = places.iter().map(|at| columns[*at]).collect();
        let plan = self.observer.operator(Arc::new(scan), || (scan_step(relation, columns, &places), Some(rows)));
        Stage { plan, columns: columns_read }
    }

    /// A scan that filters: it returns rows that meet the conditions, which raise no error, and that have partners in
    /// the joins above. It returns the `kept` columns. `rows` is the expected number of rows that meet the conditions,
    /// if known.
    pub fn filtered_scan(
        &self,
        relation: u16,
        columns: &[ColumnId],
        conditions: &[&Expr],
        kept: &[ColumnId],
        rows: Option<f64>,
    ) -> Result<Stage, Failure> {
        let view = self.views[relation as usize].clone();
        let kept = places_of(columns, kept);
        let keys = self.key_tests(columns);
        let asked = keys.iter().map(|key| key.column).chain(kept.iter().copied());
        let mut read = places_of(columns, &columns_of(conditions.iter().copied()));
        read.extend(asked);
        read.sort_unstable();
        read.dedup();
        let kept_ids: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
        let is_observed = self.observer.0 && !conditions.is_empty();
        let filter = Filter {
            conditions: self.tests(relation, columns, conditions)?,
            pruning: Pruning::of(conditions, columns, self.plan, self.params),
            keys,
            scan: is_observed.then(|| (scan_step(relation, columns, &read), view.row_count() as f64)),
        };
        let schema = self.schema(relation, columns, &kept_ids);
        let scan = Arc::new(ViewScan::filtered(view, filter, kept, schema, self.threads));
        let step = || match conditions.is_empty() {
            true => scan_step(relation, columns, &read),
            false => Step::Filter { conditions: conditions.iter().copied().cloned().collect() },
        };
        let plan = self.observer.operator(scan, || (step(), rows));
        Ok(Stage { plan, columns: kept_ids })
    }

    /// The scan's conditions. Conditions that together form one range of a column become one condition. So do
    /// conditions that together exclude a list of values.
    fn tests(&self, relation: u16, columns: &[ColumnId], conditions: &[&Expr]) -> Result<Vec<Condition>, Failure> {
        let reading = Reading { columns, plan: self.plan, params: self.params };
        let mut tests: Vec<(Vec<&Expr>, Option<Ranges>)> = Vec::new();
        for condition in conditions.iter().flat_map(|condition| conjuncts(condition)) {
            let ranges = reading.exactly(condition);
            let both = |other: &Option<Ranges>| other.as_ref()?.and(ranges.as_ref()?);
            if let Some(last) = tests.last_mut().filter(|last| of_one_list(&last.0, condition)) {
                last.0.push(condition);
                continue;
            }
            let known = tests.iter_mut().find_map(|test| both(&test.1).map(|both| (test, both)));
            match known {
                Some((test, both)) => {
                    test.0.push(condition);
                    test.1 = Some(both);
                }
                None => tests.push((vec![condition], ranges)),
            }
        }
        let test = |(conditions, ranges): (Vec<&Expr>, Option<Ranges>)| {
            let read = columns_of(conditions.iter().copied());
            let read = places_of(columns, &read);
            let ids: Vec<ColumnId> = read.iter().map(|at| columns[*at]).collect();
            let lowering = self.lowering(&ids);
            let expr = lowering.all(&conditions)?;
            let schema = Arc::new(self.schema(relation, columns, &ids));
            let ranges = ranges.map(|ranges| ranges.ranges);
            Ok(Condition { expr, columns: read, schema, ranges })
        };
        tests.into_iter().map(test).collect()
    }

    /// The schema of the `wanted` columns of a relation.
    fn schema(&self, relation: u16, columns: &[ColumnId], wanted: &[ColumnId]) -> Schema {
        let all = columns.iter().zip(&self.plan.relations[relation as usize].columns);
        let fields = all.filter(|(id, _)| wanted.contains(id));
        let fields = fields.map(|(id, ty)| Field::new(column_name(*id), arrow_type(*ty), true));
        Schema::new(fields.collect::<Vec<_>>())
    }
}

/// The conditions that AND combines.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::Bool { op: BoolOp::And, args } => args.iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// Whether `condition` has the form `x <> constant`, and the first of `conditions` has this form with the same `x`.
fn of_one_list(conditions: &[&Expr], condition: &Expr) -> bool {
    fn compared(condition: &Expr) -> Option<&Expr> {
        match condition {
            Expr::Cmp { op: CmpOp::Ne, left, right } if right.columns().is_empty() => Some(left),
            _ => None,
        }
    }
    compared(condition).is_some_and(|left| conditions.first().and_then(|first| compared(first)) == Some(left))
}

/// The positions in `columns` of the columns `ids`.
fn places_of(columns: &[ColumnId], ids: &[ColumnId]) -> Vec<usize> {
    (0..columns.len()).filter(|at| ids.contains(&columns[*at])).collect()
}

fn scan_step(relation: u16, columns: &[ColumnId], read: &[usize]) -> Step {
    Step::Scan { relation, first: columns.first().copied(), read: read.iter().map(|at| *at as u16).collect() }
}
