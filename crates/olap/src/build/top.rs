//! The first rows in an order.
//!
//! ```text
//!  no order          one partition -> GlobalLimit
//!  an order          Sort(first n) of each partition -> one partition -> Sort(first n) -> GlobalLimit
//!  of each group     Thinned -> partitions by hash of the keys -> Sort -> FirstOfGroups
//! ```

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion_physical_plan::empty::EmptyExec;
use datafusion_physical_plan::limit::GlobalLimitExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use plan::{Agg, Aggregation, ColumnId, Computed, Expr, FailureKind, Literal, Range, Rel, SortKey};
use protocol::request::Failure;
use protocol::tree::Step;

use super::builder::Builder;
use super::inner_join::Nearest;
use super::stage::{Stage, by_hash, columns_of, one_partition};
use crate::base::error::internal;
use crate::base::keys::SortColumn;
use crate::operators::order::first_of_groups::FirstOfGroups;
use crate::operators::order::runs::Wanted;
use crate::operators::order::section::Section;
use crate::operators::order::sort::{Sort, sort_columns};
use crate::operators::order::thinned::Thinned;

/// The greatest number of rows for each group that a join looks up as nearest partners.
const MOST_NEAREST: usize = 1000;

const ALL: Wanted = Wanted { rows: usize::MAX, ties: false };

impl Builder<'_> {
    pub fn top(
        &self,
        input: &Rel,
        keys: &[Expr],
        order: &[SortKey],
        range: &Range,
        needed: &[ColumnId],
    ) -> Result<Stage, Failure> {
        let section = self.section(range)?;
        let mut read = columns_of(keys.iter().chain(order.iter().map(|key| &key.expr)));
        read.extend(needed);
        let Stage { plan, columns } = match self.nearest_of_groups(input, keys, order, section, &read)? {
            Some(stage) => stage,
            None => self.stage(input, &read)?,
        };
        let lowering = self.lowering(&columns);
        let sorted_by = sort_columns(order, &lowering)?;
        let grouped_by = keys.iter().map(|key| lowering.key(key)).collect::<Result<Vec<_>, _>>()?;
        if section.offset == 0 && section.count == usize::MAX {
            return Ok(Stage { plan, columns });
        }
        let plan: Arc<dyn ExecutionPlan> = if section.count == 0 {
            Arc::new(EmptyExec::new(Arc::new(Schema::clone(&plan.schema()))))
        } else if keys.is_empty() {
            limited(self.first(plan, sorted_by, section), section)
        } else {
            let keys: Vec<SortColumn> = grouped_by.iter().cloned().map(SortColumn::any).collect();
            let wanted = Wanted { rows: section.offset.saturating_add(section.count), ties: section.ties };
            let plan = match wanted.rows {
                usize::MAX => plan,
                _ => self.observer.part(Arc::new(Thinned::new(plan, keys[..].into(), sorted_by[..].into(), wanted))),
            };
            let plan = by_hash(plan, &grouped_by)?;
            let sorted = Arc::new(Sort::new(plan, [&keys[..], &sorted_by].concat(), ALL));
            Arc::new(FirstOfGroups::new(self.observer.part(sorted), keys, sorted_by, section))
        };
        let plan = self.observer.operator(plan, || {
            let step = Step::Top { keys: keys.to_vec(), order: order.to_vec(), range: Box::new(range.clone()) };
            let rows = if keys.is_empty() { self.statistics.rows(input) } else { self.statistics.groups(input) };
            let most = if keys.is_empty() { section.count as f64 } else { rows };
            (step, Some(rows.min(most)))
        });
        Ok(Stage { plan, columns })
    }

    /// If each group consists of a row's partners, builds the input as a join that returns only the first partners of
    /// each row. An example: for each row of one table, the row before it in another table.
    fn nearest_of_groups(
        &self,
        input: &Rel,
        keys: &[Expr],
        order: &[SortKey],
        section: Section,
        needed: &[ColumnId],
    ) -> Result<Option<Stage>, Failure> {
        let count = section.offset.saturating_add(section.count);
        match order.first() {
            Some(SortKey { expr, locale: None, descending, .. })
                if !keys.is_empty() && (1..=MOST_NEAREST).contains(&count) =>
            {
                self.nearest(input, keys, Nearest { value: expr, descending: *descending, count }, needed)
            }
            _ => Ok(None),
        }
    }

    /// Like `nearest_of_groups`, for groups with a single minimum or maximum: only the first row of each group decides
    /// its value.
    pub fn deciding_extremes(
        &self,
        input: &Rel,
        keys: &[Computed],
        aggregates: &[Aggregation],
        needed: &[ColumnId],
    ) -> Result<Option<Stage>, Failure> {
        let extreme = |aggregation: &'_ Aggregation| match &aggregation.agg {
            Agg::Max(value) => Some((value.clone(), true)),
            Agg::Min(value) => Some((value.clone(), false)),
            _ => None,
        };
        let Some((value, descending)) = aggregates.first().and_then(extreme) else { return Ok(None) };
        if keys.is_empty() || aggregates.iter().any(|other| extreme(other) != Some((value.clone(), descending))) {
            return Ok(None);
        }
        let keys: Vec<Expr> = keys.iter().map(|key| key.expr.clone()).collect();
        self.nearest(input, &keys, Nearest { value: &value, descending, count: 1 }, needed)
    }

    /// All rows, in an order.
    pub fn in_order(&self, rel: &Rel, order: &[SortKey], needed: &[ColumnId]) -> Result<Stage, Failure> {
        let mut read = columns_of(order.iter().map(|key| &key.expr));
        read.extend(needed);
        let Stage { plan, columns } = self.stage(rel, &read)?;
        let sorted_by = sort_columns(order, &self.lowering(&columns))?;
        let sorted = self.first(plan, sorted_by, Section { offset: 0, count: usize::MAX, ties: false });
        let plan = self.observer.operator(sorted, || {
            let step = Step::Top { keys: Vec::new(), order: order.to_vec(), range: Box::default() };
            (step, Some(self.statistics.rows(rel)))
        });
        Ok(Stage { plan, columns })
    }

    /// The first rows of an order, up to the end of the section; without an order, all rows in one partition.
    fn first(&self, plan: Arc<dyn ExecutionPlan>, order: Vec<SortColumn>, section: Section) -> Arc<dyn ExecutionPlan> {
        if order.is_empty() {
            return one_partition(plan);
        }
        let wanted = Wanted { rows: section.offset.saturating_add(section.count), ties: section.ties };
        let each = match plan.output_partitioning().partition_count() {
            1 => plan,
            _ => one_partition(self.observer.part(Arc::new(Sort::new(plan, order.clone(), wanted)))),
        };
        Arc::new(Sort::new(each, order, wanted))
    }

    fn section(&self, range: &Range) -> Result<Section, Failure> {
        let number = |expr: &Option<Expr>, negative| match self.number(expr.as_ref())? {
            Some(..0) => Err(Failure { kind: negative, message: negative.message().into() }),
            number => Ok(number.map(|n| usize::try_from(n).unwrap_or(usize::MAX))),
        };
        let offset = number(&range.offset, FailureKind::NegativeOffset)?.unwrap_or(0);
        let count = number(&range.count, FailureKind::NegativeLimit)?.unwrap_or(usize::MAX);
        Ok(Section { offset, count, ties: range.ties && count < usize::MAX })
    }

    /// The value of a constant or parameter.
    fn number(&self, expr: Option<&Expr>) -> Result<Option<i64>, Failure> {
        let value = match expr {
            None => return Ok(None),
            Some(Expr::Literal { value, .. }) => value.as_ref(),
            Some(Expr::Param { index }) => self.params.get(*index as usize).and_then(Option::as_ref),
            Some(other) => return Err(internal(format!("{other:?} is not a number of rows"))),
        };
        match value {
            None => Ok(None),
            Some(Literal::Int(number)) => Ok(Some(*number)),
            Some(other) => Err(internal(format!("{other:?} is not a number of rows"))),
        }
    }
}

/// Skips the rows before the section. Without ties, it also ends at the section's last row.
fn limited(plan: Arc<dyn ExecutionPlan>, section: Section) -> Arc<dyn ExecutionPlan> {
    let count = Some(section.count).filter(|count| *count < usize::MAX && !section.ties);
    match (section.offset, count) {
        (0, None) => plan,
        (offset, count) => Arc::new(GlobalLimitExec::new(plan, offset, count)),
    }
}
