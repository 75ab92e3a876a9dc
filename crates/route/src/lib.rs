//! What a query would cost in the engine, in the units in which PostgreSQL's planner counts.
//!
//! The planner has its own number for the heap. The engine's is a sum: of what every query costs, of the values that it
//! reads and computes, of the rows that are joined and grouped, of what goes back to PostgreSQL. Nobody is asked for it:
//! the translated plan says what is read, the heap's plan how many rows come of it.

mod demand;
mod fit;

pub use demand::{Demand, weight};
pub use fit::{Observed, fit};

/// In the planner's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Of any query, however small.
    pub startup: f64,
    /// Of a value of eight bytes or less that is read, and of an operation on it.
    pub value: f64,
    /// Of a row that is joined or grouped.
    pub row: f64,
    /// Of a value that is returned to PostgreSQL, and once more of its row.
    pub result: f64,
}

/// What a query has the engine do.
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
