//! The cost of a query in the engine, in the units of PostgreSQL's planner.
//!
//! The planner has its own number for the heap. The engine's cost is a sum of four terms: a fixed cost per query,
//! values read and computed, rows joined and grouped, and values returned. The engine itself is not asked: the
//! translated plan says what is read, the heap's plan how many rows come out.

mod demand;
mod fit;

pub use demand::{Demand, weight};
pub use fit::{Observed, fit};

/// Cost factors, in the planner's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Per query, however small.
    pub startup: f64,
    /// Per value of eight bytes or less that is read, and per operation on it.
    pub value: f64,
    /// Per row that is joined or grouped.
    pub row: f64,
    /// Per value that is returned to PostgreSQL, and once more per row.
    pub result: f64,
}

/// The engine's work for a query, in units of [`Costs`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    pub values: f64,
    pub rows: f64,
    pub results: f64,
}

/// How many rows the planner expects where.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// That go into joins and come out of them.
    pub joined: f64,
    /// Pairs of rows that are compared, since no equality finds the partners.
    pub paired: f64,
    /// That are grouped.
    pub grouped: f64,
    pub returned: f64,
}

impl Costs {
    pub fn of(&self, work: Work) -> f64 {
        self.startup + self.value * work.values + self.row * work.rows + self.result * work.results
    }
}
