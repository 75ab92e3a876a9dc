//! Rows that the user may not see: those that a policy hides, or a view that is a security barrier.
//!
//! No condition of the query may raise an error for such a row. Wherever conditions are put, those of a table that cannot raise
//! one come before those that can: so it is enough that what hides a table's rows cannot, and needs no other table.

use plan::{Expr, Rel};

use super::from;
use super::reason::{Attempt, Why};
use super::translate::Translator;
use crate::pg::catalog::relation_name;

impl<'a> Translator<'a> {
    /// A table's rows without those that its policies hide from the user. The table is an item of the innermost scope,
    /// which is that of `query`.
    pub fn unhidden(
        &mut self,
        query: &'a pgrx::pg_sys::Query,
        entry: &'a pgrx::pg_sys::RangeTblEntry,
        rows: Rel,
    ) -> Attempt<Rel> {
        let refused =
            |what: &str| Why::RowSecurity.of(format!("a policy of table \"{}\" {what}", relation_name(entry.relid)));
        // SAFETY: policies are expressions of the query.
        let policies = unsafe { from::conjuncts(self.tree, query, entry.securityQuals) };
        let waiting = self.pending.len();
        let conditions =
            policies.into_iter().map(|policy| self.row_condition(policy)).collect::<Attempt<Vec<Expr>>>()?;
        match conditions.iter().any(Expr::can_raise) {
            _ if self.pending.len() > waiting => Err(refused("has a subquery")),
            true => Err(refused("may raise an error")),
            false => Ok(rows.filter(conditions)),
        }
    }
}

/// Whether a view shows its rows to no condition around it before it has left out others.
pub fn is_guarded(view: &Rel) -> bool {
    match view {
        Rel::Scan { .. } => true,
        Rel::Filter { input, conditions } => !conditions.iter().any(Expr::can_raise) && is_guarded(input),
        Rel::Map { input, .. } => is_guarded(input),
        _ => false,
    }
}
