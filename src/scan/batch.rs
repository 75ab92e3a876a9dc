//! Converts a batch of the engine's result to PostgreSQL's values.
//!
//! Values are converted column by column when the batch arrives. A value that does not fit into a Datum lies in the
//! arena, and its Datum points to it. The arena's values stay valid until the next batch is loaded, and a slot needs
//! its row for a shorter time than that.

use arrow_array::RecordBatch;
use pgrx::prelude::*;

use crate::client::Lost;
use crate::pg::types::{self, Arena, Datums, Form, Unwritten};
use crate::spec::Conversion;

#[derive(Default)]
pub struct Batch {
    rows: usize,
    next: usize,
    columns: Vec<Datums>,
    /// The values that do not fit into a Datum.
    arena: Arena,
}

impl Batch {
    /// Converts a batch, and makes its first row the next one. An error means that the engine sent another result than
    /// the planner expected.
    pub fn load(&mut self, batch: &RecordBatch, columns: &[Conversion]) -> Result<(), Lost> {
        self.rows = batch.num_rows();
        self.next = 0;
        self.arena.clear();
        self.columns.resize_with(columns.len(), Datums::default);
        if batch.num_columns() < columns.len() {
            return Err("the engine sent too few columns".into());
        }
        for ((values, array), conversion) in self.columns.iter_mut().zip(batch.columns()).zip(columns) {
            values.begin(array.as_ref());
            match *conversion {
                Conversion::Plain(ty) => types::plain(array.as_ref(), ty, values, &mut self.arena)?,
                Conversion::Kept(form) => types::kept(array.as_ref(), form, values, &mut self.arena)?,
                Conversion::Padded(width) => types::padded(array.as_ref(), width as usize, values, &mut self.arena)?,
            }
        }
        // The arena does not grow any more, so its address is final. Offsets into it become addresses.
        let base = self.arena.start();
        for (values, conversion) in self.columns.iter_mut().zip(columns) {
            if by_reference(*conversion) {
                values.datums.iter_mut().for_each(|datum| *datum = base + *datum * size_of::<u64>());
            }
        }
        Ok(())
    }

    /// Writes the next row into `values` and `nulls`; false if there is none.
    #[inline]
    pub fn next_row(&mut self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) -> bool {
        if self.next == self.rows {
            return false;
        }
        for (column, (value, null)) in self.columns.iter().zip(values.iter_mut().zip(nulls)) {
            *value = pg_sys::Datum::from(column.datums[self.next]);
            *null = column.nulls[self.next];
        }
        self.next += 1;
        true
    }
}

impl Batch {
    /// Takes the remaining rows except the last: their values, and whether each is null.
    pub fn rows_ahead(&mut self) -> impl ExactSizeIterator<Item = impl Iterator<Item = (usize, bool)>> {
        let last = self.rows.saturating_sub(1).max(self.next);
        let rows = std::mem::replace(&mut self.next, last)..last;
        let columns = &self.columns;
        rows.map(move |row| columns.iter().map(move |column| (column.datums[row], column.nulls[row])))
    }
}

impl From<Unwritten> for Lost {
    fn from(unwritten: Unwritten) -> Lost {
        match unwritten {
            Unwritten::Wrong(what) => Lost::Other(what),
            Unwritten::NoMemory => Lost::NoMemory("no memory for the engine's rows".into()),
        }
    }
}

fn by_reference(conversion: Conversion) -> bool {
    match conversion {
        Conversion::Plain(ty) => types::is_pointed_to(ty),
        Conversion::Kept(form) => !matches!(form, Form::Inline(_)),
        Conversion::Padded(_) => true,
    }
}
