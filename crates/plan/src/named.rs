//! The functions that a plan calls by their name, a row each.

use serde::{Deserialize, Serialize};

use crate::catalogue::{FunctionRow, Kind, Takes, of_all};

/// A function, whatever its operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Named {
    /// The first of the equal ones.
    Greatest,
    Least,
}

#[rustfmt::skip]
pub(crate) const NAMED: &[FunctionRow] = {
    use Kind::{Date, Decimal, Float, Integer, Text, Timestamp, TimestampTz};
    use Named::*;
    use Takes::Any;
    &[
        of_all(Greatest, "greatest(integer, …)", &[Any(Integer)]),
        of_all(Greatest, "greatest(float, …)", &[Any(Float)]),
        of_all(Greatest, "greatest(decimal, …)", &[Any(Decimal)]),
        of_all(Greatest, "greatest(date, …)", &[Any(Date)]),
        of_all(Greatest, "greatest(timestamp, …)", &[Any(Timestamp)]),
        of_all(Greatest, "greatest(timestamptz, …)", &[Any(TimestampTz)]),
        of_all(Greatest, "greatest(text, …)", &[Any(Text)]),
        of_all(Least, "least(integer, …)", &[Any(Integer)]),
        of_all(Least, "least(float, …)", &[Any(Float)]),
        of_all(Least, "least(decimal, …)", &[Any(Decimal)]),
        of_all(Least, "least(date, …)", &[Any(Date)]),
        of_all(Least, "least(timestamp, …)", &[Any(Timestamp)]),
        of_all(Least, "least(timestamptz, …)", &[Any(TimestampTz)]),
        of_all(Least, "least(text, …)", &[Any(Text)]),
    ]
};
