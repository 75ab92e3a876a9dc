//! The cost of a query in the engine, in the units of PostgreSQL's planner.
//!
//! PostgreSQL's planner itself estimates the cost on the heap. The engine's cost is a sum of four terms: a fixed cost
//! per query, and costs for values read and computed, for rows joined and grouped, and for values returned. It is
//! computed in the backend, without asking the engine. The translated plan tells which values are read. PostgreSQL's
//! own plan for the heap tells how many rows are joined and returned.

mod demand;
mod fit;

pub use demand::{Demand, weight};
pub use fit::{Observed, fit};

/// Cost factors, in the planner's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The fixed cost of a query.
    pub startup: f64,
    /// The cost of reading a value of at most eight bytes, and of an operation on it.
    pub value: f64,
    /// The cost of joining or grouping a row.
    pub row: f64,
    /// The cost of returning a value to PostgreSQL. Each returned row costs as much as one more value.
    pub result: f64,
}

/// The engine's work for a query, in units of [`Costs`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    pub values: f64,
    pub rows: f64,
    pub results: f64,
}

/// The numbers of rows that PostgreSQL's planner expects in a query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// The number of rows that go into joins, plus the number of rows that come out of joins.
    pub joined: f64,
    /// The number of pairs of rows that joins must compare one by one, because they have no equality.
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
