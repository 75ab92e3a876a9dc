//! Reading snapshots of columns.
//!
//! | file | job |
//! |---|---|
//! | `view` | a table as the query's snapshot S sees it, as Arrow arrays |
//! | `survey` | statistics about columns and chunks |

pub mod survey;
pub mod view;
