//! Subplans that are computed once for several parts of a query, and their readers.

use std::sync::Arc;

use plan::{ColumnId, Rel};
use protocol::request::Failure;
use protocol::tree::Step;

use super::builder::Builder;
use super::parts::Parts;
use super::stage::Stage;
use super::statistics::Sampled;
use crate::base::error::internal;
use crate::operators::shared::{Reader, SharedRows};

/// The greatest number of rows that a shared subplan keeps. A larger subplan is computed again for each reader.
pub const MOST_ROWS: f64 = 1e6;
/// A join's rows are kept only if they are this many times fewer than the rows of its relations.
const SMALLER: f64 = 2.0;

/// The identity of a shared subplan: a class of equal operators in several places of the plan, or one operator that is
/// read several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    Class(usize),
    Operator(*const Rel),
}

/// Whether the rows of an operator that is read several times are kept. The rows of a join are kept if they are much
/// fewer than its inputs' rows.
pub fn is_kept(rel: &Rel, statistics: &Sampled<'_>) -> bool {
    let rows = statistics.rows(rel);
    let joined = Parts::of(rel).relations;
    let is_less = || rows * SMALLER <= joined.iter().map(|rel| statistics.rows(rel)).sum::<f64>();
    rows <= MOST_ROWS && (joined.len() == 1 || is_less())
}

impl<'a> Builder<'a> {
    /// The rows of `rel`, shared if an equal operator is elsewhere in the plan.
    pub fn common(&self, rel: &'a Rel, needed: &[ColumnId]) -> Result<Option<Stage>, Failure> {
        let Some((class, columns)) = self.common.class(rel) else { return Ok(None) };
        self.shared(Which::Class(class), rel, columns, needed).map(Some)
    }

    /// The rows of `rel`, computed once for all readers. `columns` are all columns that any reader needs. Each reader
    /// has its own ids for them, but the same order.
    pub fn shared(
        &self,
        which: Which,
        rel: &'a Rel,
        columns: &[ColumnId],
        needed: &[ColumnId],
    ) -> Result<Stage, Failure> {
        let known = self.shared.borrow().get(&which).cloned();
        let is_first = known.is_none();
        let (number, rows) = match known {
            Some(known) => known,
            None => {
                let Stage { plan, columns: made } = self.with_partners_of(&[], || self.alone(rel, columns))?;
                let place = |id: &ColumnId| {
                    let at = made.iter().position(|other| other == id);
                    at.ok_or_else(|| internal(format!("column {id:?} is not there to be shared")))
                };
                let places = columns.iter().map(place).collect::<Result<_, _>>()?;
                let mut all = self.shared.borrow_mut();
                let known = (all.len() as u16 + 1, Arc::new(SharedRows::new(plan, places)));
                all.insert(which, known.clone());
                known
            }
        };
        let read: Vec<usize> = (0..columns.len()).filter(|i| needed.contains(&columns[*i])).collect();
        let columns: Vec<ColumnId> = read.iter().map(|i| columns[*i]).collect();
        let reader = Arc::new(Reader::new(rows, read, &columns, is_first));
        let plan =
            self.observer.operator(reader, || (Step::Shared { number, is_first }, Some(self.statistics.rows(rel))));
        Ok(Stage { plan, columns })
    }
}
