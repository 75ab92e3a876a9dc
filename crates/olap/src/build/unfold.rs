//! Unfolding lists: each row is repeated for each element of its list.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use plan::{ColumnId, Rel, Unfold};
use protocol::request::Failure;
use protocol::tree::Step;

use super::builder::Builder;
use super::stage::{Stage, columns_of};
use crate::base::arrow_form::arrow_type;
use crate::expr::column_name;
use crate::operators::unfold::{Lists, Unfolded};

impl<'a> Builder<'a> {
    pub fn unfold(
        &self,
        input: &'a Rel,
        unfold: &Unfold,
        needed: &[ColumnId],
        rows: impl FnOnce() -> f64,
    ) -> Result<Stage, Failure> {
        let own: Vec<ColumnId> = [unfold.column].into_iter().chain(unfold.number).collect();
        let mut read = columns_of(&unfold.arguments);
        read.extend(needed.iter().filter(|id| !own.contains(id)));
        let Stage { plan, columns } = self.stage(input, &read)?;
        let lowering = self.lowering(&columns);
        let arguments = unfold.arguments.iter().map(|e| lowering.lower(e)).collect::<Result<Vec<_>, _>>()?;
        let kept: Vec<usize> = (0..columns.len()).filter(|at| needed.contains(&columns[*at])).collect();
        let mut made: Vec<ColumnId> = kept.iter().map(|at| columns[*at]).collect();
        made.extend(own);
        let types = &self.plan.columns;
        let field = |id: &ColumnId| Field::new(column_name(*id), arrow_type(types[id.0 as usize]), true);
        let schema = Arc::new(Schema::new(made.iter().map(field).collect::<Vec<_>>()));
        let ty = types[unfold.column.0 as usize];
        let (list, outer, numbered) = (unfold.list, unfold.outer, unfold.number.is_some());
        let lists = Lists { list, ty, arguments, kept, numbered, outer, schema };
        let plan = self.observer.operator(Arc::new(Unfolded::new(plan, lists)), || {
            (Step::Unfold { list: Box::new(unfold.clone()) }, Some(rows()))
        });
        Ok(Stage { plan, columns: made })
    }
}
