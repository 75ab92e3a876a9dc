//! States that consist of floats. Partial results have a column for each float.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array};
use arrow_schema::DataType;
use datafusion_common::error::Result;

use crate::aggregates::fold::Rows;

pub trait Parts<const N: usize> {
    const NAMES: [&'static str; N];

    fn parts(&self) -> [f64; N];

    fn of(parts: [f64; N]) -> Self;
}

pub fn types<S: Parts<N>, const N: usize>() -> Vec<(&'static str, DataType)> {
    S::NAMES.map(|name| (name, DataType::Float64)).into()
}

pub fn columns<S: Parts<N>, const N: usize>(states: &[S]) -> Vec<ArrayRef> {
    let column = |at: usize| Arc::new(Float64Array::from_iter_values(states.iter().map(|state| state.parts()[at])));
    (0..N).map(|at| column(at) as ArrayRef).collect()
}

/// Calls `merge` with the group and the state of each row.
pub fn merge<S: Parts<N>, const N: usize>(
    columns: &[ArrayRef],
    rows: Rows<'_>,
    mut merge: impl FnMut(usize, S),
) -> Result<()> {
    let parts: [&[f64]; N] = std::array::from_fn(|at| &columns[at].as_primitive::<Float64Type>().values()[..]);
    rows.visit(parts[0].len(), None, |group, row| {
        merge(group, S::of(parts.map(|part| part[row])));
        Ok(())
    })
}
