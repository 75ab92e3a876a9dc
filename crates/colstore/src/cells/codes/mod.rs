//! Codes: the numbers of a chunk in few bytes, and reading without decoding.
//!
//! | file | job |
//! |---|---|
//! | `coding` | numbers as offsets from a base (frame of reference) |
//! | `listing` | numbers as places in a list of few |
//! | `select` | which rows have certain values, told from codes |
//! | `passing`, `short` | tests of codes, many at once |
//! | `integers` | the integers of a chunk, 64 bits each |
//! | `coded` | columns for forked children |

pub mod coded;
pub mod coding;
pub mod integers;
pub mod listing;
pub mod passing;
pub mod select;
pub mod short;
