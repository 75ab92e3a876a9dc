//! Reading snapshots of columns.
//!
//! | file | job |
//! |---|---|
//! | `view` | a table as the query's snapshot S sees it, as Arrow arrays |
//! | `image` | a table's chunks as bytes for a file |
//! | `survey` | statistics about columns and chunks |

pub mod image;
pub mod survey;
pub mod view;
