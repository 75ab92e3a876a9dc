//! Translates FROM and WHERE of a SELECT level.
//!
//! Whether the tables are mirrored is checked again when the query runs, because that may change after the plan was
//! made.

use pgrx::prelude::*;
use plan::{CmpOp, ColumnId, Expr, JoinKind, Rel};

use super::select::subqueries_last;
use crate::pg::tree::{Node, Ref, all_of};
use crate::planner::translate::{Pending, Translator};
use crate::planner::words::reason::{Attempt, Why};

/// The rows of FROM, with the conditions on them.
pub struct From<'a> {
    pub rel: Rel,
    /// The conditions of WHERE and of inner joins, in the planner's simplified form.
    pub conjuncts: Vec<Node<'a>>,
}

/// Adds the items of FROM to the innermost scope, which is the scope of `query`.
pub fn from<'a>(translator: &mut Translator<'a>, query: Ref<'a, pg_sys::Query>) -> Attempt<From<'a>> {
    let entries = query.rtable().iter().collect();
    let mut reader = Reader { query, entries, sent: Vec::new(), translator };
    reader.closed(query.jointree().ok_or_else(|| Why::Expression.of("query without FROM"))?.node())
}

struct Reader<'a, 't> {
    query: Ref<'a, pg_sys::Query>,
    entries: Vec<Ref<'a, pg_sys::RangeTblEntry>>,
    /// The relations in this part of the join tree whose rows PostgreSQL computes.
    sent: Vec<u16>,
    translator: &'t mut Translator<'a>,
}

impl<'a> Reader<'a, '_> {
    /// Translates a part of the join tree, with the conditions of its own inner joins.
    fn closed(&mut self, item: Node<'a>) -> Attempt<From<'a>> {
        let mut quals = Vec::new();
        let around = std::mem::take(&mut self.sent);
        let rel = self.item(item, &mut quals)?.unwrap_or(Rel::Row);
        let mut conjuncts = conjuncts(self.query, quals);
        let sent = std::mem::replace(&mut self.sent, around);
        conjuncts.retain(|conjunct| !self.translator.leave_to_sender(*conjunct, &sent));
        Ok(From { rel, conjuncts })
    }

    /// Translates a part of the join tree, and applies the conditions of its own inner joins.
    fn restricted(&mut self, item: Node<'a>) -> Attempt<Rel> {
        let From { mut rel, conjuncts } = self.closed(item)?;
        for conjunct in subqueries_last(&conjuncts) {
            rel = self.translator.restricted(rel, conjunct)?;
        }
        Ok(rel)
    }

    /// Translates an item of the join tree; `None` for an empty FROM.
    fn item(&mut self, item: Node<'a>, quals: &mut Vec<Node<'a>>) -> Attempt<Option<Rel>> {
        if let Some(from) = item.cast::<pg_sys::FromExpr>() {
            let mut all: Option<Rel> = None;
            for child in from.fromlist().iter() {
                if let Some(rel) = self.item(child, quals)? {
                    all = Some(self.beside(all, rel));
                }
            }
            quals.extend(from.quals());
            Ok(all)
        } else if let Some(join) = item.cast::<pg_sys::JoinExpr>() {
            let (left, right) = (join.larg(), join.rarg());
            if join.jointype == pg_sys::JoinType::JOIN_INNER {
                let (left, right) = (self.item(left, quals)?, self.item(right, quals)?);
                quals.extend(join.quals());
                return Ok(match right {
                    None => left,
                    Some(right) => Some(self.beside(left, right)),
                });
            }
            self.outer(join, left, right).map(Some)
        } else if let Some(reference) = item.cast::<pg_sys::RangeTblRef>() {
            let entry = self
                .entries
                .get(reference.rtindex as usize - 1)
                .ok_or_else(|| Why::FromItem.of("unknown item in FROM"))?;
            self.entry(reference.rtindex, *entry).map(Some)
        } else {
            Err(Why::FromItem.of("unknown item in FROM"))
        }
    }

    fn beside(&self, left: Option<Rel>, right: Rel) -> Rel {
        match left {
            None => right,
            Some(left) => self.translator.join(left, JoinKind::Inner, right, Vec::new()),
        }
    }

    fn outer(&mut self, join: Ref<'a, pg_sys::JoinExpr>, left: Node<'a>, right: Node<'a>) -> Attempt<Rel> {
        let (left, right) = (self.restricted(left)?, self.restricted(right)?);
        let conjuncts = conjuncts(self.query, join.quals());
        let (kind, mut left, mut right) = match join.jointype {
            pg_sys::JoinType::JOIN_LEFT => (JoinKind::Left, left, right),
            pg_sys::JoinType::JOIN_RIGHT => (JoinKind::Left, right, left),
            pg_sys::JoinType::JOIN_FULL => (JoinKind::Full, left, right),
            _ => return Err(Why::FromItem.of("join of an unknown kind")),
        };
        let waiting = self.translator.pending.len();
        let are_constant = conjuncts.iter().all(|conjunct| conjunct.cast::<pg_sys::Const>().is_some());
        let conditions =
            conjuncts.into_iter().map(|c| self.translator.row_condition(c)).collect::<Attempt<Vec<Expr>>>()?;
        if kind == JoinKind::Full {
            let of_neither;
            (left, right, of_neither) = self.with_pending_of_sides(left, right, waiting)?;
            // PostgreSQL raises an error for a full join without an equality, unless the conditions are constant.
            if !are_constant && !self.is_looked_up(&left, &right, &of_neither, &conditions) {
                return Err(Why::FromItem.of("full join that PostgreSQL has no way for"));
            }
        }
        if self.translator.pending.len() == waiting {
            return Ok(self.translator.join(left, kind, right, conditions));
        }
        // The condition needs pending joins, for example with a subquery. These joins are made with the right side
        // first, and then the condition filters the joined rows. What remains are exactly the right rows that are
        // partners of a left row.
        let partners = self.translator.with_pending(right, waiting).filter(conditions);
        Ok(self.translator.join(left, kind, partners, Vec::new()))
    }

    /// Makes the pending joins that a full join's condition needs. A pending join that reads columns of only one side
    /// is made with that side. Returns both sides, and the columns that come from pending joins which read neither
    /// side.
    fn with_pending_of_sides(
        &mut self,
        mut left: Rel,
        mut right: Rel,
        waiting: usize,
    ) -> Attempt<(Rel, Rel, Vec<ColumnId>)> {
        let mut of_neither = Vec::new();
        for Pending { kind, rel, conditions } in self.translator.pending.split_off(waiting) {
            let mut read: Vec<ColumnId> = conditions.iter().flat_map(Expr::columns).collect();
            rel.visit(&mut |rel| read.extend(rel.expressions().into_iter().flat_map(Expr::columns)));
            let reads = |side: &Rel| self.translator.columns_of(side).iter().any(|id| read.contains(id));
            let sides = (reads(&left), reads(&right));
            let side = match sides {
                (true, true) => {
                    return Err(Why::Subquery.of("subquery about both sides of a full join in its condition"));
                }
                (true, false) => &mut left,
                _ => &mut right,
            };
            let before = self.translator.columns_of(side);
            let rows = std::mem::replace(side, Rel::Row);
            *side = self.translator.join(rows, kind, rel, conditions);
            if sides == (false, false) {
                of_neither.extend(self.translator.columns_of(side).into_iter().filter(|id| !before.contains(id)));
            }
        }
        Ok((left, right, of_neither))
    }

    /// Whether one of the conditions is an equality between the two sides.
    fn is_looked_up(&self, left: &Rel, right: &Rel, of_neither: &[ColumnId], conditions: &[Expr]) -> bool {
        let (left, right) = (self.translator.columns_of(left), self.translator.columns_of(right));
        let is_of = |side: &[ColumnId], expr: &Expr| {
            let mut read = expr.columns();
            read.retain(|id| !of_neither.contains(id));
            !read.is_empty() && read.iter().all(|id| side.contains(id))
        };
        let equates = |condition: &Expr| match condition {
            Expr::Cmp { op: CmpOp::Eq, left: a, right: b } => {
                is_of(&left, a) && is_of(&right, b) || is_of(&right, a) && is_of(&left, b)
            }
            _ => false,
        };
        conditions.iter().any(equates)
    }

    fn entry(&mut self, index: i32, entry: Ref<'a, pg_sys::RangeTblEntry>) -> Attempt<Rel> {
        let (query, sent) = (self.query, self.translator.sent.len());
        let rel = match entry.rtekind {
            pg_sys::RTEKind::RTE_RELATION => self.translator.or_sent(index, entry, |translator| {
                translator.not_in_mirror(entry).map_or(Ok(()), Err)?;
                let relation = translator.open_table(index, entry)?;
                match entry.securityQuals.is_null() {
                    true => Ok(Rel::Scan { relation, columns: Vec::new() }),
                    false => translator.unhidden(query, index, entry, relation),
                }
            }),
            _ => self.translator.or_sent(index, entry, |translator| rows(translator, index, entry)),
        }?;
        let sent = self.translator.sent.get(sent..).unwrap_or_default();
        self.sent.extend(sent.last().and_then(|sent| sent.relation_of(entry)));
        Ok(rel)
    }
}

/// Translates an item of FROM that is no table, if the engine can compute its rows.
fn rows<'a>(translator: &mut Translator<'a>, index: i32, entry: Ref<'a, pg_sys::RangeTblEntry>) -> Attempt<Rel> {
    match entry.rtekind {
        _ if !entry.securityQuals.is_null() => Err(Why::RowSecurity.of("row-level security")),
        pg_sys::RTEKind::RTE_SUBQUERY => {
            let unknown = || Why::FromItem.of("unknown item in FROM");
            let query = entry.subquery().ok_or_else(unknown)?;
            match entry.security_barrier {
                true => translator.behind_barrier(index, query),
                false => translator.subquery(index, query),
            }
        }
        pg_sys::RTEKind::RTE_CTE => translator.with_query(index, entry),
        pg_sys::RTEKind::RTE_FUNCTION => translator.function_rows(index, entry),
        pg_sys::RTEKind::RTE_VALUES => translator.values(index, entry),
        _ => Err(Why::FromItem.of("something that is not a table in FROM")),
    }
}

/// The conditions that AND combines in a query's condition, in the planner's simplified form.
pub fn conjuncts<'a>(query: Ref<'a, pg_sys::Query>, quals: impl IntoIterator<Item = Node<'a>>) -> Vec<Node<'a>> {
    let all = all_of(quals).map(|all| all.flattened(query).simplified().canonical());
    all.into_iter().flat_map(Node::conjuncts).collect()
}
