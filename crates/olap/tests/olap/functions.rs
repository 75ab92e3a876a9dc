//! What the functions that are called by their name mean, one value at a time.

use plan::{Named, Type};

use crate::interpreter::{Outcome, order};
use crate::table::Value;

/// A call with these values, none of which is null if the function is strict.
pub fn call(function: Named, _ty: Type, _types: &[Type], args: &[Value]) -> Outcome {
    let present = || args.iter().flatten().cloned();
    Ok(match function {
        Named::Greatest => present().reduce(|a, b| if order(&b, &a).is_gt() { b } else { a }),
        Named::Least => present().reduce(|a, b| if order(&b, &a).is_lt() { b } else { a }),
    })
}
