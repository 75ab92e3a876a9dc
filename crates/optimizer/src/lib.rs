//! Logical optimization, which needs no knowledge of how operators work: free of PostgreSQL and Arrow.
//!
//! Rewrites keep the multiset of rows, and never add an error.
//!
//! - `unnest`: correlated subqueries become joins
//! - `simplify`: outer joins become inner joins, conditions move to where their columns come from
//! - `common`: subplans that need to be computed only once
//! - `join_order`: the order of an inner join's relations

mod common;
pub mod join_order;
mod simplify;
mod unnest;

pub use common::Common;
use plan::Plan;

/// The same rows, without applications, and with conditions as far down as they may go.
pub fn optimized(plan: Plan) -> Plan {
    // Conditions go down first, so that a subquery is computed for no more rows than they leave.
    let plan = Plan { root: simplify::simplified(plan.root), ..plan };
    let plan = unnest::unnested(plan);
    Plan { root: simplify::simplified(plan.root), ..plan }
}
