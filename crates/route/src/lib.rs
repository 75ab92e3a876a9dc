//! The cost of a query in the engine, in the units of PostgreSQL's planner.
//!
//! The planner has its own number for the heap. The engine's cost is a sum of four terms: a fixed cost per query,
//! values read and computed, rows joined and grouped, and values returned. The engine itself is not asked. The
//! translated plan determines the values that are read, and the heap's plan the number of rows that are returned.

mod demand;
mod fit;

pub use demand::{Demand, weight};
pub use fit::{Observed, fit};

/// Cost factors, in the planner's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The cost per query, for any size.
    pub startup: f64,
    /// The cost per value of eight bytes or less that is read, and per operation on it.
    pub value: f64,
    /// The cost per row that is joined or grouped.
    pub row: f64,
    /// The cost per value that is returned to PostgreSQL, and once more per row.
    pub result: f64,
}

/// The engine's work for a query, in units of [`Costs`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    pub values: f64,
    pub rows: f64,
    pub results: f64,
}

/// The numbers of rows that the planner expects in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// The number of rows that go into joins and come out of them.
    pub joined: f64,
    /// The number of pairs of rows that are compared because no equality finds the partners.
    pub paired: f64,
    /// The number of rows that are grouped.
    pub grouped: f64,
    pub returned: f64,
}

impl Costs {
    pub fn of(&self, work: Work) -> f64 {
        self.startup + self.value * work.values + self.row * work.rows + self.result * work.results
    }
}
