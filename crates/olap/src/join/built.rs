//! The build side in memory, once it is complete.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion_common::error::Result;

use super::building::Building;
use super::layout::Layout;
use super::shape::Shape;
use super::table::Table;
use super::words::{Bounds, Packing};
use crate::bytes::bytes_of_column;

#[derive(Debug)]
pub struct Built {
    pub rows: usize,
    /// In their layout. Of keys that are none of the columns, nothing if words tell keys apart.
    pub columns: Vec<ArrayRef>,
    pub packing: Packing,
    pub table: Table,
    /// Rows that have a partner, where that matters.
    pub met: Vec<AtomicBool>,
}

impl Built {
    /// Of these rows.
    pub fn of(shape: &Shape, batches: Vec<RecordBatch>) -> Result<Built> {
        let mut bounds = KeyBounds::of(&shape.build);
        batches.iter().for_each(|batch| bounds.add(&shape.build.keys_of(batch)));
        let building = Building::new(&shape.build, batches, bounds.packing(), false);
        building.run(&shape.build)?;
        building.done(shape)
    }

    pub fn new(shape: &Shape, rows: usize, columns: Vec<ArrayRef>, packing: Packing, table: Table) -> Built {
        let marks = if shape.marks_build() { rows } else { 0 };
        Built { rows, columns, packing, table, met: (0..marks).map(|_| AtomicBool::new(false)).collect() }
    }

    /// What table and marks take.
    pub fn bytes_to_find(&self) -> usize {
        Table::bytes(self.rows, self.packing.limit()) + self.met.len()
    }

    pub fn bytes_of_columns(&self) -> usize {
        self.columns.iter().map(bytes_of_column).sum()
    }

    pub fn meet(&self, row: u32) {
        self.met[row as usize].store(true, Ordering::Relaxed);
    }

    pub fn is_met(&self, row: u32) -> bool {
        self.met[row as usize].load(Ordering::Relaxed)
    }
}

/// What is known of the keys' values.
#[derive(Debug)]
pub struct KeyBounds(Option<Vec<Bounds>>);

impl KeyBounds {
    pub fn of(layout: &Layout) -> KeyBounds {
        let none = |ty: DataType| Bounds::of(&arrow_array::new_empty_array(&ty));
        KeyBounds(layout.key_types().into_iter().map(none).collect())
    }

    pub fn add(&mut self, keys: &[ArrayRef]) {
        for (known, key) in self.0.iter_mut().flatten().zip(keys) {
            if let Some(bounds) = Bounds::of(key) {
                *known = known.with(bounds);
            }
        }
    }

    pub fn with(mut self, other: &KeyBounds) -> KeyBounds {
        for (known, more) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *known = known.with(*more);
        }
        self
    }

    pub fn packing(&self) -> Packing {
        Packing::of(self.0.as_deref())
    }
}
