//! The n of a char(n) that its expression does not say: PostgreSQL forgets it where a null is among the values, as in
//! `CASE WHEN … THEN code END` or `SELECT code … UNION SELECT NULL …`.

use std::collections::BTreeSet;

use pgrx::prelude::*;

use crate::pg::tree::{Node, Tree};
use crate::pg::value;
use crate::planner::translate::Translator;
use crate::planner::translate::level::subquery::named_query;
use crate::planner::translate::scope::Scope;

impl<'a> Translator<'a> {
    /// The one n of all values that are not null.
    pub fn char_length(&self, node: Node<'a>) -> Option<u32> {
        let levels: Vec<_> = self.scopes.iter().map(Scope::own_query).collect();
        let mut origins = Origins { tree: self.tree, lengths: BTreeSet::new() };
        origins.follow(node, &levels)?;
        let length = origins.lengths.pop_first()?;
        origins.lengths.is_empty().then_some(length)
    }
}

/// A level whose columns are known by its query.
type Level<'a> = Option<&'a pg_sys::Query>;

struct Origins<'a> {
    tree: Tree<'a>,
    lengths: BTreeSet<u32>,
}

impl<'a> Origins<'a> {
    /// The sources of the expression's values; `None` if one may be of any length. `levels` are the levels around it,
    /// the innermost last.
    fn follow(&mut self, node: Node<'a>, levels: &[Level<'a>]) -> Option<()> {
        let (_, modifier) = value::without_domain(node.sql_type(), node.type_modifier());
        if let length @ 1.. = modifier - pg_sys::VARHDRSZ as i32 {
            self.lengths.insert(length as u32);
            return Some(());
        }
        if let Some(constant) = node.cast::<pg_sys::Const>() {
            return constant.constisnull.then_some(());
        }
        if let Some(var) = node.cast::<pg_sys::Var>() {
            return self.follow_column(var, levels);
        }
        if let Some(case) = node.cast::<pg_sys::CaseExpr>() {
            let tree = self.tree;
            let results = tree.list_of::<pg_sys::CaseWhen>(case.args).map(|when| tree.required(when.result));
            return self.follow_all(results.chain(tree.node(case.defresult)), levels);
        }
        let coalesce = node.cast::<pg_sys::CoalesceExpr>()?;
        self.follow_all(self.tree.list(coalesce.args), levels)
    }

    fn follow_all(&mut self, mut nodes: impl Iterator<Item = Node<'a>>, levels: &[Level<'a>]) -> Option<()> {
        nodes.try_for_each(|node| self.follow(node, levels))
    }

    fn follow_column(&mut self, var: &pg_sys::Var, levels: &[Level<'a>]) -> Option<()> {
        let level = levels.len().checked_sub(var.varlevelsup as usize + 1)?;
        let (query, levels) = (levels[level]?, &levels[..=level]);
        let column = usize::try_from(var.varattno).ok()?.checked_sub(1)?;
        if let Some(operation) = self.tree.node(query.setOperations) {
            return self.follow_operand(operation, query, column, levels);
        }
        let entry = self.entry(query, var.varno)?;
        match entry.rtekind {
            pg_sys::RTEKind::RTE_JOIN => self.follow(self.tree.list(entry.joinaliasvars).nth(column)?, levels),
            pg_sys::RTEKind::RTE_SUBQUERY => self.follow_result(self.tree.subquery(entry)?, column, levels),
            pg_sys::RTEKind::RTE_CTE => {
                let levels = &levels[..levels.len().checked_sub(entry.ctelevelsup as usize)?];
                let (_, query) = named_query(self.tree, (*levels.last()?)?, entry).ok()?;
                self.follow_result(query, column, levels)
            }
            _ => None,
        }
    }

    /// A column that a query gives; `levels` are around it.
    fn follow_result(&mut self, query: &'a pg_sys::Query, column: usize, levels: &[Level<'a>]) -> Option<()> {
        let levels = [levels, &[Some(query)]].concat();
        if let Some(operation) = self.tree.node(query.setOperations) {
            return self.follow_operand(operation, query, column, &levels);
        }
        let target = self.tree.list_of::<pg_sys::TargetEntry>(query.targetList).nth(column)?;
        self.follow(self.tree.required(target.expr), &levels)
    }

    /// Follows one operand of the query's set operations.
    fn follow_operand(
        &mut self,
        operand: Node<'a>,
        query: &'a pg_sys::Query,
        column: usize,
        levels: &[Level<'a>],
    ) -> Option<()> {
        if let Some(operation) = operand.cast::<pg_sys::SetOperationStmt>() {
            self.follow_operand(self.tree.required(operation.larg), query, column, levels)?;
            return self.follow_operand(self.tree.required(operation.rarg), query, column, levels);
        }
        let entry = self.entry(query, operand.cast::<pg_sys::RangeTblRef>()?.rtindex)?;
        let is_subquery = entry.rtekind == pg_sys::RTEKind::RTE_SUBQUERY;
        self.follow_result(self.tree.subquery(entry).filter(|_| is_subquery)?, column, levels)
    }

    fn entry(&self, query: &pg_sys::Query, index: i32) -> Option<&'a pg_sys::RangeTblEntry> {
        self.tree.list_of::<pg_sys::RangeTblEntry>(query.rtable).nth(usize::try_from(index).ok()?.checked_sub(1)?)
    }
}
