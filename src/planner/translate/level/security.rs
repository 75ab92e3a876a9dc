//! Rows that the user may not see, because a policy or a security barrier view hides them.
//!
//! If a condition of the query raised an error for a hidden row, the error would betray the row. The optimizer may move
//! conditions. But among the conditions of one table, all that cannot raise an error come before all that can. So a
//! condition that hides rows is accepted only if it cannot raise an error, and reads columns of its own table alone. A
//! condition without columns belongs to no table, and could be moved anywhere.

use pgrx::prelude::*;
use plan::{ColumnId, Expr, Rel};

use super::from::conjuncts;
use crate::pg::catalog::relation_name;
use crate::pg::tree::Ref;
use crate::planner::translate::Translator;
use crate::planner::words::reason::{Attempt, Why};

impl<'a> Translator<'a> {
    /// The rows of a table that its policies do not hide. The table is the item `index` of the innermost scope, which
    /// is the scope of `query`.
    pub fn unhidden(
        &mut self,
        query: Ref<'a, pg_sys::Query>,
        index: i32,
        entry: Ref<'a, pg_sys::RangeTblEntry>,
        relation: u16,
    ) -> Attempt<Rel> {
        let refused =
            |what: &str| Why::RowSecurity.of(format!("a policy of table \"{}\" {what}", relation_name(entry.relid)));
        let policies = conjuncts(query, entry.securityQuals().iter());
        let (waiting, mut conditions) = (self.pending.len(), Vec::new());
        for policy in policies {
            let condition = self.row_condition(policy)?;
            if self.pending.len() > waiting {
                return Err(refused("has a subquery"));
            }
            if condition.can_raise() {
                return Err(refused("may raise an error"));
            }
            conditions.push(match condition.columns().is_empty() {
                true => bound_to(condition, self.any_column(index)?),
                false => condition,
            });
        }
        self.hide_unless(relation, &conditions);
        Ok(Rel::Scan { relation, columns: Vec::new() }.filter(conditions))
    }

    /// The rows of a security barrier view, which must be a filtered table.
    pub fn behind_barrier(&mut self, index: i32, view: Ref<'a, pg_sys::Query>) -> Attempt<Rel> {
        let rel = self.subquery(index, view)?;
        let mut conditions = Vec::new();
        let Some(relation) = guarded(&rel, &mut conditions) else {
            return Err(Why::RowSecurity.of("view that is a security barrier is more than a filtered table"));
        };
        self.hide_unless(relation, &conditions);
        Ok(rel)
    }

    /// Records that the user may see only those rows of the relation that meet these conditions.
    fn hide_unless(&mut self, relation: u16, conditions: &[Expr]) {
        self.names[relation as usize].hides = true;
        self.relations[relation as usize].visible_if.extend_from_slice(conditions);
    }
}

/// The same condition, but with a column in it, so that it belongs to the table of that column.
fn bound_to(condition: Expr, column: Expr) -> Expr {
    let is_null = Expr::IsNull { arg: Box::new(column), negated: false };
    Expr::Case { branches: vec![(is_null, condition.clone())], otherwise: Box::new(condition) }
}

/// The table below a view. The view's conditions are added to `conditions`. `None` if an outer condition could be
/// evaluated for rows that the view hides.
fn guarded(view: &Rel, conditions: &mut Vec<Expr>) -> Option<u16> {
    match view {
        Rel::Scan { relation, .. } => Some(*relation),
        Rel::Filter { input, conditions: own } => {
            let relation = guarded(input, conditions)?;
            // A value that the view computes would be computed for hidden rows, too, if the condition needed it.
            let computed = computed(input);
            let reads_table = |condition: &Expr| {
                let columns = condition.columns();
                !columns.is_empty() && columns.iter().all(|column| !computed.contains(column))
            };
            let hides_alone = own.iter().all(|condition| !condition.can_raise() && reads_table(condition));
            conditions.extend_from_slice(own);
            hides_alone.then_some(relation)
        }
        Rel::Map { input, .. } => guarded(input, conditions),
        _ => None,
    }
}

fn computed(rel: &Rel) -> Vec<ColumnId> {
    let mut made = Vec::new();
    rel.visit(&mut |rel| {
        if let Rel::Map { .. } = rel {
            made.extend(rel.made());
        }
    });
    made
}
