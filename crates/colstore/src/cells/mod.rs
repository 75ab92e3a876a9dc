//! The cells of one column, which are written in place while snapshots keep the old values.
//!
//! | file | job |
//! |---|---|
//! | `column` | a column: validity, and cells of one of the kinds below |
//! | `numbers` | cells of equal width |
//! | `text` | texts and bytea |
//! | `codes` | the codings of a chunk's numbers, and tests on codes |
//! | `patches` | old values in a private snapshot |

pub mod codes;
pub mod column;
pub mod numbers;
pub mod patches;
pub mod text;
