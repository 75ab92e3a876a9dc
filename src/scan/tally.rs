//! The figures of one execution that `anker.statements` gets.
//!
//! The time is that of the executor: while the node begins, and during each of the executor's runs. So the time in
//! which a client looks at the rows that it has fetched from a cursor does not count. A node that is not the topmost
//! one does not know the runs, and counts the time from its first row to its end.

use std::time::{Duration, Instant};

use crate::reason::Reason;
use crate::shared::statements::{self, Answered, EngineFigures};

pub struct Tally {
    /// The id of the statement.
    query_id: i64,
    spent: Duration,
    /// The time since which the executor works for the node; `None` while it does not.
    since: Option<Instant>,
    /// Whether a row was wanted.
    has_run: bool,
    /// The rows of all runs; `None` if the node does not know them.
    rows: Option<u64>,
    /// The reason why the query was left to the heap, although it was meant for the engine.
    left: Option<Reason>,
}

impl Tally {
    pub fn begin(query_id: i64) -> Tally {
        Tally { query_id, spent: Duration::ZERO, since: Some(Instant::now()), has_run: false, rows: None, left: None }
    }

    /// Starts the clock, unless it is running.
    #[inline]
    pub fn go(&mut self) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
            self.has_run = true;
        }
    }

    pub fn pause(&mut self) {
        self.spent += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Ends a run of the executor that has returned so many rows.
    pub fn ran(&mut self, rows: u64) {
        self.pause();
        *self.rows.get_or_insert(0) += rows;
    }

    pub fn leave(&mut self, reason: &Reason) {
        self.left = Some(reason.clone());
    }

    /// Counts the execution. `figures` are those of the engine if it has answered. `rows` is used if the node does not
    /// know the rows of all runs.
    pub fn count(&mut self, figures: Option<EngineFigures>, rows: u64) {
        self.pause();
        let answered = match (figures, &self.left) {
            (Some(figures), _) => Answered::Engine(figures),
            (None, Some(reason)) => Answered::Heap(reason),
            (None, None) => return,
        };
        if self.has_run {
            statements::count(self.query_id, self.spent, self.rows.unwrap_or(rows), &answered);
        }
    }
}
