//! The plan's operators and expressions.
//!
//! | file | job |
//! |---|---|
//! | `plan` | a whole plan, and the relations that it reads |
//! | `rel` | relational operators |
//! | `expr` | expressions |
//! | `aggregates`, `listed` | aggregates; those that make lists |
//! | `window` | window functions and their frames |
//! | `unfold` | rows out of lists and documents |
//! | `check` | whether a plan is well formed and typed |
//! | `alike` | scans of one table made alike |
//! | `twice` | whether an operator gives the same rows when it is computed again |

pub mod aggregates;
mod alike;
pub mod check;
pub mod expr;
pub mod listed;
pub mod plan;
pub mod rel;
pub mod twice;
pub mod unfold;
pub mod window;
