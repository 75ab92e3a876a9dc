//! How many different values a column has: estimated from some rows of some chunks, for the order of joins.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use colstore::TableView;
use optimizer::join_order::{Relation, Statistics};
use plan::{ColumnId, Expr, JoinKind, Literal, Rel};

/// Chunks that are looked at.
const CHUNKS: usize = 16;
/// Rows of each.
const ROWS: usize = 256;

/// The share of rows that a filter leaves, and that of those which have a partner.
const FILTERED: f64 = 0.3;
const PARTNERED: f64 = 0.5;
/// Rows of a group.
const GROUPED: f64 = 10.0;

/// What is known of the tables behind a plan's columns.
pub struct Sampled<'a> {
    views: &'a [Arc<dyn TableView>],
    /// Relation and column behind each column of the plan.
    places: HashMap<ColumnId, (u16, usize)>,
}

impl<'a> Sampled<'a> {
    pub fn new(root: &Rel, views: &'a [Arc<dyn TableView>]) -> Sampled<'a> {
        let mut places = HashMap::new();
        root.visit(&mut |rel| {
            if let Rel::Scan { relation, columns } = rel {
                places.extend((0..).zip(columns).map(|(at, id)| (*id, (*relation, at))));
            }
        });
        Sampled { views, places }
    }

    /// What the order of joins begins with.
    pub fn relation(&self, rel: &Rel) -> Relation {
        Relation { rows: self.rows(rel), key: self.key(rel) }
    }

    /// How many rows an operator gives: exact for a table.
    pub fn rows(&self, rel: &Rel) -> f64 {
        match rel {
            Rel::Scan { relation, .. } => self.views[*relation as usize].row_count() as f64,
            Rel::Filter { input, conditions } => self.rows(input) * FILTERED.powi(conditions.len() as i32),
            Rel::Map { input, .. } | Rel::Window { input, .. } => self.rows(input),
            Rel::Join { kind: JoinKind::Semi | JoinKind::Anti, left, .. } => self.rows(left) * PARTNERED,
            Rel::Join { conditions, left, right, .. } if conditions.is_empty() => self.rows(left) * self.rows(right),
            // Most joins follow a foreign key.
            Rel::Join { left, right, .. } => self.rows(left).max(self.rows(right)),
            Rel::Union { inputs, .. } => inputs.iter().map(|part| self.rows(&part.rel)).sum(),
            Rel::Aggregate { keys, .. } if keys.is_empty() => 1.0,
            Rel::Aggregate { input, .. } => (self.rows(input) / GROUPED).max(1.0),
            Rel::GroupingSets { input, grouping } => {
                let sets = grouping.sets.len() as f64;
                (self.rows(input) / GROUPED).max(1.0) * sets
            }
            Rel::Top { input, keys, range, .. } => match &range.count {
                Some(Expr::Literal { value: Some(Literal::Int(count)), .. }) if keys.is_empty() => {
                    self.rows(input).min(*count as f64)
                }
                _ if keys.is_empty() => self.rows(input),
                _ => (self.rows(input) / GROUPED).max(1.0),
            },
        }
    }

    /// Columns that no two rows have in common.
    fn key(&self, rel: &Rel) -> Option<Vec<ColumnId>> {
        match rel {
            Rel::Scan { relation, columns } => {
                let key = self.views[*relation as usize].key()?;
                Some(key.iter().map(|&at| columns[at]).collect())
            }
            Rel::Filter { input, .. } | Rel::Map { input, .. } | Rel::Top { input, .. } | Rel::Window { input, .. } => {
                self.key(input)
            }
            Rel::Join { kind: JoinKind::Semi | JoinKind::Anti, left, .. } => self.key(left),
            Rel::Join { .. } | Rel::Union { .. } | Rel::GroupingSets { .. } => None,
            Rel::Aggregate { keys, .. } => Some(keys.iter().map(|key| key.column).collect()),
        }
    }
}

impl Statistics for Sampled<'_> {
    fn distinct(&self, expr: &Expr) -> Option<f64> {
        let column = match expr {
            Expr::Cast { arg, .. } => arg,
            other => other,
        };
        let Expr::Column { id } = column else { return None };
        let &(relation, at) = self.places.get(id)?;
        let view = &self.views[relation as usize];
        Some(match view.key() == Some(&[at]) {
            true => view.row_count() as f64,
            false => sampled(view.as_ref(), at),
        })
    }
}

fn sampled(view: &dyn TableView, col: usize) -> f64 {
    let chunks = view.chunk_count();
    let step = chunks.div_ceil(CHUNKS).max(1);
    let hasher = RandomState::new();
    let (mut seen, mut rows): (HashMap<u64, u32>, usize) = (HashMap::new(), 0);
    for index in (0..chunks).step_by(step) {
        // Without memory for it the estimate makes do with less.
        let Ok(chunk) = view.chunk(index) else { continue };
        let array = &chunk.arrays[col];
        for row in (0..chunk.rows).step_by(chunk.rows.div_ceil(ROWS).max(1)) {
            if chunk.live.as_ref().is_none_or(|live| live.value(row)) && array.is_valid(row) {
                *seen.entry(image(array, row, &hasher)).or_default() += 1;
                rows += 1;
            }
        }
    }
    let once = seen.values().filter(|&&count| count == 1).count();
    extrapolated(rows as f64, seen.len() as f64, once as f64, view.row_count() as f64)
}

/// From a sample's rows, its different values and those that it has once: the estimator of Haas and Stokes that
/// PostgreSQL uses, too.
fn extrapolated(rows: f64, values: f64, once: f64, all_rows: f64) -> f64 {
    if rows == 0.0 {
        return 1.0;
    }
    let estimate = rows * values / (rows - once + once * rows / all_rows.max(rows));
    estimate.clamp(values, all_rows.max(values))
}

/// Equal values have equal images, and different ones nearly always different ones.
fn image(array: &ArrayRef, row: usize, hasher: &RandomState) -> u64 {
    fn hash(value: impl Hash, hasher: &RandomState) -> u64 {
        hasher.hash_one(value)
    }
    match array.data_type() {
        DataType::Int16 => hash(array.as_primitive::<Int16Type>().value(row), hasher),
        DataType::Int32 => hash(array.as_primitive::<Int32Type>().value(row), hasher),
        DataType::Int64 => hash(array.as_primitive::<Int64Type>().value(row), hasher),
        DataType::Float64 => hash(array.as_primitive::<Float64Type>().value(row).to_bits(), hasher),
        DataType::Decimal128(..) => hash(array.as_primitive::<Decimal128Type>().value(row), hasher),
        DataType::Utf8View => hash(array.as_string_view().value(row), hasher),
        DataType::Boolean => hash(array.as_boolean().value(row), hasher),
        // No column of a view is of another kind.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_counted_and_many_extrapolated() {
        assert_eq!(extrapolated(4096.0, 25.0, 0.0, 6e6), 25.0);
        assert_eq!(extrapolated(4096.0, 4096.0, 4096.0, 6e6), 6e6);
        assert_eq!(extrapolated(0.0, 0.0, 0.0, 0.0), 1.0);
        // 10,000 values, evenly: 4,096 rows have some 3,360 of them, 2,719 once.
        let estimate = extrapolated(4096.0, 3360.0, 2719.0, 6e6);
        assert!((7_000.0..14_000.0).contains(&estimate), "{estimate}");
    }
}
