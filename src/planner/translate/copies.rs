//! Copies of translated rows, for subqueries that are computed more than once. A copy makes new columns, because each
//! column has a number that is unique in the whole plan. It reads its tables anew, so each table counts once more.
//!
//! ```text
//!   u #3 #4                 u #9 #10
//!   filter #3 = #1    ->    filter #9 = #1        #1 belongs to the rows around
//! ```

use std::collections::HashMap;

use plan::{ColumnId, Expr, Rel};

use super::translator::{Scanned, Translator};
use crate::planner::words::reason::Attempt;

/// The columns of a copy, by the columns of the original.
#[derive(Default)]
pub struct Copies(HashMap<ColumnId, ColumnId>);

impl Copies {
    /// The same expression, but about the copy's rows.
    pub fn of(&self, mut expr: Expr) -> Expr {
        self.replace(&mut expr);
        expr
    }

    fn replace(&self, expr: &mut Expr) {
        expr.replace_columns(&|id| self.0.get(&id).copied().map(Expr::column));
    }
}

impl Translator<'_> {
    /// A copy of rows that are translated completely, so that nobody will ask for more columns of their tables.
    pub fn copied(&mut self, rel: &Rel) -> Attempt<(Rel, Copies)> {
        let (mut copy, mut copies, mut made) = (rel.clone(), Copies::default(), Ok(()));
        copy.visit_mut(&mut |rel| {
            if made.is_ok() {
                made = self.renew(rel, &mut copies);
            }
        });
        made?;
        copy.visit_mut(&mut |rel| rel.expressions_mut().into_iter().for_each(|expr| copies.replace(expr)));
        Ok((copy, copies))
    }

    /// Gives an operator new columns.
    fn renew(&mut self, rel: &mut Rel, copies: &mut Copies) -> Attempt<()> {
        if let Rel::Scan { relation, .. } = rel {
            *relation = self.relation_again(*relation, copies)?;
        }
        for column in rel.made_mut() {
            *column = self.column_again(*column, copies)?;
        }
        Ok(())
    }

    fn column_again(&mut self, id: ColumnId, copies: &mut Copies) -> Attempt<ColumnId> {
        let new = self.column(self.columns[id.0 as usize])?;
        copies.0.insert(id, new);
        Ok(new)
    }

    fn relation_again(&mut self, number: u16, copies: &mut Copies) -> Attempt<u16> {
        let at = number as usize;
        let again = self.add_relation(self.relations[at].clone(), self.names[at].clone())?;
        for column in 0..self.scanned[at].len() {
            let Scanned { asked, id } = self.scanned[at][column];
            let id = self.column_again(id, copies)?;
            self.scanned[again as usize].push(Scanned { asked, id });
        }
        self.relations[again as usize].visible_if.iter_mut().for_each(|condition| copies.replace(condition));
        if let Some(sent) = self.sent.iter().find_map(|sent| sent.again(number, again)) {
            self.sent.push(sent);
        }
        Ok(again)
    }
}
