//! The relational algebra of plans.

use serde::{Deserialize, Serialize};

use crate::algebra::aggregates::Agg;
use crate::algebra::expr::{Expr, Literal};
use crate::algebra::unfold::Unfold;
use crate::algebra::window::{Over, WindowCall};
use crate::base::ops::ColumnId;

/// An operator, together with all operators below it. Its rows are a multiset, without an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rel {
    /// All rows of `relations[relation]`, with a column of the plan for each column of the relation.
    Scan { relation: u16, columns: Vec<ColumnId> },
    /// One row without columns.
    Row,
    /// The rows for which all conditions are true (neither null nor false).
    Filter { input: Box<Rel>, conditions: Vec<Expr> },
    /// The same rows with additional columns, which are computed from the input's columns.
    Map { input: Box<Rel>, computed: Vec<Computed> },
    /// Pairs of a left and a right row; `conditions` may read both.
    Join { kind: JoinKind, left: Box<Rel>, right: Box<Rel>, conditions: Vec<Expr> },
    /// A join whose right side, at any depth, may read columns of the left side. The right side is computed for each
    /// left row. The kind of the join is never [`JoinKind::Full`].
    Apply { kind: JoinKind, left: Box<Rel>, right: Box<Rel>, conditions: Vec<Expr> },
    /// The rows of all inputs, with duplicates (UNION ALL).
    Union { columns: Vec<ColumnId>, inputs: Vec<Part> },
    /// A row for each group. Without keys, all rows are one group, which exists even if there are no rows.
    Aggregate { input: Box<Rel>, keys: Vec<Computed>, aggregates: Vec<Aggregation> },
    /// The groups of several groupings. Each grouping has its own set of keys.
    GroupingSets { input: Box<Rel>, grouping: Box<GroupingSets> },
    /// The first rows in an order, as a multiset. With `keys`, the first rows among each set of rows with equal keys.
    /// If rows are equal in the order, it is undefined which of them come first. At the root of a plan, the rows are
    /// returned in the order.
    Top { input: Box<Rel>, keys: Vec<Expr>, order: Vec<SortKey>, range: Box<Range> },
    /// The same rows, with additional columns for window functions.
    Window { input: Box<Rel>, over: Box<Over>, calls: Vec<WindowCall> },
    /// Each row, repeated for each element of a list that is computed from the row.
    Unfold { input: Box<Rel>, unfold: Box<Unfold> },
}

/// The sets of [`Rel::GroupingSets`]. Each set yields the groups that [`Rel::Aggregate`] yields with the set's keys.
/// Keys that are not in the set are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupingSets {
    pub keys: Vec<Computed>,
    /// For each set, the indexes of its keys in `keys`.
    pub sets: Vec<Vec<u16>>,
    /// A column with the index, from 0, of the set to which a group belongs. Its type is Int32.
    pub number: ColumnId,
    pub aggregates: Vec<Aggregation>,
}

impl GroupingSets {
    /// The keys of a set.
    pub fn keys_of(&self, set: &[u16]) -> Vec<Computed> {
        set.iter().map(|at| self.keys[*at as usize].clone()).collect()
    }
}

/// A sort key. Nulls come before all values or after them. Values are ordered as [`Expr::Cmp`] compares them; texts
/// with a locale are the exception.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SortKey {
    pub expr: Expr,
    /// The locale of the C library in which the texts are ordered. Texts that are equal in it are ordered by their
    /// bytes.
    pub locale: Option<String>,
    pub descending: bool,
    pub nulls_first: bool,
}

impl SortKey {
    /// An ascending key, with nulls last, and with texts ordered by their bytes.
    pub fn ascending(expr: Expr) -> SortKey {
        SortKey { expr, locale: None, descending: false, nulls_first: false }
    }
}

/// A section of ordered rows: `count` rows, after the first `offset` rows were skipped. Both are constants or
/// parameters of type Int64. A null `count` means no limit, and a null `offset` skips nothing. A negative number is an
/// error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub offset: Option<Expr>,
    pub count: Option<Expr>,
    /// Whether further rows are added that are equal to the last row in the order (WITH TIES).
    pub ties: bool,
}

impl Range {
    pub fn is_all(&self) -> bool {
        self.offset.is_none() && self.count.is_none()
    }
}

/// An input of a union, with the expressions that compute the union's columns from its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub rel: Rel,
    pub exprs: Vec<Expr>,
}

/// The kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JoinKind {
    /// Pairs for which all conditions are true.
    Inner,
    /// The pairs of `Inner`, and in addition each left row without a partner, with nulls for the right columns.
    Left,
    /// The rows of `Left`, and in addition each right row without a partner, with nulls for the left columns.
    Full,
    /// Rows of the left side that have a partner, each once.
    Semi,
    /// Rows of the left side that have no partner.
    Anti,
    /// Each row of the left side once, with an additional column: true if the row has a partner, otherwise false.
    Mark(ColumnId),
}

/// A column and the expression that computes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Computed {
    pub column: ColumnId,
    pub expr: Expr,
}

/// An aggregate with its output columns: two for [`Agg::Avg`] and [`Agg::Spread`], one for all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aggregation {
    pub columns: Vec<ColumnId>,
    pub agg: Agg,
    /// Whether each distinct value is aggregated once (DISTINCT).
    pub distinct: bool,
}

impl JoinKind {
    /// Whether the joined rows have the columns of the right side.
    pub fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Inner | JoinKind::Left | JoinKind::Full)
    }
}

impl Rel {
    pub fn filter(self, conditions: Vec<Expr>) -> Rel {
        match self {
            rel if conditions.is_empty() => rel,
            Rel::Filter { input, conditions: mut all } => {
                all.extend(conditions);
                Rel::Filter { input, conditions: all }
            }
            rel => Rel::Filter { input: Box::new(rel), conditions },
        }
    }

    /// The rows for which a condition is true. If the condition is the constant true, the operator itself.
    pub fn filter_by(self, condition: Expr) -> Rel {
        match condition {
            Expr::Literal { value: Some(Literal::Bool(true)), .. } => self,
            condition => self.filter(vec![condition]),
        }
    }

    pub fn map(self, computed: Vec<Computed>) -> Rel {
        match computed.is_empty() {
            true => self,
            false => Rel::Map { input: Box::new(self), computed },
        }
    }

    pub fn join(self, kind: JoinKind, right: Rel, conditions: Vec<Expr>) -> Rel {
        Rel::Join { kind, left: Box::new(self), right: Box::new(right), conditions }
    }

    pub fn apply(self, kind: JoinKind, right: Rel, conditions: Vec<Expr>) -> Rel {
        Rel::Apply { kind, left: Box::new(self), right: Box::new(right), conditions }
    }

    /// The columns of this operator's rows.
    pub fn columns(&self) -> Vec<ColumnId> {
        match self {
            Rel::Scan { columns, .. } | Rel::Union { columns, .. } => columns.clone(),
            Rel::Row => vec![],
            Rel::Filter { input, .. } | Rel::Top { input, .. } => input.columns(),
            Rel::Map { input, computed } => {
                let mut columns = input.columns();
                columns.extend(computed.iter().map(|computed| computed.column));
                columns
            }
            Rel::Window { input, calls, .. } => {
                let mut columns = input.columns();
                columns.extend(calls.iter().flat_map(|call| &call.columns));
                columns
            }
            Rel::Unfold { input, unfold } => {
                let mut columns = input.columns();
                columns.push(unfold.column);
                columns.extend(unfold.number);
                columns
            }
            Rel::Join { kind, left, right, .. } | Rel::Apply { kind, left, right, .. } => {
                let mut columns = left.columns();
                match kind {
                    JoinKind::Mark(mark) => columns.push(*mark),
                    JoinKind::Inner | JoinKind::Left | JoinKind::Full => columns.extend(right.columns()),
                    JoinKind::Semi | JoinKind::Anti => {}
                }
                columns
            }
            Rel::GroupingSets { grouping, .. } => {
                let keys = grouping.keys.iter().map(|key| key.column).chain([grouping.number]);
                keys.chain(grouping.aggregates.iter().flat_map(|aggregation| aggregation.columns.clone())).collect()
            }
            Rel::Aggregate { keys, aggregates, .. } => {
                let results = aggregates.iter().flat_map(|aggregation| &aggregation.columns);
                keys.iter().map(|key| key.column).chain(results.copied()).collect()
            }
        }
    }

    /// Whether this operator is a filter or an inner join. A tree of such operators is called a block. The relations
    /// below it may be joined in any order.
    pub fn is_block(&self) -> bool {
        matches!(self, Rel::Filter { .. } | Rel::Join { kind: JoinKind::Inner, .. })
    }

    pub fn inputs(&self) -> Vec<&Rel> {
        match self {
            Rel::Scan { .. } | Rel::Row => vec![],
            Rel::Filter { input, .. }
            | Rel::Map { input, .. }
            | Rel::Aggregate { input, .. }
            | Rel::GroupingSets { input, .. }
            | Rel::Top { input, .. }
            | Rel::Unfold { input, .. }
            | Rel::Window { input, .. } => vec![input],
            Rel::Join { left, right, .. } | Rel::Apply { left, right, .. } => vec![left, right],
            Rel::Union { inputs, .. } => inputs.iter().map(|part| &part.rel).collect(),
        }
    }

    /// The aggregates of an operator.
    pub fn aggregates(&self) -> &[Aggregation] {
        match self {
            Rel::Aggregate { aggregates, .. } => aggregates,
            Rel::GroupingSets { grouping, .. } => &grouping.aggregates,
            _ => &[],
        }
    }

    pub fn depth(&self) -> usize {
        1 + self.inputs().into_iter().map(Rel::depth).max().unwrap_or(0)
    }

    /// The expressions of this operator, without those of the operators below it.
    pub fn expressions(&self) -> Vec<&Expr> {
        match self {
            Rel::Scan { .. } | Rel::Row => vec![],
            Rel::Filter { conditions, .. } | Rel::Join { conditions, .. } | Rel::Apply { conditions, .. } => {
                conditions.iter().collect()
            }
            Rel::Map { computed, .. } => computed.iter().map(|computed| &computed.expr).collect(),
            Rel::Union { inputs, .. } => inputs.iter().flat_map(|part| &part.exprs).collect(),
            Rel::GroupingSets { grouping, .. } => {
                let arguments = grouping.aggregates.iter().flat_map(|aggregation| aggregation.agg.arguments());
                grouping.keys.iter().map(|key| &key.expr).chain(arguments).collect()
            }
            Rel::Aggregate { keys, aggregates, .. } => {
                let arguments = aggregates.iter().flat_map(|aggregation| aggregation.agg.arguments());
                keys.iter().map(|key| &key.expr).chain(arguments).collect()
            }
            Rel::Top { keys, order, range, .. } => {
                let order = order.iter().map(|key| &key.expr);
                keys.iter().chain(order).chain(&range.offset).chain(&range.count).collect()
            }
            Rel::Unfold { unfold, .. } => unfold.arguments.iter().collect(),
            Rel::Window { over, calls, .. } => {
                let arguments = calls.iter().flat_map(WindowCall::expressions);
                over.expressions().chain(arguments).collect()
            }
        }
    }

    pub fn expressions_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Rel::Scan { .. } | Rel::Row => vec![],
            Rel::Filter { conditions, .. } | Rel::Join { conditions, .. } | Rel::Apply { conditions, .. } => {
                conditions.iter_mut().collect()
            }
            Rel::Map { computed, .. } => computed.iter_mut().map(|computed| &mut computed.expr).collect(),
            Rel::Union { inputs, .. } => inputs.iter_mut().flat_map(|part| &mut part.exprs).collect(),
            Rel::Aggregate { keys, aggregates, .. } => {
                let arguments = aggregates.iter_mut().flat_map(|aggregation| aggregation.agg.arguments_mut());
                keys.iter_mut().map(|key| &mut key.expr).chain(arguments).collect()
            }
            Rel::GroupingSets { grouping, .. } => {
                let arguments = grouping.aggregates.iter_mut().flat_map(|aggregation| aggregation.agg.arguments_mut());
                grouping.keys.iter_mut().map(|key| &mut key.expr).chain(arguments).collect()
            }
            Rel::Top { keys, order, range, .. } => {
                let order = order.iter_mut().map(|key| &mut key.expr);
                keys.iter_mut().chain(order).chain(&mut range.offset).chain(&mut range.count).collect()
            }
            Rel::Unfold { unfold, .. } => unfold.arguments.iter_mut().collect(),
            Rel::Window { over, calls, .. } => {
                let arguments = calls.iter_mut().flat_map(WindowCall::expressions_mut);
                over.expressions_mut().chain(arguments).collect()
            }
        }
    }

    /// The columns that this operator itself makes.
    pub fn made(&self) -> Vec<ColumnId> {
        match self {
            Rel::Filter { .. } | Rel::Top { .. } | Rel::Row => vec![],
            Rel::Scan { columns, .. } | Rel::Union { columns, .. } => columns.clone(),
            Rel::Map { computed, .. } => computed.iter().map(|computed| computed.column).collect(),
            Rel::Join { kind: JoinKind::Mark(mark), .. } | Rel::Apply { kind: JoinKind::Mark(mark), .. } => vec![*mark],
            Rel::Join { .. } | Rel::Apply { .. } => vec![],
            Rel::Aggregate { .. } | Rel::GroupingSets { .. } => self.columns(),
            Rel::Unfold { unfold, .. } => [unfold.column].into_iter().chain(unfold.number).collect(),
            Rel::Window { calls, .. } => calls.iter().flat_map(|call| &call.columns).copied().collect(),
        }
    }

    pub fn made_mut(&mut self) -> Vec<&mut ColumnId> {
        match self {
            Rel::Filter { .. } | Rel::Top { .. } | Rel::Row => vec![],
            Rel::Scan { columns, .. } | Rel::Union { columns, .. } => columns.iter_mut().collect(),
            Rel::Map { computed, .. } => computed.iter_mut().map(|computed| &mut computed.column).collect(),
            Rel::Join { kind: JoinKind::Mark(mark), .. } | Rel::Apply { kind: JoinKind::Mark(mark), .. } => vec![mark],
            Rel::Join { .. } | Rel::Apply { .. } => vec![],
            Rel::Aggregate { keys, aggregates, .. } => {
                let results = aggregates.iter_mut().flat_map(|aggregation| &mut aggregation.columns);
                keys.iter_mut().map(|key| &mut key.column).chain(results).collect()
            }
            Rel::GroupingSets { grouping, .. } => {
                let results = grouping.aggregates.iter_mut().flat_map(|aggregation| &mut aggregation.columns);
                let keys = grouping.keys.iter_mut().map(|key| &mut key.column);
                keys.chain([&mut grouping.number]).chain(results).collect()
            }
            Rel::Unfold { unfold, .. } => [&mut unfold.column].into_iter().chain(&mut unfold.number).collect(),
            Rel::Window { calls, .. } => calls.iter_mut().flat_map(|call| &mut call.columns).collect(),
        }
    }

    /// Calls `f` on this operator and all operators below it. `f` may change them.
    pub fn visit_mut(&mut self, f: &mut impl FnMut(&mut Rel)) {
        f(self);
        match self {
            Rel::Scan { .. } | Rel::Row => {}
            Rel::Filter { input, .. }
            | Rel::Map { input, .. }
            | Rel::Aggregate { input, .. }
            | Rel::GroupingSets { input, .. }
            | Rel::Top { input, .. }
            | Rel::Unfold { input, .. }
            | Rel::Window { input, .. } => input.visit_mut(f),
            Rel::Join { left, right, .. } | Rel::Apply { left, right, .. } => {
                left.visit_mut(f);
                right.visit_mut(f);
            }
            Rel::Union { inputs, .. } => inputs.iter_mut().for_each(|part| part.rel.visit_mut(f)),
        }
    }

    /// Calls `f` on this operator and all operators below it.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Rel)) {
        f(self);
        self.inputs().into_iter().for_each(|input| input.visit(f));
    }
}
