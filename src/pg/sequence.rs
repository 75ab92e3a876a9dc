//! The value of a sequence.

use pgrx::prelude::*;
use pgrx::{direct_function_call, pg_sys};

/// The last value of a sequence; `None` if none was set. The sequence must be locked.
pub fn last(sequence: pg_sys::Oid) -> Option<i64> {
    // SAFETY: the server's own function with an argument of the right type; it checks the relation's kind.
    unsafe { direct_function_call(pg_sys::pg_sequence_last_value, &[sequence.into_datum()]) }
}

/// Sets the last value of a sequence, which must be within the sequence's limits, and the sequence must be locked. The
/// value is durable once the transaction has committed.
pub fn set(sequence: pg_sys::Oid, value: i64) {
    // SAFETY: as above.
    unsafe { direct_function_call::<i64>(pg_sys::setval_oid, &[sequence.into_datum(), value.into_datum()]) };
}
