//! Builds a block: relations with inner joins between them. They are joined in the best order, and filtered as early as
//! possible.
//!
//! ```text
//!            [Filter]                   conditions on several relations that are not join keys
//!            HashJoin                   the stage with fewer rows is the build side
//!            /      \
//!   [Filter] Scan   HashJoin
//!                   /      \
//!         [Filter] Scan   [Filter] any other operator, such as an aggregate
//! ```
//!
//! The join also uses comparisons other than equalities to look up partners ([`crate::build::join_limits`]). If no
//! condition compares the two sides, each row of one side is joined to each row of the other.
//!
//! [`optimizer::join_order`] chooses the order of the joins. Each relation is filtered at its source.

use std::sync::Arc;

use datafusion_common::JoinType;
use datafusion_physical_plan::filter::FilterExecBuilder;
use datafusion_physical_plan::joins::CrossJoinExec;
use optimizer::join_order::{self, MAX_RELATIONS, Node, Pair, Statistics, Tree};
use plan::{CmpOp, ColumnId, Expr, JoinKind, Rel};
use protocol::request::Failure;
use protocol::tree::{Join, Method, Step};

use super::builder::Builder;
use super::parts::Parts;
use super::runtime_filters::Partners;
use super::stage::{Stage, cooperative, one_partition};
use super::statistics::FiltersOnly;
use crate::base::error::internal;
use crate::expr::planning;
use crate::operators::join::{self, First, Given, Key};

struct Block<'a, 'b> {
    builder: &'a Builder<'b>,
    relations: Vec<&'a Rel>,
    /// Filters that are not yet part of any stage.
    pending: Vec<&'a Expr>,
    /// The columns that operators above these joins read.
    needed: &'a [ColumnId],
    /// Whether a condition may raise an error. Rows without partners must raise it, too, so runtime filters must not
    /// drop these rows.
    raises: bool,
    /// Present if only the first partners of each row of the probe side are needed.
    first: Option<Nearest<'a>>,
}

/// The first `count` partners of a row, in the order of `value`.
#[derive(Clone, Copy)]
pub struct Nearest<'a> {
    pub value: &'a Expr,
    pub descending: bool,
    pub count: usize,
}

/// The side of a join that is put into a hash table.
struct Build {
    stage: Stage,
    partners: Partners,
    /// Whether the side has at most one row.
    is_row: bool,
}

/// Pending filters that a stage can apply, because it has all columns that they read.
struct Ready<'a> {
    /// Filters that may raise an error.
    raising: Vec<&'a Expr>,
    safe: Vec<&'a Expr>,
}

impl Builder<'_> {
    /// The rows of an operator that is a scan, a filter or an inner join.
    pub fn block(&self, rel: &Rel, needed: &[ColumnId]) -> Result<Stage, Failure> {
        self.block_of(Parts::of(rel), needed, None)
    }

    /// Builds a join of two relations of which only the first partners of each row are needed. The join may return more
    /// partners. `keys` read only the relation for whose rows partners are looked up. Returns `None` if `rel` is no
    /// join of this kind.
    pub fn nearest(
        &self,
        rel: &Rel,
        keys: &[Expr],
        first: Nearest<'_>,
        needed: &[ColumnId],
    ) -> Result<Option<Stage>, Failure> {
        let parts = Parts::of(rel);
        let [one, other] = parts.relations[..] else { return Ok(None) };
        let reads = |expr: &Expr, rel: &Rel| {
            let (read, columns) = (expr.columns(), rel.columns());
            !read.is_empty() && read.iter().all(|id| columns.contains(id))
        };
        let (build, probe) = if reads(first.value, one) { (one, other) } else { (other, one) };
        let is_limited = self.limited(&parts.conditions, &build.columns(), &probe.columns()).contains(&first.value);
        let [of_build, of_probe] = [build, probe].map(|rel| self.statistics.rows(rel));
        if !is_limited
            || keys.iter().any(|key| !reads(key, probe))
            || parts.conditions.iter().any(|condition| condition.can_raise())
            || !may_build(of_build, of_probe)
        {
            return Ok(None);
        }
        self.block_of(parts, needed, Some(first)).map(Some)
    }

    fn block_of<'a>(
        &self,
        Parts { relations, conditions, classes, owners }: Parts<'a>,
        needed: &[ColumnId],
        first: Option<Nearest<'a>>,
    ) -> Result<Stage, Failure> {
        if relations.len() > MAX_RELATIONS {
            return Err(internal(format!("{} relations are more than can be joined", relations.len())));
        }
        // Two relations have only one join order, so the numbers of distinct values are not needed.
        let filters = FiltersOnly(&self.statistics);
        let statistics: &dyn Statistics = if relations.len() > 2 { &self.statistics } else { &filters };
        let known: Vec<_> = relations.iter().map(|rel| self.statistics.relation(rel)).collect();
        let mut tree = join_order::order(&known, &classes, &conditions, &owners, statistics, self.order);
        if let Some(first) = first {
            turn(&mut tree, |rel| {
                first.value.columns().iter().all(|id| relations[rel as usize].columns().contains(id))
            });
        }
        let implied: Vec<Expr> =
            (0..relations.len() as u16).flat_map(|rel| classes.within(rel)).map(equality).collect();
        let pending: Vec<&Expr> = conditions.into_iter().chain(&implied).collect();
        let raises = pending.iter().any(|condition| condition.can_raise());
        let mut block = Block { builder: self, relations, pending, needed, raises, first };
        match raises {
            // A runtime filter of a join above could drop a row that has to raise an error, so no such filter is used.
            true => self.with_partners_of(&[], || block.assemble(&tree, &[])),
            false => block.assemble(&tree, &[]),
        }
    }
}

fn equality((left, right): Pair<'_>) -> Expr {
    Expr::equal(left.clone(), right.clone())
}

impl<'a> Block<'a, '_> {
    /// Builds the stage for a join tree. `above` are the keys of joins above, whose columns the stage must keep.
    fn assemble(&mut self, tree: &Tree<'a>, above: &[&'a Expr]) -> Result<Stage, Failure> {
        match &tree.node {
            Node::Scan(rel) => match self.relations[*rel as usize] {
                Rel::Scan { relation, columns } => self.scan(*relation, columns, above, tree.rows),
                other => {
                    let stage = self.builder.stage(other, &self.read(&other.columns(), above))?;
                    self.filter(stage, above, tree.rows)
                }
            },
            Node::Join { build, probe, keys } => {
                let read: Vec<&Expr> = keys.iter().flat_map(|&(a, b)| [a, b]).chain(above.iter().copied()).collect();
                let is_row = matches!(build.node, Node::Scan(rel) if is_row(self.relations[rel as usize]));
                let build = self.assemble(build, &read)?;
                let partners = if self.raises { Partners::default() } else { self.builder.partners(keys) };
                let builder = self.builder;
                let probe = builder.below_join(&partners.of_columns(), || self.assemble(probe, &read))?;
                let build = Build { stage: build, partners, is_row };
                let joined = self.join(build, probe, keys, above, tree.rows)?;
                self.filter(joined, above, tree.rows)
            }
        }
    }

    /// Builds a scan. The scan itself applies the filters that cannot raise an error.
    fn scan(&mut self, relation: u16, columns: &[ColumnId], above: &[&Expr], rows: f64) -> Result<Stage, Failure> {
        let Ready { raising, safe } = self.ready(columns);
        let still_read = [&raising, above].concat();
        let has_partners = !self.builder.key_tests(columns).is_empty();
        let kept = self.read(columns, &still_read);
        let stage = match safe.is_empty() && !has_partners {
            true => self.builder.scan(relation, columns, &kept),
            false => {
                let rows = raising.is_empty().then_some(rows);
                self.builder.filtered_scan(relation, columns, &safe, &kept, rows)?
            }
        };
        self.filter_by(stage, &raising, above, Some(rows))
    }

    /// Applies the pending filters that the stage can evaluate. Filters that may raise an error come last, and see only
    /// rows that pass the other filters. `rows` is the expected number of rows that pass all filters.
    fn filter(&mut self, mut stage: Stage, above: &[&Expr], rows: f64) -> Result<Stage, Failure> {
        let Ready { raising, safe } = self.ready(&stage.columns);
        let still_read = [&raising, above].concat();
        let of_safe = raising.is_empty().then_some(rows);
        for (filters, still_read, rows) in [(&safe, &still_read[..], of_safe), (&raising, above, Some(rows))] {
            stage = self.filter_by(stage, filters, still_read, rows)?;
        }
        Ok(stage)
    }

    /// Takes the pending filters that read only these columns.
    fn ready(&mut self, columns: &[ColumnId]) -> Ready<'a> {
        let reads_these = |filter: &&&Expr| filter.columns().iter().all(|id| columns.contains(id));
        let (ready, pending): (Vec<&Expr>, Vec<&Expr>) = self.pending.iter().partition(reads_these);
        self.pending = pending;
        let (raising, safe) = ready.into_iter().partition(|filter| filter.can_raise());
        Ready { raising, safe }
    }

    fn filter_by(
        &self,
        stage: Stage,
        filters: &[&Expr],
        still_read: &[&Expr],
        rows: Option<f64>,
    ) -> Result<Stage, Failure> {
        if filters.is_empty() {
            return Ok(stage);
        }
        let lowering = self.builder.lowering(&stage.columns);
        let predicate = lowering.all(filters)?;
        let read = self.read(&stage.columns, still_read);
        let kept = stage.positions(|id| read.contains(id));
        let columns = kept.iter().map(|i| stage.columns[*i]).collect();
        let filter = FilterExecBuilder::new(predicate, stage.plan).apply_projection(Some(kept));
        let filter = Arc::new(filter.and_then(|f| f.build()).map_err(planning)?);
        let conditions = || filters.iter().copied().cloned().collect();
        let plan = self.builder.observer.operator(filter, || (Step::Filter { conditions: conditions() }, rows));
        Ok(Stage { plan, columns })
    }

    /// The members of `columns` that are still read: by pending filters, by `still_read`, or by operators above these
    /// joins.
    fn read(&self, columns: &[ColumnId], still_read: &[&Expr]) -> Vec<ColumnId> {
        let within = self.pending.iter().chain(still_read).flat_map(|e| e.columns());
        let read: Vec<ColumnId> = within.chain(self.needed.iter().copied()).collect();
        columns.iter().copied().filter(|id| read.contains(id)).collect()
    }

    /// Joins two stages. Each key is a pair: an expression of the build side, and an expression of the probe side.
    /// Pending equalities between the two sides become keys, too. `rows` is the expected number of rows after all
    /// filters that can be applied.
    fn join(
        &mut self,
        build: Build,
        probe: Stage,
        keys: &[Pair<'a>],
        above: &[&Expr],
        rows: f64,
    ) -> Result<Stage, Failure> {
        let Build { stage: Stage { columns: of_build, .. }, .. } = &build;
        let compared = self.pending.iter().filter_map(|f| compared_sides(f, of_build, &probe.columns));
        let keys: Vec<Pair<'a>> = keys.iter().copied().chain(compared).collect();
        self.pending.retain(|f| compared_sides(f, of_build, &probe.columns).is_none());
        let columns: Vec<ColumnId> = of_build.iter().chain(&probe.columns).copied().collect();

        let Ready { raising, safe } = self.ready(&columns);
        let mut conditions = [safe, raising].concat();
        let Build { stage: build, partners, is_row } = build;
        let (limits, mut limiting) = match is_row {
            true => Default::default(),
            false => self.builder.limits(&conditions, &build, &probe)?,
        };
        if limits.is_empty() {
            // Conditions other than keys filter the joined rows.
            self.pending.append(&mut conditions);
        }
        if keys.is_empty() && limits.is_empty() {
            let plan = cooperative(CrossJoinExec::new(one_partition(build.plan), probe.plan));
            return Ok(self.joined(Stage { plan, columns }, Method::NestedLoop, vec![], vec![], vec![], rows));
        }
        let read = self.read(&columns, above);
        let output = (0..columns.len()).filter(|i| read.contains(&columns[*i])).map(|i| given(i, &build)).collect();
        let filter = self.builder.join_filter(conditions.clone(), &build, &probe, false)?;
        let on = self.builder.join_keys(&keys, &build, &probe)?;
        let build = partners.noted(build, &on);
        let limited = |first: Nearest<'a>| {
            let limited = self.builder.limited(&conditions, &build.columns, &probe.columns);
            let limit = limited.into_iter().position(|value| value == first.value)?;
            Some(First { limit, descending: first.descending, count: first.count })
        };
        let first = self.first.and_then(limited);
        let join = join::Join { kind: JoinType::Inner, on, limits, first, filter, output, mark: None };
        let stage = Stage { plan: Arc::new(join.of(build.plan, probe.plan).map_err(planning)?), columns: read };
        let method = if keys.is_empty() { Method::Range } else { Method::Hash };
        if method == Method::Hash {
            limiting.clear();
        }
        conditions.retain(|condition| !limiting.contains(condition));
        Ok(self.joined(stage, method, keys, limiting, conditions, rows))
    }

    /// The join, observed for EXPLAIN.
    fn joined(
        &self,
        stage: Stage,
        method: Method,
        keys: Vec<Pair<'_>>,
        limits: Vec<&Expr>,
        conditions: Vec<&Expr>,
        rows: f64,
    ) -> Stage {
        let is_filtered = self.pending.iter().any(|filter| stage.has(filter));
        let plan = self.builder.observer.operator(stage.plan, || {
            let keys = keys.iter().map(|&(build, probe)| (probe.clone(), build.clone())).collect();
            let [limits, conditions] = [limits, conditions].map(|all| all.into_iter().cloned().collect());
            let join = Join { method, kind: JoinKind::Inner, keeps_second: false, keys, limits, conditions };
            (Step::Join(join), (!is_filtered).then_some(rows))
        });
        Stage { plan, ..stage }
    }
}

/// Whether the build side may have this many rows although the probe side has fewer.
pub fn may_build(build: f64, probe: f64) -> bool {
    const FEW_MILLIONS: f64 = 4e6;
    const FOR_EACH: f64 = 256.0;
    build <= FEW_MILLIONS.max(probe * FOR_EACH)
}

/// Exchanges the sides of a join so that the wanted relation is the build side.
fn turn(tree: &mut Tree<'_>, is_wanted: impl Fn(u16) -> bool) {
    if let Node::Join { build, probe, keys } = &mut tree.node
        && matches!(probe.node, Node::Scan(rel) if is_wanted(rel))
    {
        std::mem::swap(build, probe);
        keys.iter_mut().for_each(|(one, other)| std::mem::swap(one, other));
    }
}

/// Whether the operator returns at most one row, as an aggregate without keys does.
fn is_row(rel: &Rel) -> bool {
    match rel {
        Rel::Row => true,
        Rel::Aggregate { keys, .. } => keys.is_empty(),
        Rel::Filter { input, .. } | Rel::Map { input, .. } => is_row(input),
        _ => false,
    }
}

/// The source of an output column. The output consists of the columns of the build side, followed by the columns of the
/// probe side.
fn given(at: usize, build: &Stage) -> Given {
    at.checked_sub(build.columns.len()).map_or(Given::Build(at), Given::Probe)
}

impl Builder<'_> {
    /// Lowers the keys. Both sides of a key get the same physical type.
    pub fn join_keys(&self, keys: &[Pair<'_>], build: &Stage, probe: &Stage) -> Result<Vec<Key>, Failure> {
        let lower = |(build_key, probe_key): &Pair<'_>| {
            let (probe_type, build_type) = (self.plan.type_of(probe_key), self.plan.type_of(build_key));
            Ok((
                self.lowering(&build.columns).join_key(build_key, probe_type)?,
                self.lowering(&probe.columns).join_key(probe_key, build_type)?,
            ))
        };
        keys.iter().map(lower).collect()
    }
}

/// The two sides of an equality between two stages, the build side's first.
pub fn compared_sides<'a>(filter: &'a Expr, build: &[ColumnId], probe: &[ColumnId]) -> Option<Pair<'a>> {
    comparison(filter, build, probe).filter(|(op, _)| *op == CmpOp::Eq).map(|(_, pair)| pair)
}

/// The two sides of a comparison between two stages, the build side's first.
pub fn comparison<'a>(filter: &'a Expr, build: &[ColumnId], probe: &[ColumnId]) -> Option<(CmpOp, Pair<'a>)> {
    let Expr::Cmp { op, left, right } = filter else { return None };
    sides(*op, left, right, build, probe)
}

/// The operator and the operands of a comparison between two stages, turned so that the build side's operand comes
/// first. Returns `None` if the operands do not read one stage each.
pub fn sides<'a>(
    op: CmpOp,
    left: &'a Expr,
    right: &'a Expr,
    build: &[ColumnId],
    probe: &[ColumnId],
) -> Option<(CmpOp, Pair<'a>)> {
    let of = |expr: &Expr, side: &[ColumnId]| {
        let read = expr.columns();
        !read.is_empty() && read.iter().all(|id| side.contains(id))
    };
    if of(left, build) && of(right, probe) {
        Some((op, (left, right)))
    } else if of(left, probe) && of(right, build) {
        Some((op.mirrored(), (right, left)))
    } else {
        None
    }
}
