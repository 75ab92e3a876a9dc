//! What makes a plan fast without a look at how its operators work: free of PostgreSQL and Arrow.
//!
//! Rewrites keep the multiset of rows, and never add an error.
//!
//! - `unnest`: subqueries that read what is around them become joins
//! - `simplify`: outer joins that are none, conditions to where their columns come from
//! - `common`: what needs to be computed only once
//! - `join_order`: which of the relations of an inner join come first

mod common;
pub mod join_order;
mod simplify;
mod unnest;

pub use common::Common;
use plan::Plan;

/// The same rows, without applications, and with conditions as far down as they may go.
pub fn optimized(plan: Plan) -> Plan {
    // What a subquery is computed for shall be no more than the conditions around it leave.
    let plan = Plan { root: simplify::simplified(plan.root), ..plan };
    let plan = unnest::unnested(plan);
    Plan { root: simplify::simplified(plan.root), ..plan }
}
