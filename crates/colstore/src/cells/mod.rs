//! The cells of one column. They are overwritten in place, while snapshots keep the old values.
//!
//! | file | job |
//! |---|---|
//! | `column` | a column: validity, and cells of one of the kinds below |
//! | `numbers` | cells of equal width |
//! | `text` | texts and bytea |
//! | `codes` | the codings of a chunk's numbers, and tests on codes |
//! | `patches` | older values that a private snapshot shows in place of newer ones |

pub mod codes;
pub mod column;
pub mod numbers;
pub mod patches;
pub mod text;
