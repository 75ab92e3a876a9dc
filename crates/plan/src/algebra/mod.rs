//! The plan's operators and expressions.
//!
//! | file | job |
//! |---|---|
//! | `plan` | a whole plan, and the relations that it reads |
//! | `rel` | relational operators |
//! | `expr` | expressions |
//! | `aggregates`, `listed` | aggregates; list aggregates |
//! | `window` | window functions and their frames |
//! | `unfold` | functions that make rows from lists and documents |
//! | `check` | validation of a plan's form and types |
//! | `alike` | makes scans of the same tables read the same columns |
//! | `twice` | tests whether an operator returns the same rows when it is computed again |

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
