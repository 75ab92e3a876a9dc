//! Codes: the numbers of a chunk in few bytes, and tests on codes without decoding.
//!
//! | file | job |
//! |---|---|
//! | `coding` | numbers as offsets from a base (frame of reference) |
//! | `listing` | numbers as indexes into a list of few numbers |
//! | `select` | selection of rows by value, from codes |
//! | `passing`, `short` | tests of many codes at once |
//! | `integers` | the values of a chunk as integers of 64 bits |
//! | `coded` | columns for forked child processes |

pub mod coded;
pub mod coding;
pub mod integers;
pub mod listing;
pub mod passing;
pub mod select;
pub mod short;
