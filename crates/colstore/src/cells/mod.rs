//! The cells of one column, in place and copied on write.
//!
//! | file | job |
//! |---|---|
//! | `column` | a column: validity, and cells of one of the kinds below |
//! | `numbers` | cells of equal width |
//! | `text` | texts and bytes |
//! | `codes` | how the numbers of a chunk are written, and what is told from codes alone |
//! | `patches` | old values in a private snapshot |

pub mod codes;
pub mod column;
pub mod numbers;
pub mod patches;
pub mod text;
