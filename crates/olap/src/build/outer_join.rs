//! Joins other than inner joins. The side with fewer rows is put into a hash table, even if the join keeps all rows of
//! this side.
//!
//! | | left side builds | right side builds |
//! |---|---|---|
//! | left | `Left` | `Right` |
//! | semi | `LeftSemi` | `RightSemi` |
//! | anti | `LeftAnti` | `RightAnti` |
//! | mark | `LeftMark` | `RightMark` |
//!
//! Without an equality between the sides, partners are looked up by other comparisons ([`crate::build::join_limits`]).
//! Without any comparison, all pairs of rows are tested. The test of pairs ends when the query is cancelled. If one
//! partner is enough, it also ends for a row when one is found.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use datafusion_common::{JoinSide, JoinType};
use datafusion_physical_plan::joins::NestedLoopJoinExec;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use optimizer::join_order::Pair;
use plan::{BoolOp, ColumnId, Expr, JoinKind, Rel};
use protocol::request::Failure;
use protocol::tree::{Join, Method, Step};

use super::builder::Builder;
use super::inner_join::{compared_sides, may_build};
use super::runtime_filters::Partners;
use super::stage::{Stage, columns_of, cooperative, one_partition};
use crate::base::arrow_form::arrow_type;
use crate::base::error::internal;
use crate::expr::logic::guarded;
use crate::expr::{column_name, planning};
use crate::operators::join::{self, Given};

/// The greatest number of rows of a build side that may be compared with every row of the other side.
const FEW_ROWS: f64 = 64.0;

impl Builder<'_> {
    /// Builds a join other than an inner join. `rows` is the expected number of rows.
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
        let left_builds = self.left_builds(kind, left, right, conditions);
        let join_type = join_type(kind, left_builds)?;
        let (build, probe) = if left_builds { (left, right) } else { (right, left) };
        let build = self.stage(build, &of(build))?;
        let keys = |probe: &[ColumnId]| -> Vec<Pair<'_>> {
            conditions.iter().filter_map(|c| compared_sides(c, &build.columns, probe)).collect()
        };
        let partners = match leaves_out_probe(join_type) && !conditions.iter().any(Expr::can_raise) {
            true => self.partners(&keys(&probe.columns())),
            false => Partners::default(),
        };
        let probe = self.below_join(&partners.of_columns(), || self.stage(probe, &of(probe)))?;
        let keys = keys(&probe.columns);
        let others: Vec<&Expr> =
            conditions.iter().filter(|c| compared_sides(c, &build.columns, &probe.columns).is_none()).collect();
        let filter = self.join_filter(others.clone(), &build, &probe, keys.is_empty())?;
        let (limits, mut limiting) = self.limits(&others, &build, &probe)?;
        let method = match (keys.is_empty(), limits.is_empty()) {
            (false, _) => Method::Hash,
            (true, false) => Method::Range,
            (true, true) => Method::NestedLoop,
        };
        if method == Method::Hash {
            limiting.clear();
        }
        let about = || {
            let (limits, conditions) = others.iter().copied().cloned().partition(|c| limiting.contains(&c));
            let join = Join {
                method,
                kind,
                keeps_second: left_builds && kind != JoinKind::Full,
                keys: keys.iter().map(|&(build, probe)| (probe.clone(), build.clone())).collect(),
                limits,
                conditions,
            };
            (Step::Join(join), Some(rows()))
        };
        let of_build = (0..build.columns.len()).map(|at| (build.columns[at], Given::Build(at)));
        let of_probe = (0..probe.columns.len()).map(|at| (probe.columns[at], Given::Probe(at)));
        let mark = match kind {
            JoinKind::Mark(mark) => Some(mark),
            _ => None,
        };
        let marks = mark.map(|mark| (mark, Given::Mark));
        let all: Vec<(ColumnId, Given)> = match join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => of_build.chain(marks).collect(),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => of_probe.chain(marks).collect(),
            _ => of_build.chain(of_probe).collect(),
        };
        let kept: Vec<usize> = (0..all.len()).filter(|i| needed.contains(&all[*i].0)).collect();
        let columns: Vec<ColumnId> = kept.iter().map(|i| all[*i].0).collect();
        let on = self.join_keys(&keys, &build, &probe)?;
        let build = partners.noted(build, &on).plan;
        if method == Method::NestedLoop && !needs_one_partner(kind) {
            let join = NestedLoopJoinExec::try_new(one_partition(build), probe.plan, filter, &join_type, Some(kept));
            let plan = self.observer.operator(cooperative(join.map_err(planning)?), about);
            return Ok(Stage { plan, columns });
        }
        let output = kept.iter().map(|i| all[*i].1).collect();
        let join = join::Join { kind: join_type, on, limits, first: None, filter, output, mark: mark.map(column_name) };
        let join = Arc::new(join.of(build, probe.plan).map_err(planning)?);
        Ok(Stage { plan: self.observer.operator(join, about), columns })
    }

    /// Whether the left side is the build side.
    fn left_builds(&self, kind: JoinKind, left: &Rel, right: &Rel, conditions: &[Expr]) -> bool {
        let [rows, others] = [left, right].map(|side| self.statistics.rows(side));
        let (columns, other_columns) = (left.columns(), right.columns());
        let has_key = || conditions.iter().any(|c| compared_sides(c, &columns, &other_columns).is_some());
        match kind {
            // If one partner is enough, the search for a row of the probe side stops at the first partner. So the right
            // side builds, unless the left side is very small or the right side is too large.
            _ if needs_one_partner(kind) && !has_key() => rows < FEW_ROWS || !may_build(others, rows),
            _ => rows < others,
        }
    }

    /// The filter of a join: the conditions that are not keys, over the columns that they read. Conditions that can
    /// raise an error come last, and are evaluated only where the others hold. A join without keys always has a filter,
    /// because the filter notices that the query is cancelled.
    pub fn join_filter(
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
        let predicate = match conditions.iter().any(|c| c.can_raise()) {
            true => guarded(BoolOp::And, conditions.iter().map(|c| lowering.lower(c)).collect::<Result<_, _>>()?),
            false => lowering.all(&conditions)?,
        };
        let predicate = self.cancellation.observed(predicate);
        Ok(Some(JoinFilter::new(predicate, indices, Arc::new(Schema::new(fields)))))
    }
}

/// Whether the join only tests whether rows have a partner.
fn needs_one_partner(kind: JoinKind) -> bool {
    matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_))
}

/// Whether the join drops rows of the probe side that have no partner.
fn leaves_out_probe(join: JoinType) -> bool {
    match join {
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::RightSemi => true,
        JoinType::Inner => true,
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark | JoinType::Full => false,
    }
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
