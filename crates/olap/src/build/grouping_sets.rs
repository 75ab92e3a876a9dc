//! Grouping by several sets of keys. The input is grouped once for each set. If the input joins or groups, and has few
//! rows, it is computed only once; otherwise it is computed again for each set.

use std::sync::Arc;

use datafusion_common::scalar::ScalarValue;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion_physical_plan::union::UnionExec;
use plan::{Expr, GroupingSets, Rel};
use protocol::request::Failure;
use protocol::tree::Step;

use super::builder::Builder;
use super::shared::{MOST_ROWS, Which};
use super::stage::{Stage, columns_of};
use crate::base::arrow_form::scalar;
use crate::expr::{column_name, constant, planning};

impl<'a> Builder<'a> {
    pub fn grouping_sets(&self, input: &'a Rel, grouping: &GroupingSets) -> Result<Stage, Failure> {
        let mut columns: Vec<_> = grouping.keys.iter().map(|key| key.column).collect();
        columns.push(grouping.number);
        columns.extend(grouping.aggregates.iter().flat_map(|aggregation| &aggregation.columns));
        let arguments: Vec<&Expr> =
            grouping.aggregates.iter().flat_map(|aggregation| aggregation.agg.arguments()).collect();
        let read_by_any = columns_of(grouping.keys.iter().map(|key| &key.expr).chain(arguments.iter().copied()));
        let is_shared = grouping.sets.len() > 1 && joins_or_groups(input) && self.statistics.rows(input) <= MOST_ROWS;
        let mut parts = Vec::new();
        for (number, set) in grouping.sets.iter().enumerate() {
            let keys = grouping.keys_of(set);
            let read = columns_of(keys.iter().map(|key| &key.expr).chain(arguments.iter().copied()));
            let rows = match is_shared {
                true => self.shared(Which::Operator(input), input, &read_by_any, &read)?,
                false => self.stage(input, &read)?,
            };
            let expected = || if keys.is_empty() { 1.0 } else { self.statistics.groups(input) };
            let groups = self.groups(&keys, &grouping.aggregates, rows, expected)?;
            let column = |id: &plan::ColumnId| -> Result<Arc<dyn PhysicalExpr>, Failure> {
                let ty = self.plan.type_of(&Expr::column(*id));
                Ok(match groups.columns.iter().position(|other| other == id) {
                    Some(at) => Arc::new(Column::new(&column_name(*id), at)),
                    None if *id == grouping.number => constant(ScalarValue::Int32(Some(number as i32))),
                    None => constant(scalar(ty, None)?),
                })
            };
            let exprs = columns.iter().map(|id| Ok(ProjectionExpr { expr: column(id)?, alias: column_name(*id) }));
            let exprs = exprs.collect::<Result<Vec<_>, Failure>>()?;
            let part: Arc<dyn ExecutionPlan> =
                Arc::new(ProjectionExec::try_new(exprs, groups.plan.clone()).map_err(planning)?);
            parts.push(part);
        }
        let plan = match parts.len() {
            1 => parts.remove(0),
            _ => self.observer.operator(UnionExec::try_new(parts).map_err(planning)?, || {
                (Step::GroupingSets, Some(self.statistics.groups(input) * grouping.sets.len() as f64))
            }),
        };
        Ok(Stage { plan, columns })
    }
}

/// Whether the rows are worth keeping for several readers. The rows of a filtered scan are not, because reading the
/// table again costs no more.
fn joins_or_groups(rel: &Rel) -> bool {
    match rel {
        Rel::Scan { .. } | Rel::Row => false,
        Rel::Filter { input, .. } | Rel::Map { input, .. } => joins_or_groups(input),
        Rel::Union { inputs, .. } => inputs.iter().any(|part| joins_or_groups(&part.rel)),
        Rel::Join { .. } | Rel::Apply { .. } | Rel::Aggregate { .. } => true,
        Rel::GroupingSets { .. } | Rel::Top { .. } | Rel::Window { .. } | Rel::Unfold { .. } => true,
    }
}
