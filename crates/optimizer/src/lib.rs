//! Logical optimization. It does not know how operators work, and uses neither PostgreSQL nor Arrow.
//!
//! Rewrites keep the multiset of rows, and never add an error.
//!
//! - `unnest`: correlated subqueries become joins
//! - `simplify`: outer joins become inner joins; conditions move towards the sources of their columns
//! - `common`: subplans that need to be computed only once
//! - `join_order`: the order of an inner join's relations

mod common;
pub mod join_order;
mod simplify;
mod unnest;

pub use common::Common;
use plan::Plan;

/// An equivalent plan without [`Rel::Apply`], with conditions moved down as far as possible.
pub fn optimized(plan: Plan) -> Plan {
    // Conditions move down first, so that a subquery is computed only for the rows that pass them.
    let plan = Plan { root: simplify::simplified(plan.root), ..plan };
    let plan = unnest::unnested(plan);
    Plan { root: simplify::simplified(plan.root), ..plan }
}
