//! The complete build side in memory.

use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion_common::error::Result;

use super::layout::Layout;
use super::ordered::Ordered;
use super::shape::Shape;
use super::table::Table;
use super::words::{Bounds, Packing};
use crate::base::bytes::bytes_of_column;

#[derive(Debug)]
pub struct Built {
    pub rows: usize,
    /// The columns of the layout without ranks. If equal words always mean equal keys, columns that hold only keys are
    /// left out, too.
    pub columns: Vec<ArrayRef>,
    pub finder: Finder,
    /// For each row of the build side, whether it has a partner; empty if the join does not need this.
    pub met: Vec<AtomicBool>,
}

impl Built {
    pub fn new(shape: &Shape, rows: usize, columns: Vec<ArrayRef>, finder: Finder) -> Built {
        let marks = if shape.marks_build() { rows } else { 0 };
        Built { rows, columns, finder, met: (0..marks).map(|_| AtomicBool::new(false)).collect() }
    }

    /// The bytes of `finder` and `met`.
    pub fn bytes_to_find(&self) -> usize {
        let finder = match &self.finder {
            Finder::Linked { packing, .. } => Table::bytes(self.rows, packing.limit()),
            Finder::Ordered(ordered) => ordered.bytes(),
        };
        finder + self.met.len()
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

/// Finds the rows that may be partners of a row of the probe side.
#[derive(Debug)]
pub enum Finder {
    /// Finds the rows whose keys have the same 64-bit word. The hash table links these rows.
    Linked { packing: Packing, table: Table },
    /// Finds a range of sorted rows between two limits.
    Ordered(Ordered),
}

impl Finder {
    /// For each row of the probe side, the first candidate: a row of the build side, counted from 1, or 0 for none. For
    /// a sorted build side, the last candidates are returned, too. `words` is working memory.
    pub fn find(&self, probe: &Layout, batch: &RecordBatch, words: &mut Vec<u64>) -> Result<(Vec<u32>, Vec<u32>)> {
        let (mut first, mut last) = (Vec::with_capacity(batch.num_rows()), Vec::new());
        self.packing().words(&probe.keys_of(batch), batch.num_rows(), words)?;
        match self {
            Finder::Linked { table, .. } => table.find(words, &mut first),
            Finder::Ordered(ordered) => ordered.find(words, probe.ranks_of(batch.columns()), &mut first, &mut last),
        }
        Ok((first, last))
    }

    fn packing(&self) -> &Packing {
        match self {
            Finder::Linked { packing, .. } => packing,
            Finder::Ordered(ordered) => &ordered.packing,
        }
    }

    /// The candidate after `row`, or 0 if there is none.
    #[inline]
    pub fn next(&self, row: u32, last: u32) -> u32 {
        match self {
            Finder::Linked { table, .. } => table.next(row),
            Finder::Ordered(_) if row < last => row + 1,
            Finder::Ordered(_) => 0,
        }
    }

    /// Whether each candidate has the same keys as the row of the probe side, so that keys need not be compared.
    pub fn is_exact(&self) -> bool {
        self.packing().is_exact()
    }

    /// Whether every row has at most one candidate.
    pub fn is_unique(&self) -> bool {
        match self {
            Finder::Linked { table, .. } => table.is_unique(),
            Finder::Ordered(_) => false,
        }
    }
}

/// The bounds of the keys' values so far; `None` if a key is no integer.
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
