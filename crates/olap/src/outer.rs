//! Joins that are not inner: the side with fewer rows is put into a hash table, whichever of the two is kept.
//!
//! | | left side builds | right side builds |
//! |---|---|---|
//! | left | `Left` | `Right` |
//! | semi | `LeftSemi` | `RightSemi` |
//! | anti | `LeftAnti` | `RightAnti` |
//! | mark | `LeftMark` | `RightMark` |
//!
//! Without an equality between the sides every pair is looked at, as long as anybody waits for that.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use datafusion_common::{JoinSide, JoinType, NullEquality};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion_physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion_physical_plan::projection::{ProjectionExec, ProjectionExpr};
use optimizer::join_order::Pair;
use plan::{BoolOp, ColumnId, Expr, JoinKind, Rel};
use protocol::request::Failure;
use protocol::tree::{Join, Method, Step};

use crate::aggregate::one_partition;
use crate::arrow_form::arrow_type;
use crate::block::compared_sides;
use crate::error::internal;
use crate::expr::{column_name, joined, planning};
use crate::logic::guarded;
use crate::physical::{Builder, Stage, columns_of, cooperative};

impl Builder<'_> {
    /// `rows`: how many are expected.
    pub fn outer_join(
        &self,
        kind: JoinKind,
        left: &Rel,
        right: &Rel,
        conditions: &[Expr],
        needed: &[ColumnId],
        rows: impl FnOnce() -> f64,
    ) -> Result<Stage, Failure> {
        let mut read = columns_of(conditions);
        read.extend(needed);
        let of = |rel: &Rel| rel.columns().into_iter().filter(|id| read.contains(id)).collect::<Vec<_>>();
        let left_builds = self.statistics.rows(left) < self.statistics.rows(right);
        let (left, right) = (self.stage(left, &of(left))?, self.stage(right, &of(right))?);
        let (build, probe) = if left_builds { (left, right) } else { (right, left) };
        let join_type = join_type(kind, left_builds)?;

        let keys: Vec<Pair<'_>> = conditions.iter().filter_map(|c| compared_sides(c, &build, &probe)).collect();
        let others: Vec<&Expr> = conditions.iter().filter(|c| compared_sides(c, &build, &probe).is_none()).collect();
        let about = || {
            let join = Join {
                method: if keys.is_empty() { Method::NestedLoop } else { Method::Hash },
                kind,
                keeps_second: left_builds && kind != JoinKind::Full,
                keys: keys.iter().map(|&(build, probe)| (probe.clone(), build.clone())).collect(),
                conditions: others.iter().copied().cloned().collect(),
            };
            (Step::Join(join), Some(rows()))
        };
        let filter = self.join_filter(others.clone(), &build, &probe, keys.is_empty())?;
        let columns: Vec<ColumnId> = match (kind, join_type) {
            (JoinKind::Mark(mark), JoinType::LeftMark) => [&build.columns[..], &[mark]].concat(),
            (JoinKind::Mark(mark), _) => [&probe.columns[..], &[mark]].concat(),
            (_, JoinType::LeftSemi | JoinType::LeftAnti) => build.columns.clone(),
            (_, JoinType::RightSemi | JoinType::RightAnti) => probe.columns.clone(),
            _ => build.columns.iter().chain(&probe.columns).copied().collect(),
        };
        let kept: Vec<usize> = (0..columns.len()).filter(|i| needed.contains(&columns[*i])).collect();
        let columns: Vec<ColumnId> = kept.iter().map(|i| columns[*i]).collect();
        let on = self.join_keys(&keys, &build, &probe)?;
        let build = one_partition(build.plan);
        let plan: Arc<dyn ExecutionPlan> = if on.is_empty() {
            let join = NestedLoopJoinExec::try_new(build, probe.plan, filter, &join_type, Some(kept));
            cooperative(join.map_err(planning)?)
        } else {
            let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
            let join = HashJoinExec::try_new(build, probe.plan, on, filter, &join_type, Some(kept), mode, nulls, false);
            cooperative(join.map_err(planning)?)
        };
        let plan = self.observer.operator(plan, about);
        match kind {
            JoinKind::Mark(_) => renamed(plan, columns),
            _ => Ok(Stage { plan, columns }),
        }
    }

    /// The conditions that are no keys, over the columns that they read. Those that can raise an error come last, where
    /// the others hold. Without keys there is one, if only to be asked.
    fn join_filter(
        &self,
        mut conditions: Vec<&Expr>,
        build: &Stage,
        probe: &Stage,
        is_keyless: bool,
    ) -> Result<Option<JoinFilter>, Failure> {
        if conditions.is_empty() && !is_keyless {
            return Ok(None);
        }
        conditions.sort_by_key(|c| c.can_raise());
        let columns = columns_of(conditions.iter().copied());
        let mut indices = Vec::new();
        let mut fields = Vec::new();
        for id in &columns {
            let at = |stage: &Stage| stage.columns.iter().position(|column| column == id);
            let (index, side) = match (at(build), at(probe)) {
                (Some(index), _) => (index, JoinSide::Left),
                (None, Some(index)) => (index, JoinSide::Right),
                (None, None) => return Err(internal(format!("{id:?} is on no side of its join"))),
            };
            indices.push(ColumnIndex { index, side });
            fields.push(Field::new(column_name(*id), arrow_type(self.plan.type_of(&Expr::column(*id))), true));
        }
        let lowering = self.lowering(&columns);
        let predicates: Vec<Arc<dyn PhysicalExpr>> =
            conditions.iter().map(|c| lowering.lower(c)).collect::<Result<_, _>>()?;
        let predicate = match conditions.iter().any(|c| c.can_raise()) {
            true => guarded(BoolOp::And, predicates),
            false => joined(BoolOp::And, predicates),
        };
        let predicate = self.cancellation.observed(predicate);
        Ok(Some(JoinFilter::new(predicate, indices, Arc::new(Schema::new(fields)))))
    }
}

/// The same columns, each by its own name: marks are all called alike.
fn renamed(plan: Arc<dyn ExecutionPlan>, columns: Vec<ColumnId>) -> Result<Stage, Failure> {
    let schema = plan.schema();
    let own = columns.iter().enumerate().map(|(i, id)| ProjectionExpr {
        expr: Arc::new(Column::new(schema.field(i).name(), i)),
        alias: column_name(*id),
    });
    let plan = ProjectionExec::try_new(own, plan).map_err(planning)?;
    Ok(Stage { plan: Arc::new(plan), columns })
}

fn join_type(kind: JoinKind, left_builds: bool) -> Result<JoinType, Failure> {
    Ok(match (kind, left_builds) {
        (JoinKind::Left, true) => JoinType::Left,
        (JoinKind::Left, false) => JoinType::Right,
        (JoinKind::Full, _) => JoinType::Full,
        (JoinKind::Semi, true) => JoinType::LeftSemi,
        (JoinKind::Semi, false) => JoinType::RightSemi,
        (JoinKind::Anti, true) => JoinType::LeftAnti,
        (JoinKind::Anti, false) => JoinType::RightAnti,
        (JoinKind::Mark(_), true) => JoinType::LeftMark,
        (JoinKind::Mark(_), false) => JoinType::RightMark,
        (JoinKind::Inner, _) => return Err(internal("an inner join belongs to a block")),
    })
}
