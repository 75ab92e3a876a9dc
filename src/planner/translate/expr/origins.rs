//! Finds the sources of an expression's values. The search goes through CASE and similar choices, subqueries, WITH and
//! set operations, down to stored or computed values.

use pgrx::prelude::*;

use crate::pg::descriptor::is_virtual;
use crate::pg::tree::{Node, Ref};
use crate::pg::{catalog, compat};
use crate::planner::translate::level::subquery::named_query;

/// A query level; `None` if the query from which its columns come is not known.
pub type Level<'a> = Option<Ref<'a, pg_sys::Query>>;

/// The verdict on one expression.
pub enum Verdict {
    /// The expression passes. Its sources are not examined.
    Fine,
    Wrong,
    /// The expression passes if all its sources pass.
    Follow,
}

/// A test that is applied to expressions and their sources.
pub trait Judge<'a> {
    fn judge(&mut self, node: Node<'a>) -> Verdict;

    /// Whether a source passes if it cannot be followed further: a table's column, a function's result, arithmetic.
    const OTHERS: bool;
}

/// Whether all sources of an expression pass. `levels` are the query levels around it, the innermost last.
pub fn follow<'a>(judge: &mut impl Judge<'a>, node: Node<'a>, levels: &[Level<'a>]) -> bool {
    Origins { judge }.follow(node, levels)
}

struct Origins<'j, J> {
    judge: &'j mut J,
}

impl<'a, J: Judge<'a>> Origins<'_, J> {
    fn follow(&mut self, node: Node<'a>, levels: &[Level<'a>]) -> bool {
        match self.judge.judge(node) {
            Verdict::Fine => return true,
            Verdict::Wrong => return false,
            Verdict::Follow => {}
        }
        if let Some(var) = node.cast::<pg_sys::Var>() {
            self.follow_column(var, levels)
        } else if let Some(case) = node.cast::<pg_sys::CaseExpr>() {
            let results = case.args().iter().map(|when| when.result());
            self.follow_all(results.chain(case.defresult()), levels)
        } else if let Some(coalesce) = node.cast::<pg_sys::CoalesceExpr>() {
            self.follow_all(coalesce.args().iter(), levels)
        } else if let Some(extreme) = node.cast::<pg_sys::MinMaxExpr>() {
            self.follow_all(extreme.args().iter(), levels)
        } else if let Some(array) = node.cast::<pg_sys::ArrayExpr>() {
            self.follow_all(array.elements().iter(), levels)
        } else if let Some(collate) = node.cast::<pg_sys::CollateExpr>() {
            self.follow(collate.arg(), levels)
        } else if node.tag() == pg_sys::NodeTag::T_NullIfExpr {
            let arguments = node.operator().into_iter().flat_map(|operator| operator.args());
            self.follow_all(arguments.take(1), levels)
        } else if let Some(value) = value_of(node) {
            self.follow_result(value, 0, levels)
        } else {
            J::OTHERS
        }
    }

    fn follow_all(&mut self, mut nodes: impl Iterator<Item = Node<'a>>, levels: &[Level<'a>]) -> bool {
        nodes.all(|node| self.follow(node, levels))
    }

    fn follow_column(&mut self, var: Ref<'_, pg_sys::Var>, levels: &[Level<'a>]) -> bool {
        self.column(var, levels).unwrap_or(J::OTHERS)
    }

    /// Follows a column; `None` if it cannot be followed.
    fn column(&mut self, var: Ref<'_, pg_sys::Var>, levels: &[Level<'a>]) -> Option<bool> {
        let level = levels.len().checked_sub(var.varlevelsup as usize + 1)?;
        let (query, levels) = (levels[level]?, &levels[..=level]);
        let column = usize::try_from(var.varattno).ok()?.checked_sub(1)?;
        if let Some(operation) = query.setOperations() {
            return self.operand(operation, query, column, levels);
        }
        let entry = self.entry(query, var.varno)?;
        match entry.rtekind {
            pg_sys::RTEKind::RTE_JOIN => {
                let node = entry.joinaliasvars().iter().nth(column)?;
                Some(self.follow(node, levels))
            }
            pg_sys::RTEKind::RTE_SUBQUERY => Some(self.follow_result(entry.subquery()?, column, levels)),
            pg_sys::RTEKind::RTE_CTE => {
                let levels = &levels[..levels.len().checked_sub(entry.ctelevelsup as usize)?];
                let (_, query) = named_query((*levels.last()?)?, entry).ok()?;
                Some(self.follow_result(query, column, levels))
            }
            pg_sys::RTEKind::RTE_VALUES => {
                let mut rows = entry.values_lists().iter().filter_map(|row| row.iter().nth(column));
                Some(rows.all(|value| self.follow(value, levels)))
            }
            // Planning replaces the column by an expression, which may have another type modifier.
            pg_sys::RTEKind::RTE_RELATION if is_virtual_column(entry.relid, var.varattno) => Some(false),
            _ => entry.group_keys().iter().nth(column).map(|key| self.follow(key, levels)),
        }
    }

    fn follow_result(&mut self, query: Ref<'a, pg_sys::Query>, column: usize, levels: &[Level<'a>]) -> bool {
        let levels = [levels, &[Some(query)]].concat();
        let followed = match query.setOperations() {
            Some(operation) => self.operand(operation, query, column, &levels),
            None => {
                let targets = query.targetList().iter();
                let target = targets.filter(|target| !target.resjunk).nth(column);
                target.map(|target| self.follow(target.expr(), &levels))
            }
        };
        followed.unwrap_or(J::OTHERS)
    }

    /// Follows a column into one operand of a query's set operations.
    fn operand(
        &mut self,
        operand: Node<'a>,
        query: Ref<'a, pg_sys::Query>,
        column: usize,
        levels: &[Level<'a>],
    ) -> Option<bool> {
        if let Some(operation) = operand.cast::<pg_sys::SetOperationStmt>() {
            let left = self.operand(operation.larg(), query, column, levels)?;
            return Some(left && self.operand(operation.rarg(), query, column, levels)?);
        }
        let entry = self.entry(query, operand.cast::<pg_sys::RangeTblRef>()?.rtindex)?;
        let is_subquery = entry.rtekind == pg_sys::RTEKind::RTE_SUBQUERY;
        let subquery = entry.subquery().filter(|_| is_subquery)?;
        Some(self.follow_result(subquery, column, levels))
    }

    fn entry(&self, query: Ref<'a, pg_sys::Query>, index: i32) -> Option<Ref<'a, pg_sys::RangeTblEntry>> {
        query.rtable().iter().nth(usize::try_from(index).ok()?.checked_sub(1)?)
    }
}

fn is_virtual_column(relid: pg_sys::Oid, number: i16) -> bool {
    compat::HAS_VIRTUAL_COLUMNS && catalog::attribute(relid, number, is_virtual).unwrap_or(false)
}

/// The query of a subquery that returns one value in an expression.
fn value_of<'a>(node: Node<'a>) -> Option<Ref<'a, pg_sys::Query>> {
    let link = node.cast::<pg_sys::SubLink>().filter(|link| link.subLinkType == pg_sys::SubLinkType::EXPR_SUBLINK)?;
    link.subselect().cast::<pg_sys::Query>()
}
