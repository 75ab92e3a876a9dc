//! Conversions from text and to text.

pub mod read;
pub mod written;
